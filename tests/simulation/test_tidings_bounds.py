"""Tidings keeps no more than it must, and asks no more often."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.simulation.test_tidings_scenes import detach, entries, sequences, three

from tidings.model.event import FOREVER
from tidings.protocol.inputs import ClientLeave
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line, random_tree
from tidings.simulation.world import World


@pytest.mark.parametrize("bound", [{"keep_events": 8}, {"keep_seconds": 3.0}], ids=["count", "age"])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_bounds_of_a_subscription_act_on_the_log_of_another_broker(
    bound: dict[str, Any], restarts: bool
) -> None:
    """Its client is away; the log of origin keeps what it may still hear, and no more."""
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True, queue=3, **bound)
    world.run(2.0)
    detach(world, "s", "n")
    world.run(3.0)
    for x in range(1, 31):
        world.publish("p", {"x": x})
    world.run(5.0)
    if restarts:
        world.simulation.crash("b2")
        world.run(5.5)
        world.simulation.restart("b2")
    world.run(12.0)
    for x in range(31, 41):
        world.publish("p", {"x": x})
    world.run(13.5)
    assert entries(world)["b0"] <= 10
    world.subscribe("s", "n", "x > 0", durable=True, queue=3, **bound)
    world.run(30.0)
    received = sequences(world, "s")
    assert received == list(range(33 if "keep_events" in bound else 31, 41))
    lost = {row.event for row in world.rows if row.op == "drop"}
    assert restarts or len(lost) == 40 - len(received)
    assert entries(world) == {"b0": 0, "b1": 0, "b2": 0}


def test_a_new_subscription_asks_the_logs_that_lie_the_same_way_together() -> None:
    world = World("tidings", random_tree(40, Random(3), fan_out=4), seed=1)
    for number, broker in enumerate(world.overlay.brokers):
        world.add_client(f"c{number}", broker)
        world.publish(f"c{number}", {"x": number}, lifetime=FOREVER)
    world.run(8.0)
    before = world.simulation.sent["ReplayAsk"] + world.simulation.sent["ReplayAsks"]
    world.subscribe("c7", "n", "x >= 0")
    world.run(16.0)
    requested = world.simulation.sent["ReplayAsk"] + world.simulation.sent["ReplayAsks"] - before
    assert len(world.applications["c7"].received) == 40
    assert requested <= 2 * len(world.overlay.links), "not one for each log and each link of its path"


@pytest.mark.parametrize("publisher", ["b1", "b0"], ids=["own-log", "other-log"])
@pytest.mark.parametrize("queue", [2, 100], ids=["spills", "fits"])
@pytest.mark.parametrize("settles", [0.0, 0.02, 1.0])
def test_a_bound_on_count_holds_across_a_restart_and_the_newest_are_kept(
    publisher: str, queue: int, settles: float
) -> None:
    """What was handed to it in an earlier life counts, and is older than what comes now."""
    for later in (0, 1, 2, 5):
        world = World("tidings", line(2), seed=1, settings=SimulationSettings(check=True))
        world.add_client("p", publisher)
        world.add_client("s", "b1")
        world.subscribe("s", "n", "x > 0", durable=True, keep_events=3, queue=queue)
        world.run(3.0)
        ref = world.applications["s"].refs.pop("n")
        world._input("s", ClientLeave(world.next_call(), ref))
        world.run(4.0)
        for x in range(1, 11):
            world.publish("p", {"x": x})
            world.run(4.0 + x * 0.01)
        world.run(4.2 + settles)
        world.simulation.crash("b1")
        world.run(6.0 + settles)
        world.simulation.restart("b1")
        world.run(8.0 + settles)
        for x in range(11, 11 + later):
            world.publish("p", {"x": x})
        world.run(12.0 + settles)
        world.subscribe("s", "n", "x > 0", durable=True, keep_events=3, queue=queue)
        world.run(40.0)
        received = [notify.event.attributes["x"] for notify in world.applications["s"].received]
        assert received[-3:] == [8 + later, 9 + later, 10 + later]
        assert received == sorted(set(received))
        assert len(received) <= 6, "what nobody counted is bounded by what it was before"
