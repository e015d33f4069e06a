"""Pytest fixtures for users of Tidings. Imports happen at the first use.

- `bus`, a blocking bus with a broker of its own, and `clock`, the virtual clock of that broker.
- `run_async`, which runs a coroutine function with an awaited bus on the same clock, whichever plugin for
  asynchronous tests is there, or none.
- `async_bus`, an awaited bus for tests that a plugin such as anyio or pytest-asyncio (mode `auto`) awaits.
- `broker`, the address of a broker on a loopback socket, for programs that connect to one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from tidings.runtime.blocking import BlockingBus
    from tidings.runtime.bus import Bus
    from tidings.testing.clock import VirtualClock

T = TypeVar("T")


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still until the test calls `clock.advance(seconds)`."""
    from tidings.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def bus(clock: VirtualClock) -> Iterator[BlockingBus]:
    """A bus with a broker of its own, in memory, on the test's clock."""
    from tidings.runtime.blocking import connect

    with connect(clock=clock) as bus:
        yield bus


@pytest.fixture
async def async_bus(clock: VirtualClock) -> AsyncIterator[Bus]:
    """An awaited bus with a broker of its own, in memory, on the test's clock."""
    from tidings.runtime.connect import connect

    async with connect(clock=clock) as bus:
        yield bus


@pytest.fixture
def run_async(clock: VirtualClock) -> Callable[[Callable[[Bus], Awaitable[T]]], T]:
    """Runs a coroutine function with an awaited bus: `run_async(play)`, in a test without `async`."""
    import asyncio

    from tidings.runtime.connect import connect

    def run(play: Callable[[Bus], Awaitable[T]]) -> T:
        async def main() -> T:
            async with connect(clock=clock) as bus:
                return await play(bus)

        return asyncio.run(main())

    return run


@pytest.fixture
def broker() -> Iterator[str]:
    """The address of a broker in a thread of this process, on a free loopback port."""
    from tidings.runtime.loop_thread import LoopThread
    from tidings.runtime.server import Server

    thread = LoopThread()
    try:

        async def start() -> Server:
            server = Server("test")
            await server.start()
            return server

        server = thread.call(start)
        try:
            yield server.address
        finally:
            thread.call(server.close)
    finally:
        thread.stop()
