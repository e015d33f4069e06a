"""Deduplication by origin: events that have been here are dropped by number.

An origin numbers what it sends (`routing.number`: its incarnation, then 1, 2, 3 …). Two memories:
- `LastNumberFilter` keeps the highest number per origin. Enough while every link keeps its order and
  the overlay does not change (Baldoni et al. 2002, 5.3; E-B5): it takes anything lower for old.
- `NumberWindow` keeps the numbers above a floor too, so that events may overtake one another, as they
  do when links are swapped. A number below the window counts as seen.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from tidings.protocol.messages import Envelope, Message

NUMBER = "routing.number"


class Forward(Message, frozen=True, tag="Forward"):
    """An event on its way to the next broker."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope


class ForwardAll(Message, frozen=True, tag="ForwardAll"):
    """`Forward` for each of these events, one after the other; only to a neighbour that announces
    `Feature.EVENT_RUNS`."""

    is_hop: ClassVar[bool] = True
    cut_field: ClassVar[str] = "envelopes"

    envelopes: tuple[Envelope, ...]

    def one_by_one(self) -> list[Forward]:
        """The same in single messages."""
        return [Forward(envelope) for envelope in self.envelopes]


class DuplicateFilter(Protocol):
    def is_new(self, origin: str, number: int) -> bool:
        """Note the number; False when it was noted before."""


class LastNumberFilter:
    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def is_new(self, origin: str, number: int) -> bool:
        if number <= self._last.get(origin, 0):
            return False
        self._last[origin] = number
        return True


class NumberWindow:
    """The last `size` numbers of each origin, and everything below them."""

    def __init__(self, size: int = 4096) -> None:
        self.size = size
        self._floor: dict[str, int] = {}
        self._above: dict[str, set[int]] = {}

    def is_new(self, origin: str, number: int) -> bool:
        floor = self._floor.get(origin, 0)
        if number <= floor:
            return False
        above = self._above.setdefault(origin, set())
        if number in above:
            return False
        above.add(number)
        while floor + 1 in above:
            floor += 1
            above.remove(floor)
        if len(above) > self.size:  # the oldest holes are given up
            floor = min(above)
            while floor in above:
                above.remove(floor)
                floor += 1
            floor -= 1
        self._floor[origin] = floor
        return True


class Numbering:
    """Numbers for the events that this broker is the origin of."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self._next = 1

    def numbered(self, envelope: Envelope) -> Envelope:
        headers = {**envelope.headers, NUMBER: (self.incarnation, self._next)}
        self._next += 1
        return Envelope(
            envelope.event, envelope.origin, envelope.offset, envelope.sequence, envelope.remaining,
            envelope.expires, headers,
        )  # fmt: skip
