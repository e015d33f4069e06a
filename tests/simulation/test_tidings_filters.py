"""A durable subscription takes another filter while a part of another broker's log is left to read."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.model.event import FOREVER
from tidings.protocol import inputs as ins
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

BEFORE, AFTER = 12, 24  # events with x up to here are published under the first filter, and the second one
NARROWER, WIDER = "x >= 0 AND x % 2 = 0", "x >= -5"


def left_behind(*, replay: bool = True) -> World:
    """b0 - b1. A durable subscription at b1 was left with events of b0's log that it did not take."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True))
    world.add_client("d", "b1")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "x >= 0", durable=True, replay=replay)
    world.run(2.0)
    leave(world)
    world.run(3.0)
    publish(world, range(1, BEFORE + 1))
    world.run(4.0)
    return world


def leave(world: World) -> None:
    world.simulation.input("d", ins.ClientLeave(world.next_call(), world.applications["d"].refs.pop("n")))


def publish(world: World, values: range) -> None:
    for x in values:
        world.publish("p", {"x": x})


def received(world: World) -> list[int]:
    return [int(id.rpartition("-")[2]) for _, id in world.received("d")]


def wanted(filter: str) -> list[int]:
    return [x for x in range(1, AFTER + 1) if filter == WIDER or x % 2 == 0]


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("filter", [NARROWER, WIDER])
@pytest.mark.parametrize("pause", [None, 0.0, 6.0])  # seconds from the restart of b1 to the return
def test_events_before_and_after_another_filter_are_delivered(
    pause: float | None, filter: str, replay: bool
) -> None:
    """After a restart of its broker the subscription had no right to events that were published while it
    read what was owed under the filter before; and when the other log was not found again yet, none to what
    was owed."""
    world = left_behind()
    if pause is not None:
        world.simulation.crash("b1")
        world.run(5.0)
        world.simulation.restart("b1")
        world.run(5.0 + pause)
    world.subscribe("d", "n", filter, durable=True, queue=1, window=1, replay=replay)
    world.run(world.simulation.now + 0.02)
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(60.0)
    assert received(world) == wanted(filter)


def test_events_that_came_under_a_filter_without_replay_are_owed_to_the_next_one() -> None:
    world = left_behind(replay=False)
    world.subscribe("d", "n", NARROWER, durable=True, queue=1, window=1, replay=False)
    world.run(5.0)
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(60.0)
    assert received(world) == wanted(NARROWER)


