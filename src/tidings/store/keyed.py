"""The store on any engine: checks on the way in, checks on the way out.

Rules
- Opening audits everything. `load` hands the result over once; a second `load` reads again.
- `commit` keeps order: plan, write, watermark, then the index. The watermark comes after the sync, so it
  never promises what the disk does not hold.
- A failed write stops the store, except a full disk (see `store.py`). After a full disk the last batch is
  in doubt: the engine may have kept it. The account on disk tells, before anything else is written, and
  appends of that batch that are handed in again, alone or in other company, are not done twice.
- A batch that adds events is refused while less than `reserve_bytes` are free, and while the store has
  reached `most_bytes`; one that only forgets, puts or deletes may still use the reserve, because that is how
  room is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing

from tidings.availability.records import Append, Loaded, Record
from tidings.errors import ClosedError, StoreError, StoreFullError
from tidings.store.account import CommitPlan, StoreIndex
from tidings.store.audit import FORMAT, audit, read_account
from tidings.store.engine import StoreEngine
from tidings.store.guard import (
    ENTRY_END,
    FORMAT_KEY,
    append_from,
    damaged,
    entry_key,
    guarded,
    offset_of,
    opened,
)

MORE_ROOM = 10  # percent of the reserve, or of the limit, that must be free before events are taken again
ARRAY, PAIR = b"\xdd", b"\x92\xcf"  # MessagePack: a long array; a pair that begins with 64 bits


class KeyedStore:
    """A `Store` over an engine that was audited."""

    def __init__(
        self,
        engine: StoreEngine,
        found: tuple[StoreIndex, Loaded],
        *,
        reserve_bytes: int = 0,
        most_bytes: int | None = None,
    ) -> None:
        self._engine = engine
        self._index: StoreIndex = found[0]
        self._loaded: Loaded | None = found[1]
        self._first = self._index.offsets.first()  # other threads read this, and never the index
        self._reserve_bytes = reserve_bytes
        self._most_bytes = most_bytes  # of the engine's files; None: as many as the disk has room for
        self._doubt: tuple[Sequence[Record], CommitPlan] | None = None  # a batch that a full disk refused
        self._kept_anyway: dict[int, Append] = {}  # refused and yet kept: handed in again, they are there
        self._is_short = False  # of room: the last batch that adds events was refused
        self._failure: BaseException | None = None
        self._is_closed = False
        self._writing = threading.Lock()

    def load(self) -> Loaded:
        self._check_open()
        with self._writing:
            loaded, self._loaded = self._loaded, None
            return loaded if loaded is not None else audit(self._engine)[1]

    def commit(self, records: Sequence[Record]) -> None:
        with self._writing:
            self._check_open()
            self._check_sound()
            self._settle_doubt()
            records = self._without_kept(records) if self._kept_anyway else records
            if not records:
                return
            self._loaded = None
            plan = self._index.plan(records)
            self._check_room(plan)
            self._write(records, plan)

    def skip(self, offsets: int) -> None:
        """Give the next so many offsets to no event: an earlier life of this log may have used them."""
        with self._writing:
            self._check_open()
            self._check_sound()
            self._loaded = None
            self._write((), self._index.plan((), skip=offsets))

    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        self._check_open()
        name = self._engine.name
        first = self._first
        if first is None or limit < 1:
            return []
        found: list[Append] = []
        size = 0
        # Starting at the first live entry steps over what was forgotten before it and not yet compacted.
        with closing(self._engine.scan(entry_key(max(from_offset, first)), ENTRY_END)) as scan:
            for key, value in scan:
                found.append(append_from(key, value, name))
                size += len(value)
                if len(found) >= limit or size >= max_bytes:
                    break
        return found

    def pack(
        self,
        from_offset: int,
        upto: int,
        limit: int,
        max_bytes: int,
        is_wanted: Callable[[int, bytes], bool],
    ) -> tuple[bytes, int]:
        """Entries from `from_offset` to `upto` as one MessagePack array of [offset, stored entry], as they
        are on the disk, each checked; and the last offset that was looked at (`upto` when all were). At most
        `limit` entries and `max_bytes`, but always one.

        For readers of whole logs: no entry is decoded here unless `is_wanted` does so with its offset
        and bytes.
        """
        self._check_open()
        name, first = self._engine.name, self._first
        parts: list[bytes] = []
        size, count, last = 0, 0, upto
        if first is not None and from_offset <= upto:
            lower, upper = entry_key(max(from_offset, first)), entry_key(upto + 1)
            with closing(self._engine.scan(lower, upper)) as scan:
                for key, value in scan:
                    payload = opened(key, value, name)
                    if is_wanted(offset_of(key), payload):
                        if count and size + len(payload) > max_bytes:
                            last = offset_of(key) - 1  # it belongs to the next page
                            break
                        parts += (PAIR, key[1:], payload)
                        count += 1
                        size += len(payload)
                        if count >= limit or size >= max_bytes:
                            last = offset_of(key)
                            break
        return b"".join((ARRAY, count.to_bytes(4, "big"), *parts)), last

    def get(self, offset: int) -> Append | None:
        self._check_open()
        key = entry_key(offset)
        value = self._engine.read(key)
        if value is None:
            return None
        return append_from(key, value, self._engine.name)

    def verify(self) -> int:
        self._check_open()
        with self._writing:
            index, _ = audit(self._engine)
            if index.account != self._index.account:
                raise damaged(self._engine.name, "its account is not the one that was written")
            return index.account.entries + index.account.rows

    def sizes(self) -> dict[str, int]:
        self._check_open()
        account = self._index.account
        sizes = {
            "entries": account.entries,
            "rows": account.rows,
            "commits": account.commit,
            "bytes": self._engine.size(),
        }
        room = self._engine.room()
        return sizes if room is None else {**sizes, "room": max(0, room - self._reserve_bytes)}

    def close(self) -> None:
        with self._writing:
            if not self._is_closed:
                self._is_closed = True
                self._engine.close()

    def _write(self, records: Sequence[Record], plan: CommitPlan) -> None:
        changes: list[tuple[bytes, bytes | None]] = list(plan.changes.items())
        if plan.commit == 1:
            changes.append((FORMAT_KEY, guarded(FORMAT_KEY, FORMAT.to_bytes(4, "big"))))
        try:
            self._engine.write(changes)
            self._engine.mark(plan.commit)
        except StoreFullError:
            self._doubt = (records, plan)
            raise
        except BaseException as error:  # after any error the batch is in an unknown state
            self._failure = error
            raise
        self._apply(plan)

    def _apply(self, plan: CommitPlan) -> None:
        self._index.apply(plan)
        self._first = self._index.offsets.first()

    def _settle_doubt(self) -> None:
        """After a full disk: was the refused batch kept all the same?"""
        if self._doubt is None:
            return
        refused, plan = self._doubt
        self._engine.recover()
        kept = read_account(self._engine)
        self._doubt = None
        if kept == self._index.account:
            return
        if kept != plan.account():
            raise damaged(self._engine.name, "its account is neither the old nor the new one")
        self._engine.mark(plan.commit)
        self._apply(plan)
        self._kept_anyway.update((one.offset, one) for one in refused if isinstance(one, Append))

    def _without_kept(self, records: Sequence[Record]) -> list[Record]:
        """Leave out appends that were done already; all other records are idempotent."""
        left: list[Record] = []
        for record in records:
            if isinstance(record, Append) and self._kept_anyway.get(record.offset) == record:
                del self._kept_anyway[record.offset]
            else:
                left.append(record)
        return left

    def _check_room(self, plan: CommitPlan) -> None:
        if not plan.grows:
            return
        # Compaction frees and takes room all the time; without a margin, publishers would be refused by
        # turns.
        more = MORE_ROOM if self._is_short else 0
        self._is_short = True
        most = self._most_bytes
        if most is not None and self._engine.size() >= most - most * more // 100:
            raise StoreFullError(
                f"store {self._engine.name}: it has reached its limit of {self._most_bytes} bytes",
                hint="raise resources.store_bytes, or let subscribers take what they are owed",
            )
        room = self._engine.room() if self._reserve_bytes else None
        if room is not None and room < self._reserve_bytes + self._reserve_bytes * more // 100:
            raise StoreFullError(
                f"store {self._engine.name}: {room} bytes are free, fewer than the reserve of "
                f"{self._reserve_bytes}",
                hint="make room on that disk; publishers are refused until then, consumers go on",
            )
        self._is_short = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"store {self._engine.name} is closed")

    def _check_sound(self) -> None:
        if self._failure is not None:
            raise StoreError(
                f"store {self._engine.name} has stopped: {self._failure}",
                hint="nothing since that failure was acknowledged; close it, look after the disk, open again",
            ) from self._failure
