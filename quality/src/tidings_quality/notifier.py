"""Notification of waiting tasks: a bell rings, and each waiting task looks again."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Notifier:
    """Bells by name. A task does not wait for a bell that rang before."""

    def __init__(self) -> None:
        self._events: defaultdict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)

    def ring(self, what: str, who: str) -> None:
        self._events[what, who].set()

    def hush(self, what: str, who: str) -> None:
        """Before looking: what happens from now on rings again."""
        self._events[what, who].clear()

    async def wait(self, what: str, who: str, seconds: float | None = None) -> bool:
        """Until it rings; False: it did not, in that time."""
        try:
            async with asyncio.timeout(seconds):
                await self._events[what, who].wait()
        except TimeoutError:
            return False
        return True

    def forget(self, what: str, who: str) -> None:
        self._events.pop((what, who), None)
