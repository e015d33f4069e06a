"""Reading this broker's log by filter from an offset, for whoever goes through it on their own.

Rules
- What may be told and has not ended is read, in the order of the log; nothing else is remembered of the
  reader. It says where to go on.
- A page ends when it is full, by count or by bytes, or when the log does. `begin` says where the log begins now: a reader that
  stands before it has missed what was forgotten, and is told so rather than served a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidings.availability.lifetime import expired
from tidings.availability.records import Append
from tidings.language.evaluate import accepts
from tidings.protocol.batches import Page, read_upto
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.messages import LogEntry, LogRead, ReadLog, Refused
from tidings.protocol.slots import Ports


class Scanning:
    def __init__(self, ports: Ports, ledger: Ledger) -> None:
        self._ports = ports
        self._ledger = ledger

    def read(self, address: str, asked: ReadLog) -> None:
        if asked.log and asked.log != self._ledger.log:
            reason = (
                f"this broker's log is {self._ledger.log}, not {asked.log}: what was read there is not here"
            )
            self._ports.send(address, Refused(asked.call, "refused", reason))
            return
        limits = self._ports.limits
        page = Page[LogEntry](limits, min(asked.limit, limits.log_page_count))
        self._walk(address, asked, max(0, asked.after), page)

    def _walk(self, address: str, asked: ReadLog, after: int, page: Page[LogEntry]) -> None:
        self._ports.disk.fetch(
            after + 1,
            self._ports.limits.page_count,
            partial(self._on_records, address, asked, after, page),
            partial(self._on_failed, address, asked),
        )

    def _on_failed(self, address: str, asked: ReadLog, failure: FetchFailed, now: float) -> None:
        self._ports.send(
            address, Refused(asked.call, failure.code, f"the log cannot be read: {failure.reason}")
        )

    def _on_records(
        self,
        address: str,
        asked: ReadLog,
        after: int,
        page: Page[LogEntry],
        records: Sequence[Append],
        now: float,
    ) -> None:
        last = self._ledger.end - 1
        read = after
        for record in records:
            if record.offset > last or page.is_full:
                break
            is_found = self._is_told(record, now) and accepts(asked.filter, record.event)
            if is_found and not page.add(LogEntry(record.offset, record.event, record.accepted)):
                break
            read = record.offset
        if page.is_full:
            self._answer(address, asked, page.items, read)
        elif read_upto(records, last) >= last:
            self._answer(address, asked, page.items, max(last, after))
        else:
            self._walk(address, asked, read, page)

    def _is_told(self, record: Append, now: float) -> bool:
        return record.offset in self._ledger.entries and not expired(record, now)

    def _answer(self, address: str, asked: ReadLog, found: list[LogEntry], upto: int) -> None:
        ledger = self._ledger
        page = LogRead(asked.call, ledger.log, tuple(found), upto, ledger.first_offset, ledger.end - 1)
        self._ports.send(address, page)
