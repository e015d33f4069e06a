"""Every system that promises nothing by chance delivers exactly what the oracle says, on random workloads.

A workload is drawn from its seed: what it is about, how many brokers and subscriptions there are, who comes
and goes. Nothing is lost on the way: what systems promise when it is has its own seeds. Gossip promises by
chance and has its own tests. Gryphon's large workload takes longest, and is the soak's alone. The soak runs a
thousand workloads for each surveyed system, every twentieth large.
"""

from __future__ import annotations

from random import Random

import pytest

from tidings.simulation.workloads import Plan
from tidings.systems import find_system, system_names
from tidings_lab.simulation.comparing import Comparison, deliveries
from tidings_lab.simulation.oracle import Judgement

BY_CHANCE = {
    "damulticast", "gossip-broadcast", "publisher-groups", "subscriber-groups", "hierarchical-gossip",
    "pmcast",
    "hpcast",
}  # fmt: skip
SYSTEMS = [name for name in system_names() if name not in BY_CHANCE]
SURVEYED = [
    "tidings", "network-of-servers", "siena", "siena-hierarchical", "all-brokers", "elvin", "partitioned",
    "partitioned-elastic", "notification-service", "multicast-groups", "tib-rv", "scribe", "gryphon",
    "hermes",
    "hermes-path",
]  # fmt: skip
SMALL = 2  # seeds of each system in every run of the tests
THOUSAND, LARGE_EACH = 1000, 20


def small(seed: int) -> Comparison:
    rng = Random(f"small/{seed}")
    plan = Plan(
        subscriptions=rng.randint(4, 20), events=rng.randint(20, 50), rate=10.0, publishers=rng.randint(1, 5),
        churn=rng.choice((0.0, 0.3, 0.6)), burst=rng.choice((1, 5)), settle=2.0,
    )  # fmt: skip
    return Comparison(
        workload=rng.choice(("markets", "subjects", "stocks", "rectangles")), seed=seed, plan=plan,
        brokers=rng.randint(2, 9), fan_out=rng.randint(2, 4),
        overlay=rng.choice(("tree", "line", "hierarchy")),
        check=True,
    )  # fmt: skip


def large(seed: int) -> Comparison:
    rng = Random(f"large/{seed}")
    plan = Plan(subscriptions=200, events=500, rate=50.0, publishers=20, churn=0.2, settle=3.0)
    workload = rng.choice(("markets", "subjects", "rectangles"))
    return Comparison(workload=workload, seed=seed, plan=plan, brokers=rng.randint(50, 60), fan_out=4)


def judged(system: str, comparison: Comparison) -> Judgement:
    found = deliveries(find_system(system), comparison)
    assert found.is_exact, f"{system}, {comparison.workload}, seed {comparison.seed}: {found.words()}"
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_small_random_workloads_are_delivered_exactly(system: str) -> None:
    due = sum(judged(system, small(seed)).due for seed in range(SMALL))
    assert due > 10


@pytest.mark.parametrize("system", ["tib-rv", "multicast-groups", "notification-service", "elvin"])
def test_fifty_brokers_two_hundred_subscriptions_five_hundred_events_and_churn(system: str) -> None:
    assert judged(system, large(1)).due > 500


@pytest.mark.soak
@pytest.mark.parametrize("system", SURVEYED)
def test_a_thousand_random_workloads_are_delivered_exactly(system: str) -> None:
    due = 0
    for seed in range(THOUSAND):
        due += judged(system, large(seed) if seed % LARGE_EACH == 0 else small(seed)).due
    assert due > 10 * THOUSAND
