"""Rows of the tables that delivery keeps beside the log, and their encoding.

Each value is one struct in MessagePack, as an array that begins with a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TypeVar

import msgspec

from tidings.availability.delivered_ranges import DeliveredRange, DeliveredRanges
from tidings.availability.progress import LogProgress
from tidings.availability.records import Delete, Put
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Position, Subscription, SubscriptionId
from tidings.protocol.delivery.cursor import Cursor, EarlierRange
from tidings.protocol.delivery.migration_header import MigrationHeader

VERSION = 1

SUBSCRIPTION = "subscription"  # durable subscriptions
PROGRESS = "progress"  # how far each of them is
MEMORY = "memory"  # what ended named subscriptions were told
DEAD = "dead"  # dead letters
LOG = "log"  # the name of this broker's log


class SubscriptionRow(msgspec.Struct, array_like=True, frozen=True):
    subscription: Subscription
    since: float
    start: int
    delivered_from: int
    delivered: bytes  # `DeliveredRanges.encode`
    rights: list[EarlierRange]
    version: int = VERSION
    is_remote: bool = False  # it was resumed here; another broker is its home
    home: str = ""
    attended: float = 0.0


class CursorRow(msgspec.Struct, array_like=True, frozen=True):
    progress: LogProgress
    delivered_from: int
    start: int | None
    hold: int | None = None
    rights: list[DeliveredRange] = []
    narrowed: list[list[Filter]] = []  # for each of `rights`: the filters that were taken since then
    since: list[float] = []  # for each of `rights`: from when on available events are owed; infinite: none

    def ranges(self) -> list[EarlierRange]:
        """`rights` with all their filters; a row of an earlier version holds the first filter alone, or no
        right to available events."""
        later = self.narrowed or [[] for _ in self.rights]
        since = self.since or [inf] * len(self.rights)
        return [
            EarlierRange((span.filter, *filters), began, span.start, span.stop)
            for span, filters, began in zip(self.rights, later, since, strict=True)
        ]


class ProgressRow(msgspec.Struct, array_like=True, frozen=True):
    subscription: SubscriptionId
    progress: LogProgress
    version: int = VERSION
    cursors: dict[str, CursorRow] = {}  # by log of another broker
    movers: dict[str, MigrationHeader] = {}  # by source: the last stay of a publisher that moved
    outlived: list[str] = []  # brokers that lost a log which it heard
    lost: dict[str, int] = {}  # by reason
    recounted: int = 0  # `Cursor.recounted` in the own log
    # by log: what is owed below may have been sent; of another log nothing. None: all may have been
    sent: dict[str, int] | None = None
    members: list[str] = []  # of a group: those that may hold events of it (`group_returns.py`)


class LogRow(msgspec.Struct, array_like=True, frozen=True):
    name: str
    version: int = VERSION


class MemoryRow(msgspec.Struct, array_like=True, frozen=True):
    subscription: SubscriptionId
    delivered: bytes  # `DeliveredRanges.encode`
    until: float
    version: int = VERSION


class DeadRow(msgspec.Struct, array_like=True, frozen=True):
    subscription: SubscriptionId
    number: int
    event: Event
    position: Position | None
    attempts: int
    died: float
    version: int = VERSION
    is_large: bool = False  # no frame of its subscriber held it: it is sent again to the next listener
    reason: str = ""  # for people
    is_redelivered: bool = False  # an operator sent it again: so to the next listener too, until it is taken


Row = SubscriptionRow | ProgressRow | MemoryRow | DeadRow | LogRow
R = TypeVar("R", bound=msgspec.Struct)


def key_of(first: str, second: str) -> str:
    """A key for a pair of any two texts; no two pairs share one."""
    return f"{len(first)}:{first}{second}"


def put(table: str, key: str, row: Row) -> Put:
    return Put(table, key, msgspec.msgpack.encode(row))


def put_for(table: str, id: SubscriptionId, row: Row) -> Put:
    return put(table, key_of(id.subscriber, id.name), row)


def delete_for(table: str, id: SubscriptionId) -> Delete:
    return Delete(table, key_of(id.subscriber, id.name))


def cursor_row(cursor: Cursor) -> CursorRow:
    """A cursor in the log of another broker. An earlier version reads the first filter of each range."""
    rights = [right for right in cursor.rights if right.stop > cursor.low_water]
    spans = [DeliveredRange(right.filters[0], cursor.log, right.start, right.stop) for right in rights]
    narrowed = [list(right.filters[1:]) for right in rights]
    hold, since = cursor.keep_from - 1, [right.since for right in rights]
    return CursorRow(cursor.progress, cursor.first, cursor.start, hold, spans, narrowed, since)


def read_delivered(encoded: bytes) -> DeliveredRanges:
    return DeliveredRanges.decode(encoded, lambda text, dialect: parse_filter(text, dialect=dialect))


def decoded(tables: Mapping[str, Mapping[str, bytes]], table: str, type: type[R]) -> Iterator[R]:
    """The rows of a table, in the order of their keys."""
    decoder = msgspec.msgpack.Decoder(type)
    rows = tables.get(table, {})
    for key in sorted(rows):
        yield decoder.decode(rows[key])
