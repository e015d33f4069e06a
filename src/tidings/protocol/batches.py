"""Batches: sequences cut into messages that are bounded by encoded bytes and by count. The one mechanism for
it.

Rules
- A batch holds at most `batch_count` items of at most `batch_bytes` together, and always its first item: a
  single event is bounded when it is published (`ResourceLimits.event_bytes`), so every message fits a frame.
- A message that carries a sequence names the field (`Message.cut_field`); the node cuts it when it is sent
  (`Divider`). `Message.in_parts` says how the parts follow one another.
- An answer to a request is one bounded page that says how far it goes (`PageBuilder`). A short page is never
  the end: the end is said, and `read_upto` derives it from a read of the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tidings.availability.records import Append
from tidings.model.event import Event, event_size
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import Envelope, Message

T = TypeVar("T")
UNCOUNTED = 1 << 62  # of a batch that is bounded by its bytes alone
Slice = tuple[tuple[Any, ...], int]  # consecutive items, and their encoded size

_encode = msgspec.msgpack.Encoder().encode


def too_large(event: Event, most: int) -> str | None:
    """Reason why an event exceeds the limit of bytes; None: it fits."""
    size = event_size(event)
    if size <= most:
        return None
    return f"an event of {size} bytes; {most} at most, so that it can be delivered on every path"


def size_of(item: Any) -> int:
    """The bytes that an item takes in a message."""
    return len(_encode(item))


def _most_of(envelope: Envelope) -> int:
    """No fewer bytes than an event on its way takes in a message; its event was measured before."""
    headers = envelope.headers
    around = 64 + 4 * len(envelope.origin) + 64 * len(headers)
    if any(type(value) is not int for value in headers.values()):
        around += size_of(headers)
    return envelope.event.size + around


def cut(items: Sequence[T], limits: ResourceLimits, sizes: Sequence[int] | None = None) -> list[Slice]:
    """The items in consecutive batches, each with its size. `sizes`: of the items, where they are known."""
    if len(items) <= limits.batch_count:
        total = size_of(items) if sizes is None else sum(sizes)
        if total <= limits.batch_bytes or len(items) <= 1:
            return [(tuple(items), total)] if items else []
    elif sizes is not None and sum(sizes) <= limits.batch_bytes:
        begins = range(0, len(items), limits.batch_count)
        ends = [begin + limits.batch_count for begin in begins]
        return [(tuple(items[b:e]), sum(sizes[b:e])) for b, e in zip(begins, ends, strict=True)]
    slices: list[Slice] = []
    begin, stored = 0, 0
    for position, item in enumerate(items):
        size = size_of(item) if sizes is None else sizes[position]
        is_over = stored + size > limits.batch_bytes or position - begin >= limits.batch_count
        if position > begin and is_over:
            slices.append((tuple(items[begin:position]), stored))
            begin, stored = position, 0
        stored += size
    slices.append((tuple(items[begin:]), stored))
    return slices


class PageBuilder(Generic[T]):
    """A page that is being filled: bounded by a count and by `batch_bytes`; it always takes one item."""

    __slots__ = ("_bytes", "_left", "is_full", "items", "size")

    def __init__(self, limits: ResourceLimits, count: int | None = None) -> None:
        self._left = limits.batch_count if count is None else max(1, count)
        self._bytes = limits.batch_bytes
        self.items: list[T] = []
        self.size = 0
        self.is_full = False

    def add(self, item: T) -> bool:
        """Take the item; False: the page is full, and the item belongs to the next one."""
        size = size_of(item)
        if self.items and (self.is_full or self.size + size > self._bytes):
            self.is_full = True
            return False
        self.items.append(item)
        self.size += size
        self._left -= 1
        self.is_full = self._left <= 0 or self.size >= self._bytes
        return True


def read_upto(records: Sequence[Append], end: int) -> int:
    """Offset up to which a read of the disk has seen everything, in a log that ends at `end`. A read stops at
    its count or at its bytes, so a short one does not show the end: only an empty one, or one that reaches
    it, does."""
    return min(records[-1].offset, end) if records else end


class Divider:
    """Cuts the messages of one node that carry a sequence. Many subscribers are sent the same events, so the
    last sequence is measured once."""

    def __init__(self, limits: ResourceLimits) -> None:
        self._limits = limits
        self._frame = msgspec.structs.replace(limits, batch_bytes=limits.event_bytes, batch_count=UNCOUNTED)
        self._last: Any = None
        self._slices: list[Any] = []

    def divide(self, message: Message) -> Iterable[Message]:
        """The message itself when it is small enough, or the parts that say the same."""
        items = getattr(message, message.cut_field)
        if len(items) <= 1:
            return (message,)
        if items is not self._last:
            limits = self._frame if message.fills_frame else self._limits
            self._last, self._slices = items, self._cut(items, limits)
        if len(self._slices) <= 1:
            return (message,)
        return message.in_parts(self._slices)

    def _cut(self, items: Any, limits: ResourceLimits) -> list[Any]:
        if isinstance(items, dict):
            return [dict(part) for part, _ in cut(list(items.items()), limits)]
        sizes: list[int] | None = None
        if type(items[0]) is Event:
            sizes = [item.size for item in items]
        elif type(items[0]) is Envelope:
            sizes = [_most_of(item) for item in items]
        return [part for part, _ in cut(items, limits, sizes)]
