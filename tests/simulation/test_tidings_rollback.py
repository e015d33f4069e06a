"""A lone broker whose disk is put back to an older copy of itself: what it acknowledges from then on is
delivered, once and in order, though its neighbours and clients know other events under the offsets that its
disk lacks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import inputs as ins
from tidings.protocol.effects import Warn
from tidings.protocol.limits import DEFAULT_LIMITS, ClientLimits, ResourceLimits
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World
from tidings.store.memory import MemoryStore

BEFORE, LOST, AFTER = 10, 30, 50


def world_of(
    brokers: int = 2, at: str = "b1", limits: ResourceLimits = DEFAULT_LIMITS, **settings: Any
) -> World:
    drawn = SimulationSettings(check=True, **settings)
    world = World("tidings", line(brokers), settings=drawn, limits=limits)
    world.run(1.0)
    world.add_client("p", "b0")
    world.add_client("s", at)
    world.run(2.0)
    world.subscribe("s", "mine", "EXISTS x", durable=True)
    world.run(4.0)
    return world


def publish(world: World, first: int, count: int, seconds: float = 2.0) -> None:
    for number in range(first, first + count):
        world.publish("p", {"x": number})
    world.run(world.simulation.now + seconds)


def down(world: World, name: str = "b0") -> None:
    world.simulation.crash(name)
    world.simulation.notice(name)
    world.run(world.simulation.now + 1.0)


def lose(world: World) -> None:
    """Some events, a copy of the disk, some more, and the disk is as the copy is; the broker is down."""
    publish(world, 0, BEFORE)
    disk: Any = world.simulation.hosts["b0"].disk
    copy = MemoryStore(deepcopy(disk.disk))
    publish(world, BEFORE, LOST)
    assert heard(world) == list(range(BEFORE + LOST))
    down(world)
    world.simulation.hosts["b0"].disk = copy


def heard(world: World) -> list[int]:
    return [notify.event["x"] for notify in world.applications["s"].received]


def figure(world: World, name: str) -> int:
    node: Any = world.simulation.hosts["b0"].machine
    return int(node.figures()[name])


@pytest.mark.parametrize("count", [5, AFTER])
@pytest.mark.parametrize(("brokers", "at"), [(2, "b0"), (2, "b1"), (3, "b2")])
def test_what_a_restored_disk_acknowledges_reaches_subscribers_near_and_far(
    brokers: int, at: str, count: int
) -> None:
    """Also when it is published before any neighbour has spoken."""
    world = world_of(brokers, at)
    lose(world)
    world.simulation.restart("b0")
    publish(world, 100, count, 20.0)
    assert len(world.applications["p"].receipts) == BEFORE + LOST + count
    assert heard(world) == [*range(BEFORE + LOST), *range(100, 100 + count)]
    assert (figure(world, "offsets skipped"), figure(world, "offsets repeated")) == (LOST, 0)


def test_a_neighbour_that_restarted_too_knows_how_far_its_subscriptions_are() -> None:
    world = world_of()
    lose(world)
    down(world, "b1")
    world.simulation.restart("b1")
    world.simulation.restart("b0")
    publish(world, 100, AFTER, 20.0)
    assert heard(world) == [*range(BEFORE + LOST), *range(100, 100 + AFTER)]


def test_events_on_their_way_to_the_disk_when_the_neighbour_speaks_get_other_offsets() -> None:
    """The disk is so slow that they are neither kept nor told by then."""
    world = world_of(disk_seconds=0.4)
    lose(world)
    world.simulation.restart("b0")
    publish(world, 100, AFTER, 40.0)
    assert heard(world) == [*range(BEFORE + LOST), *range(100, 100 + AFTER)]
    assert figure(world, "offsets repeated") == 0


def test_the_operator_is_warned_of_what_was_lost_with_the_disk() -> None:
    world = world_of()
    lose(world)
    stated: list[str] = []
    perform = world.simulation._perform

    def note(host: Any, effect: Any) -> None:
        if type(effect) is Warn:
            stated.append(effect.text)
        perform(host, effect)

    world.simulation._perform = note  # type: ignore[method-assign]
    world.simulation.restart("b0")
    world.run(world.simulation.now + 5.0)
    assert len(stated) == 1
    assert f"{LOST} entries longer" in stated[0]


def test_a_neighbour_that_is_away_delays_the_first_events_for_a_while_only() -> None:
    world = world_of()
    publish(world, 0, BEFORE)
    down(world, "b1")
    down(world)
    world.simulation.restart("b0")
    publish(world, 100, 5, 10.0)
    assert len(world.applications["p"].receipts) == BEFORE + 5
    world.simulation.restart("b1")
    world.run(world.simulation.now + 20.0)
    assert heard(world) == [*range(BEFORE), *range(100, 105)]
    assert (figure(world, "offsets skipped"), figure(world, "offsets repeated")) == (0, 0)


def test_events_that_were_told_before_a_neighbour_spoke_are_counted() -> None:
    """It was away for longer than events wait for its word: a disk alone cannot know that it went back."""
    world = world_of()
    lose(world)
    down(world, "b1")
    world.simulation.restart("b0")
    publish(world, 100, 5, 10.0)
    world.simulation.restart("b1")
    world.run(world.simulation.now + 20.0)
    publish(world, 200, AFTER, 20.0)
    assert figure(world, "offsets repeated") == 5
    assert heard(world)[-AFTER:] == list(range(200, 200 + AFTER))


def claim(world: World, upto: int) -> str:
    """Client m leaves its durable subscription and resumes it with a token at this entry; the refusal."""
    application = world.applications["m"]
    if "own" in application.refs:
        world._input("m", ins.ClientLeave(world.next_call(), application.refs.pop("own"), end=False))
        world.run(world.simulation.now + 1.0)
    call, options = world.next_call(), DeliveryOptions(durable=True, policy=Policy.DROP_NEWEST)
    application.calls[call] = "own"
    log = world.simulation.hosts["b0"].machine.log
    world._input(
        "m", ins.ClientSubscribe(call, parse_filter("EXISTS x"), "own", options, {log: upto}, 100, True)
    )
    world.run(world.simulation.now + 2.0)
    return next((failed.reason for failed in application.failures if failed.call == call), "")


def own_end(world: World) -> int:
    node: Any = world.simulation.hosts["b0"].machine
    end: int = node.slots["delivery"].position[1]
    return end


def test_a_token_ahead_of_the_log_moves_it_only_where_a_disk_may_have_been_put_back() -> None:
    """Each subscribe with a forged token moved the log by up to 2^32 offsets. A restored log begins at the
    clock in microseconds, so the bound is counted from there."""
    world = world_of(limits=ResourceLimits(client=ClientLimits(ahead=100)))
    world.add_client("m", "b0")
    world.run(world.simulation.now + 1.0)
    assert claim(world, 0) == ""
    publish(world, 0, BEFORE)
    assert "which has 10; subscribe without a token" in claim(world, 50)
    assert claim(world, BEFORE) == ""
    assert (own_end(world), figure(world, "offsets skipped")) == (BEFORE, 0)

    down(world)
    most = int(world.simulation.now * 1e6) + 100
    world.simulation.restart("b0")
    world.run(world.simulation.now + 5.0)
    assert claim(world, most - 40) == ""
    assert f"which has {most - 40}" in claim(world, most + 1)
    assert claim(world, most) == ""
    assert f"which has {most}" in claim(world, most + 40)
    assert own_end(world) == most
    publish(world, 100, AFTER, 20.0)
    assert heard(world) == [*range(BEFORE), *range(100, 100 + AFTER)]
