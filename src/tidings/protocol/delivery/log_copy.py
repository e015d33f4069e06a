"""Copies of a group's log: pages of what this member holds, for members that lack it.

Rules
- A page ends at its bytes or at its count, where the log is committed, or where our disk ends: an entry that
  is on its way to the disk would be left out for good.
- With the last page come the identities of what was published before, in pages too (`more`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidings.availability.records import Append, Put
from tidings.protocol.batches import PageBuilder, read_upto
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.proposals import CopyRequest, LogCopy, PlacedEvent, Proposal
from tidings.protocol.slots import Ports


class LogCopies:
    def __init__(self, ports: Ports, index: LogIndex, identities: Callable[[], Iterable[Put]]) -> None:
        self._ports = ports
        self._index = index
        self._rows = identities

    def copy(self, request: CopyRequest, then: Callable[[LogCopy], None]) -> None:
        after, committed = request.after, request.committed
        end = min(committed, self._index.end - 1)
        if request.rows_after is not None:
            rows, more = self._identities(request.rows_after, in_pages=True)
            then(LogCopy(after, (), after, rows, more))
            return
        if end <= after < committed:
            return  # committed, and not on our disk yet, which may be full: the member asks again

        def read(found: Sequence[Append], at: float) -> None:
            page, upto, more = PageBuilder[PlacedEvent](self._ports.limits), read_upto(found, end), ""
            for append in found:
                if append.offset <= end and not page.add(_placed(append, at)):
                    upto = append.offset - 1
                    break
            rows: tuple[Put, ...] = ()
            if upto >= end:
                rows, more = self._identities("", in_pages=request.pages)
            then(LogCopy(upto, tuple(page.items), end, rows, more))

        def failed(failure: FetchFailed, at: float) -> None:
            """The member asks again, or asks another member in the next view."""

        self._ports.disk.fetch(after + 1, self._ports.limits.page_count, read, failed)

    def _identities(self, after: str, *, in_pages: bool) -> tuple[tuple[Put, ...], str]:
        """The deduplication window behind that place; and the place behind which more follows."""
        rows = tuple(self._rows())
        if not in_pages:
            return rows, ""
        page = PageBuilder[Put](self._ports.limits, len(rows))
        for position, row in sorted((_place(row), row) for row in rows):
            if position > after and not page.add(row):
                return tuple(page.items), _place(page.items[-1])
        return tuple(page.items), ""


def _placed(append: Append, now: float) -> PlacedEvent:
    """An entry of our log as other members take it."""
    event = append.event
    incarnation, _, number = event.id.rpartition("-")
    is_own = number.isdecimal() and int(number) == append.sequence
    proposal = Proposal(
        event, incarnation if is_own else "", append.sequence or 0, is_own, now - append.accepted
    )
    return PlacedEvent(append.offset, proposal)


def _place(row: Put) -> str:
    return f"{row.table}\0{row.key}"