@pytest.mark.parametrize("replay", [True, False])
def test_a_log_that_is_found_after_another_filter_keeps_what_came_since(replay: bool) -> None:
    """A subscription without replay was taken for one that began never: it had no right to such events."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True))
    world.add_client("d", "b1")
    world.add_client("p", "b0")
    world.simulation.crash("b0")
    world.run(1.0)
    for filter in ("x >= 0", WIDER):
        world.subscribe("d", "n", filter, durable=True, replay=replay)
        world.run(world.simulation.now + 1.0)
        leave(world)
        world.run(world.simulation.now + 1.0)
    world.simulation.restart("b0", keep_disk=False)
    publish(world, range(1, 4))
    world.run(20.0)
    world.subscribe("d", "n", WIDER, durable=True, replay=replay)
    world.run(40.0)
    assert received(world) == [1, 2, 3]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_range_that_was_narrowed_twice_keeps_its_filters_over_a_restart(restarts: bool) -> None:
    """The row of a cursor had the first filter of a range alone: events that the second one had excluded were
    delivered after a restart."""
    world = left_behind()
    world.subscribe("d", "n", NARROWER, durable=True, queue=1, window=1, auto=False)
    world.run(4.5)
    leave(world)
    world.run(5.0)
    publish(world, range(BEFORE + 1, BEFORE + 7))
    world.run(6.0)
    world.subscribe("d", "n", WIDER, durable=True, queue=1, window=1, auto=False)
    world.run(6.5)
    leave(world)
    world.run(7.0)
    if restarts:
        world.simulation.crash("b1")
        world.run(7.5)
        world.simulation.restart("b1")
    world.run(12.0)
    publish(world, range(BEFORE + 7, AFTER + 1))
    world.subscribe("d", "n", WIDER, durable=True)
    world.run(60.0)
    assert received(world) == [*range(2, BEFORE + 7, 2), *range(BEFORE + 7, AFTER + 1)]


def test_a_third_filter_gives_nothing_of_what_came_under_the_first_and_only_the_second_accepts() -> None:
    """The range of the second filter reached back to the first event that was not settled."""
    world = left_behind()
    world.add_client("other", "b1")  # the origin keeps the events for it
    world.subscribe("other", "m", "x < 0", durable=True, auto=False)
    world.run(5.0)
    publish(world, range(-4, 0))
    world.run(6.0)
    for filter in (WIDER, "x >= -6"):
        world.subscribe("d", "n", filter, durable=True, queue=1, window=1, auto=False)
        world.run(world.simulation.now + 0.5)
        leave(world)
        world.run(world.simulation.now + 0.5)
    world.subscribe("d", "n", "x >= -6", durable=True)
    world.run(60.0)
    assert received(world) == [*range(1, BEFORE + 1)]


def available_to(filter: str, *, queue: int, home: str = "b1") -> World:
    """b0 - b1. Events of b0's log were available to a durable subscription at its home, which settled none of
    them before its client left."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True))
    world.add_client("d", home)
    world.add_client("p", "b0")
    world.run(1.0)
    for x in range(1, BEFORE + 1):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(2.0)
    world.subscribe("d", "n", filter, durable=True, queue=queue, window=1, auto=False)
    world.run(3.0)
    leave(world)
    world.run(4.0)
    return world


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("queue", [1, 100])  # a part of the log was read, or all of it
def test_available_events_of_another_log_are_owed_to_a_filter_without_replay(
    queue: int, restarts: bool
) -> None:
    """In the log of its own broker they were delivered; of other logs it began at their end."""
    world = available_to("x >= 0", queue=queue)
    world.subscribe("d", "n", NARROWER, durable=True, queue=1, window=1, replay=False, auto=False)
    world.run(5.0)
    leave(world)
    world.run(6.0)
    if restarts:
        world.simulation.crash("b1")
        world.run(7.0)
        world.simulation.restart("b1")
    world.run(12.0)
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(13.0)
    world.subscribe("d", "n", WIDER, durable=True, replay=False)
    world.run(60.0)
    assert received(world) == [*range(2, BEFORE + 1, 2), *range(BEFORE + 2, AFTER + 1, 2)]


def test_a_filter_without_replay_asks_for_no_available_event_that_only_it_accepts() -> None:
    world = available_to(NARROWER, queue=1)
    world.subscribe("d", "n", WIDER, durable=True, replay=False)
    world.run(12.0)
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(60.0)
    assert received(world) == [*range(2, BEFORE + 1, 2), *range(BEFORE + 1, AFTER + 1)]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("home", ["b0", "b1"])  # the log is its own, or another broker's
def test_a_return_with_the_same_filter_and_without_replay_gives_up_nothing(home: str, restarts: bool) -> None:
    """The events that were available when it took the filter are owed, as far as it has not read them."""
    world = available_to("x >= 0", queue=1, home=home)
    world.subscribe("d", "n", "x >= 0", durable=True, queue=1, window=1, replay=False, auto=False)
    world.run(5.0)
    if restarts:
        leave(world)
        world.run(6.0)
        world.simulation.crash(home)
        world.run(7.0)
        world.simulation.restart(home)
        world.run(12.0)
    else:
        leave(world)
    world.subscribe("d", "n", "x >= 0", durable=True, replay=False)
    world.run(13.0)
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(60.0)
    assert received(world) == [*range(1, AFTER + 1)]


def test_a_cursor_that_an_earlier_version_left_without_a_beginning_has_one_again() -> None:
    """Rows on disk from before say of a changed filter only what was owed under the one before."""
    world = left_behind()
    world.subscribe("d", "n", NARROWER, durable=True, queue=1, window=1, auto=False)
    world.run(5.0)
    delivery: Any = world.simulation.hosts["b1"].machine.slots["delivery"]  # type: ignore[attr-defined]
    (state,) = delivery._registry.durables.values()
    (cursor,) = state.others.values()
    assert cursor.rights
    cursor.start = None
    leave(world)
    world.run(6.0)
    world.simulation.crash("b1")
    publish(world, range(BEFORE + 1, AFTER + 1))
    world.run(7.0)
    world.simulation.restart("b1")
    world.run(20.0)
    world.subscribe("d", "n", NARROWER, durable=True)
    world.run(60.0)
    assert received(world) == wanted(NARROWER)
