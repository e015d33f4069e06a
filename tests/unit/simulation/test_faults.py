"""Plans of faults: drawn within bounds, over in time, the same for the same seed."""

from __future__ import annotations

from random import Random

import pytest

from tidings.errors import SettingsError
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultMix, FaultPlan, Incident, Rates, drawn, halves, isolated, ring_cut
from tidings.simulation.topology import OverlayGraph, line, random_tree

TREE = random_tree(8, Random(1), fan_out=3)


@pytest.mark.parametrize("seed", range(30))
def test_a_drawn_plan_stays_within_its_mix(seed: int) -> None:
    mix = FaultMix(incidents=12, rate_up_to=0.1, longest=2.0)
    plan = drawn(TREE, Random(seed), until=30.0, mix=mix)
    assert plan == drawn(TREE, Random(seed), until=30.0, mix=mix)
    assert len(plan.incidents) == 12
    assert [i.at for i in plan.incidents] == sorted(i.at for i in plan.incidents)
    for incident in plan.incidents:
        assert 0 <= incident.at <= incident.until <= 30.0
        assert incident.until - incident.at <= 2.0
        assert set(incident.nodes) <= set(TREE.brokers)
        assert {name for pair in incident.cut for name in pair} <= set(TREE.brokers)
        assert incident.nodes or incident.cut
    assert all(0 <= getattr(plan.rates, name) <= 0.1 for name in fault.RATES)
    assert plan.over_at <= 30.0


def test_only_the_kinds_of_the_mix_are_drawn() -> None:
    kinds = (fault.CRASH, fault.LOSS)
    plans = [drawn(TREE, Random(s), until=9.0, mix=FaultMix(kinds=kinds)) for s in range(40)]
    assert {i.kind for plan in plans for i in plan.incidents} == {fault.CRASH}
    assert any(plan.rates.loss for plan in plans)
    assert not any(plan.rates.duplication or plan.rates.corruption for plan in plans)
    assert drawn(TREE, Random(1), until=9.0, mix=FaultMix(kinds=(fault.LOSS,))).incidents == ()


def test_every_kind_is_drawn_sooner_or_later() -> None:
    plans = [drawn(TREE, Random(s), until=9.0) for s in range(40)]
    assert {i.kind for plan in plans for i in plan.incidents} == set(fault.INCIDENTS)


def test_where_no_link_is_none_is_cut() -> None:
    alone = OverlayGraph(("b0",), ())
    plans = [drawn(alone, Random(s), until=9.0) for s in range(20)]
    drawn_kinds = {i.kind for plan in plans for i in plan.incidents}
    assert drawn_kinds == {fault.CRASH, fault.DISK_LOSS, fault.STOP, fault.CLOCK_SKEW}


def test_partitions_cut_what_their_names_say() -> None:
    names = line(9).brokers
    pairs = set(halves(names, Random(1)))
    assert all((b, a) in pairs for a, b in pairs)
    assert len(pairs) == 2 * 4 * 5
    assert set(isolated("b3", names)) == {p for o in names if o != "b3" for p in (("b3", o), (o, "b3"))}
    ring = set(ring_cut(names))
    for name in names:
        received = [other for other in names if other != name and (other, name) not in ring]
        assert 0 < len(received) < len(names) - 1, "everybody hears some, nobody hears all"


def test_impossible_faults_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"loss is 1\.5"):
        Rates(loss=1.5)
    with pytest.raises(SettingsError, match="no fault is called 'flood'"):
        Incident(kind="flood", at=0, until=1)
    with pytest.raises(SettingsError, match="before it begins"):
        Incident(kind=fault.CRASH, at=2, until=1)


def test_a_plan_is_over_when_its_last_fault_is() -> None:
    assert FaultPlan().over_at == 0.0
    crash = Incident(kind=fault.CRASH, at=1, until=4)
    assert FaultPlan(incidents=(crash,)).over_at == 4
    assert FaultPlan(Rates(loss=0.1), (crash,), rates_until=6).over_at == 6
