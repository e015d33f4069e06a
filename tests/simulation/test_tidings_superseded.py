"""A durable subscription with `superseding=False` is owed every event of a key, also from the logs of other
brokers: over crashes of its broker, of the log's broker and of one between them."""

from __future__ import annotations

import pytest

from tidings.simulation.topology import line
from tidings.simulation.world import World

NUMBERS = list(range(1, 7))


def detached(*, superseding: bool, also: bool | None = None) -> World:
    """p publishes at b0, s subscribes at b2 and goes away; `also`: t subscribes there too, and stays away."""
    world = World("tidings", line(3), seed=5)
    world.add_client("p", "b0")
    for client, option in (("s", superseding), ("t", also)):
        if option is not None:
            world.add_client(client, "b2")
            world.subscribe(client, "n", "x > 0", durable=True, superseding=option)
    world.run(5.0)
    for client in world.applications.keys() - {"p"}:
        world.simulation.disconnect(client, "b2")
    world.run(6.0)
    for number in NUMBERS:
        world.publish("p", {"x": number}, key="k", lifetime=600.0)
    world.run(8.0)
    return world


def received(world: World, client: str = "s") -> list[int]:
    world.simulation.connect(client, "b2")
    world.run(world.simulation.now + 30.0)
    return [each.event["x"] for each in world.applications[client].received]


def stored(world: World) -> int:
    """Entries of the publisher's log."""
    return len(world.simulation.hosts["b0"].machine.slots["delivery"]._index.entries)


@pytest.mark.parametrize("crashed", [[], ["b2"], ["b0"], ["b1"], ["b2", "b0"], ["b0", "b1", "b2"]], ids=str)
def test_superseded_events_wait_for_a_subscription_at_another_broker(crashed: list[str]) -> None:
    world = detached(superseding=False)
    for broker in crashed:
        world.simulation.crash(broker)
        world.run(world.simulation.now + 1.0)
        world.simulation.restart(broker)
        world.run(world.simulation.now + 20.0)
    assert received(world) == NUMBERS
    world.run(world.simulation.now + 60.0)
    assert stored(world) == 1, "acknowledged, and so forgotten"


def test_without_such_a_subscription_they_are_forgotten_at_once() -> None:
    world = detached(superseding=True)
    assert stored(world) == 1
    world.simulation.crash("b2")
    world.run(world.simulation.now + 1.0)
    world.simulation.restart("b2")
    assert received(world) == [6]


def test_a_subscription_beside_it_receives_the_newest_alone() -> None:
    world = detached(superseding=False, also=True)
    world.simulation.crash("b2")
    world.run(world.simulation.now + 1.0)
    world.simulation.restart("b2")
    assert received(world, "t") == [6]
    assert received(world) == NUMBERS


def test_a_later_subscription_is_not_given_superseded_events() -> None:
    world = detached(superseding=False)
    world.add_client("u", "b1")
    world.subscribe("u", "n", "x > 0", durable=True, superseding=False)
    world.run(world.simulation.now + 10.0)
    assert [each.event["x"] for each in world.applications["u"].received] == [6]
    assert received(world) == NUMBERS
