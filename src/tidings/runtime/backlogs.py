"""Counting what durable subscriptions are owed after a restart, for figures alone.

A broker that has been restarted knows how far each durable subscription was, and not how many of the entries
behind that its filter accepts: entries are matched when they are read. Rules
- The part of the log that is not counted is read once, for all subscriptions together, in a thread of its own
  and in pages. After each page it rests three times as long as the page took: a quarter of a core at most.
- Nothing depends on the counts but figures. Until they are there, such a subscription counts with what was
  handed out before the restart.
- An offset that is found costs 8 bytes, as long as it is not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections.abc import Mapping, Sequence

from tidings.errors import TidingsError
from tidings.matching.engine import MatchingEngine
from tidings.model.filter import Filter
from tidings.model.subscription import SubscriptionId
from tidings.protocol.node import Node
from tidings.store.store import Store

log = logging.getLogger("tidings.broker")
PAGE_EVENTS, PAGE_BYTES = 500, 4 << 20
RESTS = 3  # times as long as a page took

Part = tuple[SubscriptionId, Filter, int, int]  # the filter, the first offset, the one behind the last


class BacklogCount:
    """One count, from the restart of a broker on."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, node: Node, store: Store) -> None:
        parts: list[Part] = node.inspect("uncounted") or []
        if parts:
            self._task = asyncio.create_task(self._count(node, BacklogReading(store, parts)))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def done(self) -> None:
        """Wait for it."""
        if self._task is not None:
            await self._task

    async def _count(self, node: Node, reading: BacklogReading) -> None:
        try:
            while not reading.is_over:
                begun = time.monotonic()
                await asyncio.to_thread(reading.read_page)
                await asyncio.sleep(RESTS * (time.monotonic() - begun))
        except TidingsError as error:  # such as a store that has been closed meanwhile
            log.warning("what durable subscriptions wait for was not counted: %s", error)
            return
        node.inspect("counted", reading.found)


class BacklogReading:
    """A reading of the log for some subscriptions, page by page."""

    def __init__(self, store: Store, parts: Sequence[Part]) -> None:
        self._store = store
        self._engine = MatchingEngine()
        self._parts: dict[int, Part] = {self._engine.add(part[1]): part for part in parts}
        self._next = min(first for _, _, first, _ in parts)
        self._end = max(end for _, _, _, end in parts)
        self._offsets: dict[SubscriptionId, array[int]] = {id: array("Q") for id, *_ in parts}

    @property
    def is_over(self) -> bool:
        return self._next >= self._end

    @property
    def found(self) -> Mapping[SubscriptionId, Sequence[int]]:
        return self._offsets

    def read_page(self) -> None:
        page = self._store.fetch(self._next, PAGE_EVENTS, PAGE_BYTES)
        for entry in page:
            for handle in self._engine.match(entry.event):
                id, _, first, end = self._parts[handle]
                if first <= entry.offset < end:
                    self._offsets[id].append(entry.offset)
        self._next = page[-1].offset + 1 if page else self._end
