"""Retention holds: entries that a reader of the log has not read yet are kept.

A reader of a log (`scanning.py`) has no subscription; without a hold, an event that has no lifetime left
goes between two reads. Rules
- A hold has a name, a filter and a place. From now on every event that the filter accepts is kept in
  this broker's log beyond its lifetime; and no entry beyond the place that the filter accepts is forgotten,
  until the place moves on. An event that ends for all readers (`expires`) ends here too, and so does one that
  a newer event of its key supersedes, unless the hold is for superseded events too (`superseding=False`).
- Entries that were in the log before the hold are looked at in steps; until then they stay.
- It lasts as long as it is asked for again within its seconds, and as long as it keeps no more than its
  bytes. After that it is gone, and its reader is told that it began anew: what was forgotten meanwhile is a
  gap that it knows of.
- A hold that releases says that events that live forever are archived up to its place: the log may then
  forget those too, unless a subscription has a right to them. The disk remembers that place before any goes,
  so that an archive that reaches less far is known for another one.
- Filters of holds are in one matcher, with the work budget of subscriptions, so an event is matched once for
  all of them. The number of holds is bounded for each principal (`holds` of its quota, `client.holds` for
  each scope).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.algebra.covers import covers
from tidings.availability.records import Append, Delete, Loaded, Put, Record
from tidings.language.evaluate import accepts
from tidings.matching.matcher import Matcher
from tidings.model.event import Event, event_size
from tidings.model.filter import Filter
from tidings.model.subscription import scope_of
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.refusals import kept_out, unsure
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.messages import EndHold, HoldLog, LogHeld, Refused
from tidings.protocol.slots import Ports

HOLDS = "holds"  # table: one row for each
RELEASED = "released"  # table: one row, the place up to which events were archived and let go
TOUCH = 0.1  # of its seconds: a hold whose end moves by less is not written again
NO_STORE = (
    "holding a log (for a stream of Spark, say) needs a broker with a store: start it with --store DIR "
    "(in one process: connect(path=DIR))"
)


class RetentionHoldRow(msgspec.Struct, array_like=True):
    name: str
    filter: Filter
    upto: int
    seconds: float
    ends_at: float
    most_bytes: int = 0
    superseding: bool = True  # False: what it keeps stays also when a newer event has its key


class HeldEntries:
    """The entries that one hold keeps beyond its place."""

    __slots__ = ("bytes", "looked_upto", "sizes", "unknown_upto")

    def __init__(self, upto: int, end: int) -> None:
        self.sizes: dict[int, int] = {}  # by offset, ascending: those that its filter accepts
        self.bytes = 0
        self.looked_upto = upto  # of what was in the log before it: these are known ...
        self.unknown_upto = end  # ... and those up to here may be wanted

    @property
    def is_known(self) -> bool:
        """Has every entry from before the hold been matched?"""
        return self.looked_upto >= self.unknown_upto

    def may_want(self, offset: int) -> bool:
        return self.looked_upto < offset <= self.unknown_upto

    def add(self, offset: int, size: int) -> bool:
        """True: it was not kept before."""
        if offset in self.sizes:
            return False
        self.sizes[offset] = size
        self.bytes += size
        return True

    def drop(self, offset: int) -> None:
        self.bytes -= self.sizes.pop(offset, 0)


class RetentionHolds:
    def __init__(self, ports: Ports, settings: DeliverySettings, index: LogIndex, matcher: Matcher) -> None:
        self._ports = ports
        self._settings = settings
        self._index = index
        index.appended, index.ended = self.appended, self.forgotten
        index.keeping_superseded.append(self.keeps_superseded)
        self.matcher = matcher
        self._handles: dict[str, int] = {}  # by name: of its filter in the matcher ...
        self._by_handle: dict[int, str] = {}  # ... and back
        self._last_match: tuple[Event, Sequence[int]] | None = None
        self.rows: dict[str, RetentionHoldRow] = {}
        self._scopes: Counter[str] = Counter()  # how many holds of each principal
        self._most = ports.limits.client.holds
        self._kept: dict[str, HeldEntries] = {}  # by name
        self._keepers: dict[int, int] = {}  # by offset: how many holds keep it
        self._whole: dict[str, None] = {}  # names of those that keep superseded entries too
        self._unlooked: dict[str, HeldEntries] = {}  # by name: holds that may want entries from before them
        self._overfull: dict[str, None] = {}  # names of those that keep more than they may
        self._review_at: float | None = None  # when a hold ends
        self._maintain_at: float | None = None  # when the matcher has upkeep to do
        self.ended = 0  # that were not asked for in time
        self.overfull = 0  # that had to end since they kept too much
        self.released = 0  # events up to there that live forever are in an archive, and perhaps there alone

    def load(self, state: Loaded) -> None:
        for value in state.tables.get(HOLDS, {}).values():
            row = msgspec.msgpack.decode(value, type=RetentionHoldRow)
            self._begin(row)
        for value in state.tables.get(RELEASED, {}).values():
            self.released = msgspec.msgpack.decode(value, type=int)
        self._moved()
        for name in self.rows:
            self._look(name)

    # -- what the log asks ---------------------------------------------------------------------

    def wants(self, event: Event) -> bool:
        """Is the event to be kept for some reader?"""
        return bool(self.rows) and bool(self._match(event))

    def _match(self, event: Event) -> Sequence[int]:
        """Handles of the holds that accept the event; the last answer is kept, since an event that a hold
        wants is matched before it is kept and again when it is appended."""
        if self._last_match is None or self._last_match[0] is not event:
            self._last_match = (event, self.matcher.match(event))
        return self._last_match[1]

    def is_pinned(self, offset: int) -> bool:
        if not self._unlooked:
            return offset in self._keepers
        return offset in self._keepers or any(kept.may_want(offset) for kept in self._unlooked.values())

    def keeps_superseded(self, offset: int) -> bool:
        """Does a hold keep this entry, or may it want to, though a newer one has its key?"""
        for name in self._whole:
            kept = self._kept[name]
            if offset in kept.sizes or kept.may_want(offset):
                return True
        return False

    def appended(self, record: Append) -> None:
        """An entry came into the log: the holds that want it keep it."""
        if self.rows:
            for handle in self._match(record.event):
                self._keep(self._by_handle[handle], record)

    def forgotten(self, offset: int) -> None:
        """The entry ended for all readers."""
        if self._keepers.pop(offset, 0):
            for kept in self._kept.values():
                kept.drop(offset)

    # -- the table of holds ----------------------------------------------------------------------

    def _begin(self, row: RetentionHoldRow) -> None:
        """Put a hold into the table, or one with another filter in its stead: all that it keeps is looked for
        anew."""
        if row.name in self.rows:
            self._forget(row.name)
        self.rows[row.name] = row
        self._scopes[scope_of(row.name)] += 1
        self._note_kind(row)
        handle = self._handles[row.name] = self.matcher.add(row.filter)
        self._by_handle[handle] = row.name
        self._last_match, self._maintain_at = None, 0.0
        kept = self._kept[row.name] = HeldEntries(row.upto, self._index.next_offset - 1)
        if not kept.is_known:
            self._unlooked[row.name] = kept

    def _forget(self, name: str) -> None:
        """Take a hold out of the table, with all that it keeps."""
        del self.rows[name]
        scope = scope_of(name)
        self._scopes[scope] -= 1
        if not self._scopes[scope]:
            del self._scopes[scope]
        handle = self._handles.pop(name)
        self.matcher.remove(handle)
        del self._by_handle[handle]
        self._last_match, self._maintain_at = None, 0.0
        kept = self._kept.pop(name)
        self._whole.pop(name, None)
        self._unlooked.pop(name, None)
        for offset in kept.sizes:
            self._release(offset)

    def _note_kind(self, row: RetentionHoldRow) -> None:
        if row.superseding:
            self._whole.pop(row.name, None)
        else:
            self._whole[row.name] = None

    def _release(self, offset: int) -> None:
        self._keepers[offset] -= 1
        if not self._keepers[offset]:
            del self._keepers[offset]

    def _move(self, name: str, upto: int) -> None:
        """The place moved on: entries before it are not kept any longer."""
        kept = self._kept[name]
        for offset in [offset for offset in kept.sizes if offset <= upto]:
            kept.drop(offset)
            self._release(offset)
        self._know(name, upto)

    def _know(self, name: str, upto: int) -> None:
        """The entries from before the hold are known up to there."""
        kept = self._kept[name]
        kept.looked_upto = max(kept.looked_upto, upto)
        if kept.is_known:
            self._unlooked.pop(name, None)

    def _keep(self, name: str, record: Append) -> None:
        kept, row = self._kept[name], self.rows[name]
        if kept.add(record.offset, event_size(record.event)):
            self._keepers[record.offset] = self._keepers.get(record.offset, 0) + 1
        if row.most_bytes and kept.bytes > row.most_bytes and name not in self._overfull:
            self._overfull[name] = None  # it ends at the next step: this step forgets no entry
            self._review_at = 0.0

    @property
    def held_bytes(self) -> int:
        """Bytes of the entries that holds keep, each counted for each hold."""
        return sum(kept.bytes for kept in self._kept.values())

    # -- what was there before ----------------------------------------------------------------

    def _look(self, name: str) -> None:
        """Look at the next entries that a hold may want."""
        kept = self._kept.get(name)
        if kept is None or kept.is_known:
            return
        begin = max(kept.looked_upto + 1, self._index.first_offset)
        if not self._index.may_hold(begin, kept.unknown_upto + 1):
            self._know(name, kept.unknown_upto)
            return
        count = self._ports.limits.page_count
        self._ports.disk.fetch(begin, count, partial(self._looked, name, kept), lambda failure, now: None)

    def _looked(self, name: str, kept: HeldEntries, records: Sequence[Append], now: float) -> None:
        row = self.rows.get(name)
        if row is None or self._kept.get(name) is not kept:
            return  # it ended meanwhile
        for record in records:
            wanted = row.upto < record.offset <= kept.unknown_upto and record.offset in self._index.entries
            if wanted and accepts(row.filter, record.event):
                self._keep(name, record)
        self._know(name, records[-1].offset if records else kept.unknown_upto)
        self._index.unpin()
        self._look(name)

    @property
    def filters(self) -> dict[str, Filter]:
        """Filters of all holds, by name."""
        return {name: row.filter for name, row in self.rows.items()}

    # -- holding -------------------------------------------------------------------------------

    def hold(self, session: Session, message: HoldLog, now: float) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            self._ports.send(session.address, Refused(message.call, *refusal))
            return
        before = self.rows.get(message.name)
        upto = min(message.upto, self._index.end - 1)
        if before is not None:
            upto = max(upto, before.upto)
        row = RetentionHoldRow(
            message.name, message.filter, upto, message.seconds, now + message.seconds, message.most_bytes,
            message.superseding,
        )  # fmt: skip
        if before is None or before.filter.digest != row.filter.digest:
            self._begin(row)  # earlier entries are looked at once the row is on disk
        else:
            self.rows[row.name] = row
            self._note_kind(row)
            self._move(row.name, row.upto)
        releases = message.releases and upto > self.released
        if before is not None and _is_same(before, row) and not releases:
            row.ends_at = before.ends_at
            self._hold_stored(session, message, False, now)
            return
        released = [Put(RELEASED, "upto", msgspec.msgpack.encode(upto))] if releases else []
        self._ports.disk.persist(
            [Put(HOLDS, row.name, msgspec.msgpack.encode(row)), *released],
            partial(self._hold_stored, session, message, before is None),
            partial(self._hold_failed, session, message),
            lambda reason: self._ports.send(session.address, Refused(message.call, *unsure(reason))),
        )

    def _hold_stored(self, session: Session, message: HoldLog, is_new: bool, now: float) -> None:
        self._moved()
        self._look(message.name)
        index = self._index
        row = self.rows.get(message.name)
        upto = index.end - 1 if row is None else row.upto
        if message.releases:
            self.released = max(self.released, upto)
            index.let_go(upto)
        stands = (index.log, index.first_offset, index.end - 1, upto, is_new, self.released)
        self._ports.send(session.address, LogHeld(message.call, *stands))

    def _hold_failed(self, session: Session, message: HoldLog, failure: PersistFailed, now: float) -> None:
        self._ports.send(session.address, Refused(message.call, "store", f"not held: {failure.reason}"))

    def _refusal(self, message: HoldLog) -> tuple[str, str] | None:
        disk = self._ports.disk
        if not disk.stable:
            return ("refused", NO_STORE)
        if disk.failed is not None:
            return ("store", f"the broker's disk has failed: {disk.failed.reason}")
        if disk.full is not None:
            return kept_out(disk.full)
        if message.log and message.log != self._index.log:
            return ("refused", f"this broker's log is {self._index.log}, not {message.log}")
        if message.name not in self.rows and self._scopes[scope_of(message.name)] >= self._most:
            return ("limit", f"{self._most} readers of yours hold this log already; end one of them")
        return None

    def end(self, session: Session, message: EndHold, now: float) -> None:
        records = self.drop(message.name)
        answer = LogHeld(message.call, self._index.log, self._index.first_offset, self._index.end - 1, 0)
        if records and self._ports.disk.failed is None:
            self._ports.disk.persist(records, lambda at: self._ports.send(session.address, answer))
        else:
            self._ports.send(session.address, answer)

    def described(self) -> list[dict[str, Any]]:
        """All holds, for operators."""
        return [
            {
                "name": row.name,
                "filter": row.filter.text,
                "upto": row.upto,
                "seconds": row.seconds,
                "ends_at": row.ends_at,
                "entries": len(self._kept[row.name].sizes),
                "bytes": self._kept[row.name].bytes,
                "first": next(iter(self._kept[row.name].sizes), None),
                "is_known": self._kept[row.name].is_known,
            }
            for row in self.rows.values()
        ]

    def end_scope(self, scope: str, allowed: Filter) -> list[Record]:
        """End the holds under a scope that hold more than is allowed; the records to persist."""
        over = [
            row.name
            for row in self.rows.values()
            if row.name.startswith(scope) and not covers(allowed, row.filter)
        ]
        return [record for name in over for record in self.drop(name)]

    def drop(self, name: str) -> list[Record]:
        self._overfull.pop(name, None)
        if name not in self.rows:
            return []
        self._forget(name)
        self._moved()
        return [Delete(HOLDS, name)]

    def _moved(self) -> None:
        """Places changed: entries that no hold keeps any longer may go."""
        ends = min((row.ends_at for row in self.rows.values()), default=None)
        self._review_at = 0.0 if self._overfull else ends
        self._index.unpin()

    @property
    def next_at(self) -> float | None:
        if self._review_at is None or self._maintain_at is None:
            return self._maintain_at if self._review_at is None else self._review_at
        return min(self._review_at, self._maintain_at)

    def collect(self, now: float) -> list[Record]:
        """End what was not asked for in time, or keeps too much; the records to persist."""
        if self._maintain_at is not None and self._maintain_at <= now:
            left = self.matcher.maintain(self._settings.maintain_budget)
            self._maintain_at = now + self._settings.flush_seconds if left else None
        if self._review_at is None or self._review_at > now:
            return []
        full = list(self._overfull)
        over = [row.name for row in self.rows.values() if row.ends_at <= now and row.name not in full]
        self.ended += len(over)
        self.overfull += len(full)
        records = [record for name in (*full, *over) for record in self.drop(name)]
        self._moved()
        return records


def _is_same(before: RetentionHoldRow, row: RetentionHoldRow) -> bool:
    """Are the rows so alike that the new one need not be written?"""
    return (
        before.filter.digest == row.filter.digest
        and (before.upto, before.seconds, before.superseding) == (row.upto, row.seconds, row.superseding)
    ) and row.ends_at - before.ends_at < TOUCH * row.seconds
