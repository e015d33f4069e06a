"""Brokers that join while others run: remembered before they are used, refused when they close a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.protocol.effects import CloseLink, OpenLink
from tidings.protocol.inputs import Joined, Parted
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line
from tidings.simulation.world import World
from tidings.store.memory import MemoryStore
from tidings.systems import Site


class Growing:
    """b0 - b1, and b9 that may join; p publishes at b0, s subscribes at b9."""

    def __init__(self, topology: OverlayGraph | None = None) -> None:
        self.world = World("tidings", topology or line(2), seed=1, settings=SimulationSettings(check=True))
        simulation = self.simulation = self.world.simulation
        simulation.add("b9", self.world._builder(Site(name="b9", brokers=("b9",))), disk=MemoryStore())
        self.world.add_client("p", "b0")
        self.world.add_client("s", "b9")
        self._opens = simulation._open
        self._agreed: set[tuple[str, str]] = set()
        self.refused: list[tuple[str, str]] = []
        simulation._open = self._both  # type: ignore[method-assign]
        perform = simulation._perform

        def noting(host: Any, effect: Any) -> None:
            if type(effect) is CloseLink:
                self.refused.append((host.name, effect.reason))
            perform(host, effect)

        simulation._perform = noting  # type: ignore[method-assign]

    def _both(self, a: str, b: str) -> None:
        """A link is there when both ends have said that it may be used, as the drivers do it."""
        self._agreed.add((a, b))
        if (b, a) in self._agreed:
            self._opens(a, b)

    def join(self, a: str, b: str) -> None:
        """b dials a."""
        self.simulation.input(a, Joined(b))
        self.simulation.input(b, Joined(a, is_dialled=True))

    def received(self) -> list[int]:
        return [int(id.rpartition("-")[2]) for _, id in self.world.received("s")]


def test_a_newcomer_hears_what_comes_after_it_joined() -> None:
    scene = Growing()
    scene.world.subscribe("s", "n", "x > 0", durable=True)
    scene.world.run(1.0)
    scene.world.publish("p", {"x": 1})
    scene.world.run(2.0)
    scene.join("b1", "b9")
    scene.world.run(5.0)
    scene.world.publish("p", {"x": 2})
    scene.world.run(10.0)
    assert scene.received() == [2]


def test_a_newcomer_hears_what_is_available() -> None:
    scene = Growing()
    scene.world.publish("p", {"x": 1}, lifetime=100.0)
    scene.world.subscribe("s", "n", "x > 0")
    scene.world.run(2.0)
    scene.join("b1", "b9")
    scene.world.run(10.0)
    assert scene.received() == [1]


def test_a_neighbour_is_remembered_by_a_broker_that_restarts_while_it_is_away() -> None:
    """Else nothing would be kept for it, and what is published now would never reach it."""
    scene = Growing()
    scene.world.subscribe("s", "n", "x > 0", durable=True)
    scene.join("b1", "b9")
    scene.world.run(3.0)
    scene.simulation.crash("b9")
    scene.world.run(4.0)
    scene.simulation.crash("b1")
    scene.world.run(5.0)
    scene.simulation.restart("b1")
    scene.world.run(6.0)
    scene.world.publish("p", {"x": 1})
    scene.world.run(20.0)
    scene.simulation.restart("b9")
    scene.world.run(40.0)
    assert scene.received() == [1]


def test_who_is_reached_already_may_not_join_again() -> None:
    scene = Growing()
    scene.join("b1", "b9")
    scene.world.run(3.0)
    scene.join("b0", "b9")
    scene.world.run(4.0)
    assert {name for name, _ in scene.refused} == {"b0", "b9"}
    assert all("no cycle" in reason for _, reason in scene.refused)


def test_a_broker_may_not_join_itself() -> None:
    scene = Growing()
    scene.simulation.input("b1", Joined("b1"))
    scene.world.run(1.0)
    assert "our own name" in scene.refused[0][1]


@pytest.mark.parametrize("is_up", [True, False])
def test_a_neighbour_that_was_parted_is_kept_nothing_for(is_up: bool) -> None:
    scene = Growing()
    scene.world.subscribe("s", "n", "x > 0", durable=True)
    scene.join("b1", "b9")
    scene.world.run(3.0)
    if not is_up:
        scene.simulation.crash("b9")
    scene.world.run(4.0)
    scene.world.publish("p", {"x": 1})
    scene.world.run(8.0)
    node = scene.simulation.hosts["b0"].machine
    assert len(node.slots["delivery"]._index.entries) == (0 if is_up else 1)
    scene.simulation.input("b1", Parted("b9"))
    scene.world.run(20.0)
    scene.world.publish("p", {"x": 2})
    scene.world.run(40.0)
    assert not node.slots["delivery"]._index.entries
    assert scene.received() == ([1] if is_up else [])


def test_joining_again_is_answered_at_once() -> None:
    scene = Growing()
    scene.join("b1", "b9")
    scene.world.run(3.0)
    node = scene.simulation.hosts["b1"].machine
    assert node.handle(Joined("b9"), 3.0) == [OpenLink("b9")]


@pytest.mark.parametrize("durable", [True, False])
def test_what_passes_while_a_subscription_reads_is_heard(durable: bool) -> None:
    """At the log an event that came while the request was on its way seems older than the subscription,
    and the log may have forgotten it. Another subscription wants the same, so it passes in any case."""
    for moment in range(30):
        world = World("tidings", line(5), seed=1, settings=SimulationSettings(check=True))
        for client, broker in {"p": "b0", "s": "b4", "t": "b4"}.items():
            world.add_client(client, broker)
        world.subscribe("t", "n", "x > 0")
        world.run(2.0)
        world.subscribe("s", "n", "x > 0", durable=durable)
        world.run(2.002 + moment * 0.005)
        for x in (1, 2, 3):
            world.publish("p", {"x": x})
        world.run(8.0)
        assert [int(id.rpartition("-")[2]) for _, id in world.received("s")] == [1, 2, 3], moment
