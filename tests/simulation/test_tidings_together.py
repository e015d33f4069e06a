"""Bursts in a network: messages that arrive together at a broker, of which other brokers want some."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.protocol.messages import DeliverAll
from tidings.protocol.routing.duplicates import ForwardAll
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

FILTERS = ("x < 2", "x >= 2", "y = 1", "TRUE", "x = 9")


def heard(seed: int, *, together: bool) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """What each subscriber hears of bursts that are published at b0, and how many messages told several."""
    rng = Random(seed)
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True, together=together))
    delivered = 0

    def count(name: str, item: Any, now: float) -> None:
        nonlocal delivered
        delivered += sum(type(message) is DeliverAll for message in getattr(item, "messages", ()))
        delivered += type(getattr(item, "message", None)) is DeliverAll

    world.add_client("p", "b0")
    for number in range(4):
        world.add_client(f"s{number}", "b0" if number < 2 else f"b{rng.randrange(3)}")
        world.subscribe(f"s{number}", "n", rng.choice(FILTERS), durable=rng.random() < 0.3)
    world.run(3.0)
    world.simulation.on_handled = count
    for burst in range(4):
        for _ in range(rng.randint(1, 30)):
            lifetime = 60.0 if rng.random() < 0.05 else 0.0
            world.publish("p", {"x": rng.randrange(4), "y": rng.randrange(3)}, lifetime=lifetime)
        world.run(4.0 + burst + rng.random())
    world.run(30.0)
    return {f"s{number}": world.received(f"s{number}") for number in range(4)}, delivered


@pytest.mark.parametrize("seed", range(8))
def test_a_burst_is_heard_as_if_each_had_come_alone(seed: int) -> None:
    assert heard(seed, together=True)[0] == heard(seed, together=False)[0]


def test_a_burst_goes_over_links_and_to_far_subscribers_in_few_messages() -> None:
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True, together=True))
    seen: dict[tuple[str, str], int] = {}

    def count(name: str, item: Any, now: float) -> None:
        for message in getattr(item, "messages", [getattr(item, "message", None)]):
            events = getattr(message, "events", None) or getattr(message, "envelopes", None)
            if type(message) in (DeliverAll, ForwardAll) and len(events or ()) == 20:
                seen[name, type(message).__name__] = seen.get((name, type(message).__name__), 0) + 1

    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.subscribe("s", "n", "TRUE")
    world.run(3.0)
    world.publish("p", {"x": 0})
    world.run(4.0)
    world.simulation.on_handled = count
    for number in range(20):
        world.publish("p", {"x": number})
    world.run(10.0)
    assert len(world.received("s")) == 21
    assert seen == {("b1", "ForwardAll"): 1, ("b2", "ForwardAll"): 1, ("s", "DeliverAll"): 1}


def test_bursts_are_told_together() -> None:
    assert sum(heard(seed, together=True)[1] for seed in range(8)) > 0
    assert heard(1, together=False)[1] == 0
