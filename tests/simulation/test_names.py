"""A name is left and asked for again at once: the application does not wait for the broker's answer."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from tidings.history.check import check
from tidings.protocol.client import Client
from tidings.protocol.inputs import ClientCancel
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def two(**settings: float) -> World:
    world = World("tidings", line(2), settings=SimulationSettings(check=True, **settings))
    world.add_client("press", "b0")
    world.add_client("alice", "b1")
    world.run(1.0)
    return world


def heard(world: World) -> list[int]:
    return [notify.event.attributes["x"] for notify in world.applications["alice"].received]


def leave(world: World) -> None:
    """Leave it, or give up asking for it when there was no answer yet."""
    application = world.applications["alice"]
    for call in list(application.calls):
        del application.calls[call]
        world.simulation.input("alice", ClientCancel(call, None))
    world.unsubscribe("alice", "n")


def again(world: World, durable: bool, filter: str = "x > 0") -> None:
    leave(world)
    world.subscribe("alice", "n", filter, durable=durable)


@pytest.mark.parametrize("durable", [False, True])
def test_left_and_asked_for_again_at_once(durable: bool) -> None:
    world = two()
    world.subscribe("alice", "n", "x > 0", durable=durable)
    world.run(2.0)
    world.publish("press", {"x": 1})
    world.run(3.0)
    again(world, durable)
    world.run(4.0)
    world.publish("press", {"x": 2})
    world.run(6.0)
    assert heard(world) == [1, 2]
    assert not world.applications["alice"].failures


@pytest.mark.parametrize("durable", [False, True])
def test_the_link_breaks_before_the_leaving_is_answered(durable: bool) -> None:
    """The broker stands still when the application leaves; the next subscription is asked for while
    there is no link, and opened when the earlier one of its name has ended."""
    world = two()
    world.subscribe("alice", "n", "x > 0", durable=durable)
    world.run(2.0)
    world.simulation.crash("b1")
    again(world, durable, "x > 5")
    world.run(3.0)
    world.simulation.restart("b1")
    world.run(6.0)
    for x in (3, 7):
        world.publish("press", {"x": x})
    world.run(10.0)
    assert heard(world) == [7]
    assert not world.applications["alice"].failures
    subscriptions = [row.op for row in world.rows if row.op in ("sub", "usub")]
    assert subscriptions == ["sub", "usub", "sub"]


def test_one_that_waits_is_left_before_it_was_asked_for() -> None:
    world = two()
    world.subscribe("alice", "n", "x > 0", durable=True)
    world.run(2.0)
    again(world, True, "x > 1")
    again(world, True, "x > 2")
    again(world, True, "x > 3")
    world.run(4.0)
    for x in (2, 3, 4):
        world.publish("press", {"x": x})
    world.run(8.0)
    assert heard(world) == [4]
    report = check(world.rows, t_sub=1.0, t_diff=1.0)
    assert report.holds, report.story


def restless(seed: int) -> World:
    """One name, left and asked for at random moments, by an application that never waits, while its
    broker crashes and stands still."""
    rng = Random(seed)
    world = two(disk_seconds=0.05)
    for _ in range(25):
        at = rng.uniform(1.0, 12.0)
        world.simulation.call_at(at, partial(again, world, seed % 2 == 1, f"x > {rng.randrange(4)}"))
        world.simulation.call_at(rng.uniform(1.0, 12.0), lambda: leave(world))
    for number in range(60):
        at = 1.0 + number / 5
        world.simulation.call_at(at, partial(world.publish, "press", {"x": rng.randrange(6)}))
    for _ in range(4):
        at, seconds = rng.uniform(1.0, 11.0), rng.uniform(0.05, 1.5)
        end = world.simulation.restart if rng.random() < 0.5 else world.simulation.resume
        begin = world.simulation.crash if end == world.simulation.restart else world.simulation.stop
        for moment, act in ((at, begin), (at + seconds, end)):
            world.simulation.call_at(moment, partial(act, "b1"))
            world.simulation.call_at(moment, partial(world.simulation.notice, "b1"))
    world.simulation.call_at(20.0, lambda: leave(world))
    world.simulation.call_at(22.0, lambda: world.subscribe("alice", "last", "x > 0"))
    world.simulation.call_at(25.0, lambda: world.publish("press", {"x": 99}))
    world.run(40.0)
    return world


@pytest.mark.parametrize("seed", range(12))
def test_a_restless_application_is_answered_in_order(seed: int) -> None:
    world = restless(seed)
    application = world.applications["alice"]
    assert not [f for f in application.failures if "listener" in f.reason], application.failures
    assert heard(world)[-1] == 99
    assert not application.calls, "every subscribe was answered"
    report = check(world.rows, contract="SIENA")
    assert report.holds, report.story


@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_asking_before_the_leaving_is_answered_would_be_seen(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect that the seeds above look for: the broker's answer to the leaving comes after its
    answer to the next subscription of that name, and ends the wrong one."""
    monkeypatch.setattr(Client, "_is_being_left", lambda self, subscription: False)
    with pytest.raises(AssertionError, match="unsubscribed"):
        test_a_restless_application_is_answered_in_order(seed)
