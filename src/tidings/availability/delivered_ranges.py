"""Ranges delivered to a named subscription, so that no event is delivered to it twice.

A subscription may end and come back under its name, with the same filter or another. Its delivered ranges are
a set of spans (filter, log, from, to): every event of the log with from <= offset < to that the filter
accepts. An event was delivered when some span says so; only the other events are delivered.

Rules
- Spans of one filter and one log that touch or overlap are one span.
- Bounded: past `MAX_SPANS` the span that ends lowest is given up and counted in `given_up`. An event may then
  be delivered twice, but no event is ever lost: the bound errs on the side of completeness.
- Spans below the first offset that a log still holds are obsolete; `prune` drops them.
- After the end of the subscription all this is kept for `KEEP_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tidings.model.event import Event
from tidings.model.filter import Filter

MAX_SPANS = 1024  # more remembers more changes of filter and costs memory and time per replayed event
KEEP_SECONDS = 7 * 24 * 3600.0

Accepts = Callable[[Filter, Event], bool]
Parse = Callable[[str, str], Filter]  # text and dialect


class DeliveredRange(msgspec.Struct, frozen=True):
    """Delivered: events that `filter` accepts in `log` from offset `start` up to, not including, `stop`."""

    filter: Filter
    log: str
    start: int
    stop: int

    def joins(self, other: DeliveredRange) -> bool:
        """Same filter, same log, and no gap between them."""
        return (
            self.log == other.log
            and self.filter.digest == other.filter.digest
            and self.start <= other.stop
            and other.start <= self.stop
        )


class _DeliveredRangeRow(msgspec.Struct, array_like=True):
    spans: list[tuple[str, str, str, int, int]]  # text, dialect, log, start, stop
    ended_at: float | None
    given_up: int


class DeliveredRanges:
    """The memory of one subscription."""

    def __init__(self, *, max_spans: int = MAX_SPANS) -> None:
        self._max_spans = max_spans
        self.spans: list[DeliveredRange] = []
        self.ended_at: float | None = None  # None: the subscription lives
        self.given_up = 0

    def add(self, filter: Filter, log: str, start: int, stop: int) -> None:
        """Record that every event that this filter accepts there was delivered."""
        self.add_all(filter, ((log, start, stop),))

    def add_all(self, filter: Filter, stretches: Iterable[tuple[str, int, int]]) -> None:
        """Record the same of several logs: each span is looked at once, however many logs a token names."""
        new = {
            log: DeliveredRange(filter, log, start, stop) for log, start, stop in stretches if start < stop
        }
        kept: list[DeliveredRange] = []
        for span in self.spans:
            other = new.get(span.log)
            if other is None or not span.joins(other):
                kept.append(span)
            else:
                start, stop = min(span.start, other.start), max(span.stop, other.stop)
                new[span.log] = DeliveredRange(filter, span.log, start, stop)
        kept += new.values()
        excess = len(kept) - self._max_spans
        if excess > 0:
            lowest = set(sorted(range(len(kept)), key=lambda at: kept[at].stop)[:excess])
            kept = [span for at, span in enumerate(kept) if at not in lowest]
            self.given_up += excess
        self.spans = kept

    def was_delivered(self, event: Event, log: str, offset: int, accepts: Accepts) -> bool:
        return any(
            span.log == log and span.start <= offset < span.stop and accepts(span.filter, event)
            for span in self.spans
        )

    def prune(self, log: str, first_offset: int) -> None:
        """Record that this log no longer holds offsets below `first_offset`."""
        self.spans = [span for span in self.spans if span.log != log or span.stop > first_offset]

    def end(self, now: float) -> None:
        self.ended_at = now

    def resume(self) -> None:
        self.ended_at = None

    def is_over(self, now: float, keep_seconds: float = KEEP_SECONDS) -> bool:
        """May the memory of this ended subscription be dropped?"""
        return self.ended_at is not None and now >= self.ended_at + keep_seconds

    def encode(self) -> bytes:
        spans = [(s.filter.text, s.filter.dialect, s.log, s.start, s.stop) for s in self.spans]
        return msgspec.msgpack.encode(_DeliveredRangeRow(spans, self.ended_at, self.given_up))

    @classmethod
    def decode(cls, data: bytes, parse: Parse, *, max_spans: int = MAX_SPANS) -> DeliveredRanges:
        row = msgspec.msgpack.decode(data, type=_DeliveredRangeRow)
        delivered = cls(max_spans=max_spans)
        delivered.spans = [
            DeliveredRange(parse(text, dialect), log, start, stop)
            for text, dialect, log, start, stop in row.spans
        ]
        delivered.ended_at, delivered.given_up = row.ended_at, row.given_up
        return delivered
