"""Defects that seeds of the wide world found, each by the smallest run that shows it."""

from __future__ import annotations

import pytest
from tests.simulation._wide import run

from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultPlan, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def two(**settings: float) -> World:
    """A durable subscriber at b1, a publisher at b0."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True, **settings))
    world.add_client("d", "b1")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(3.0)
    return world


def incident(
    kind: str, at: float, until: float, *nodes: str, cut: tuple[tuple[str, str], ...] = ()
) -> Incident:
    return Incident(kind=kind, at=at, until=until, nodes=nodes, cut=cut)


def test_a_publish_that_a_failed_disk_lost_is_not_acknowledged_when_it_is_sent_again() -> None:
    world = two()
    stop = incident(fault.STOP, 3.1, 5.0, "b0")
    world.simulation.plan(FaultPlan(incidents=(stop, incident(fault.SYNC_FAILURE, 4.5, 7.0, "b0"))))
    world.run(3.2)
    world.publish("p", {"x": 1})
    world.run(30.0)
    application = world.applications["p"]
    assert not application.receipts
    assert [failed.code for failed in application.failures] in (["unknown"], ["store"])


@pytest.mark.parametrize(
    ("system", "seed"),
    [
        ("tidings", 35),  # a token was dropped with a subscription that the broker ended
        ("tidings", 37),  # a log that began on an empty disk, and a neighbour that had not spoken
        ("tidings", 145),
        ("tidings", 169),
        ("tidings", 50),  # a broker confirmed for durable subscriptions after its disk had failed
        ("tidings", 80),
        ("tidings", 184),  # a publish that a failed disk lost was answered by its number
        ("tidings-group", 99),  # a coordinator forgot after its restart how young its log was
        ("tidings-group", 36),  # a member whose disk was full showed a page without what it had committed
        ("tidings-group", 197),  # an entry was committed that one disk had
        ("tidings-group", 237),  # the answer to a proposal that was committed before was lost with its link
        ("tidings-group", 240),
        ("tidings-group", 138),  # a short page of a copy was taken for the end of the log
    ],
)
def test_seeds_that_found_a_defect_hold(system: str, seed: int) -> None:
    seen = run(seed, system=system)
    assert not seen.broken, seen.broken
