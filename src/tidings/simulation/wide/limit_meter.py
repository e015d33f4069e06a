"""Counts of how often a run meets each limit: taken on frames, pages and clients, for the figures of a
campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from tidings.protocol.limits import ResourceLimits
from tidings.wire.codec import Codec


class LimitMeter:
    """Counts by the name of the limit."""

    def __init__(self, limits: ResourceLimits) -> None:
        self.limits = limits
        self.met: Counter[str] = Counter()

    def framed(self, message: Any, length: int) -> None:
        """A message became a frame of this many bytes."""
        limits, met = self.limits, self.met
        if length >= limits.event_bytes:  # what a frame holds beyond it is kept for envelopes
            met["frame_bytes"] += 1
        kind: type = type(message)
        fields = _batches(kind)
        if not fields:
            return
        items = max(len(getattr(message, name)) for name in fields)
        if items >= limits.batch_count:
            met["batch_count"] += 1
        elif items and length >= limits.batch_bytes:
            met["batch_bytes"] += 1

    def fetched(self, limit: int, found: Sequence[Any], is_end: bool) -> None:
        """A page of a log was read."""
        if len(found) >= limit:
            self.met["page_count"] += 1
        elif found and not is_end:
            self.met["page_bytes"] += 1

    def published(self, size: int, in_flight: int) -> None:
        if size == self.limits.event_bytes:
            self.met["event_bytes"] += 1
        elif size > self.limits.event_bytes:
            self.met["event_bytes exceeded"] += 1
        if in_flight >= self.limits.publishes_in_flight:
            self.met["publishes_in_flight"] += 1


class MeteredCodec(Codec):
    """The codec of the wire, with a meter."""

    def __init__(self, declared: Sequence[Any], meter: LimitMeter) -> None:
        super().__init__(declared, max_frame_bytes=meter.limits.frame_bytes)
        self._meter = meter

    def encode(self, message: Any) -> bytes:
        frame = super().encode(message)
        self._meter.framed(message, len(frame))
        return frame


@cache
def _batches(kind: type) -> tuple[str, ...]:
    """Fields of a message that hold several items."""
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if str(field.type).startswith("tuple[") and "..." in str(field.type)
    )
