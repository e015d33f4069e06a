"""The index of this broker's log: its entries, their lifetimes, and the subscriptions that are owed them.

Rules
- An entry is forgotten when its lifetime is over and no subscription has a right to it any more: no
  durable subscription is owed it, and no replay that began while it was available has still to
  read it. `expires_at` ends it for all readers; a newer event with its key does too, except for durable
  subscriptions that were owed it and want superseded events (`DeliveryOptions.superseding`), and for
  holds that do.
- A superseded entry that is kept is marked on the disk: after a restart it is superseded still, also when the
  newer event is in no log. Of events that are accepted together the older are on the disk before it is known
  who is owed them: they are marked a little later, if they are kept.
- `on_forgotten` reports each forgotten entry to the keeper of identities, and its records go with it.
- Forgetting goes in steps of a budget, on the node's timer, and is persisted in batches.
- Offsets below `end` were told to the subscriptions that were live; those from `end` up to
  `next_offset` are on their way to the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from tidings.availability.lifetime import ExpiryQueue, available
from tidings.availability.records import Append, Delete, Entry, Forget, Loaded, Put, Record, entry_of
from tidings.availability.superseding import Superseding
from tidings.availability.topic_index import TopicIndex
from tidings.protocol.delivery.cursor import ANY_OFFSET
from tidings.protocol.slots import Ports

SUPERSEDED = "superseded"  # table: one row for each entry that is kept though a newer event has its key
STEP_SECONDS = 0.05  # between two steps of forgetting; oftener forgets sooner, in smaller batches


class LogIndex:
    def __init__(
        self,
        log: str,
        budget: int,
        is_pinned: Callable[[int], bool],
        ports: Ports | None = None,
    ) -> None:
        self.log = log  # its name, in positions and tokens
        self._budget = budget
        self._is_pinned = is_pinned  # may some replay still have to read this offset?
        self.keeping_superseded: list[Callable[[int], bool]] = []  # each: is it needed though superseded?
        self._ports = ports  # its `kept` counts the bytes of sources as long as their lifetimes last
        self.appended: Callable[[Append], None] = lambda record: None  # called with each new entry
        self.ended: Callable[[int], None] = lambda offset: None  # called with each that is forgotten
        self.next_offset = 1
        self.end = 1
        self.entries: dict[int, Entry] = {}  # ascending
        self._offsets: dict[tuple[str, str], int] = {}  # by identity
        self._keys = Superseding()
        self.topics = TopicIndex()  # of the entries with a lifetime
        self._owed: dict[int, int] = {}  # how many durable subscriptions are owed an offset ...
        self._owners: dict[int, dict[str, int]] = {}  # ... and how many of each owner that has a quota
        self._unsuperseded: set[int] = set()  # offsets that a subscription is owed whatever supersedes them
        self._superseded: set[int] = set()  # those of them, or needed elsewhere, that are superseded
        self._unmarked: list[int] = []  # of `_superseded`: the disk does not say so yet ...
        self._marked: set[int] = set()  # ... and those of which it does
        self._lapses = ExpiryQueue()  # when a lifetime is over
        self._ends = ExpiryQueue()  # when an event ends for all readers
        self._lapsed: set[int] = set()  # lifetime over, kept for a subscription
        self._pinned: list[int] = []  # lapsed, and some replay may still read them
        self._free: list[int] = []  # to be forgotten in the next step
        self._next_step = 0.0
        self.forgotten = 0
        self.now = 0.0  # the latest time that was told
        self.on_pinned: Callable[[], None] = lambda: (
            None
        )  # called when a lifetime is over and the entry stays
        self.on_forgotten: Callable[[Entry, float], list[Record]] = lambda entry, now: []

    def load(self, state: Loaded) -> None:
        """Begin with what the disk holds."""
        self.next_offset = self.end = state.next_offset
        for entry in state.entries:
            old = self._index(entry)
            self._watch(entry)
            if old is not None:  # a subscription was owed it
                self._load_superseded(old)
        for key in state.tables.get(SUPERSEDED, ()):
            if (offset := int(key)) in self.entries:
                self._marked.add(offset)
                self._load_superseded(offset)

    def _load_superseded(self, offset: int) -> None:
        if offset not in self._superseded:
            entry = self.entries[offset]
            self._obsolete(offset)
            self._keys.forget(entry.key, offset)
            self._lapses.add(offset, entry.accepted)

    # -- entries -------------------------------------------------------------------------

    def _index(self, entry: Entry) -> int | None:
        """Take it in; the offset that it supersedes."""
        self.entries[entry.offset] = entry
        if entry.topic is not None:
            self.topics.add(entry.topic, entry.offset)
        self._count(entry, entry.size)
        self._offsets[entry.identity] = entry.offset
        return self._keys.supersede(entry.key, entry.offset)

    def _watch(self, entry: Entry) -> None:
        self._lapses.add(entry.offset, entry.ends_at)
        self._ends.add(entry.offset, inf if entry.expires_at is None else entry.expires_at)

    def append(self, record: Append) -> list[Record]:
        """Take an entry in; the records to persist, among them the end of what it supersedes."""
        self.next_offset = record.offset + 1
        if record.accepted > self.now:
            self.now = record.accepted
        old = self._index(entry_of(record))
        self.appended(record)
        return [record] if old is None else [record, *self._supersede(old)]

    def supersede(self, key: str, below: int = ANY_OFFSET) -> list[Record]:
        """A newer event has this key and is in no log: forget the older one, below this offset. The
        records to persist."""
        old = self._keys.latest(key)
        return [] if old is None or old >= below else self._supersede(old)

    def _supersede(self, offset: int) -> list[Record]:
        """A newer event has the key of this entry; the records to persist."""
        if offset in self._superseded:
            return []
        if offset >= self.end:  # `dispatched` lets it lapse: it is known then to whom it is owed
            self._obsolete(offset)
            self._unmarked.append(offset)
            return []
        if offset not in self._unsuperseded and not self.keeps_superseded(offset):
            return self._forget(offset)
        self._obsolete(offset)
        self._lapse(offset)
        return self._mark([offset])

    def _mark(self, offsets: Iterable[int]) -> list[Record]:
        """The disk is to say that these entries are superseded, where they are kept."""
        if self._ports is None or not self._ports.disk.stable:
            return []
        kept = [offset for offset in offsets if offset in self._superseded]
        self._marked.update(kept)
        return [Put(SUPERSEDED, str(offset), b"") for offset in kept]

    def _obsolete(self, offset: int) -> None:
        self._superseded.add(offset)
        topic = self.entries[offset].topic
        if topic is not None:
            self.topics.remove(topic, offset)

    def is_superseded(self, offset: int) -> bool:
        """Is the entry kept only for subscriptions that want superseded events?"""
        return offset in self._superseded

    def has_newer(self, key: str, offset: int) -> bool:
        """Does the log hold an event of this key behind this offset?"""
        return self._keys.is_superseded(key, offset)

    def expose(self, offset: int) -> None:
        """The entry is on the disk; from now on it is told."""
        self.end = offset + 1

    def skip_to(self, upto: int) -> None:
        """Give no offset up to there any more.

        Entries that are on their way to the disk were taken out before.
        """
        self.next_offset = self.end = max(self.next_offset, upto + 1)

    def withdraw(self, offset: int) -> list[Record]:
        """Take an undelivered entry out; the records to persist."""
        return self._forget(offset)

    def dispatched(self, offset: int, now: float) -> None:
        """It was told to everyone who is live: who is owed it is known, its lifetime may end."""
        if now > self.now:
            self.now = now
        entry = self.entries.get(offset)
        if entry is None:
            return
        if entry.ends_at > now and offset not in self._superseded:
            self._watch(entry)
            return
        self._lapse(offset)
        if entry.expires_at is not None:
            self._ends.add(offset, entry.expires_at)

    @property
    def first_offset(self) -> int:
        return next(iter(self.entries), self.next_offset)

    def offset_of(self, identity: tuple[str, str]) -> int | None:
        return self._offsets.get(identity)

    def may_hold(self, start: int, end: int) -> bool:
        """Is there perhaps an entry there? Never a wrong no."""
        return start < end and bool(self.entries) and next(reversed(self.entries)) >= start

    def available(self, now: float) -> int:
        """Number of entries that a new subscription could receive."""
        entries = self.entries.values()
        return sum(available(entry, now) and entry.offset not in self._superseded for entry in entries)

    # -- rights --------------------------------------------------------------------------

    def owe(self, offset: int, owner: str, superseding: bool = True) -> None:
        """A durable subscription of this owner has a right to it; without `superseding` also when a newer
        event has its key."""
        if not superseding:
            self._unsuperseded.add(offset)
        self._owed[offset] = self._owed.get(offset, 0) + 1
        if owner:
            owners = self._owners.setdefault(offset, {})
            owners[owner] = count = owners.get(owner, 0) + 1
            if count == 1:
                self._count_backlog(owner, offset, 1)

    def release(self, offset: int, owner: str) -> None:
        """One durable subscription of this owner is owed the entry no longer."""
        owners = self._owners.get(offset)
        if owners is not None and owner in owners:
            owners[owner] -= 1
            if not owners[owner]:
                del owners[owner]
                self._count_backlog(owner, offset, -1)
            if not owners:
                del self._owners[offset]
        count = self._owed.pop(offset, 0) - 1
        if count > 0:
            self._owed[offset] = count
        elif offset in self._lapsed:
            self._lapse(offset)

    def let_go(self, upto: int) -> None:
        """Events that live forever are archived up to there: the log keeps them only for subscriptions that
        are owed them."""
        due = []
        for offset, entry in self.entries.items():
            if offset > upto:
                break
            if entry.ends_at == inf and offset not in self._lapsed:
                due.append(offset)
        for offset in due:
            self._lapse(offset)

    def is_pinned(self, offset: int) -> bool:
        """Does a replay, a hold or a neighbour need it?"""
        return self._is_pinned(offset)

    def keeps_superseded(self, offset: int) -> bool:
        """Does a replay, a hold or a neighbour need it though a newer event has its key?"""
        return any(keeps(offset) for keeps in self.keeping_superseded)

    def purge(self, offsets: Iterable[int]) -> None:
        """Forget these soon, also where a subscription has a right to them."""
        self._free += [offset for offset in offsets if offset in self.entries]

    def unpin(self) -> None:
        """A replay is over: look again at what was kept for it."""
        pinned, self._pinned = self._pinned, []
        for offset in pinned:
            self._lapse(offset)

    def _lapse(self, offset: int) -> None:
        """An entry's lifetime is over: forget it soon, unless a subscription has a right to it."""
        entry = self.entries.get(offset)
        if entry is None:
            return
        if offset not in self._lapsed:
            self._lapsed.add(offset)
            self._count(entry, -entry.size)
        is_old = offset in self._superseded
        if self.keeps_superseded(offset) if is_old else self._is_pinned(offset):
            self._pinned.append(offset)
            self.on_pinned()
        elif offset not in self._owed or (is_old and offset not in self._unsuperseded):
            self._free.append(offset)

    def _count(self, entry: Entry, size: int) -> None:
        """More or fewer bytes of its source live: it came, its lifetime is over, or a newer event has its
        key."""
        if self._ports is not None and entry.ends_at > entry.accepted:
            self._ports.kept.stored(entry.source, size)

    def _count_backlog(self, owner: str, offset: int, sign: int) -> None:
        entry = self.entries.get(offset)
        if self._ports is not None and entry is not None:
            self._ports.kept.count_backlog(owner, sign * entry.size)

    # -- forgetting ------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When the next entry is to be forgotten."""
        if not (self._free or self._unmarked or self._lapses.heap or self._ends.heap):
            return None
        if self._free or self._unmarked:
            return max(0.0, self._next_step)
        lapses, ends = self._lapses.next_at(), self._ends.next_at()
        if lapses is None or ends is None:
            due = ends if lapses is None else lapses
            return None if due is None else max(due, self._next_step)
        return max(min(lapses, ends), self._next_step)

    def collect(self, now: float) -> list[Record]:
        """One step of forgetting, within a budget; the records to persist."""
        if now < self._next_step:
            return []
        self.now = max(self.now, now)
        self._next_step = now + STEP_SECONDS
        self._free += self._ends.collect(now, self._budget)
        for offset in self._lapses.collect(now, self._budget):
            self._lapse(offset)
        free, self._free = self._free[: self._budget], self._free[self._budget :]
        records = [record for offset in free for record in self._forget(offset)]
        if self._unmarked:
            unmarked, end = self._unmarked, self.end
            self._unmarked = [offset for offset in unmarked if offset >= end and offset in self.entries]
            records += self._mark(offset for offset in unmarked if offset < end)
        return records

    def _forget(self, offset: int) -> list[Record]:
        if offset in self._owners:
            for owner in self._owners.pop(offset):
                self._count_backlog(owner, offset, -1)
        entry = self.entries.pop(offset, None)
        self._unsuperseded.discard(offset)
        self._superseded.discard(offset)
        if offset in self._owed:
            del self._owed[offset]
        if entry is None:
            return []
        if offset in self._lapsed:
            self._lapsed.remove(offset)
        else:
            self._count(entry, -entry.size)
        if entry.topic is not None:
            self.topics.remove(entry.topic, offset)
        self.ended(offset)
        self.forgotten += 1
        self._lapses.discard(offset)
        self._ends.discard(offset)
        self._keys.forget(entry.key, offset)
        identity = entry.identity
        if self._offsets.get(identity) == offset:
            del self._offsets[identity]
        forgotten: list[Record] = [Forget(offset)]
        if offset in self._marked:
            self._marked.remove(offset)
            forgotten.append(Delete(SUPERSEDED, str(offset)))
        return [*forgotten, *self.on_forgotten(entry, self.now)]

    def check(self) -> None:
        assert self.end <= self.next_offset
        assert all(count > 0 for count in self._owed.values()), "rights are counted"
        assert all(offset in self.entries for offset in self._lapsed), "only entries lapse"
        assert len(self._offsets) == len(self.entries), "each entry has one identity"
