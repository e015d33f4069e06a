"""What a named subscription was told, so that it is not told twice.

Told are: every event that a span's filter accepts with an offset in the span, and single
offsets besides (told out of order). Spans of one filter that touch are one span.
"""

from __future__ import annotations

import msgspec

from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter


class Span(msgspec.Struct, array_like=True, frozen=True):
    """Offsets from `start` up to, and not including, `end`, as far as the filter accepts them."""

    filter: Filter
    start: int
    end: int

    def holds(self, offset: int, event: Event) -> bool:
        return self.start <= offset < self.end and accepts(self.filter, event)


class Told(msgspec.Struct, array_like=True):
    """The memory of one subscription, in one log."""

    spans: list[Span] = []
    points: set[int] = set()

    def has(self, offset: int, event: Event) -> bool:
        return offset in self.points or any(span.holds(offset, event) for span in self.spans)

    def add(self, filter: Filter, start: int, end: int) -> None:
        """Remember a span, joined with what it touches."""
        if start >= end:
            return
        kept = []
        for span in self.spans:
            if span.filter.digest == filter.digest and span.start <= end and start <= span.end:
                start, end = min(start, span.start), max(end, span.end)
            else:
                kept.append(span)
        self.spans = [*kept, Span(filter, start, end)]

    def skip(self, filter: Filter, offset: int) -> int:
        """The first offset from `offset` on that this very filter may not have been told."""
        for span in self.spans:
            if span.start <= offset < span.end and span.filter.digest == filter.digest:
                return span.end
        return offset

    def prune(self, first_offset: int) -> None:
        """Forget what concerns only entries that the log holds no longer."""
        self.spans = [span for span in self.spans if span.end > first_offset]
        self.points = {offset for offset in self.points if offset >= first_offset}

    @property
    def empty(self) -> bool:
        return not self.spans and not self.points

    def copy(self) -> Told:
        return Told(list(self.spans), set(self.points))
