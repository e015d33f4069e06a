"""Where the conformance suite runs: in this process, with one broker process, with a network of five.

A `House` gives buses. In the network a bus is split: it publishes at one end of a line of five brokers and
subscribes at the other, so that every event crosses every link. Before it publishes, it waits until every
broker on the way knows what is wanted.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import tidings

CHILD = Path(__file__).with_name("_house.py")
SOURCE = Path(tidings.__file__).parents[1]


class House(Protocol):
    """Where a suite runs."""

    moment: float  # seconds after which what has not come is taken as not coming

    def connect(self, name: str, **options: Any) -> Any:
        """A new bus for a client. Buses of one house share its broker when it is a server."""


class Embedded:
    moment = 0.01

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def connect(self, name: str, **options: Any) -> tidings.Bus:
        return tidings.connect(path=self._path, name=name, **options)


class Keeper:
    """A process that keeps brokers; it lives as long as the test session."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def ask(self, **what: Any) -> dict[str, Any]:
        self.tell(**what)
        return self.receive()

    def tell(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait(10)
            self._process.stdout.close()


_keepers: list[Keeper] = []


def keepers(count: int) -> list[Keeper]:
    while len(_keepers) < count:
        _keepers.append(Keeper())
    return _keepers[:count]


def close_keepers() -> None:
    while _keepers:
        _keepers.pop().close()


class OneBroker:
    """One broker process."""

    moment = 0.15

    def __init__(self, path: Path | None) -> None:
        (self._keeper,) = keepers(1)
        self._address = self._keeper.ask(start="b1", join=[], path=None if path is None else str(path))[
            "address"
        ]

    def connect(self, name: str, **options: Any) -> tidings.Bus:
        return tidings.connect(self._address, name=name, **options)

    def close(self) -> None:
        self._keeper.ask(stop=True)


class Split:
    """A bus that publishes at one broker and subscribes at another."""

    def __init__(self, near: tidings.Bus, far: tidings.Bus, settle: Callable[[], Any]) -> None:
        self._near = near
        self._far = far
        self._settle = settle

    async def __aenter__(self) -> Split:
        await self._far.open()
        await self._near.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._far.__aexit__(*error)
        await self._near.__aexit__(*error)

    async def open(self) -> Split:
        await self._near.open()
        return self

    async def publish(self, *what: Any, **options: Any) -> tidings.Receipt:
        if not self._near.is_closed and self._near.state != "new":
            await self._settle()
        return await self._near.publish(*what, **options)

    async def close(self) -> None:
        await self._far.close()
        await self._near.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._far, name)


class FiveBrokers:
    """A line of five broker processes."""

    moment = 0.3

    def __init__(self, path: Path | None) -> None:
        self._keepers = keepers(5)
        self._addresses: list[str] = []
        for number, keeper in enumerate(self._keepers):
            store = None if path is None else str(path / f"b{number}")
            joins = self._addresses[-1:]
            self._addresses.append(keeper.ask(start=f"b{number}", join=joins, path=store)["address"])
        until = time.monotonic() + 20
        while not all(len(links) == (1 if at in (0, 4) else 2) for at, links in enumerate(self._links())):
            assert time.monotonic() < until, "the five brokers did not link up"

    def _links(self) -> Iterator[list[str]]:
        for number, keeper in enumerate(self._keepers):
            yield keeper.ask(links=f"b{number}")["links"]

    def connect(self, name: str, **options: Any) -> Split:
        near = tidings.connect(self._addresses[0], name=name, **options)
        far = tidings.connect(self._addresses[-1], name=name, **options)
        return Split(near, far, self._settle)

    async def _settle(self) -> None:
        """Wait until each broker, from the subscriber's to the publisher's, has told what it wants."""
        for number in reversed(range(5)):
            async with asyncio.timeout(120):
                while not self._keepers[number].ask(agreed=f"b{number}")["agreed"]:
                    await asyncio.sleep(0)

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.tell(stop=True)
        for keeper in self._keepers:
            keeper.receive()


HOUSES: dict[str, Callable[[Path], House]] = {
    "embedded": lambda path: Embedded(None),
    "embedded with a store": lambda path: Embedded(path / "store"),
    "one broker": lambda path: OneBroker(None),
    "one broker with a store": lambda path: OneBroker(path / "store"),
    "five brokers with stores": FiveBrokers,
}
STABLE = sorted(name for name in HOUSES if "store" in name)  # what is kept there survives leaving the house
BLOCKING = sorted(name for name in HOUSES if "embedded" in name)  # a publisher may wait for a subscriber

_now: list[House] = []


@contextmanager
def entered(name: str, path: Path) -> Iterator[House]:
    house = HOUSES[name](path)
    _now[:] = [house]
    yield house
    if not isinstance(house, Embedded):
        house.close()  # type: ignore[attr-defined]


def moment() -> float:
    """Seconds after which what has not come in this house is taken as not coming."""
    return _now[0].moment


Play = Callable[[Any], Awaitable[None]]


def played(play: Play) -> Callable[[House], None]:
    """A test that awaits, on a bus of the house that it is played in."""

    def test(house: House) -> None:
        async def run() -> None:
            async with asyncio.timeout(120), house.connect("local") as bus:
                await play(bus)

        asyncio.run(run())

    test.__name__ = play.__name__  # type: ignore[attr-defined]
    test.__doc__ = play.__doc__
    return test


def numbers(events: list[tidings.Event]) -> list[Any]:
    return [event["n"] for event in events]
