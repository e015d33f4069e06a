"""Tidings with wrong clocks: no decision depends on the clocks of two machines, or of two lives of one
machine."""

from __future__ import annotations

import pytest

from tidings.history.check import check
from tidings.model.event import FOREVER
from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

HOUR = 3600.0


def three(seed: int = 1) -> World:
    """b0 - b1 - b2; p publishes at b0, s subscribes at b2."""
    world = World("tidings", line(3), seed=seed, settings=SimulationSettings(check=True))
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    return world


def restart(world: World, broker: str, at: float, *, by: float, keep_disk: bool) -> None:
    """Begin another life of a broker whose machine's clock was set by so many seconds meanwhile."""
    world.simulation.crash(broker)
    world.run(at)
    world.simulation.hosts[broker].clock.set_wall(by)
    world.simulation.restart(broker, keep_disk=keep_disk)


def sequences(world: World, client: str) -> list[int]:
    return [int(id.rpartition("-")[2]) for _, id in world.received(client)]


def logs_of(world: World, broker: str, seen_at: str) -> list[str]:
    recovery = world.simulation.hosts[seen_at].machine.slots["recovery"]  # type: ignore[attr-defined]
    assert isinstance(recovery, AcknowledgedRecovery)
    return [log for log in recovery.logs() if log.startswith(f"{broker}#")]


@pytest.mark.parametrize("by", [-HOUR, 0.0, HOUR])
@pytest.mark.parametrize("durable", [False, True])
def test_events_of_a_broker_that_lost_its_disk_arrive_whatever_its_clock_says(
    by: float, durable: bool
) -> None:
    world = three()
    world.simulation.hosts["b0"].clock.jump(HOUR)
    world.subscribe("s", "n", "x > 0", durable=durable)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(3.0)
    restart(world, "b0", 4.0, by=by, keep_disk=False)
    world.run(6.0)
    for x in range(2, 47):
        world.publish("p", {"x": x})
        world.run(world.simulation.now + 0.1)
    world.run(40.0)
    assert sequences(world, "s") == list(range(1, 47))
    assert len(logs_of(world, "b0", "b1")) == len(logs_of(world, "b0", "b2")) == 1


@pytest.mark.parametrize("seed", range(6))
def test_each_of_many_lives_on_empty_disks_is_heard(seed: int) -> None:
    """The clock goes to and fro between the lives; names that were drawn fall in any order too."""
    world = three(seed)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    for life in range(1, 7):
        world.publish("p", {"x": life})
        world.run(12.0 * life)
        restart(world, "b0", 12.0 * life + 1.0, by=(-1) ** life * HOUR * life, keep_disk=False)
        world.run(12.0 * life + 4.0)
    world.run(100.0)
    assert sequences(world, "s") == [1, 2, 3, 4, 5, 6]
    report = check(world.rows, t_sub=1.0, t_diff=10.0)
    assert report.holds, report.story


def test_a_log_that_comes_back_with_its_disk_is_heard_again() -> None:
    """The first disk is put back: its log is not the last that began, and it is the present one."""
    world = three()
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.run(5.0)
    first = world.simulation.hosts["b0"].disk
    assert first is not None
    restart(world, "b0", 6.0, by=0.0, keep_disk=False)
    world.run(10.0)
    world.publish("p", {"x": 2}, lifetime=FOREVER)
    world.run(20.0)
    world.simulation.crash("b0")
    world.simulation.hosts["b0"].disk = first
    world.run(21.0)
    world.simulation.restart("b0")
    world.run(25.0)
    world.publish("p", {"x": 3}, lifetime=FOREVER)
    world.run(40.0)
    assert sequences(world, "s") == [1, 2, 3]


def test_a_lifetime_ends_though_the_clock_was_set_back_between_two_lives() -> None:
    world = three()
    world.run(1.0)
    world.publish("p", {"x": 1}, lifetime=5.0)
    world.publish("p", {"x": 2}, lifetime=FOREVER)
    world.run(2.0)
    restart(world, "b0", 3.0, by=-HOUR, keep_disk=True)
    world.run(20.0)
    world.subscribe("s", "n", "x > 0")
    world.run(40.0)
    assert sequences(world, "s") == [2]


def test_a_durable_subscription_is_owed_what_came_after_it_though_its_broker_went_back_in_time() -> None:
    """Events of another log that were accepted before and after the clock of the subscriber's broker was set
    back."""
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(3.0)
    world.simulation.crash("b2")
    world.publish("p", {"x": 2})
    world.run(4.0)
    world.simulation.hosts["b2"].clock.set_wall(-HOUR)
    world.simulation.restart("b2")
    world.run(5.0)
    world.publish("p", {"x": 3})
    world.run(30.0)
    assert sequences(world, "s") == [1, 2, 3]


def test_a_publisher_that_moved_from_a_lost_log_is_not_held_back() -> None:
    """It names a place in a log that is gone; the subscriber's broker learns from the log's broker that it
    is."""
    world = three()
    world.simulation.hosts["b0"].clock.jump(HOUR)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(5.0)
    restart(world, "b0", 6.0, by=-HOUR, keep_disk=False)
    world.simulation._close("p", "b0")
    world.run(10.0)
    world.simulation.connect("p", "b1")
    world.simulation._open("p", "b1")
    world.run(12.0)
    world.publish("p", {"x": 2})
    world.run(20.0)
    assert sequences(world, "s") == [1, 2]
