"""The time that machines are told: the wall clock, read once, plus what a monotonic clock counted since.

So timers never run backwards, and a time that was stored still has its meaning after a restart.
"""

from __future__ import annotations

import time


class Clock:
    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()
