"""Superseding: of the events with one key only the newest counts, in the log and in queues.

Rules
- The newest event is the one with the highest offset, regardless of the order of arrival.
- Forgetting the newest leaves the key without one: an older event that was superseded does not reappear.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.availability.records import Entry


class Superseding:
    """The newest offset of each key."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._latest: dict[str, int] = {}
        for entry in entries:
            self.supersede(entry.key, entry.offset)

    def __len__(self) -> int:
        return len(self._latest)

    def latest(self, key: str) -> int | None:
        return self._latest.get(key)

    def supersede(self, key: str | None, offset: int) -> int | None:
        """Record an event with this key at this offset; returns the superseded offset, if there is one.
        It is this very offset when a newer one was seen before. An event without a key supersedes no other.
        """
        if key is None:
            return None
        before = self._latest.get(key)
        if before is None or before == offset:
            self._latest[key] = offset
            return None
        self._latest[key] = max(before, offset)
        return min(before, offset)

    def is_superseded(self, key: str | None, offset: int) -> bool:
        return key is not None and self._latest.get(key, offset) > offset

    def forget(self, key: str | None, offset: int) -> None:
        """The entry at this offset is gone."""
        if key is not None and self._latest.get(key) == offset:
            del self._latest[key]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(dict(sorted(self._latest.items())))

    @classmethod
    def decode(cls, data: bytes) -> Superseding:
        superseding = cls()
        superseding._latest = msgspec.msgpack.decode(data, type=dict[str, int])
        return superseding
