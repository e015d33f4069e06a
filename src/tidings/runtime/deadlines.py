"""Deadlines of a client's calls, with one timer of the event loop for all of them.

Most calls have the same timeout and are answered long before it. A timer for each of them costs more than the
call; one timer at the earliest deadline is set once in a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadlines:
    """Calls that wait for an answer, each until its deadline.

    `expire` is called with a call and its timeout.
    """

    __slots__ = ("_at", "_by_call", "_expire", "_timer")

    def __init__(self, expire: Callable[[int, float], None]) -> None:
        self._expire = expire
        self._by_call: dict[int, tuple[float, float]] = {}  # the deadline, and the timeout
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0  # when the timer fires

    def add(self, call: int, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        at = loop.time() + seconds
        self._by_call[call] = (at, seconds)
        if self._timer is None or at < self._at:
            self._set(loop, at)

    def remove(self, call: int) -> None:
        if call in self._by_call:
            del self._by_call[call]

    def close(self) -> None:
        """Forget all calls."""
        self._by_call.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = loop.call_at(at, self._fire), at

    def _fire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call, (at, seconds) in list(self._by_call.items()):
            if at <= now and self._by_call.pop(call, None) is not None:
                self._expire(call, seconds)
        if self._by_call:
            self._set(loop, min(at for at, _ in self._by_call.values()))
