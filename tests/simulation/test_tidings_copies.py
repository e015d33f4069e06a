"""An identity that was published at two brokers: each subscriber hears one copy."""

from __future__ import annotations

import pytest

from tidings.model.event import make_event
from tidings.protocol.inputs import ClientPublish
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def publish(world: World, client: str, id: str, x: int) -> None:
    event = make_event({"x": x}, source="payments", id=id, lifetime=600.0)
    world.simulation.input(client, ClientPublish(world.next_call(), event, number=False))


@pytest.mark.parametrize("durable", [False, True])
def test_a_subscriber_hears_one_of_two_copies_of_an_identity(durable: bool) -> None:
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "q": "b2", "s": "b1", "late": "b1"}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x > 0", durable=durable)
    world.run(3.0)
    for number in range(1, 6):
        publish(world, "p", f"payment-{number}", number)
        world.run(world.simulation.now + 0.3)
        publish(world, "q", f"payment-{number}", number)
    publish(world, "q", "payment-6", 6)
    world.run(20.0)
    assert sorted(id for _, id in world.received("s")) == [f"payment-{number}" for number in range(1, 7)]
    world.subscribe("late", "n", "x > 0", durable=durable)
    world.run(40.0)
    assert sorted(id for _, id in world.received("late")) == [f"payment-{number}" for number in range(1, 7)]


@pytest.mark.parametrize("most", [1, 4, 64])
def test_copies_that_both_wait_for_the_application_are_handed_over_once(most: int) -> None:
    """Found by an attack from outside: the first copy was noted when it was taken; the second had come."""
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "q": "b2", "s": "b1"}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x > 0", durable=True, auto=False)
    world.run(3.0)
    for number in range(1, 6):
        publish(world, "p", f"payment-{number}", number)
        publish(world, "q", f"payment-{number}", number)
    world.run(20.0)
    assert world.received("s") == []
    for _ in range(10):
        world.take("s", "n", most)
        world.run(world.simulation.now + 5.0)
    assert sorted(id for _, id in world.received("s")) == [f"payment-{number}" for number in range(1, 6)]
