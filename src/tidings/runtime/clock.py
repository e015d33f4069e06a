"""The time that machines are told, and waking them in time.

Time is the wall clock, read once, plus what a monotonic clock counted since. So timers never run
backwards, and a time that was stored still has its meaning after a restart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class RuntimeTimer(Protocol):
    def cancel(self) -> None: ...


class RuntimeClock(Protocol):
    def now(self) -> float:
        """Seconds; never less than before."""

    def wake(self, at: float, callback: Callable[[], None]) -> RuntimeTimer:
        """Call back on the running event loop when that time has come."""


class RealClock:
    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def wake(self, at: float, callback: Callable[[], None]) -> RuntimeTimer:
        loop, seconds = asyncio.get_running_loop(), at - self.now()
        return loop.call_later(seconds, callback) if seconds > 0 else loop.call_soon(callback)
