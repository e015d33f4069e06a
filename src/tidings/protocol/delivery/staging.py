"""Publishing in two steps: parts are staged, then all of them are published at once, or none.

For a writer that works in batches and may do a batch again (a query of a cluster: its tasks stage, its
driver commits). Rules
- A staged part is kept, and delivered to no subscription. Staging a part again replaces it.
- A commit publishes every part of a batch in the order of the parts, as one atomic write together
  with the note that this batch of this query is done. A batch that is done, or an earlier one, is
  answered as done and changes nothing.
- A commit names how many parts there are, or which ones. When one is missing, no part is published.
- Events of one identity count as one. Two of a batch that differ are refused with the batch: one of them
  would be dropped as a repetition of the other.
- A writer that was at other brokers before says so by these events, as by any others
  (`publisher_migration.py`).
- Staging ends after a time, and holds a bounded number of bytes: of each principal, and of all together some
  times as many, so that one principal does not keep the others out.
- All of it is bound to this broker's log. A writer that staged at another broker is told so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from tidings.availability.records import Delete, Loaded, Put, Record
from tidings.errors import TooLargeError
from tidings.model.event import Event
from tidings.model.subscription import scope_of
from tidings.protocol.batches import too_large
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.refusals import kept_out, unsure
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.messages import (
    AskCommitted,
    CommitParts,
    CommitStaged,
    Committed,
    Refused,
    Staged,
    StageEvents,
)
from tidings.protocol.slots import Ports

STAGED = "staged"  # table: one row for each part
DONE = "staged.done"  # table: one row for each query

Done = Callable[[float], None]
NotDone = Callable[[PersistFailed, float], None]
Stalled = Callable[[str], None]
Publish = Callable[[Session, list[Event], list[Record], Done, NotDone, Stalled, float], None]


class PartRow(msgspec.Struct, array_like=True, frozen=True):
    query: str
    batch: int
    part: int
    events: tuple[Event, ...]
    ends_at: float


class DoneRow(msgspec.Struct, array_like=True, frozen=True):
    query: str
    batch: int


class Staging:
    def __init__(self, ports: Ports, settings: DeliverySettings, index: LogIndex, publish: Publish) -> None:
        self._ports = ports
        self._index = index
        self._seconds = settings.staging_seconds
        self._most_bytes = settings.staging_bytes
        self._most_in_all = settings.staging_bytes * settings.staging_principals
        self._publish = publish
        self._parts: dict[tuple[str, int], dict[int, PartRow]] = {}  # by query and batch
        self._sizes: dict[str, int] = {}  # by key of a row
        self._bytes: Counter[str] = Counter()  # by scope: the sum of its sizes
        self.staged_bytes = 0  # the sum of all
        self._done: dict[str, int] = {}  # by query: the last batch
        self._queries: Counter[str] = Counter()  # by scope: how many of `_done` are its
        self._most_queries = ports.limits.client.queries
        self._committing: dict[tuple[str, int], list[tuple[str, int]]] = {}  # address and call of who waits
        self.next_at: float | None = None  # when a batch may have to be forgotten
        self.expired = 0

    def load(self, state: Loaded) -> None:
        for key, value in state.tables.get(STAGED, {}).items():
            row = msgspec.msgpack.decode(value, type=PartRow)
            self._parts.setdefault((row.query, row.batch), {})[row.part] = row
            self._count(key, row.query, len(value))
            self.next_at = row.ends_at if self.next_at is None else min(self.next_at, row.ends_at)
        for value in state.tables.get(DONE, {}).values():
            done = msgspec.msgpack.decode(value, type=DoneRow)
            self._note_done(done.query, done.batch)

    def _note_done(self, query: str, batch: int) -> None:
        if query not in self._done:
            self._queries[scope_of(query)] += 1
        self._done[query] = batch

    # -- staging -----------------------------------------------------------------------------

    def stage(self, session: Session, message: StageEvents, now: float) -> None:
        address, call = session.address, message.call
        refusal = self._refusal(message.log)
        if refusal is None and message.batch <= self._done.get(message.query, -1):
            self._ports.send(address, Staged(call))  # done long ago; the commit will say so
            return
        row = PartRow(message.query, message.batch, message.part, message.events, now + self._seconds)
        value = msgspec.msgpack.encode(row)
        key = _key(row)
        refusal = refusal or self._no_room(message.query, len(value) - self._sizes.get(key, 0))
        if refusal is not None:
            self._ports.send(address, Refused(call, "refused", refusal))
            return
        if (reason := self._too_large(message.events)) is not None:
            self._ports.send(address, Refused(call, TooLargeError.code, reason))
            return
        if self._ports.disk.full is not None:
            self._ports.send(address, Refused(call, *kept_out(self._ports.disk.full)))
            return
        self._count(key, message.query, len(value))
        self._ports.disk.persist(
            [Put(STAGED, key, value)],
            partial(self._staged, address, call, row),
            partial(self._not_staged, address, call, row),
            lambda reason: self._ports.send(address, Refused(call, *unsure(reason))),
        )

    def _no_room(self, query: str, more: int) -> str | None:
        """Reason why so many bytes more of this query may not be staged."""
        own = self._bytes[scope_of(query)]
        if own + more > self._most_bytes:
            return f"{own} bytes are staged, and {self._most_bytes} may be; commit in smaller batches"
        if self.staged_bytes + more > self._most_in_all:
            return (
                f"all principals together have staged {self.staged_bytes} bytes; try again when some "
                "have committed"
            )
        return None

    def _count(self, key: str, query: str, size: int) -> None:
        """A row takes so many bytes from now on; 0: it is gone."""
        more, scope = size - self._sizes.pop(key, 0), scope_of(query)
        if size:
            self._sizes[key] = size
        self.staged_bytes += more
        self._bytes[scope] += more
        if not self._bytes[scope]:
            del self._bytes[scope]

    def _too_large(self, events: Sequence[Event]) -> str | None:
        most = self._ports.event_bytes
        return next((reason for event in events if (reason := too_large(event, most)) is not None), None)

    def _staged(self, address: str, call: int, row: PartRow, now: float) -> None:
        self._parts.setdefault((row.query, row.batch), {})[row.part] = row
        self.next_at = row.ends_at if self.next_at is None else self.next_at
        self._ports.send(address, Staged(call))

    def _not_staged(self, address: str, call: int, row: PartRow, failure: PersistFailed, now: float) -> None:
        self._count(_key(row), row.query, 0)
        self._ports.send(address, Refused(call, "store", f"not staged: {failure.reason}"))

    def _refusal(self, log: str) -> str | None:
        disk, own = self._ports.disk, self._index.log
        if not disk.stable:
            return "staging needs a broker with a store"
        if disk.failed is not None:
            return f"the broker's disk has failed: {disk.failed.reason}"
        if log and log != own:
            return f"this is {own}, and the rest of the batch is at {log}: a sink stays at one broker"
        return None

    # -- committing --------------------------------------------------------------------------

    def commit(self, session: Session, message: CommitStaged | CommitParts, now: float) -> None:
        address, call, name = session.address, message.call, (message.query, message.batch)
        refusal = self._refusal(message.log)
        if refusal is not None:
            self._ports.send(address, Refused(call, "refused", refusal))
        elif message.batch <= self._done.get(message.query, -1):
            self._ports.send(address, Committed(call, message.query, message.batch, is_new=False))
        elif self._ports.disk.full is not None:
            full = self._ports.disk.full
            answer = unsure(full) if name in self._committing else kept_out(full)
            self._ports.send(address, Refused(call, *answer))
        elif message.query not in self._done and self._queries[scope_of(message.query)] >= self._most_queries:
            reason = (
                f"{self._most_queries} queries have committed here already; go on under one of their names"
            )
            self._ports.send(address, Refused(call, "limit", reason))
        elif name in self._committing:
            self._committing[name].append((address, call))
        else:
            numbers = message.numbers if isinstance(message, CommitParts) else range(message.parts)
            self._commit(session, call, name, numbers, now)

    def _commit(
        self, session: Session, call: int, name: tuple[str, int], numbers: Sequence[int], now: float
    ) -> None:
        address = session.address
        parts = self._parts.get(name, {})
        missing = next((part for part in numbers if part not in parts), None)
        if missing is not None:
            reason = f"part {missing} of {len(numbers)} is not staged, or no longer; stage the batch again"
            self._ports.send(address, Refused(call, "refused", reason))
            return
        events = [event for part in numbers for event in parts[part].events]
        if (ambiguous := _ambiguous(events)) is not None:
            self._ports.send(address, Refused(call, "refused", ambiguous))
            return
        self._committing[name] = [(address, call)]
        query, batch = name
        records: list[Record] = [Put(DONE, query, msgspec.msgpack.encode(DoneRow(query, batch)))]
        records += [Delete(STAGED, _key(row)) for row in self._upto(name)]
        done, not_done = partial(self._committed, name), partial(self._not_committed, name)
        self._publish(session, events, records, done, not_done, partial(self._stalled, name), now)

    def _upto(self, name: tuple[str, int]) -> list[PartRow]:
        """Parts staged for this batch and for earlier ones of the query."""
        query, batch = name
        return [
            row
            for (other, number), parts in self._parts.items()
            if other == query and number <= batch
            for row in parts.values()
        ]

    def _committed(self, name: tuple[str, int], now: float) -> None:
        query, batch = name
        self._note_done(query, batch)
        self._forget(self._upto(name))
        for address, call in self._committing.pop(name):
            self._ports.send(address, Committed(call, query, batch, is_new=True))

    def _not_committed(self, name: tuple[str, int], failure: PersistFailed, now: float) -> None:
        for address, call in self._committing.pop(name):
            self._ports.send(address, Refused(call, "store", f"not committed: {failure.reason}"))

    def _stalled(self, name: tuple[str, int], reason: str) -> None:
        waiting, self._committing[name] = self._committing[name], []
        for address, call in waiting:
            self._ports.send(address, Refused(call, *unsure(reason)))

    def ask(self, session: Session, message: AskCommitted) -> None:
        batch = self._done.get(message.query, -1)
        self._ports.send(session.address, Committed(message.call, message.query, batch, is_new=False))

    # -- ending ------------------------------------------------------------------------------

    def _forget(self, rows: list[PartRow]) -> None:
        for row in rows:
            self._count(_key(row), row.query, 0)
            parts = self._parts.get((row.query, row.batch), {})
            parts.pop(row.part, None)
            if not parts:
                self._parts.pop((row.query, row.batch), None)

    def forget_scope(self, scope: str) -> list[Record]:
        """Forget all that was staged under a scope and is not being committed; the records to persist."""
        over = [
            row
            for name, parts in self._parts.items()
            if name[0].startswith(scope) and name not in self._committing
            for row in parts.values()
        ]
        self._forget(over)
        return [Delete(STAGED, _key(row)) for row in over]

    def collect(self, now: float) -> list[Record]:
        """Forget what was staged too long ago and is not being committed; the records to persist."""
        if self.next_at is None or self.next_at > now:
            return []
        over = [
            row
            for name, parts in self._parts.items()
            if name not in self._committing
            for row in parts.values()
            if row.ends_at <= now
        ]
        self._forget(over)
        self.expired += len(over)
        ends = [row.ends_at for parts in self._parts.values() for row in parts.values()]
        self.next_at = max(min(ends), now + 1.0) if ends else None
        return [Delete(STAGED, _key(row)) for row in over]


def _ambiguous(events: Sequence[Event]) -> str | None:
    """Reason why these events are not published together: two differ and have one identity."""
    if len({event.identity for event in events}) == len(events):
        return None
    first: dict[tuple[str, str], Event] = {}
    for event in events:
        other = first.setdefault(event.identity, event)
        if other is not event and msgspec.msgpack.encode(other) != msgspec.msgpack.encode(event):
            return (
                f"the batch has two different events with the id {event.id!r} of the source "
                f"{event.source!r}, which would count as one; nothing of it is published"
            )
    return None


def _key(row: PartRow) -> str:
    return f"{row.batch:016x}/{row.part:08x}/{row.query}"
