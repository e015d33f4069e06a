"""A link that misbehaves: a proxy in user space between two brokers.

It cuts the stream into frames and, while it is `rough`, delays, doubles, swaps and damages them. A
partition lets nothing through. The handshake, the first frame of each direction, is only ever delayed
or damaged: a frame of it that came twice would be refused, and nothing would be learned.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

LENGTH = 4


async def lasts(seconds: float) -> None:
    """A fault or a pause has a length of its own. (No check may hang on one: checks wait for conditions.)"""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()


@dataclass
class Roughness:
    """How often a frame meets with each of these."""

    delay: float = 0.0
    delay_seconds: float = 0.02
    duplicate: float = 0.0
    swap: float = 0.0
    corrupt: float = 0.0


class Proxy:
    def __init__(self, target: Callable[[], tuple[str, int]], rng: Random) -> None:
        self.rough = Roughness()
        self.fired: Counter[str] = Counter()
        self._target = target
        self._rng = rng
        self._open = asyncio.Event()
        self._open.set()
        self._ways = (asyncio.Event(), asyncio.Event())  # to the target, and back from it
        for way in self._ways:
            way.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.sever()

    def partition(self) -> None:
        self._open.clear()

    def block(self, *, to_target: bool) -> None:
        """Nothing gets through one way; the other way is as it was."""
        self._ways[0 if to_target else 1].clear()

    def heal(self, *, sever: bool) -> None:
        """What was held back comes now, unless the connections broke meanwhile."""
        if sever:
            self.sever()
        for way in (self._open, *self._ways):
            way.set()

    def sever(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends = [writer]
        try:
            await self._open.wait()
            there, back = await asyncio.open_connection(*self._target())
            ends.append(back)
            self._writers.update(ends)
            pumps = [
                asyncio.create_task(self._pump(reader, back, self._ways[0])),
                asyncio.create_task(self._pump(there, writer, self._ways[1])),
            ]
            self._tasks.update(pumps)
            for pump in pumps:
                pump.add_done_callback(self._tasks.discard)
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            self.fired["unreachable"] += 1
        finally:
            for end in ends:
                self._writers.discard(end)
                end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event
    ) -> None:
        is_first = True
        kept: bytes | None = None  # a frame that is to come after the next one
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(LENGTH)
                frame = head + await reader.readexactly(int.from_bytes(head, "big"))
                await self._open.wait()
                await way.wait()
                frames = [frame] if is_first else self._roughened(frame)
                if kept is not None:
                    frames, kept = [*frames, kept], None
                elif not is_first and self._draw("swap", self.rough.swap):
                    kept, frames = frames[0], frames[1:]
                    if not frames and not reader._buffer:  # type: ignore[attr-defined]
                        frames, kept = [kept], None  # nothing follows that it could come after
                is_first = False
                if self._draw("delay", self.rough.delay):
                    await lasts(self._rng.uniform(0, self.rough.delay_seconds))
                writer.write(b"".join(frames))
                await writer.drain()

    def _roughened(self, frame: bytes) -> list[bytes]:
        if self._draw("corrupt", self.rough.corrupt):
            position = self._rng.randrange(LENGTH, len(frame))
            frame = (
                frame[:position]
                + bytes((frame[position] ^ 1 << self._rng.randrange(8),))
                + frame[position + 1 :]
            )
        if self._draw("duplicate", self.rough.duplicate):
            return [frame, frame]
        return [frame]

    def _draw(self, what: str, rate: float) -> bool:
        happens = rate > 0 and self._rng.random() < rate
        self.fired[what] += happens
        return happens
