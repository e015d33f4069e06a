"""Gossip in rounds: both kernels agree, tables are what they should be, and the paper's figures come out."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.errors import SettingsError
from tidings_lab.analysis import gossip
from tidings_lab.simulation.delegates import delegate_tree
from tidings_lab.simulation.lazy_rounds import eager_steps, lazy_push
from tidings_lab.simulation.rounds import (
    GossipPlan,
    GossipRun,
    Scheme,
    TopicGroup,
    above,
    bytes_per_process,
    chain,
    damulticast,
    disseminate,
    fan_out,
    gossip_broadcast,
    hierarchical_broadcast,
    publisher_groups,
    subscriber_groups,
)
from tidings_lab.simulation.rounds_numpy import tables

PAPER = chain(10, 100, 1000)
SMALL = chain(5, 30, 120)
DIAMOND = (
    TopicGroup(8),
    TopicGroup(30, (0,)),
    TopicGroup(40, (0,)),
    TopicGroup(90, (1, 2)),
)  # two supertopics, one root
PLANS = {
    "elected": damulticast(SMALL),
    "exact, forced": damulticast(SMALL, Scheme(exact=True, forced=True)),
    "named": damulticast(SMALL, Scheme(named=True, stagger=2)),
    "named, own turns": damulticast(SMALL, Scheme(named=True, g=4, own=3, stagger=2)),
    "two supertopics": damulticast(DIAMOND, Scheme(g=8)),
    "two supertopics, named": damulticast(DIAMOND, Scheme(named=True)),
    "broadcast": gossip_broadcast(SMALL),
    "publisher groups": publisher_groups(SMALL),
    "subscriber groups": subscriber_groups(SMALL),
    "hierarchical": hierarchical_broadcast(SMALL, clusters=4),
    "hierarchical, every entry": hierarchical_broadcast(SMALL, clusters=4, first=False),
    "PMcast": delegate_tree(SMALL, published=0),
    "hpcast": delegate_tree(SMALL, interest=False, depth=3, arity=4),
}
FAULTS = ({}, {"loss": 0.15}, {"loss": 0.15, "crashed": 0.3}, {"loss": 0.1, "apparent": 0.4})


def runs(plan: GossipPlan, count: int, **faults: float) -> list[GossipRun]:
    return [disseminate(plan, seed=seed, views=seed, count=True, **faults) for seed in range(count)]


@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_both_kernels_give_the_same_answer_bit_for_bit(plan: GossipPlan) -> None:
    for faults in FAULTS:
        for seed in range(4):
            one, other = (
                disseminate(plan, seed=seed, count=True, kernel=kernel, **faults)
                for kernel in ("numba", "numpy")
            )
            assert np.array_equal(one.received, other.received)
            assert np.array_equal(one.copies, other.copies)
            assert (one.inside, one.across, one.arrived) == (other.inside, other.across, other.arrived)
            assert one.arrived_across == other.arrived_across <= min(one.across, one.arrived)
            assert (one.rounds, one.namings) == (other.rounds, other.namings)


def test_tables_hold_different_others_and_each_equally_often() -> None:
    plan = damulticast(chain(3, 20))
    own = np.arange(3, 23, dtype=np.int64)
    times = np.zeros(23, np.int64)
    for key in range(300):
        found = tables(plan.arena, np.uint64(key * 977 + 5), 1, own)
        assert found.shape == (20, fan_out(20, 5))
        assert all(len(set(row)) == len(row) for row in found.tolist())
        assert not (found == own[:, None]).any()
        assert found.min() >= 3
        np.add.at(times, found.ravel(), 1)
    expected = 300 * fan_out(20, 5)
    assert times[:3].sum() == 0
    assert np.abs(times[3:] / expected - 1).max() < 0.1


@pytest.mark.parametrize(
    ("size", "c", "fan"), [(1000, 5, 11), (100, 5, 9), (10, 5, 7), (1110, 5, 12), (3, 5, 2), (1, 5, 0)]
)
def test_dam_9_fan_outs_are_floored(size: int, c: float, fan: int) -> None:
    assert fan_out(size, c) == fan


def test_dam_9_a_fan_out_that_makes_up_for_loss() -> None:
    assert [fan_out(size, 5, 0.85) for size in (1000, 100, 10)] == [14, 11, 9]


def test_dam_11_no_parasite_ever_and_gossip_as_in_closed_form() -> None:
    for faults in FAULTS:
        assert all(run.parasites() == 0 for run in runs(damulticast(PAPER, published=1), 5, **faults))
    found = np.mean([run.parasites() for run in runs(gossip_broadcast(PAPER, published=0), 60, loss=0.15)])
    assert found == pytest.approx(gossip.parasites_broadcast(1110, 10, 12, 0.85), rel=0.005)


def test_dam_10_daMulticast_takes_longer_than_gossip() -> None:
    own = [run.last_round(0) for run in runs(damulticast(PAPER), 80, loss=0.15)]
    rounds = np.mean([moment for moment in own if moment is not None])
    assert rounds == pytest.approx(8.91, rel=0.12)
    flat = np.mean(
        [run.received[run.received < 254].max() for run in runs(gossip_broadcast(PAPER), 80, loss=0.15)]
    )
    assert flat == pytest.approx(4.63, rel=0.10)


def test_dam_6_an_event_enters_as_often_as_the_exact_formula_says() -> None:
    plan = damulticast(chain(50, 200))
    entered = np.mean([run.reached_of(0) > 0 for run in runs(plan, 600, loss=0.15)])
    assert entered == pytest.approx(gossip.passing(200, success=0.85), abs=4 * 0.5 / 600**0.5)


def test_beyond_named_links_enter_far_more_often_for_as_many_messages() -> None:
    named = runs(damulticast(PAPER, Scheme(named=True)), 300, loss=0.15)
    paper = runs(damulticast(PAPER), 300, loss=0.15)
    assert np.mean([run.reached_of(0) > 0 for run in named]) >= 0.99
    exact = gossip.passing(1000, success=0.85) * gossip.passing(100, success=0.85)
    assert exact < 0.92
    assert np.mean([run.reached_of(0) > 0 for run in paper]) == pytest.approx(exact, abs=4 * 0.016)
    assert np.mean([run.across for run in named]) <= 10.3
    hard = runs(damulticast(PAPER, Scheme(named=True)), 300, loss=0.15, crashed=0.2)
    assert np.mean([run.reached_of(0) > 0 for run in hard]) >= 0.94  # 0.968 over 4,000 runs


def test_two_supertopics_both_hear() -> None:
    found = runs(damulticast(DIAMOND, Scheme(named=True)), 50, loss=0.1)
    assert np.mean([run.reached() for run in found], axis=0).min() > 0.97
    assert above(DIAMOND, 3) == [3, 1, 2, 0]
    up = runs(damulticast(DIAMOND, published=1), 10)
    assert all(run.reached_of(2) == 0 and run.reached_of(3) == 0 for run in up)


def test_subscriber_groups_make_the_publisher_send_to_every_group() -> None:
    run = disseminate(subscriber_groups(PAPER), seed=1)
    assert run.across == 7 + 9
    assert run.reached() == [1.0, 1.0, 1.0]
    with pytest.raises(SettingsError, match="next to one another"):
        publisher_groups((TopicGroup(3), TopicGroup(4), TopicGroup(5, (0,))))


def test_hpcast_tells_everybody_and_pmcast_hardly_anybody_else() -> None:
    wide = runs(delegate_tree(PAPER, interest=False, published=0), 10, loss=0.1)
    narrow = runs(delegate_tree(PAPER, published=0), 10, loss=0.1)
    assert np.mean([run.reached_of(0) for run in narrow]) > 0.97
    assert 0 < np.mean([run.parasites() for run in narrow]) < 0.1 * np.mean([run.parasites() for run in wide])
    with pytest.raises(SettingsError, match="no room"):
        delegate_tree(chain(20), depth=3, arity=10)


def test_lazy_push_sends_the_event_hardly_more_than_once_to_each() -> None:
    found = [lazy_push(400, seed=seed, loss=0.15) for seed in range(6)]
    assert np.mean([run.reached for run in found]) >= 0.999
    assert max(run.payloads_per_delivery for run in found) < 1.3
    assert np.mean([run.payloads_per_delivery for run in found]) <= 1.2
    slow = lazy_push(400, seed=1, eager=0)
    assert slow.reached == 1.0
    assert slow.payloads == 399
    assert slow.rounds > lazy_push(400, seed=1).rounds
    assert eager_steps(1000, 11) == 2


def test_a_run_without_counts_says_so_and_unknown_kernels_are_refused() -> None:
    plan = damulticast(SMALL)
    with pytest.raises(SettingsError, match="count=True"):
        disseminate(plan, seed=1).parasites()
    with pytest.raises(SettingsError, match="no kernel"):
        disseminate(plan, seed=1, kernel="fortran")
    with pytest.raises(SettingsError, match="a group of 0"):
        fan_out(0, 5)
    assert bytes_per_process(plan) == 5
    assert plan.entries == (4, 8 + 3, 9 + 3)


def test_a_dead_group_has_no_share_that_heard() -> None:
    found = [run.reached_of(0) for run in runs(damulticast(chain(2, 300)), 10, crashed=0.95)]
    assert any(np.isnan(share) for share in found)
    assert not all(np.isnan(share) for share in found)
