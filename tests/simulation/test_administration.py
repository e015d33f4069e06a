"""An operator acts in the middle of a network: invariants hold after each step, others are not touched."""

from __future__ import annotations

from typing import Any

from tidings.model.subscription import SubscriptionId
from tidings.protocol.inputs import EndSubscription, Input, PurgeEntries
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def world_of(**clients: str) -> World:
    world = World("tidings", line(3), settings=SimulationSettings(check=True))
    world.run(1.0)
    for client, broker in clients.items():
        world.add_client(client, broker)
    world.run(3.0)
    return world


def publish(world: World, first: int, count: int) -> None:
    for number in range(first, first + count):
        world.publish("p", {"x": number})
    world.run(world.simulation.now + 5.0)


def heard(world: World, client: str) -> list[int]:
    return [notify.event["x"] for notify in world.applications[client].received]


def act(world: World, broker: str, input: Input) -> None:
    world.simulation.input(broker, input)
    world.run(world.simulation.now + 5.0)


def node(world: World, broker: str) -> Any:
    return world.simulation.hosts[broker].machine


def test_an_ended_subscription_frees_the_log_and_others_receive_all() -> None:
    world = world_of(p="b0", near="b0", far="b2")
    for client in ("near", "far"):
        world.subscribe(client, "mine", "EXISTS x", durable=True)
    world.run(world.simulation.now + 3.0)
    publish(world, 0, 5)
    act(world, "b0", EndSubscription(SubscriptionId("near", "mine")))
    publish(world, 5, 5)
    assert heard(world, "near") == list(range(5))
    assert heard(world, "far") == list(range(10))
    assert node(world, "b0").figures()["entries"] == 0
    assert node(world, "b0").inspect("pins")["pins"] == []


def test_a_far_subscription_can_be_ended_where_it_lives() -> None:
    world = world_of(p="b0", far="b2")
    world.subscribe("far", "mine", "EXISTS x", durable=True)
    world.run(world.simulation.now + 3.0)
    publish(world, 0, 3)
    act(world, "b2", EndSubscription(SubscriptionId("far", "mine")))
    act(world, "b2", EndSubscription(SubscriptionId("far", "mine")))  # a second time has no effect
    publish(world, 3, 3)
    assert heard(world, "far") == [0, 1, 2]
    assert node(world, "b0").figures()["entries"] == 0


def test_a_purged_entry_ends_for_readers_near_and_far() -> None:
    world = world_of(p="b0", near="b0")
    for number in range(6):
        world.publish("p", {"x": number}, lifetime=600.0)
    world.run(world.simulation.now + 3.0)
    act(world, "b0", PurgeEntries((2, 3, 99)))
    world.add_client("far", "b2")
    world.run(world.simulation.now + 2.0)
    for client in ("near", "far"):
        world.subscribe(client, "late", "EXISTS x", durable=True)
    world.run(world.simulation.now + 10.0)
    assert heard(world, "near") == heard(world, "far") == [0, 3, 4, 5]
    assert node(world, "b0").figures()["entries"] == 4
