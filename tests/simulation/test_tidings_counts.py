"""Events that a bound or a policy drops are counted once each, whatever restarts meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.test_tidings_scenes import holding_pages, three

from tidings.model.subscription import Policy
from tidings.protocol import effects as fx
from tidings.protocol.inputs import ClientLeave
from tidings.protocol.limits import ResourceLimits
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

EVENTS = 30


class Counters:
    """Counts of a subscription, as its broker told them."""

    def __init__(self, world: World) -> None:
        self.told: list[dict[str, int]] = [{}]
        self._pass_on: Any = world.simulation.on_client_effect
        world.simulation.on_client_effect = self._see

    def _see(self, client: str, effect: Any) -> None:
        if type(effect) is fx.Counted:
            self.told.append(dict(effect.lost))
        self._pass_on(client, effect)

    @property
    def lost(self) -> int:
        totals = [sum(each.values()) for each in self.told]
        assert totals == sorted(totals), "no count goes back"
        return totals[-1]


def leave(world: World) -> None:
    world.simulation.input("d", ClientLeave(world.next_call(), world.applications["d"].refs.pop("n")))


@pytest.mark.parametrize("bound", [{"keep_events": 4}, {"keep_seconds": 2.0}], ids=["count", "age"])
@pytest.mark.parametrize("lifetime", [0.0, 600.0])
@pytest.mark.parametrize("crash", [None, 3.03, 3.06, 3.1, 3.16, 3.2, 3.3, 6.0])
@pytest.mark.parametrize("listens", [False, True])
def test_what_a_bound_drops_is_counted(
    crash: float | None, bound: dict[str, Any], lifetime: float, listens: bool
) -> None:
    """After a restart entries were passed over unread, and counted as one or as none; counts from before it
    were forgotten."""
    world = World("tidings", line(1), settings=SimulationSettings(check=True))
    counters = Counters(world)
    world.add_client("d", "b0")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "x > 0", durable=True, auto=False, window=1, queue=8, **bound)
    world.run(2.0)
    if not listens:
        leave(world)
    world.run(3.0)
    for x in range(1, EVENTS + 1):
        world.publish("p", {"x": x}, lifetime=lifetime)
        world.run(3.0 + x * 0.01)
        if crash is not None and crash < 3.3 and abs(world.simulation.now - crash) < 0.005:
            world.simulation.crash("b0")
            world.run(world.simulation.now + 0.002)
            world.simulation.restart("b0")
    if crash is not None and crash >= 3.3:
        world.run(crash)
        world.simulation.crash("b0")
        world.run(crash + 0.5)
        world.simulation.restart("b0")
    world.run(20.0)
    if listens:
        leave(world)
        world.run(21.0)
    world.subscribe("d", "n", "x > 0", durable=True, **bound)
    world.run(40.0)
    received = {id for _, id in world.received("d")}
    most = 4 if "keep_events" in bound else 0
    assert most <= len(received) <= most + listens, "one is with the listener"
    assert counters.lost == EVENTS - len(received)
    delivery: Any = dict(world.nodes())["b0"].slots["delivery"]
    assert crash is not None or delivery.figures()["lost"] == counters.lost


def test_a_listener_that_returns_before_the_log_was_counted_gets_nothing_too_old() -> None:
    settings = SimulationSettings(check=True, disk_seconds=0.1)
    world = World("tidings", line(1), settings=settings, limits=ResourceLimits(page_count=2))
    counters = Counters(world)
    world.add_client("d", "b0")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "x > 0", durable=True, keep_seconds=2.0)
    world.run(2.0)
    leave(world)
    world.run(3.0)
    for x in range(1, EVENTS + 1):
        world.publish("p", {"x": x})
    world.run(3.5)
    world.simulation.crash("b0")
    world.subscribe("d", "n", "x > 0", durable=True, keep_seconds=2.0)
    world.run(9.0)
    world.simulation.restart("b0")
    world.run(20.0)
    assert not world.received("d")
    assert counters.lost == EVENTS


@pytest.mark.parametrize("policy", [Policy.DROP_OLDEST, Policy.DROP_NEWEST])
def test_no_page_brings_an_event_that_counts_as_dropped_beside_a_replay(policy: Policy) -> None:
    """A later page of the replay held what had been dropped while an earlier one was on its way."""
    world = three()
    world.run(1.0)
    for x in range(1, 601):
        world.publish("p", {"x": x}, lifetime=600.0)
    world.run(2.0)
    let_go = holding_pages(world)
    world.subscribe("s", "n", "x > 0", queue=100, policy=policy)
    world.run(3.0)
    for x in range(601, 1201):
        world.publish("p", {"x": x}, lifetime=600.0)
    world.run(3.5)
    let_go()
    world.run(20.0)
    dropped = {row.event for row in world.rows if row.op == "drop" and row.reason == policy}
    received = {id for _, id in world.received("s")}
    assert dropped
    assert not dropped & received
    assert len(dropped) + len(received) == 1200
