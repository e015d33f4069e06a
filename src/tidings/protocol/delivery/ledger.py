"""The index of this broker's log: what it holds, until when, and for whom.

Rules
- An entry is forgotten when its lifetime is over and nobody has a right to it any more: no
  durable subscription is owed it, and no replay that began while it was available has still to
  read it. `expires_at` ends it for everybody; a newer event with its key does too.
- Forgetting goes in steps of a budget, on the node's timer, and is persisted in batches.
- The identity of an event outlives its entry by a window, so that a publish that is tried again
  is recognised; on a stable disk this also survives a restart.
- Offsets below `end` were told to the subscriptions that were live; those from `end` up to
  `next_offset` are on their way to the disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from tidings.availability.records import Append, Delete, Entry, Forget, Loaded, Record, entry_of
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.settings import DeliverySettings

Identity = tuple[str, str]
STEP_SECONDS = 0.05  # between two steps of forgetting; oftener forgets sooner, in smaller batches


class Known(NamedTuple):
    """An identity whose event no entry holds."""

    offset: int | None
    until: float
    stored: bool  # True: it has a row on the disk


class Ledger:
    def __init__(self, settings: DeliverySettings, *, stable: bool, is_pinned: Callable[[int], bool]) -> None:
        self._settings = settings
        self._stable = stable
        self._is_pinned = is_pinned  # may some replay still have to read this offset?
        self.next_offset = 1
        self.end = 1
        self.entries: dict[int, Entry] = {}  # ascending
        self._by_key: dict[str, int] = {}
        self._living: dict[Identity, int] = {}  # identities of entries
        self._window: OrderedDict[Identity, Known] = OrderedDict()  # other identities, oldest first
        self._owed: dict[int, int] = {}  # how many durable subscriptions are owed an offset
        self._lapses: list[tuple[float, int]] = []  # heap: when a lifetime is over
        self._ends: list[tuple[float, int]] = []  # heap: when an event ends for everybody
        self._lapsed: set[int] = set()  # lifetime over, kept for somebody
        self._pinned: list[int] = []  # lapsed, and some replay may still read them
        self._free: list[int] = []  # to be forgotten in the next step
        self._outdated: list[Record] = []  # rows of identities whose window is over
        self._next_step = 0.0
        self.forgotten = 0
        self.dropped_identities = 0

    def load(self, state: Loaded) -> None:
        """Begin with what the disk holds."""
        self.next_offset = self.end = state.next_offset
        for entry in state.entries:
            self._index(entry)
            if entry.ends_at != inf:
                self._lapses.append((entry.ends_at, entry.offset))
            if entry.expires_at is not None:
                self._ends.append((entry.expires_at, entry.offset))
        heapify(self._lapses)
        heapify(self._ends)
        known = list(rows.decoded(state.tables, rows.IDENTITY, rows.IdentityRow))
        for row in sorted(known, key=lambda row: row.until):
            self._window[row.source, row.id] = Known(row.offset, row.until, stored=True)

    # -- entries -------------------------------------------------------------------------

    def _index(self, entry: Entry) -> None:
        self.entries[entry.offset] = entry
        self._living[entry.source, entry.id] = entry.offset
        if entry.key is not None:
            self._by_key[entry.key] = entry.offset

    def append(self, record: Append) -> list[Record]:
        """Take an entry in; the records to persist, among them the end of what it supersedes."""
        self.next_offset = record.offset + 1
        superseded = self.supersede(record.event.key, record.accepted)
        self._index(entry_of(record))
        return [record, *superseded]

    def supersede(self, key: str | None, now: float) -> list[Record]:
        """A newer event has this key: forget the older one. The records to persist."""
        old = None if key is None else self._by_key.get(key)
        return [] if old is None else self._forget(old, now)

    def tell(self, offset: int) -> None:
        """The entry is on the disk; from now on it is told."""
        self.end = offset + 1

    def told(self, offset: int, now: float) -> None:
        """It was told to everyone who is live: its rights are known, its lifetime may end."""
        entry = self.entries.get(offset)
        if entry is None:
            return
        if entry.expires_at is not None:
            heappush(self._ends, (entry.expires_at, offset))
        if entry.ends_at <= now:
            self._lapse(offset)
        elif entry.ends_at != inf:
            heappush(self._lapses, (entry.ends_at, offset))

    @property
    def first_offset(self) -> int:
        return next(iter(self.entries), self.next_offset)

    def may_hold(self, start: int, end: int) -> bool:
        """Is there perhaps an entry there? Never a wrong no."""
        return start < end and bool(self.entries) and next(reversed(self.entries)) >= start

    def available(self, now: float) -> int:
        """How many entries a subscription that begins now could hear."""
        return sum(entry.ends_at > now for entry in self.entries.values())

    # -- identities ------------------------------------------------------------------------

    def known(self, identity: Identity) -> tuple[int | None] | None:
        """The offset of an event that was published before (None for none), in a tuple; or None."""
        offset = self._living.get(identity)
        if offset is not None:
            return (offset,)
        known = self._window.get(identity)
        return None if known is None else (known.offset,)

    def remember(self, identity: Identity, now: float) -> None:
        """An event was told that no log holds."""
        self._window[identity] = Known(None, now + self._settings.identity_seconds, stored=False)
        self._trim(now)

    def _trim(self, now: float) -> None:
        """Drop the oldest identities: two for each that comes, so that the window empties."""
        for _ in range(2):
            identity, known = next(iter(self._window.items()), (None, None))
            if identity is None or known is None:
                return
            is_over = known.until <= now
            if not is_over and len(self._window) <= self._settings.identities:
                return
            self.dropped_identities += not is_over
            del self._window[identity]
            if known.stored:
                self._outdated.append(Delete(rows.IDENTITY, rows.key_of(*identity)))

    # -- rights --------------------------------------------------------------------------

    def owe(self, offset: int) -> None:
        """A durable subscription has a right to it."""
        self._owed[offset] = self._owed.get(offset, 0) + 1

    def release(self, offset: int) -> None:
        """One durable subscription is owed it no longer."""
        count = self._owed.pop(offset, 0) - 1
        if count > 0:
            self._owed[offset] = count
        elif offset in self._lapsed:
            self._lapse(offset)

    def unpin(self) -> None:
        """A replay is over: look again at what was kept for it."""
        pinned, self._pinned = self._pinned, []
        for offset in pinned:
            self._lapse(offset)

    def _lapse(self, offset: int) -> None:
        """Its lifetime is over: forget it soon, unless somebody has a right to it."""
        if offset not in self.entries:
            return
        self._lapsed.add(offset)
        if self._is_pinned(offset):
            self._pinned.append(offset)
        elif offset not in self._owed:
            self._free.append(offset)

    # -- forgetting ------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When there is something to forget."""
        due = [0.0] if self._free or self._outdated else []
        due += [heap[0][0] for heap in (self._lapses, self._ends) if heap]
        return max(min(due), self._next_step) if due else None

    def collect(self, now: float) -> list[Record]:
        """One step: the records that forget what is over, at most a budget of it."""
        self._next_step = now + STEP_SECONDS
        budget = self._settings.collect_budget
        while budget and self._ends and self._ends[0][0] <= now:
            self._free.append(heappop(self._ends)[1])
            budget -= 1
        while budget and self._lapses and self._lapses[0][0] <= now:
            self._lapse(heappop(self._lapses)[1])
            budget -= 1
        free, self._free = self._free, []
        forgotten = [record for offset in free for record in self._forget(offset, now)]
        outdated, self._outdated = self._outdated, []
        return forgotten + outdated

    def _forget(self, offset: int, now: float) -> list[Record]:
        entry = self.entries.pop(offset, None)
        self._owed.pop(offset, None)
        self._lapsed.discard(offset)
        if entry is None:
            return []
        self.forgotten += 1
        if entry.key is not None and self._by_key.get(entry.key) == offset:
            del self._by_key[entry.key]
        return [Forget(offset), *self._outlive(entry, now)]

    def _outlive(self, entry: Entry, now: float) -> list[Record]:
        """The identity of a forgotten entry stays known while its publisher may still try again."""
        identity = (entry.source, entry.id)
        if self._living.get(identity) == entry.offset:
            del self._living[identity]
        until = entry.accepted + self._settings.identity_seconds
        if until <= now:
            return []
        self._window[identity] = Known(entry.offset, until, self._stable)
        self._trim(now)
        if not self._stable:
            return []
        row = rows.IdentityRow(*identity, entry.offset, until)
        return [rows.put(rows.IDENTITY, rows.key_of(*identity), row)]

    def check(self) -> None:
        assert self.end <= self.next_offset
        assert all(count > 0 for count in self._owed.values()), "rights are counted"
        assert len(self._living) == len(self.entries), "each entry has one identity"
        assert all(offset in self.entries for offset in self._by_key.values()), "keys name entries"
        assert len(self._window) <= self._settings.identities + 2, "identities are bounded"
