"""A subscription that begins with the archive: `bus.subscribe(…, since="forever")`.

Rules
- The subscription is opened first, then the broker says how far each log is in its archive: the *seam*. So
  every entry that the log let go of was in the archive by then. Archived events up to the seam come from
  there, all others from the broker: none twice, none missed.
- First the archive, in the order of each log, then the rest.
- A durable subscription's seam, and how far it is in the archive, are kept at its broker, and go on after a
  restart of the client. Events that were handed over and not committed then come again, as with live events.
- A broker without an archive holds everything in its log: then this is an ordinary subscription.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tidings.errors import RefusedError, UnreachableError
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.packed import unpack
from tidings.model.subscription import Notification, Position
from tidings.protocol.inputs import ClientSkip
from tidings.runtime.broker import Timeout
from tidings.runtime.listener import Listener
from tidings.runtime.listener import log as client_log

T = TypeVar("T")
AGAIN_SECONDS = 0.05  # between two tries to reach a broker
FIXED, CAUGHT_UP = 0, 1  # how a durable subscription stands with the archive


class ArchiveListener(Listener[T]):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seam: dict[str, int] = {}
        self._after: dict[str, int] = {}
        self._waiting: deque[Notification] = deque()  # of the page that is being handed over
        self._upto: dict[str, int] = {}  # where the archive stands when that page is done
        self._is_behind = False
        self._is_over_page = True
        self._has_read = False  # a page, be it an empty one
        self._from_archive = False  # the event that was taken last

    async def open(self) -> ArchiveListener[T]:
        await super().open()
        try:
            stands = await self._request()
        except RefusedError:
            return self
        await self._find_seam(stands["places"])
        policy = None if stands["policy"] is None else parse_filter(stands["policy"])
        assert self._ref is not None
        self._bus._input(ClientSkip(self._ref, self._seam, policy))
        return self

    # -- the seam --------------------------------------------------------------------------------

    async def _find_seam(self, positions: dict[str, int]) -> None:
        if not self._durable:
            self._seam, self._is_behind = positions, bool(positions)
            return
        bus, own = self._bus, self._note()
        stands = await bus.committed(own)
        if stands < FIXED:
            for log, position in positions.items():
                await bus.commit_staged(f"{own} seam {log}", position, 0)
            await bus.commit_staged(own, FIXED, 0)
            self._seam, self._is_behind = positions, True
            return
        for log in positions:
            seam = await bus.committed(f"{own} seam {log}")
            if seam >= 0:  # a log that began later is not in the archive for us
                self._seam[log] = seam
                self._after[log] = max(0, await bus.committed(f"{own} read {log}"))
        self._is_behind = stands < CAUGHT_UP

    def _note(self) -> str:
        return f"forever {self.id.subscriber}/{self.id.name}"

    async def _commit_page(self) -> None:
        """Every event of the page was handled."""
        before, self._after = self._after, dict(self._upto or self._after)
        if not self._durable:
            return
        for log, position in self._after.items():
            if position > before.get(log, 0):
                await self._bus.commit_staged(f"{self._note()} read {log}", position, 0)

    # -- hearing ---------------------------------------------------------------------------------

    async def _take(
        self, most: int, timeout: float | None, *, commits: bool = True
    ) -> Sequence[Notification]:
        while self._is_behind:
            if self._waiting:
                return self._handed(most)
            await self._commit_page()
            if self._has_read and self._is_over_page:
                self._is_behind = False
                if self._durable:
                    await self._bus.commit_staged(self._note(), CAUGHT_UP, 0)
                break
            await self._read_page()
        self._from_archive = False
        return await super()._take(most, timeout, commits=commits)

    async def _request(self, **about: Any) -> Any:
        """Ask the archive. As other calls, it waits while no broker can be reached."""
        while True:
            try:
                return await self._bus.inquire("archive", **about)
            except UnreachableError:
                if self._bus.state in ("refused", "closed"):
                    raise
                await asyncio.sleep(AGAIN_SECONDS)

    async def _read_page(self) -> None:
        filter = unpack(self._filter)
        answer = await self._request(
            filter=filter.text, dialect=filter.dialect, after=self._after, upto=self._seam
        )
        self._upto, self._is_over_page = answer["after"], answer["is_last"]
        self._has_read = True
        for log, offset, raw in answer["entries"]:
            event = msgspec.convert(raw, Event)
            self._waiting.append(Notification(self.id, event, Position(log, offset)))

    def _handed(self, most: int) -> Sequence[Notification]:
        """The next events of the page, at most so many."""
        batch = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._batch, self._numbers = batch, ()
        self._from_archive = True
        self._taken += len(batch)
        for notification in batch:
            assert notification.position is not None
            self._bus._note(self.id, notification.event, notification.position)
        return batch

    async def ack(self) -> None:
        if not self._from_archive:
            await super().ack()
        else:
            last = {each.position.log: each.position for each in self._batch if each.position is not None}
            for position in last.values():
                await self._commit_upto(position)

    async def _commit_upto(self, position: Position) -> None:
        if self._durable:
            await self._bus.commit_staged(f"{self._note()} read {position.log}", position.offset, 0)

    async def nack(self) -> None:
        """Events of the archive come again at once."""
        if not self._from_archive:
            await super().nack()
        else:
            self._waiting.extendleft(reversed(self._batch))
            self._from_archive = False

    async def reject(self, reason: str) -> None:
        """An event of the archive has no dead letter: it is passed over, and logged."""
        if not self._from_archive:
            await super().reject(reason)
        else:
            client_log.warning("%r passes over %d events of the archive: %s", self, len(self._batch), reason)

    async def _leave(self, *, commit: bool, end: bool, timeout: Timeout) -> None:
        if commit and self._from_archive and not self._is_over:
            await self.ack()
        await super()._leave(commit=commit, end=end, timeout=timeout)
