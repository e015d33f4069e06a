"""Holding the log for whoever reads it on their own: what was not read yet is not forgotten.

A reader of a log (`scanning.py`) has no subscription; without a hold, an event that has no lifetime left
goes while nobody looks. Rules
- A hold has a name, a filter and a place. From now on every event that the filter accepts is kept in
  this broker's log, whatever its lifetime; and no entry beyond the place is forgotten, until the place
  moves on. An event that ends for everybody (`expires`, a newer one of its key) ends here too.
- It lasts as long as somebody asks for it again within its seconds. After that it is gone, and whoever
  comes back is told that it began anew: what was forgotten meanwhile is a gap that they know of.
- A hold that releases says that what lives forever rests elsewhere up to its place: the log
  may then forget that too, unless somebody has a right to it.
"""

from __future__ import annotations

from functools import partial

import msgspec

from tidings.availability.records import Delete, Loaded, Put, Record
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.delivery.refusals import kept_out, unsure
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.messages import EndHold, HoldLog, LogHeld, Refused
from tidings.protocol.slots import Ports

HOLDS = "holds"  # table: one row for each
MOST_HOLDS = 1_000  # each is asked about every publish
TOUCH = 0.1  # of its seconds: a hold whose end moves by less is not written again


class HoldRow(msgspec.Struct, array_like=True):
    name: str
    filter: Filter
    upto: int
    seconds: float
    ends_at: float


class Holding:
    def __init__(self, ports: Ports, ledger: Ledger) -> None:
        self._ports = ports
        self._ledger = ledger
        self._rows: dict[str, HoldRow] = {}
        self._filters: dict[str, Filter] = {}
        self._floor: int | None = None  # entries beyond it are pinned; None: nobody holds
        self.next_at: float | None = None
        self.ended = 0  # that nobody asked for in time

    def load(self, state: Loaded) -> None:
        for value in state.tables.get(HOLDS, {}).values():
            row = msgspec.msgpack.decode(value, type=HoldRow)
            self._rows[row.name] = row
            self._filters[row.name] = row.filter
        self._moved()

    # -- what the log asks ---------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        return bool(self._filters)

    def wants(self, event: Event) -> bool:
        """Is the event to be kept for some reader?"""
        return bool(self._filters) and any(accepts(filter, event) for filter in self._filters.values())

    def is_pinned(self, offset: int) -> bool:
        return self._floor is not None and offset > self._floor

    def has(self, name: str) -> bool:
        return any(held.endswith(name) for held in self._rows)

    # -- holding -------------------------------------------------------------------------------

    def hold(self, session: Session, message: HoldLog, now: float) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            self._ports.send(session.address, Refused(message.call, *refusal))
            return
        before = self._rows.get(message.name)
        upto = min(message.upto, self._ledger.end - 1)
        if before is not None:
            upto = max(upto, before.upto)
        row = HoldRow(message.name, message.filter, upto, message.seconds, now + message.seconds)
        self._rows[row.name], self._filters[row.name] = row, row.filter
        if before is not None and _is_same(before, row):
            row.ends_at = before.ends_at
            self._held(session, message, False, now)
            return
        self._ports.disk.persist(
            [Put(HOLDS, row.name, msgspec.msgpack.encode(row))],
            partial(self._held, session, message, before is None),
            partial(self._not_held, session, message),
            lambda reason: self._ports.send(session.address, Refused(message.call, *unsure(reason))),
        )

    def _held(self, session: Session, message: HoldLog, is_new: bool, now: float) -> None:
        self._moved()
        ledger = self._ledger
        row = self._rows.get(message.name)
        upto = ledger.end - 1 if row is None else row.upto
        if message.releases:
            ledger.let_go(upto)
        first, last = ledger.first_offset, ledger.end - 1
        self._ports.send(session.address, LogHeld(message.call, ledger.log, first, last, upto, is_new))

    def _not_held(self, session: Session, message: HoldLog, failure: PersistFailed, now: float) -> None:
        self._ports.send(session.address, Refused(message.call, "store", f"not held: {failure.reason}"))

    def _refusal(self, message: HoldLog) -> tuple[str, str] | None:
        disk = self._ports.disk
        if not disk.stable:
            return ("refused", "holding a log needs a broker with a store")
        if disk.failed is not None:
            return ("store", f"the broker's disk has failed: {disk.failed.reason}")
        if disk.full is not None:
            return kept_out(disk.full)
        if message.log and message.log != self._ledger.log:
            return ("refused", f"this broker's log is {self._ledger.log}, not {message.log}")
        if message.name not in self._rows and len(self._rows) >= MOST_HOLDS:
            return ("limit", f"{MOST_HOLDS} readers hold this log already; end one of them")
        return None

    def end(self, session: Session, message: EndHold, now: float) -> None:
        records = self._drop(message.name)
        answer = LogHeld(message.call, self._ledger.log, self._ledger.first_offset, self._ledger.end - 1, 0)
        if records and self._ports.disk.failed is None:
            self._ports.disk.persist(records, lambda at: self._ports.send(session.address, answer))
        else:
            self._ports.send(session.address, answer)

    def _drop(self, name: str) -> list[Record]:
        if self._rows.pop(name, None) is None:
            return []
        del self._filters[name]
        self._moved()
        return [Delete(HOLDS, name)]

    def _moved(self) -> None:
        """Places changed: what nobody holds any longer may go."""
        self._floor = min((row.upto for row in self._rows.values()), default=None)
        self.next_at = min((row.ends_at for row in self._rows.values()), default=None)
        self._ledger.unpin()

    def collect(self, now: float) -> list[Record]:
        """End what nobody asked for in time; the records to persist."""
        if self.next_at is None or self.next_at > now:
            return []
        over = [row.name for row in self._rows.values() if row.ends_at <= now]
        self.ended += len(over)
        return [record for name in over for record in self._drop(name)]


def _is_same(before: HoldRow, row: HoldRow) -> bool:
    """Would writing it again change next to nothing?"""
    return (
        before.filter.digest == row.filter.digest and (before.upto, before.seconds) == (row.upto, row.seconds)
    ) and row.ends_at - before.ends_at < TOUCH * row.seconds
