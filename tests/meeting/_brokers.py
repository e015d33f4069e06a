"""Brokers for these tests: real ones on sockets, on a loop in a thread, that can be stopped and come back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import tidings
from tidings.pipeline.broker.lines import close_lines
from tidings.runtime.blocking import BlockingBus
from tidings.runtime.server import Server
from tidings.store.rocks import RocksStore

T = TypeVar("T")


class Brokers:
    """`with Brokers(folder, 2) as brokers: brokers.bus(0, "ann")`"""

    def __init__(self, folder: Path, count: int = 1, **options: Any) -> None:
        self._folder, self._count, self._options = folder, count, options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.servers: list[Server] = []
        self.addresses: list[str] = []
        self._buses: list[BlockingBus] = []

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def __enter__(self) -> Brokers:
        self._thread.start()
        for number in range(self._count):
            self.start(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        close_lines()
        for bus in self._buses:
            bus.close()
        for number, server in enumerate(self.servers):
            if server is not None:
                self.stop(number)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, number: int, *, folder: str | None = None) -> str:
        """Begin, or come back at the same place."""
        listen = self.addresses[number].partition("://")[2] if number < len(self.addresses) else "127.0.0.1:0"

        async def begin() -> Server:
            server = Server(
                f"b{number + 1}",
                listen=listen,
                join=[self.addresses[0]] if number else [],
                path=self._folder / (folder or f"b{number + 1}"),
                **self._options,
            )
            await server.start()
            return server

        server = self.call(begin())
        if number < len(self.addresses):
            self.servers[number] = server
        else:
            self.servers.append(server)
            self.addresses.append(server.address)
        return server.address

    def stop(self, number: int) -> None:
        server, self.servers[number] = self.servers[number], None  # type: ignore[call-overload]

        async def end() -> None:
            server.stop_soon()
            await server.drain(5)

        self.call(end())

    def bus(self, number: int, name: str, **options: Any) -> BlockingBus:
        bus = tidings.open(self.addresses[number], name=name, **options)
        self._buses.append(bus)
        return bus

    @property
    def all(self) -> str:
        return ",".join(self.addresses)


def leave_hole(brokers: Brokers, folder: Path, number: int = 0) -> None:
    """Stop a broker, leave so many offsets out of its log as a restore does, and let it come back."""
    brokers.stop(number)
    with closing(RocksStore(folder / f"b{number + 1}")) as store:
        store.skip(1 << 50)
    brokers.start(number)
