"""Events that no live path brought: the last one of a log, and those of a log that is found late, are
fetched."""

from __future__ import annotations

import pytest

from tidings.protocol.inputs import ClientLeave
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.simulation.faults import ISOLATE_ONE, FaultPlan, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def two(limits: ResourceLimits = DEFAULT_LIMITS) -> World:
    """b0 - b1. The publisher p is at b0, the subscriber d at b1."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True), limits=limits)
    world.add_client("d", "b1")
    world.add_client("p", "b0")
    return world


def cut(world: World, at: float, until: float) -> None:
    """Messages between b0 and b1 are lost for a while."""
    both = (("b0", "b1"), ("b1", "b0"))
    world.simulation.plan(
        FaultPlan(incidents=(Incident(kind=ISOLATE_ONE, at=at, until=until, nodes=(), cut=both),))
    )


def heard(world: World) -> list[str]:
    return [id.rpartition("-")[2] for _, id in world.received("d")]


def test_the_last_event_of_all_is_asked_for_when_it_was_lost_on_the_way() -> None:
    """No later event shows that it is missing: the news of the log's last offset does."""
    world = two()
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x")
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    cut(world, 4.0, 4.2)
    world.run(4.05)
    world.publish("p", {"x": 2})
    world.run(4.15)
    assert heard(world) == ["1"]
    world.run(20.0)
    assert heard(world) == ["1", "2"]


def test_a_log_that_is_found_late_keeps_its_events_for_a_durable_subscriber_who_is_away() -> None:
    """b0 began on an empty disk and accepted an event before b1 had heard of its log. Nothing of that log may
    be acknowledged for a subscription that is older and has read none of it."""
    world = two()
    simulation = world.simulation
    simulation.crash("b0")
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(3.0)
    simulation.input("d", ClientLeave(world.next_call(), world.applications["d"].refs.pop("n")))
    cut(world, 3.5, 10.0)
    world.run(4.0)
    simulation.restart("b0", keep_disk=False)
    world.run(5.0)
    world.publish("p", {"x": 1})
    world.run(40.0)
    assert len(world.applications["p"].receipts) == 1
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(60.0)
    assert heard(world) == ["1"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_gap_of_more_than_one_page_is_filled_page_by_page(durable: bool) -> None:
    """Each page says how far it goes: the rest is asked for."""
    world = two(ResourceLimits(batch_count=4, page_count=8))
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x", durable=durable)
    world.run(3.0)
    cut(world, 3.0, 10.0)
    world.run(5.0)
    for number in range(30):
        world.publish("p", {"x": number})
    world.run(60.0)
    assert heard(world) == [str(number) for number in range(1, 31)]
