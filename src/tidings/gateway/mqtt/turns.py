"""Turns of the event loop: how long the connections of one listener work before others have theirs.

Rules
- In one turn of the loop, connections handle packets and send messages for `SECONDS` together; work that is
  left waits for a later turn. Each turn lets one waiting task go on, in the order in which they came.
- One packet, one message and one batch of publishes are never divided. A batch that took long halves the next
  one of its connection.
- A short read (a ping, an acknowledgement) does not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

SECONDS = 0.005  # of one turn; less costs a system call more often, more lets a neighbour wait longer
SHORT_READ = 1024  # bytes that are handled in any turn
FIRST = 16  # publishes of the first batch


class LoopTurns:
    """The turns of one listener. Time is the loop's own: what others do in a turn counts too."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began: float | None = None  # the present turn, once it had work
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_over(self) -> bool:
        """Is the time of this turn used up?"""
        if self._began is None:
            self._began = self._clock()
            asyncio.get_running_loop().call_soon(self._end)
            return False
        return self._clock() - self._began > self._seconds

    async def time(self) -> None:
        """Wait for a turn that has time; at once in one that has."""
        if not self.is_over():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future
        self._began = self._clock()

    def _end(self) -> None:
        self._began = None
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # its task may have been cancelled
                future.set_result(None)
                self.is_over()
                return


class BatchSize:
    """The number of publishes that one connection hands to the broker together."""

    def __init__(self, most: int, clock: Callable[[], float] = perf_counter) -> None:
        self._most = most
        self._clock = clock
        self._began = 0.0
        self.count = min(most, FIRST)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        took = self._clock() - self._began
        if took > SECONDS / 2:
            self.count = max(1, self.count // 4)
        elif took < SECONDS / 5:
            self.count = min(self._most, 2 * self.count)
