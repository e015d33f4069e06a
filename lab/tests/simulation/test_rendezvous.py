"""Scribe, Hermes and elastic partitioning deliver what the oracle says, on random workloads."""

from __future__ import annotations

import pytest

from ..simulation._rendezvous import LARGE, SYSTEMS, Scene


@pytest.mark.parametrize("system", SYSTEMS)
def test_small_random_workloads_are_delivered_exactly(system: str) -> None:
    due = 0
    for seed in range(8):
        scene = Scene(system, seed)
        scene.play()
        due += scene.judge()
    assert due > 800, "a workload that asks for something"


@pytest.mark.parametrize("system", ["scribe", "hermes-path"])  # the others in the long run of the tests
def test_fifty_brokers_two_hundred_subscriptions_five_hundred_events_and_churn(system: str) -> None:
    scene = Scene(system, 1, LARGE, check=False)
    scene.play()
    assert scene.judge() > 5000
