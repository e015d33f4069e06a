"""What is persisted: the records that a node asks for and that a store keeps.

Rules
- A node never touches a disk. It emits records; a store commits a sequence of them as one atomic batch.
- `Append` adds an event to the log. Offsets only ascend; a gap is allowed, an offset is never reused.
- `Forget` removes a log entry. Forgetting an absent offset has no effect.
- `Put` and `Delete` keep small state of any kind as rows of named tables. The value is the node's own
  encoding; the store only guards it with a checksum.
- Within one batch the records count in order: the last word on an offset or a row wins.
- Times are seconds of the node's clock: the wall clock when the process began, monotonic from there, and
  never behind a time that the disk holds (`Loaded.latest`). So stored times keep their order over restarts,
  also when the machine's clock was set back in between.
"""

from __future__ import annotations

from math import inf

import msgspec

from tidings.model.event import TENANT, Event, event_size, identity_of


class Append(msgspec.Struct, frozen=True, tag="append", omit_defaults=True):
    """A log entry: an event that was accepted, and where it stands in the log."""

    offset: int
    event: Event
    accepted: float  # when the access broker accepted it
    sequence: int | None = None  # the publisher's own counter, when the publisher numbers its events
    expires_at: float | None = None  # ends it for all subscriptions; None: never

    @property
    def ends_at(self) -> float:
        """End of its lifetime: from then on no *later* subscription receives it."""
        return ending(self.accepted, self.event.lifetime, self.expires_at)


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Remove a log entry: expired, superseded, or no longer owed to any subscription."""

    offset: int


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Set a row of a table."""

    table: str
    key: str
    value: bytes


CLOCK = "clock"  # table: its one row is the time of the last batch of rows
LATEST = "latest"


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Remove a row of a table; removing an absent row has no effect."""

    table: str
    key: str


Record = Append | Forget | Put | Delete


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a log entry that a node keeps in memory without its event."""

    offset: int
    source: str
    id: str
    accepted: float
    ends_at: float  # when its lifetime is over (`Append.ends_at`)
    expires_at: float | None = None
    sequence: int | None = None
    key: str | None = None
    size: int = 0  # bytes of its event, or of its record on the disk
    tenant: str = ""
    topic: str | None = None  # of an event with a lifetime, which later subscriptions may receive

    @property
    def identity(self) -> tuple[str, str]:
        return identity_of(self.source, self.id, self.tenant)


class Loaded(msgspec.Struct, frozen=True):
    """Everything that a node needs to go on after a restart."""

    first_offset: int  # the lowest live entry; `next_offset` when the log is empty
    next_offset: int  # the next append has this offset or a higher one, also when all was forgotten
    entries: list[Entry]  # the live log entries in ascending order
    tables: dict[str, dict[str, bytes]]
    sizes: list[int] = []  # bytes on the disk of each of `entries`, where the store knows them

    @property
    def latest(self) -> float:
        """The latest time that the node had reached according to its disk; minus infinity without
        a record."""
        row = self.tables.get(CLOCK, {}).get(LATEST)
        kept = -inf if row is None else msgspec.msgpack.decode(row, type=float)
        return max(kept, self.entries[-1].accepted) if self.entries else kept

    @classmethod
    def empty(cls) -> Loaded:
        """State of a new store. The first offset of a log is 1; 0 is before all of them."""
        return cls(first_offset=1, next_offset=1, entries=[], tables={})


def ending(accepted: float, lifetime: float, expires_at: float | None) -> float:
    """End of a lifetime that began at `accepted`; `expires_at` cuts it short."""
    ends_at = accepted + lifetime
    return ends_at if expires_at is None or ends_at < expires_at else expires_at


def clock_row(now: float) -> Put:
    """The row that keeps the latest clock reading for the next life of this node."""
    return Put(CLOCK, LATEST, msgspec.msgpack.encode(now))


def entry_of(append: Append) -> Entry:
    """The index entry of a log entry."""
    event = append.event
    return Entry(
        offset=append.offset,
        source=event.source,
        id=event.id,
        accepted=append.accepted,
        ends_at=append.ends_at,
        expires_at=append.expires_at,
        sequence=append.sequence,
        key=event.key,
        size=event_size(event),
        tenant=tenant if type(tenant := event.body.get(TENANT)) is str else "",
        topic=event.topic if event.lifetime else None,
    )
