"""Real brokers for a real browser: processes that are driven from a thread with an event loop of its own.

Playwright keeps the thread of the test for itself, so what is asynchronous here runs beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import tidings
from tidings.runtime.cluster import Cluster

T = TypeVar("T")
PATIENCE = 180.0  # seconds for anything to happen, on a busy machine
PROGRAM = "tidings.console.listeners"


class Stage:
    """A thread with a loop; `run` waits for what is done there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def beside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have this go on until the end."""

        async def begin() -> None:
            self._tasks.add(asyncio.create_task(work))

        self.run(begin())

    def close(self) -> None:
        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class Network:
    """Broker processes with a console at the first; `buses` are clients, one at each broker."""

    def __init__(self, stage: Stage, count: int, *, store: Any = None, **fields: Any) -> None:
        self.stage = stage
        first = {"console.listen": "127.0.0.1:0", **fields.pop("first", {})}
        every = {"console.refresh_seconds": 0.5, **fields}
        self.cluster = Cluster(count, store=store, log="error", program=PROGRAM, first=first, fields=every)
        self.buses: list[tidings.Bus] = []
        self.listeners: list[Any] = []

    @property
    def url(self) -> str:
        return self.cluster.members[0].gateways["console"]

    def __enter__(self) -> Network:
        self.stage.run(self.cluster.__aenter__())
        try:
            for number, member in enumerate(self.cluster.members):
                self.buses.append(self.stage.run(_opened(member.address, f"desk{number + 1}")))
        except BaseException:
            self.stage.run(self.cluster.stop())
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.run(self._end())

    async def _end(self) -> None:
        for bus in self.buses:
            await bus.close()
        await self.cluster.stop()

    def subscribe(
        self, broker: int, filter: str, *, taken: bool = True, a_second: float = 0.0, **options: Any
    ) -> None:
        """A subscription at a broker; `taken`: whatever comes is taken at once, or so many `a_second`."""

        async def work() -> None:
            listener = await self.buses[broker].subscribe(filter, **options)
            self.listeners.append(listener)
            if taken:
                work = paced(lambda _: listener.get(), a_second) if a_second else _taking(listener)
                task = asyncio.create_task(work)
                self.stage._tasks.add(task)

        self.stage.run(work())

    def publish(self, broker: int, attributes: dict[str, Any], **options: Any) -> Any:
        return self.stage.run(_published(self.buses[broker], attributes, options))


async def _opened(address: str, name: str) -> tidings.Bus:
    return await tidings.connect(address, name=name).open()


async def _published(bus: tidings.Bus, attributes: dict[str, Any], options: dict[str, Any]) -> Any:
    return await bus.publish(attributes, **options)


async def _taking(listener: Any) -> None:
    async for _ in listener:
        continue


async def paced(publish: Callable[[int], Awaitable[Any]], per_second: float) -> None:
    """Publish again and again at this rate, by the clock."""
    loop = asyncio.get_running_loop()
    began, count = loop.time(), 0
    tick = asyncio.Event()
    while True:
        await publish(count)
        count += 1
        wait = began + count / per_second - loop.time()
        if wait > 0:
            loop.call_later(wait, tick.set)
            await tick.wait()
            tick.clear()
