"""DAM-7 and DAM-8: formulas of Baehni et al. 2004, section 5, as printed and as corrected (E-D1 to E-D10)."""

from __future__ import annotations

import math

import pytest

from tidings_lab.analysis import gossip, printed_gossip
from tidings_lab.analysis.gossip import constants_for

PAPER = (10, 100, 1000)


@pytest.mark.parametrize(
    ("size", "rounds"), [(10, 2.76), (100, 3.02), (1000, 3.57), (300, 3.28), (500, 3.40), (1110, 3.60)]
)
def test_dam_7_rounds_to_infect_a_group(size: int, rounds: float) -> None:
    assert gossip.spread_rounds(size) == pytest.approx(rounds, abs=0.006)


def test_dam_7_e_d1_passing_takes_the_count_of_links_for_random() -> None:
    assert 1 - gossip.passing(1000, success=0.85) == pytest.approx(0.0422, abs=1e-4)
    assert 1 - gossip.passing(100, success=0.85) == pytest.approx(0.0403, abs=1e-4)
    assert 1 - printed_gossip.printed_passing(1000, success=0.85) == pytest.approx(7.6e-5, abs=1e-6)


def test_dam_7_e_d2_loss_inside_groups_counts() -> None:
    found = [gossip.group_reliability(size, fan, 0.85) for size, fan in ((1000, 11), (100, 9), (10, 7))]
    assert found == pytest.approx([0.917, 0.954, 0.974], abs=1e-3)


def test_dam_7_e_d3_the_targets_own_passing_has_no_part() -> None:
    pits = (0.0, 0.9, 0.8)  # a pit of the root would make it 0
    whole = gossip.reliability(PAPER, (7, 9, 11), pits, 1.0)
    inside = math.prod(gossip.group_reliability(s, f) for s, f in zip(PAPER, (7, 9, 11), strict=True))
    assert whole == pytest.approx(inside * 0.9 * 0.8)
    assert gossip.reliability(PAPER, (7, 9, 11), pits, 1.0, target=2) == gossip.group_reliability(1000, 11)


def test_dam_7_e_d4_links_are_sent_from_every_level_but_the_root() -> None:
    assert gossip.messages(PAPER, (7, 9, 11)) == 70 + 900 + 11_000 + 10


def test_dam_7_e_d5_the_bound_needs_three_processes() -> None:
    assert gossip.messages(PAPER, (7, 9, 11)) < gossip.most_messages(3, 1000, 5, 3)
    with pytest.raises(ValueError, match="3 or more"):
        gossip.most_messages(3, 2, 5, 3)


def test_dam_7_e_d6_the_target_must_be_infected_whole() -> None:
    found = gossip.latency(PAPER)
    assert found.least < found.average < found.most
    assert found.average - printed_gossip.printed_latency(PAPER) == pytest.approx(
        gossip.spread_rounds(10) / 2
    )


def test_dam_8_e_d7_memory_is_not_always_smaller() -> None:
    own = [gossip.memory_damulticast(size, is_root=size == 10) for size in PAPER]
    assert own == pytest.approx([7.3, 12.6, 14.9], abs=0.05)
    flat = gossip.memory_broadcast(1110)
    assert flat == pytest.approx(12.0, abs=0.05)
    assert own[0] < flat < own[1] < own[2]


def test_dam_8_e_d8_the_two_patterns_hold_different_tables() -> None:
    assert gossip.memory_publisher_groups(PAPER, 2) == pytest.approx(math.log(1110) + 5)
    assert gossip.memory_publisher_groups(PAPER, 0) > gossip.memory_publisher_groups(PAPER, 2)
    assert gossip.memory_subscriber_groups(PAPER, 2) > gossip.memory_subscriber_groups(PAPER, 0)
    assert printed_gossip.printed_memory_multicast(PAPER, 2) == pytest.approx(math.log(1000) + 5)


def test_dam_8_e_d9_hierarchical_broadcast_is_a_broadcast() -> None:
    assert gossip.messages_hierarchical(1110, 3) == pytest.approx(12_133, abs=2)


def test_dam_7_conditions_of_equal_reliability_move_with_the_exact_passing() -> None:
    bounds = {}
    for name, pit in (
        ("printed", printed_gossip.printed_passing(1000, success=0.85)),
        ("exact", gossip.passing(1000, success=0.85)),
    ):
        bounds[name] = (
            gossip.equals_broadcast(3, pit)[1],
            gossip.equals_multicast(pit)[1],
            gossip.equals_hierarchical(3, 3, pit)[1],
        )
    assert bounds["printed"] == pytest.approx((8.39, 9.49, 9.77), abs=0.01)
    assert bounds["exact"] == pytest.approx((2.05, 3.15, 3.44), abs=0.02)


@pytest.mark.parametrize("c", [0.5, 1.0, 1.8])
def test_dam_7_inside_the_range_a_constant_makes_both_equally_reliable(c: float) -> None:
    pit, levels, clusters = 0.958, 3, 3
    own = gossip.own_constant_for_broadcast(levels, pit, c)
    assert (math.exp(-math.exp(-own)) * pit) ** levels == pytest.approx(math.exp(-math.exp(-c)))
    own = gossip.own_constant_for_multicast(pit, c)
    assert (math.exp(-math.exp(-own)) * pit) ** levels == pytest.approx(math.exp(-levels * math.exp(-c)))
    own = gossip.own_constant_for_hierarchical(levels, clusters, pit, c)
    there = gossip.reliability_hierarchical(clusters, c, c)
    assert (math.exp(-math.exp(-own)) * pit) ** levels == pytest.approx(there)


@pytest.mark.parametrize("c", [0.5, 1.8])
def test_dam_7_the_bound_on_z_is_where_the_memories_meet(c: float) -> None:
    pit, levels, size, n, clusters = 0.958, 3, 100.0, 1110.0, 3.0
    z = gossip.smaller_than_broadcast(n, size, levels, pit, c)
    own = math.log(size) + gossip.own_constant_for_broadcast(levels, pit, c) + z
    assert own == pytest.approx(gossip.memory_broadcast(n, c))
    z = gossip.smaller_than_multicast(size, levels, pit, c)
    own = math.log(size) + gossip.own_constant_for_multicast(pit, c) + z
    assert own == pytest.approx(levels * (math.log(size) + c))
    z = gossip.smaller_than_hierarchical(clusters, levels, pit, c)
    own = gossip.own_constant_for_hierarchical(levels, clusters, pit, c) + z
    assert own == pytest.approx(c + math.log(clusters) + c)  # the clusters' own ln m stands on both sides


def test_beyond_the_constants_reach_what_is_wanted_and_cost_more_when_more_is_lost() -> None:
    calm, rough = (constants_for(0.999, 3, loss=loss, crashed=q) for loss, q in ((0.0, 0.0), (0.15, 0.2)))
    for found in (calm, rough):
        assert found.reliability >= 0.999
    assert calm.g < rough.g
    assert calm.success > rough.success
    fewer = gossip.passing_named(g=rough.g - 1, success=0.85, crashed=0.2)
    assert -math.log(fewer) > -math.log(0.999) / 4, "one link fewer is too few"


@pytest.mark.parametrize("wrong", [{"wanted": 1.0}, {"wanted": 0.0}, {"loss": 1.0}, {"crashed": -0.1}])
def test_beyond_constants_refuse_what_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="0"):
        constants_for(wrong.pop("wanted", 0.9), 3, **wrong)
