"""COS-12 and COS-11 in small: the floor by its formula, and what the study `recovery` measures."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from tidings.simulation.topology import line, star
from tidings_lab.studies._recovery import SEVERAL, measured, pair_hops, pairs_floor
from tidings_lab.studies._recovery_bench import REACH, STYLES
from tidings_lab.studies.study import StudySetting, find_study

SMALL: dict[str, Any] = {
    "brokers": 20, "patterns": 8, "per_event": 2, "events": 200, "rate": 25.0, "publishers": 2, "calm": 6.0,
}  # fmt: skip


def test_cos_12_the_floor_is_the_mean_over_pairs_of_what_each_way_lets_through() -> None:
    assert sorted(pair_hops(line(3))) == [1, 1, 1, 1, 2, 2]
    assert pairs_floor(line(3), 0.1) == pytest.approx((2 * 0.9 + 0.81) / 3)
    assert mean(pair_hops(star(4))) == pytest.approx(1.5)
    assert pairs_floor(line(2), 0.0) == 1.0


@pytest.fixture(scope="module")
def points() -> dict[str, dict[str, float]]:
    return {style: measured({**SMALL, **case}) for style, case in STYLES.items()}


def test_cos_12_without_recovery_delivery_is_the_floor(points: dict[str, dict[str, float]]) -> None:
    none = points["none"]
    assert none["delivery"] == pytest.approx(none["floor"], abs=0.05)
    assert none["gossip messages"] == 0


def test_cos_11_every_style_brings_back_much_and_tells_nothing_twice(
    points: dict[str, dict[str, float]],
) -> None:
    floor = points["none"]["delivery"]
    for style, figures in points.items():
        assert figures["twice"] == 0, style
        if style != "none":
            assert figures["delivery"] >= floor + 0.5 * (1 - floor), style
    assert points["acknowledged"]["delivery"] == 1.0
    assert min(points[style]["delivery"] for style in ("push", "combined pull")) >= 0.95


def test_cos_11_copies_of_a_recovered_event_are_few(points: dict[str, dict[str, float]]) -> None:
    assert max(figures["copies"] for figures in points.values()) <= 1.1


def test_cos_11_5_brokers_that_ask_one_holder_together_are_counted_by_event(
    points: dict[str, dict[str, float]],
) -> None:
    for style in ("push", "subscriber pull", "publisher pull"):
        figures = points[style]
        assert figures["missed by several"] > 0, style
        assert 0.0 <= figures["asked together"] <= figures["asked on the way"] <= 1.0, style
        assert (figures["asked together"] > 0) is (figures["askers of one event"] >= SEVERAL), style
    assert points["push"]["asked together"] > points["subscriber pull"]["asked together"]
    assert points["none"]["missed by several"] == 0


def test_cos_2_and_11_4_with_nothing_lost_a_pull_is_silent_and_push_is_not() -> None:
    pull = measured({**SMALL, "events": 100, "loss": 0.0, "system": "epidemic"})
    push = measured({**SMALL, "events": 100, "loss": 0.0, "system": "epidemic-push", "gossip": REACH})
    assert pull["gossip messages"] == 0
    assert push["gossip messages"] > 0
    assert pull["delivery"] == push["delivery"] == 1.0


@pytest.mark.soak
def test_cos_3_push_at_a_hundred_brokers_delivers_a_quarter_more_over_ten_seeds() -> None:
    full = {"publishers": 3, "brokers": 100, "patterns": 70, "per_event": 3, "events": 1200, "rate": 50.0}
    gains = []
    for seed in range(10):
        none = measured({**full, **STYLES["none"], "seed": seed})
        push = measured({**full, **STYLES["push"], "seed": seed})
        gains.append(push["delivery"] - none["delivery"])
    assert mean(gains) >= 0.25


@pytest.mark.soak
def test_the_study_answers_every_claim() -> None:
    claims = find_study("recovery").run(StudySetting(quick=True)).claims
    assert {f"COS-11.{number}" for number in range(1, 9)} <= {claim.id for claim in claims}
    assert all(claim.ours is not None for claim in claims)
