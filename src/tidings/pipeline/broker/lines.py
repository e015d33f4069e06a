"""Connections of a process to brokers, for code that does not await: one to a broker, used by all.

Rules
- A call that the broker does not answer within the time-out fails, and says which broker: a job on a
  cluster must not wait for ever without a word. Until then a broken connection comes back by itself.
- A process has one connection to a broker for each identity; they close with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import tidings
from tidings.errors import TidingsError, UnreachableError
from tidings.pipeline.broker.options import BrokerTarget, environment
from tidings.runtime.bus import Bus
from tidings.runtime.environment import credentials, tls_context

T = TypeVar("T")
Ask = Callable[[Bus], Coroutine[Any, Any, T]]
LEAVING = 5.0  # seconds to say goodbye
PAUSE = 0.05  # before what a broken connection swallowed is asked again

_lines: dict[BrokerTarget, BrokerConnection] = {}
_owner = 0  # the process that they belong to: a fork must not use its parent's
_opening = threading.Lock()


class BrokerConnection:
    """One connection, on an event loop in a thread of its own."""

    def __init__(self, where: BrokerTarget) -> None:
        self.where = where
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidings-line", daemon=True)
        self._thread.start()
        self._bus: Bus | None = None
        try:
            self._bus = self._wait(self._run(self._open()))
        except BaseException:
            self._stop()
            raise

    async def _open(self) -> Bus:
        where, given = self.where, environment(self.where)
        bus = tidings.connect(
            where.address,
            name=where.name,
            timeout=where.timeout,
            credentials=credentials(given),
            tls=tls_context(given, where.address),
        )
        return await bus.open()

    def ask(self, make: Ask[T]) -> T:
        """Call a method of the bus and wait for it, within the time-out."""
        return self._wait(self.ask_ahead(make))

    def ask_ahead(self, make: Ask[T]) -> Future[T]:
        """The same, to be waited for later with `result`."""
        assert self._bus is not None
        return self._run(self._call(self._bus, make))

    def result(self, future: Future[T]) -> T:
        return self._wait(future)

    async def _call(self, bus: Bus, make: Ask[T]) -> T:
        where = self.where
        try:
            async with asyncio.timeout(where.timeout):
                while True:
                    try:
                        return await make(bus)
                    except UnreachableError:  # the connection broke meanwhile; it reconnects
                        await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise UnreachableError(
                f"the broker at {where.address} did not answer within {where.timeout:g} s",
                hint="is it running? the option timeout gives it more time",
            ) from None

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _wait(self, future: Future[T]) -> T:
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            try:
                self._run(bus.close()).result(timeout=LEAVING)
            except (TidingsError, TimeoutError):  # the process leaves; the broker notices
                return
            finally:
                self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=LEAVING)
        if not self._thread.is_alive():
            self._loop.close()


def line_to(where: BrokerTarget) -> BrokerConnection:
    """This process's connection to a broker."""
    global _owner
    with _opening:
        if _owner != os.getpid():
            _lines.clear()
            _owner = os.getpid()
            atexit.register(close_lines)
        line = _lines.get(where)
        if line is None:
            line = _lines[where] = BrokerConnection(where)
        return line


def close_lines() -> None:
    """Close them all; the next call opens them anew."""
    with _opening:
        lines, owner = list(_lines.values()), _owner
        _lines.clear()
    if owner == os.getpid():
        for line in lines:
            line.close()
