"""What a run's faults allow an event to take, before anything has happened."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from tidings.simulation import faults as fault
from tidings.simulation.delays import longest_absence, longest_delay, slowest
from tidings.simulation.faults import FaultPlan, Incident, Rates
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line, random_tree, ring

SETTINGS = SimulationSettings(link_seconds=0.01, client_seconds=0.0005, disk_seconds=0.002)
ENDS = 0.003  # client, disk, client


def slow(a: str, b: str, at: float, until: float, amount: float) -> Incident:
    return Incident(kind=fault.SLOW_LINK, at=at, until=until, cut=((a, b),), amount=amount)


def away(kind: str, at: float, until: float) -> Incident:
    return Incident(kind=kind, at=at, until=until, nodes=("b0",))


def test_without_faults_it_is_the_longest_way() -> None:
    assert longest_delay(line(4), FaultPlan(), SETTINGS) == pytest.approx(0.03 + ENDS)
    assert longest_delay(ring(6), FaultPlan(), SETTINGS) == pytest.approx(0.03 + ENDS)


def test_a_link_has_its_own_latency() -> None:
    latencies = {("b0", "b1"): 0.5}
    assert longest_delay(line(3), FaultPlan(), SETTINGS, latencies) == pytest.approx(0.51 + ENDS)


def test_slow_links_multiply_while_they_overlap_and_either_direction_counts() -> None:
    incidents = (slow("b0", "b1", 0, 2, 5.0), slow("b1", "b0", 1, 3, 10.0), slow("b0", "b1", 4, 5, 20.0))
    assert slowest(FaultPlan(incidents=incidents), ("b0", "b1")) == 50.0
    assert slowest(FaultPlan(incidents=incidents), ("b1", "b2")) == 1.0


def test_an_event_goes_round_a_slow_link_where_it_can() -> None:
    plan = FaultPlan(incidents=(slow("b0", "b1", 0, 2, 50.0),))
    assert longest_delay(line(3), plan, SETTINGS) == pytest.approx(0.51 + ENDS)
    assert longest_delay(ring(3), plan, SETTINGS) == pytest.approx(0.02 + ENDS)


def test_reordering_holds_back_on_each_link_and_a_copy_delays_nothing() -> None:
    assert longest_delay(line(3), FaultPlan(Rates(reordering=0.1)), SETTINGS) == pytest.approx(1.02 + ENDS)
    assert longest_delay(line(3), FaultPlan(Rates(duplication=0.1)), SETTINGS) == pytest.approx(0.02 + ENDS)


@pytest.mark.parametrize("rates", [Rates(loss=0.01), Rates(corruption=0.01)])
def test_what_can_be_lost_has_no_bound(rates: Rates) -> None:
    assert longest_delay(line(3), FaultPlan(rates), SETTINGS) == inf


@pytest.mark.parametrize("kind", [fault.CRASH, fault.STOP])
def test_a_broker_that_is_away_only_delays_what_is_kept(kind: str) -> None:
    plan = FaultPlan(incidents=(away(kind, 1.0, 4.0),))
    alone = random_tree(1, Random(1))
    assert longest_delay(alone, plan, SETTINGS) == inf
    assert longest_delay(alone, plan, SETTINGS, is_kept=True) == pytest.approx(3.0 + 2 * 0.325 + ENDS)
    lost = FaultPlan(incidents=(away(fault.DISK_LOSS, 1.0, 4.0),))
    assert longest_delay(alone, lost, SETTINGS, is_kept=True) == inf


def test_absences_with_too_little_between_them_are_one() -> None:
    near = FaultPlan(incidents=(away(fault.CRASH, 1.0, 2.0), away(fault.STOP, 2.2, 3.0)))
    far = FaultPlan(incidents=(away(fault.CRASH, 1.0, 2.0), away(fault.STOP, 2.5, 3.0)))
    assert longest_absence(near, SETTINGS) == pytest.approx(2.0 + 0.65)
    assert longest_absence(far, SETTINGS) == pytest.approx(1.0 + 0.65)
