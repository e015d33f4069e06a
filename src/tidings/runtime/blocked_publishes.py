"""Publishes of a bus that wait for room in a full queue, and the search for those that wait for themselves.

`readers.py` has the rules. A look at them costs the broker a walk over its full queues, so the pause between
two looks doubles while the same publishes wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.errors import DeadlockError
from tidings.runtime.broker import Full
from tidings.runtime.readers import (
    CHECK_SECONDS,
    Reader,
    current_reader,
    deadlocked,
    has_others,
    may_be_read,
    own_queue_error,
)

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.client")
WAY_OUT = (
    "read it in another task or thread, or subscribe with a larger queue= or with policy='drop oldest'; "
    "the event is delivered when there is room"
)


class BlockedPublishes:
    """The calls of one bus that may wait for a full queue, with the task or thread that publishes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._publishers: dict[int, Reader | None] = {}  # by call
        self._spans: dict[int, int] = {}  # by the same call: for how many calls it stands
        self._checking: asyncio.TimerHandle | None = None  # the next look at them
        self._warned: set[str] = set()  # subscriptions whose missing reader was logged

    def add(self, call: int, calls: int = 1) -> None:
        """Watch a call that begins to wait, or one that stands for so many."""
        self._publishers[call] = current_reader()
        self._spans[call] = calls
        if self._checking is None:
            loop = asyncio.get_running_loop()
            self._checking = loop.call_later(CHECK_SECONDS, self._check, frozenset(), CHECK_SECONDS)

    def remove(self, call: int) -> None:
        self._publishers.pop(call, None)
        self._spans.pop(call, None)

    def _check(self, before: frozenset[int], pause: float) -> None:
        """Look at publishes that wait since the last look: fail those that only their own task could free."""
        waiting = frozenset(self._publishers)
        self._checking = None
        if not waiting or self._bus._state != "open":
            return
        queues = self._bus._broker.full_queues()
        self._fail_callbacks(queues)
        for full in queues if waiting & before else ():
            self.judge(full, waiting & before)
        pause = (
            pause * 2 if waiting <= before else CHECK_SECONDS
        )  # the longer it lasts, the less news there is
        self._checking = asyncio.get_running_loop().call_later(pause, self._check, waiting, pause)

    def _fail_callbacks(self, queues: Full) -> None:
        """Fail publishes of callbacks that wait for their own queue, or for one another's."""
        family = self._bus._family
        callbacks = {calling._task for bus in family for calling in bus._callings}
        callbacks |= {handler.reader for bus in family for handler in bus.handlers}
        readers: dict[str, set[Reader | None]] = {full: set() for full in queues}
        waits: dict[Reader, set[str]] = {}
        for bus in family:
            for listener in bus._listeners.values():
                readers.get(str(listener.id), set()).add(listener._reader)
            for call, publisher in bus._blocked._publishers.items():
                meant = {(bus._address, call + position) for position in range(bus._blocked._spans[call])}
                for full in queues if publisher in callbacks else ():
                    if publisher is not None and meant & queues[full]:
                        waits.setdefault(publisher, set()).add(full)
        stuck = deadlocked(waits, readers)
        for call, publisher in self._publishers.items():
            future = self._bus._waiting.get(call)
            if publisher in stuck and future is not None and not future.done():
                future.set_exception(own_queue_error(min(waits[publisher])))

    def judge(self, full: str, calls: Iterable[int]) -> None:
        """Find out whether anything reads a subscription whose full queue these publishes wait for."""
        family = self._bus._family
        listeners = [each for bus in family for each in bus._listeners.values() if str(each.id) == full]
        if not listeners:
            return
        what = f"publish waits for room in the full queue of subscription {full}, which no other task reads"
        is_read = any(listener._taken for listener in listeners)
        for call in calls:
            publisher, future = self._publishers.get(call), self._bus._waiting.get(call)
            if future is None or future.done():
                continue
            is_own = not may_be_read(listeners, publisher)
            if is_own and not has_others(publisher):
                future.set_exception(DeadlockError(what, hint=WAY_OUT))
            elif (is_own or not is_read) and full not in self._warned:
                self._warned.add(full)
                log.warning("%s (%s)", what, WAY_OUT)
