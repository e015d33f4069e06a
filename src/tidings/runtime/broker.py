"""The broker beside a bus: started by the first client that joins, stopped when the last one parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Protocol

from tidings.errors import ClosedError
from tidings.history.recorder import FileRecorder, Recorder
from tidings.protocol.client import Client
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import Input, Started
from tidings.runtime.clock import Clock, RealClock
from tidings.runtime.embedded import Embedded, Hear
from tidings.store.memory import MemoryStore
from tidings.store.store import Store

NAME = "embedded"  # of the broker and of its log


class Broker(Protocol):
    """What a bus needs of a broker, wherever it is."""

    async def join(self, client: str, hear: Hear) -> str:
        """Connect a client; the address under which it is known."""

    async def part(self, address: str) -> None:
        """The client is done."""

    def hand(self, address: str, input: Input) -> None:
        """Hand an input to a client."""

    def figures(self) -> dict[str, Any]:
        """Counters for people."""


class EmbeddedBroker:
    """A broker in this process, with its log in memory or in the directory `path`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        record: Recorder | Path | str | None,
        seed: int | None,
        clock: Clock | None,
        settings: DeliverySettings,
    ) -> None:
        self._path = path
        self._record = record
        self._rng = Random(SystemRandom().getrandbits(64) if seed is None else seed)
        self._clock = clock or RealClock()
        self._settings = settings
        self._driver: Embedded | None = None
        self._recorder: Recorder | None = None
        self._starting = asyncio.Lock()
        self._joined = 0
        self._has_stopped = False
        self._names = 0

    async def join(self, client: str, hear: Hear) -> str:
        async with self._starting:
            if self._has_stopped:
                raise ClosedError("the broker has stopped", hint="call tidings.connect again")
            if self._driver is None:
                await self._start()
            self._joined += 1
        driver = self._running()
        self._names += 1
        address = f"{client}#{self._names}"
        machine = Client(client, driver.node.name, rng=self._rng, recording=self._recorder is not None)
        driver.attach(address, machine, hear)
        return address

    async def part(self, address: str) -> None:
        driver = self._running()
        driver.detach(address)
        self._joined -= 1
        if not self._joined:
            self._driver = None
            self._has_stopped = True
            await driver.close()
            if self._recorder is not None:
                self._recorder.close()

    def hand(self, address: str, input: Input) -> None:
        self._running().hand(address, input)

    def figures(self) -> dict[str, Any]:
        return self._running().node.figures()

    def _running(self) -> Embedded:
        if self._driver is None:
            raise ClosedError("the broker has stopped")
        return self._driver

    async def _start(self) -> None:
        store = await _opened(self._path)
        state = await asyncio.to_thread(store.load)
        self._recorder = _recorder(self._record)
        node = intermediary(
            NAME,
            rng=self._rng,
            stable=self._path is not None,
            recording=self._recorder is not None,
            settings=self._settings,
        )
        record: Callable[[Any], None] = self._recorder.record if self._recorder is not None else _nothing
        self._driver = Embedded(node, store, self._clock, threaded=self._path is not None, record=record)
        self._driver.start(Started(state))


async def _opened(path: str | os.PathLike[str] | None) -> Store:
    if path is None:
        return MemoryStore()
    from tidings.store.rocks import RocksStore

    return await asyncio.to_thread(RocksStore, path)


def _recorder(record: Recorder | Path | str | None) -> Recorder | None:
    return FileRecorder(record) if isinstance(record, str | Path) else record


def _nothing(row: Any) -> None:
    """Nobody records."""
