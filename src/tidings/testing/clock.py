"""A clock that stands still until a test moves it: no test waits for a lifetime to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from heapq import heappop, heappush

START = 1_000_000_000.0


class _VirtualTimer:
    __slots__ = ("at", "callback", "loop", "number")

    def __init__(
        self, at: float, number: int, callback: Callable[[], None] | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.at = at
        self.number = number
        self.callback = callback
        self.loop = loop

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: _VirtualTimer) -> bool:
        return (self.at, self.number) < (other.at, other.number)


class VirtualClock:
    """Give it to `tidings.connect(clock=...)` and call `advance`."""

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._timers: list[_VirtualTimer] = []
        self._number = 0
        self._lock = threading.RLock()

    def now(self) -> float:
        return self._now

    def wake(self, at: float, callback: Callable[[], None]) -> _VirtualTimer:
        with self._lock:
            self._number += 1
            timer = _VirtualTimer(at, self._number, callback, asyncio.get_running_loop())
            heappush(self._timers, timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass: everything that waits for a time in between happens, in order."""
        until = self._now + seconds
        while (timer := self._next(until)) is not None:
            self._now = max(self._now, timer.at)
            self._fire(timer)
        self._now = max(self._now, until)

    def _next(self, until: float) -> _VirtualTimer | None:
        with self._lock:
            while self._timers and self._timers[0].at <= until:
                timer = heappop(self._timers)
                if timer.callback is not None and not timer.loop.is_closed():
                    return timer
        return None

    def _fire(self, timer: _VirtualTimer) -> None:
        """Run on the loop of the waiting bus, from any thread that moves the clock."""

        async def fire() -> None:
            if timer.callback is not None:
                timer.callback()

        try:
            is_here = asyncio.get_running_loop() is timer.loop
        except RuntimeError:
            is_here = False
        if not is_here:
            asyncio.run_coroutine_threadsafe(fire(), timer.loop).result()
        elif timer.callback is not None:
            timer.callback()
