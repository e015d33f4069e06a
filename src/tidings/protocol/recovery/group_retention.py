"""Retention of a group's log: the floor, below which no member needs an event.

Rules
- Each voter says the lowest offset that a durable subscription there still needs. A voter that is away is
  waited for `orphan_seconds` after its last statement.
- An event is kept for `keep_seconds` besides, for subscribers whose broker failed.
- The coordinator computes the floor and sends it with the log; it never goes down.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.group_log import GroupLogSettings


class Retention:
    def __init__(self, ports: Ports, settings: GroupLogSettings) -> None:
        self._ports = ports
        self._settings = settings
        self._needs: dict[str, tuple[int, float]] = {}  # by voter: what it said, and when
        self._begun_at = 0.0  # the epoch
        self._kept_from: list[tuple[float, int]] = []  # when, and the first offset of then
        self.floor = 0

    def load(self, first_offset: int, now: float) -> None:
        self._kept_from = [(now, first_offset)]  # how old they are is not known: none is too old

    def begin(self, now: float) -> None:
        """An epoch begins."""
        self._begun_at = now

    def said(self, voter: str, needs: int, now: float) -> None:
        self._needs[voter] = (needs, now)

    def entered(self, offset: int, now: float) -> None:
        """An event came into the log."""
        if not self._kept_from or now - self._kept_from[-1][0] >= 1.0:
            self._kept_from.append((now, offset))

    def needs(self) -> int:
        """The lowest offset that a durable subscription of this member still needs."""
        return self._ports.group_entries.needs_from()

    def raise_floor(
        self, members: tuple[str, ...], voters: Iterable[str], committed: int, now: float
    ) -> None:
        """Compute the floor anew, at the coordinator."""
        needs = [self.needs()]
        for name in voters:
            if name == self._ports.name:
                continue
            stated, at = self._needs.get(name, (0, self._begun_at))
            if name in members or now - at < self._settings.orphan_seconds:
                needs.append(stated)
        oldest = now - self._settings.keep_seconds
        while len(self._kept_from) > 1 and self._kept_from[1][0] <= oldest:
            self._kept_from.pop(0)
        young = self._kept_from[0][1] if self._kept_from else committed
        self.set_floor(min([young, *needs]))

    def set_floor(self, floor: int) -> None:
        if floor > self.floor:
            self.floor = floor
            self._ports.own_log.unpinned()
