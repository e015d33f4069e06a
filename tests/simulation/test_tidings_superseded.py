"""A durable subscription with `superseding=False` is owed every event of a key, also from the logs of other
brokers: over crashes of its broker, of the log's broker and of one between them. Other subscriptions
receive no superseded event because of it."""

from __future__ import annotations

import msgspec
import pytest

from tidings.model.event import FOREVER
from tidings.simulation.faults import ISOLATE_ONE, Incident
from tidings.simulation.topology import line
from tidings.simulation.world import World

NUMBERS = list(range(1, 7))
CUT = Incident(kind=ISOLATE_ONE, at=0.0, until=0.0, cut=(("b0", "b1"), ("b1", "b0")))


def begun(*, superseding: bool, also: bool | None = None, brokers: int = 3) -> World:
    """p publishes at b0; s, and `also` t, subscribe at the last broker and are away."""
    world = World("tidings", line(brokers), seed=5)
    home = world.overlay.brokers[-1]
    world.add_client("p", "b0")
    for client, option in (("s", superseding), ("t", also)):
        if option is not None:
            world.add_client(client, home)
            world.subscribe(client, "n", "x > 0", durable=True, superseding=option)
    world.run(5.0)
    for client in world.applications.keys() - {"p"}:
        world.simulation.disconnect(client, home)
    world.run(6.0)
    return world


def publish(world: World, numbers: list[int], lifetime: float = 600.0, apart: float = 0.0) -> None:
    for number in numbers:
        world.publish("p", {"x": number}, key="k", lifetime=lifetime)
        if apart:
            world.run(world.simulation.now + apart)


def detached(*, superseding: bool, also: bool | None = None, apart: float = 0.0) -> World:
    world = begun(superseding=superseding, also=also)
    publish(world, NUMBERS, apart=apart)
    world.run(world.simulation.now + 2.0)
    return world


def crash(world: World, *brokers: str, seconds: float = 20.0) -> None:
    for broker in brokers:
        world.simulation.crash(broker)
        world.run(world.simulation.now + 1.0)
        world.simulation.restart(broker)
        world.run(world.simulation.now + seconds)


def received(world: World, client: str = "s") -> list[int]:
    world.simulation.connect(client, world.overlay.brokers[-1])
    world.run(world.simulation.now + 30.0)
    return [each.event["x"] for each in world.applications[client].received]


def late(world: World, broker: str, *, superseding: bool) -> list[int]:
    """What a subscription that comes now receives."""
    client = f"late-{broker}-{superseding}"
    world.add_client(client, broker)
    world.subscribe(client, "n", "EXISTS x", durable=True, superseding=superseding)
    world.run(world.simulation.now + 10.0)
    return [each.event["x"] for each in world.applications[client].received]


def stored(world: World) -> int:
    """Entries of the publisher's log."""
    return len(world.simulation.hosts["b0"].machine.slots["delivery"]._index.entries)


# -- nothing that is owed is lost ----------------------------------------------------------------


@pytest.mark.parametrize("apart", [0.0, 0.5])
@pytest.mark.parametrize("crashed", [[], ["b2"], ["b0"], ["b1"], ["b2", "b0"], ["b0", "b1", "b2"]], ids=str)
def test_superseded_events_wait_for_a_subscription_at_another_broker(
    crashed: list[str], apart: float
) -> None:
    world = detached(superseding=False, apart=apart)
    crash(world, *crashed)
    assert received(world) == NUMBERS
    world.run(world.simulation.now + 60.0)
    assert stored(world) == 1, "acknowledged, and so forgotten"


@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_events_that_come_after_the_crash_supersede_none_that_is_owed(seconds: float) -> None:
    world = detached(superseding=False)
    crash(world, "b2", "b0", seconds=seconds)
    publish(world, [7, 8], apart=0.2)
    crash(world, "b2")
    assert received(world) == [*NUMBERS, 7, 8]


def test_a_need_that_was_not_reported_yet_counts() -> None:
    world = World("tidings", line(3), seed=5)
    for client, broker in (("p", "b0"), ("s", "b2")):
        world.add_client(client, broker)
    world.run(5.0)
    world.subscribe("s", "n", "x > 0", durable=True, superseding=False, window=1, queue=1)
    world.run(5.08)
    own = world.simulation.hosts["b0"].machine.slots["recovery"].own()
    assert not any(progress.superseded for progress in own.progress_by_link.values())
    world.simulation.disconnect("s", "b2")
    publish(world, NUMBERS, apart=0.002)
    world.run(world.simulation.now + 3.0)
    crash(world, "b2")
    assert received(world) == NUMBERS


