"""Reading pages of this broker's log from an offset, for external jobs and for other brokers.

Rules
- An entry that may be delivered and has not ended is read, in the order of the log; the broker remembers no
  reader. The reader says where to go on.
- A superseded entry is read only for another broker that is owed it (`superseding=False`), and is marked so,
  and for a job that asks for such entries.
- A step looks at fewer entries when the filter is costly: its time is charged to the reader, and others
  have their turns between two steps.
- A page ends when it is full, by count or by bytes, or when the log does. `begin` says where the log begins
  now: a job that stands before it has missed what was forgotten, and is told so rather than served a gap.
- A job that stands behind the end of a broker's own log has read another life of it, and would pass over
  events of this one: it is refused. `ANY_OFFSET` asks for the two ends alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tidings.availability.lifetime import expired, remaining
from tidings.availability.records import Append
from tidings.language.computing import computing_cost
from tidings.language.evaluate import accepts
from tidings.language.work import total_weight, work_of
from tidings.model.filter import Filter
from tidings.protocol.batches import PageBuilder, read_upto
from tidings.protocol.delivery import refusals
from tidings.protocol.delivery.cursor import ANY_OFFSET
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.migration_header import HEADER
from tidings.protocol.delivery.publisher_migration import PublisherStays
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.messages import Envelope, LogEntry, LogRead, ReadLog, Refused
from tidings.protocol.reading import SUPERSEDED, LogScan
from tidings.protocol.slots import Ports

STEP = 1 << 23  # units of work (`language/computing.py`): about 12 ms
TEXT = 2048  # characters that the texts of an entry are taken to have


class _LogWalk(NamedTuple):
    """A walk over the log that fills one page."""

    upto: int | None  # None: to the end of the log
    page: PageBuilder[Any]
    item: Callable[[Append, float], Any]  # the item of an entry in the page; None: it is not wanted
    then: Callable[[tuple[Any, ...], int, bool, float], None]
    failed: Callable[[FetchFailed, float], None]
    step: int  # entries that are looked at in one of its steps


def entries_at_once(filter: Filter, most: int) -> int:
    """Entries that a read with this filter looks at in one step, so that a step stays short for texts of some
    thousand characters: others have their turns between two steps."""
    cost = total_weight(work_of(filter)) * TEXT + computing_cost(filter)
    return min(most, max(1, STEP // cost)) if cost else most


class LogScanner:
    def __init__(self, ports: Ports, index: LogIndex, stays: PublisherStays, *, own: bool = False) -> None:
        self._ports = ports
        self._index = index
        self._is_own = own  # no other broker has a copy of the log, which might be further
        self._publisher_stays = stays

    # -- for jobs ------------------------------------------------------------------------------

    def read(self, address: str, request: ReadLog) -> None:
        if request.log and request.log != self._index.log:
            reason = (
                f"this broker's log is {self._index.log}, not {request.log}: what was read there is not here"
            )
            self._ports.send(address, Refused(request.call, "refused", reason))
            return
        end = self._index.end - 1
        if self._is_own and end < request.after < ANY_OFFSET:
            reason = refusals.ahead_of_log(self._index.log, request.after, end)
            self._ports.send(address, Refused(request.call, "refused", reason))
            return

        def item(record: Append, _now: float) -> LogEntry | None:
            is_open = request.superseded or not self._index.is_superseded(record.offset)
            is_wanted = is_open and accepts(request.filter, record.event)
            return LogEntry(record.offset, record.event, record.accepted) if is_wanted else None

        def answer(found: tuple[LogEntry, ...], upto: int, _is_last: bool, _now: float) -> None:
            index = self._index
            self._ports.send(
                address, LogRead(request.call, index.log, found, upto, index.first_offset, index.end - 1)
            )

        def failed(failure: FetchFailed, _now: float) -> None:
            reason = f"the log cannot be read: {failure.reason}"
            self._ports.send(address, Refused(request.call, failure.code, reason))

        limits = self._ports.limits
        page = PageBuilder[LogEntry](limits, min(request.limit, limits.log_page_count))
        count = entries_at_once(request.filter, limits.page_count)
        self._walk(_LogWalk(None, page, item, answer, failed, count), max(0, request.after))

    # -- for other brokers -----------------------------------------------------------------------

    def scan(self, scan: LogScan, now: float) -> None:
        end = self._index.end - 1
        upto = end if scan.upto is None else min(scan.upto, end)
        if not self._index.may_hold(scan.after + 1, upto + 1):  # as most logs that a new subscription asks
            scan.then((), max(upto, scan.after), True, now)
            return

        def item(record: Append, now: float) -> Envelope | None:
            is_old = self._index.is_superseded(record.offset)
            if not scan.is_wanted(record, now) or (is_old and not scan.is_owed(record, now)):
                return None
            envelope = self._envelope(record, now)
            return envelope if scan.fits(envelope, now) else None

        count = self._ports.limits.page_count
        self._walk(_LogWalk(scan.upto, scan.page, item, scan.then, scan.failed, count), scan.after)

    def _envelope(self, record: Append, now: float) -> Envelope:
        event, offset = record.event, record.offset
        expires = None if record.expires_at is None else record.expires_at - now
        moved = self._publisher_stays.of(event.source, offset)
        headers: dict[str, Any] = {} if moved is None else {HEADER: moved}
        if self._index.is_superseded(offset):
            headers[SUPERSEDED] = True
        left = remaining(record, now)
        return Envelope(event, self._index.log, offset, record.sequence, left, expires, headers)

    # -- the walk ------------------------------------------------------------------------------

    def _walk(self, walk: _LogWalk, after: int) -> None:
        """Read on behind `after`; `walk.then` runs when the page is full or the log ends."""
        self._ports.disk.fetch(after + 1, walk.step, partial(self._on_records, walk, after), walk.failed)

    def _on_records(self, walk: _LogWalk, after: int, records: Sequence[Append], now: float) -> None:
        end = self._index.end - 1
        upto = end if walk.upto is None else min(walk.upto, end)
        page, read = walk.page, after
        for record in records:
            if record.offset > upto or page.is_full:
                break
            item = walk.item(record, now) if self._is_there(record, now) else None
            if item is not None and not page.add(item):
                break
            read = record.offset
        found = tuple(page.items)
        if page.is_full:
            walk.then(found, read, read >= upto, now)
        elif read_upto(records, upto) >= upto:
            walk.then(found, max(upto, after), True, now)
        else:
            self._walk(walk, read)

    def _is_there(self, record: Append, now: float) -> bool:
        return record.offset in self._index.entries and not expired(record, now)
