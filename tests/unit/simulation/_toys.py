"""Toy machines: they do what a test tells them, and remember what reached them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.availability.records import Append
from tidings.model.event import make_event
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol.messages import Message
from tidings.simulation.simulator import Simulation, SimulationSettings
from tidings.store.memory import MemoryStore


class Ping(Message, frozen=True):
    number: int
    text: str = ""


class Do:
    """An input: emit these effects."""

    def __init__(self, *effects: Any) -> None:
        self.effects = effects


class Toy:
    """Logs (now, input); answers by `react`."""

    def __init__(self, log: list[tuple[float, Any]], react: Callable[[Any], list[Any]] | None = None) -> None:
        self.log = log
        self.react = react
        self.deadline: float | None = None
        self.checked = 0

    def handle(self, input: Any, now: float) -> list[Any]:
        self.log.append((now, input))
        if isinstance(input, ins.TimerFired):
            self.deadline = None
        if isinstance(input, Do):
            return list(input.effects)
        return [] if self.react is None else self.react(input)

    def next_deadline(self) -> float | None:
        return self.deadline

    def check(self) -> None:
        self.checked += 1


class Stage:
    """Toys a and b (and more) with links between those that are named."""

    def __init__(self, names: str = "ab", links: tuple[str, ...] = ("ab",), seed: int = 1, **settings: Any):
        self.simulation = Simulation(seed, SimulationSettings(**settings))
        self.logs: dict[str, list[tuple[float, Any]]] = {name: [] for name in names}
        for name in names:
            self.simulation.add(name, lambda name=name: Toy(self.logs[name]), disk=MemoryStore())
        for a, b in links:
            self.simulation.connect(a, b)
        self.simulation.run(0.0)

    def toy(self, name: str) -> Toy:
        toy = self.simulation.hosts[name].machine
        assert isinstance(toy, Toy)
        return toy

    def do(self, name: str, *effects: Any, at: float | None = None) -> None:
        self.simulation.input(name, Do(*effects), at)

    def send(self, a: str, b: str, *numbers: int, at: float | None = None) -> None:
        self.do(a, *(fx.Send(b, Ping(number)) for number in numbers), at=at)

    def run(self, until: float) -> None:
        self.simulation.run(until)

    def got(self, name: str) -> list[int]:
        """The numbers that arrived, in order."""
        return [number for _, number in self.arrivals(name)]

    def arrivals(self, name: str) -> list[tuple[float, int]]:
        return [(at, i.message.number) for at, i in self.logs[name] if isinstance(i, ins.Received)]

    def kinds(self, name: str) -> list[str]:
        return [type(i).__name__ for _, i in self.logs[name]]


def record(offset: int) -> Append:
    return Append(offset, make_event({"x": offset}, source="s", id=str(offset)), 0.0, offset, None)
