"""The stream of one publisher at one distributor: how far it is known, what waits, what is not stable yet.

Rules
- A publisher numbers its events, each one more than the last (Mathur et al. 1995, 3.2, guarantee 3). A stream
  is one life of a publisher; events pass in the order of their numbers, whichever distributor they came
  through.
- An event that comes with an earlier one missing waits, `patience` seconds at most: an event that no member
  has any more is passed over, and that is a gap. - A passed event is buffered until it is stable.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tidings.protocol.messages import Envelope, Message

Marks = dict[str, int]  # by stream: everything up to this number


class Highest(Message, frozen=True, tag="Highest"):
    """Progress of the sender in these streams: exchanged until all is stable."""

    cut_field: ClassVar[str] = "marks"

    marks: Marks
    asks: bool = False  # say yours


class ResendRequest(Message, frozen=True, tag="Again"):
    """Events that the receiver lacks, in order."""

    cut_field: ClassVar[str] = "envelopes"

    envelopes: tuple[Envelope, ...]


class GroupStateRequest(Message, frozen=True, tag="StateAsk"):
    """A newcomer, or a distributor below: where do streams stand?"""

    epoch: int
    marks: Marks = msgspec.field(default_factory=dict)  # what it has


class GroupState(Message, frozen=True, tag="GroupState"):
    """Positions of streams, for a newcomer: later events are for it too."""

    epoch: int
    marks: Marks


class Flush(Message, frozen=True, tag="Flush"):
    """Virtual synchrony: what the sender has in the old view."""

    number: int
    marks: Marks
    asks: bool = True  # say yours, and send what is lacking


class StreamProgress(Message, frozen=True, tag="Heard"):
    """A subscriber to its distributor: what it has heard, by the name of the subscription. The first word
    after its hello."""

    marks: dict[str, Marks]


class SubscriberMarks(Message, frozen=True, tag="SubscriberMarks"):
    """No-gap mode: what every subscription of the sender has heard, and which is none any more."""

    marks: dict[str, Marks]
    gone: tuple[str, ...] = ()


def stream_of(envelope: Envelope) -> str:
    event = envelope.event
    return f"{event.source}/{event.id.rpartition('-')[0]}"


class PublisherStream:
    """One stream here."""

    __slots__ = ("buffer", "known", "orphans", "waiting", "waits_since")

    def __init__(self, known: int = 0) -> None:
        self.known = known
        self.waiting: dict[int, tuple[Envelope, str | None]] = {}  # by number: it, and its sender
        self.waits_since: float | None = None
        self.buffer: dict[int, Envelope] = {}  # by number, ascending: not stable yet
        self.orphans: set[int] = set()  # of those, which the distributor that accepted them may have lost

    def put_by(self, number: int, envelope: Envelope, came_from: str | None, now: float) -> None:
        self.waiting.setdefault(number, (envelope, came_from))
        if self.waits_since is None:
            self.waits_since = now

    def passed(self, number: int, envelope: Envelope) -> None:
        self.known = number
        self.buffer[number] = envelope
        self.waiting.pop(number, None)

    def next(self) -> tuple[Envelope, str | None] | None:
        """The next that waits no more."""
        for number in [number for number in self.waiting if number <= self.known]:
            del self.waiting[number]
        found = self.waiting.pop(self.known + 1, None)
        if not self.waiting:
            self.waits_since = None
        return found

    def skip(self, now: float) -> None:
        """No member has the missing event."""
        self.known = min(self.waiting) - 1
        self.waits_since = now

    def above(self, mark: int) -> list[Envelope]:
        return [envelope for number, envelope in self.buffer.items() if number > mark]

    def discard(self, mark: int) -> None:
        for number in [number for number in self.buffer if number <= mark]:
            del self.buffer[number]
            self.orphans.discard(number)

    def orphan(self, origins: tuple[str, ...]) -> None:
        """These distributors began another life."""
        self.orphans.update(number for number, envelope in self.buffer.items() if envelope.origin in origins)


class Owed(msgspec.Struct):
    """No-gap mode: one subscriber anywhere in the system."""

    at: str  # its distributor
    received: Marks = {}
    sent: Marks = {}  # by stream: the last that was sent to it, at its own distributor
    away_since: float | None = None  # no distributor serves it now
