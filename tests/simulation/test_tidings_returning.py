"""A durable subscriber leaves and returns: at once, without a link, with another filter, with events open."""

from __future__ import annotations

import pytest

from tidings.protocol import inputs as ins
from tidings.protocol.messages import Subscribe
from tidings.protocol.routing.diffusion import Interest
from tidings.simulation.faults import ISOLATE_ONE, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

ANY = "EXISTS x"


def world_of(*, subscriber: str = "b1", publisher: str = "b0", brokers: int = 2) -> World:
    world = World("tidings", line(brokers), settings=SimulationSettings(check=True))
    world.add_client("d", subscriber)
    world.add_client("p", publisher)
    world.run(1.0)
    return world


def subscribe(world: World, filter: str = ANY, **options: object) -> None:
    world.subscribe("d", "n", filter, durable=True, **options)


def leave(world: World, *, commit: bool = True) -> None:
    ref = world.applications["d"].refs.pop("n")
    world.simulation.input("d", ins.ClientLeave(world.next_call(), ref, commit=commit))


def publish(world: World, *values: int, **fields: object) -> None:
    for x in values:
        world.publish("p", {"x": x}, **fields)
    world.run(world.simulation.now + 0.5)


def received(world: World) -> list[int]:
    return [each.event.attributes["x"] for each in world.applications["d"].received]


def later(world: World, seconds: float = 1.0) -> None:
    world.run(world.simulation.now + seconds)


def subscribes(world: World) -> list[int]:
    """The refs of the subscribes that `d` sends from now on."""
    send, found = world.simulation._send, list[int]()

    def watched(host: object, effect: object) -> None:
        if type(effect.message) is Subscribe:  # type: ignore[attr-defined]
            found.append(effect.message.ref)  # type: ignore[attr-defined]
        send(host, effect)  # type: ignore[arg-type]

    world.simulation._send = watched  # type: ignore[method-assign, assignment]
    return found


def test_a_client_that_left_without_a_link_says_so_once() -> None:
    """It had committed an event of the lost link. A broker answers a subscribe that is left at once by the
    leaving alone: the client asked and left again without end, and could not return."""
    world = world_of(subscriber="b0")
    subscribe(world, auto=False)
    later(world)
    world.take("d", "n")
    publish(world, 1)
    assert received(world) == [1]
    world.simulation.disconnect("d", "b0")
    later(world)
    leave(world)
    found = subscribes(world)
    world.simulation.connect("d", "b0")
    later(world, 3.0)
    subscribe(world)
    publish(world, 2)
    later(world, 3.0)
    assert received(world) == [1, 2]
    assert len(found) <= 3


def test_a_client_that_returns_at_once_goes_on_from_its_last_token() -> None:
    """The second return took the token of the listener before the last one, which another broker believed."""
    world = world_of(subscriber="b0", publisher="b1", brokers=3)
    subscribe(world)
    publish(world, 0, lifetime=60.0)
    for x in (1, 2):
        leave(world)
        subscribe(world)
        publish(world, x, lifetime=60.0)
    leave(world)
    subscribe(world)
    later(world)
    world.move("d", "b2")
    publish(world, 3, lifetime=60.0)
    later(world, 5.0)
    assert received(world) == [0, 1, 2, 3]


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("at", ["b0", "b1"])
def test_superseded_events_that_are_owed_survive_another_filter(at: str, replay: bool) -> None:
    """The broker whose own log held them gave them up as if they were from before the subscription."""
    world = world_of(subscriber=at)
    subscribe(world, superseding=False)
    later(world)
    leave(world)
    publish(world, 1, 2, 3, key="k")
    subscribe(world, "x < 3", superseding=False, replay=replay)
    publish(world, 4, 0, key="k")
    later(world, 5.0)
    assert received(world) == [1, 2, 0]


def left_to_read(world: World) -> None:
    """b1, the home, cannot see b0, whose disk is replaced and where p publishes: it does not know that log,
    and is owed all of it."""
    subscribe(world)
    later(world)
    cut = Incident(kind=ISOLATE_ONE, at=0.0, until=0.0, cut=(("b0", "b1"), ("b1", "b0")))
    world.simulation.plan_rough()
    world.simulation.begin(cut)
    world.simulation.crash("b0")
    later(world)
    world.simulation.restart("b0", keep_disk=False)
    later(world)
    publish(world, 1, 2)
    world.move("d", "b0")
    later(world)
    publish(world, 3, 4)
    later(world)
    assert received(world) == [3, 4]
    world.simulation.end(cut)


@pytest.mark.parametrize("returns_late", [False, True])
def test_what_another_broker_says_of_a_log_ends_no_right_of_the_home(returns_late: bool) -> None:
    """The client's token was past events of that log that only its home was owed, and the home gave them up.
    Those that the other broker delivered are not delivered again."""
    world = world_of()
    left_to_read(world)
    if returns_late:
        leave(world)
        later(world)
    world.move("d", "b1")
    if returns_late:
        subscribe(world)
    later(world, 30.0)
    assert received(world) == [3, 4, 1, 2]
    publish(world, 5)
    assert received(world) == [3, 4, 1, 2, 5]


def test_what_was_committed_behind_an_open_event_is_not_delivered_again_after_a_return() -> None:
    """The acknowledgement was lost with its link, and the token stayed before the open event."""
    world = world_of(subscriber="b0")
    subscribe(world, auto=False)
    later(world)
    publish(world, 1, 2, 3)
    for _ in range(2):
        ref = world.applications["d"].refs["n"]
        world.simulation.input("d", ins.ClientTake(world.next_call(), ref, commits=False))
        later(world)
    assert received(world) == [1, 2]
    world.simulation.disconnect("d", "b0")
    later(world)
    world.simulation.input("d", ins.ClientAck(world.applications["d"].refs["n"], 2))
    leave(world, commit=False)
    later(world)
    world.simulation.connect("d", "b0")
    subscribe(world)
    later(world, 3.0)
    assert received(world) == [1, 2, 1, 3]


def test_another_filter_is_announced_before_the_one_that_ends() -> None:
    """The link broke between the two: no broker kept events for the subscription until it was up again."""
    world = world_of()
    publish(world, 20)  # so that b0 advertises
    subscribe(world, "x < 5")
    later(world)
    leave(world)
    later(world)
    simulation, sent = world.simulation, list[Interest]()
    send = simulation._send

    def watched(host: object, effect: object) -> None:
        message = effect.message  # type: ignore[attr-defined]
        if host.name == "b1" and type(message) is Interest:  # type: ignore[attr-defined]
            sent.append(message)
            if len(sent) > 1:
                return  # only the first one arrives, with one change or with both
        send(host, effect)  # type: ignore[arg-type]

    simulation._send = watched  # type: ignore[method-assign, assignment]
    subscribe(world, "x < 9")
    later(world, 0.1)
    simulation.disconnect("b1", "b0")
    publish(world, 1)
    simulation._send = send  # type: ignore[method-assign]
    simulation.connect("b1", "b0")
    later(world, 10.0)
    assert sent
    assert received(world) == [1]