def test_a_neighbour_that_has_not_reported_since_a_restart_may_need_them() -> None:
    world = detached(superseding=False)
    for broker in ("b0", "b1", "b2"):
        world.simulation.crash(broker)
    world.run(world.simulation.now + 1.0)
    world.simulation.restart("b0")
    world.run(world.simulation.now + 5.0)
    publish(world, [7, 8], apart=1.0)
    for broker in ("b2", "b1"):
        world.simulation.restart(broker)
        world.run(world.simulation.now + 5.0)
    assert received(world) == [*NUMBERS, 7, 8]


@pytest.mark.parametrize("brokers", [3, 4])
def test_a_broker_between_that_has_not_heard_from_one_behind_it_may_need_them(brokers: int) -> None:
    """It said of a log without events that none is needed, and was cut off when the broker behind it came."""
    world = begun(superseding=False, brokers=brokers)
    before, between, home = world.overlay.brokers[-3:]
    for broker in (home, between):
        world.simulation.crash(broker)
    world.run(7.0)
    world.simulation.restart(between)
    world.run(10.0)
    world.simulation._rough = True
    cut = msgspec.structs.replace(CUT, cut=((before, between), (between, before)))
    world.simulation.begin(cut)
    world.run(12.0)
    publish(world, NUMBERS, apart=0.2)
    world.run(15.0)
    world.simulation.end(cut)
    world.simulation.restart(home)
    world.run(25.0)
    assert received(world) == NUMBERS


@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_events_published_together_at_the_same_broker_are_owed_after_a_crash(apart: float) -> None:
    world = begun(superseding=False, also=True, brokers=1)
    publish(world, NUMBERS, apart=apart)
    world.run(world.simulation.now + 2.0)
    crash(world, "b0")
    publish(world, [7])
    world.run(world.simulation.now + 2.0)
    assert received(world, "t") == [7]
    assert received(world) == [*NUMBERS, 7]
    world.run(world.simulation.now + 5.0)
    assert stored(world) == 1


def test_what_a_cut_lost_is_sent_again_to_subscriptions_that_are_owed_it() -> None:
    world = begun(superseding=False, also=True)
    for client in ("s", "t"):
        world.simulation.connect(client, "b2")
    world.run(8.0)
    world.simulation._rough = True
    world.simulation.begin(CUT)
    world.run(9.0)
    publish(world, NUMBERS, FOREVER)
    world.run(11.0)
    world.simulation.end(CUT)
    assert received(world) == NUMBERS
    assert received(world, "t") == [6]


# -- others receive nothing that is superseded ---------------------------------------------------


def test_without_such_a_subscription_they_are_forgotten_at_once() -> None:
    world = detached(superseding=True)
    assert stored(world) == 1
    crash(world, "b2", seconds=0.0)
    assert received(world) == [6]


@pytest.mark.parametrize("crashed", [["b2"], ["b0"], ["b0", "b1", "b2"]], ids=str)
def test_a_subscription_beside_it_receives_the_newest_alone(crashed: list[str]) -> None:
    world = detached(superseding=False, also=True)
    crash(world, *crashed)
    assert received(world, "t") == [6]
    assert received(world) == NUMBERS


@pytest.mark.parametrize("crashed", [[], ["b0"], ["b0", "b1", "b2"]], ids=str)
@pytest.mark.parametrize("superseding", [True, False])
def test_a_later_subscription_is_not_given_superseded_events(superseding: bool, crashed: list[str]) -> None:
    world = detached(superseding=False)
    crash(world, *crashed)
    for broker in ("b0", "b1", "b2"):
        assert late(world, broker, superseding=superseding) == [6]
    assert received(world) == NUMBERS


@pytest.mark.parametrize("crashed", [[], ["b0"], ["b0", "b0"], ["b2", "b0"]], ids=str)
def test_an_event_that_no_log_holds_supersedes_for_good(crashed: list[str]) -> None:
    world = detached(superseding=False)
    publish(world, [-1], lifetime=0.0)  # the subscription does not accept it
    world.run(world.simulation.now + 2.0)
    crash(world, *crashed)
    for broker in ("b0", "b1", "b2"):
        assert late(world, broker, superseding=True) == []
    assert received(world) == NUMBERS
