"""Counts Python calls and allocations per event, in a process of its own with another clock and sockets.

    python -m tidings_bench.counting ROUNDS [PATH ...]

Rules
- A call is a `call` or `c_call` event of `sys.setprofile`, in any thread; the collector is off.
- Allocations are the sum of what `sys.getallocatedblocks` grew by from one event of the profiler to the next:
  memory that is taken and given back within one call of C is not seen. One process differs from the next by
  up to half a percent, so the table of allocations allows more of a rise than that of calls.
- Time is virtual: a turn of the event loop takes `TURN` seconds, and an idle loop goes to its next timer. The
  clock is replaced before Tidings is imported, so that no machine is too slow for a timer or a share of time.
- Connections are made by the kernel, and bytes are carried in memory: bytes of one turn arrive together in
  the next. Codecs, connections, clients and brokers are the real ones; only `send` and `recv` are left out.
- A figure is the lowest of its rounds: a thread of the store that wakes by its own clock can only add to one.
  Rounds go on until as many in turn as were asked for found none lower, so that a busy machine counts longer
  and not more.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import random
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

EVENTS = 64  # of a round
WARM_UP = 2  # rounds that fill caches
MOST_ROUNDS = 40
TURN = 50e-6  # seconds of virtual time
IDLE = 0.1  # real seconds that an idle loop waits for a thread before its clock goes on


class CountingClock:
    """Virtual time of the process, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: CountingClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout == 0:
            self._clock.now += TURN
            return super().select(0)
        found = super().select(IDLE)
        if not found and timeout is not None:
            self._clock.now += timeout
        return found


class _Pipe(asyncio.Transport):
    """One end of a connection whose bytes stay in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any, opened: socket.socket) -> None:
        names = {"sockname": opened.getsockname(), "peername": opened.getpeername()}
        super().__init__({**names, "socket": opened})
        self._loop = loop
        self._protocol = protocol
        self._socket = opened
        self._peer: _Pipe | None = None
        self._unsent: list[bytes] = []  # before the other end is there
        self._arrived: list[bytes] = []
        self._is_paused = self._is_closing = self._is_ended = False

    def join(self, peer: _Pipe) -> None:
        self._peer = peer
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            peer.feed(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        if self._peer is None:
            self._unsent.append(bytes(data))
        else:
            self._peer.feed(bytes(data))

    def feed(self, data: bytes) -> None:
        self._arrived.append(data)
        if len(self._arrived) == 1 and not self._is_paused:
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        if self._is_paused or self._is_closing:
            return
        if self._arrived:
            data = b"".join(self._arrived)
            self._arrived.clear()
            self._protocol.data_received(data)
        if self._is_ended and not self._protocol.eof_received():
            self.close()

    def end(self) -> None:
        """The other end is closed."""
        self._is_ended = True
        self._loop.call_soon(self._deliver)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lose)
            if self._peer is not None:
                self._peer.end()

    def _lose(self) -> None:
        self._socket.close()
        self._protocol.connection_lost(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def can_write_eof(self) -> bool:
        return False


class CountingLoop(asyncio.SelectorEventLoop):
    """Event loop in virtual time, whose connections within the process carry their bytes in memory."""

    def __init__(self, clock: CountingClock) -> None:
        super().__init__(_Selector(clock))
        self._single: dict[Any, _Pipe] = {}  # ends whose other end is not there yet, by their addresses

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, Any]:
        opened = socket.socket()
        opened.setblocking(False)
        await self.sock_connect(opened, (host, port))
        return self._end(protocol_factory(), opened)

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], Any], sock: socket.socket, **_: Any
    ) -> tuple[asyncio.Transport, Any]:
        return self._end(protocol_factory(), sock)

    def _end(self, protocol: Any, opened: socket.socket) -> tuple[asyncio.Transport, Any]:
        pipe = _Pipe(self, protocol, opened)
        here, there = opened.getsockname(), opened.getpeername()
        protocol.connection_made(pipe)
        other = self._single.pop((there, here), None)
        if other is None:
            self._single[here, there] = pipe
        else:
            other.join(pipe)
            pipe.join(other)
        return pipe, protocol


class Counter:
    """Counts calls between `start` and `stop`, in this thread and in those that began after
    `watch_threads`."""

    def __init__(self) -> None:
        self._calls = itertools.count()  # counts on without a lock
        self._is_on = False
        self._blocks = self.allocations = 0  # in use at the last event; taken since `start`

    def watch_threads(self) -> None:
        threading.setprofile(self._note)

    def start(self) -> None:
        self._calls = itertools.count()
        self._blocks, self.allocations = sys.getallocatedblocks(), 0
        self._is_on = True
        sys.setprofile(self._note)

    def stop(self) -> int:
        sys.setprofile(None)
        time.sleep(0.005)  # until a thread that has answered waits again
        self._is_on = False
        return next(self._calls)

    def _note(self, _frame: Any, event: str, _argument: Any) -> None:
        if not self._is_on:
            return
        if event in ("call", "c_call"):
            next(self._calls)
        blocks = sys.getallocatedblocks()
        if blocks > self._blocks:
            self.allocations += blocks - self._blocks
        self._blocks = blocks


async def _count(path: str, rounds: int, counter: Counter) -> tuple[float, float]:
    """Calls and allocations for each event of this path."""
    from tidings_bench.cost_paths import PATHS

    calls = allocations = sys.maxsize
    played = lowest = 0
    async with PATHS[path]() as play:
        for _ in range(WARM_UP):
            await play(EVENTS)
        while played < min(lowest + rounds, MOST_ROUNDS):
            played += 1
            counter.start()
            try:
                await play(EVENTS)
            finally:
                counted = counter.stop()
            if counted < calls:
                calls, lowest = counted, played
            allocations = min(allocations, counter.allocations)
    return calls / EVENTS, allocations / EVENTS


def main(rounds: str, *paths: str) -> None:
    clock, counter = CountingClock(), Counter()
    time.monotonic = time.perf_counter = clock
    random.seed(1)
    gc.disable()
    counter.watch_threads()
    from tidings_bench.cost_paths import PATHS

    with asyncio.Runner(loop_factory=lambda: CountingLoop(clock)) as runner:
        for path in paths or tuple(PATHS):
            calls, allocations = runner.run(_count(path, int(rounds), counter))
            print(json.dumps([path, calls, allocations]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
