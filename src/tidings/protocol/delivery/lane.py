"""How far a subscription is in the log of another broker.

Rules
- READING: it reads the log, page by page, through recovery; `at` is how far. Live events of that
  log wait in `pending` while a page is on its way, so that nothing falls between the last page and
  the live way. When they are too many, a durable subscription leaves them out (`missed`) and reads
  them, since the log keeps them for it; a transient one loses them by its policy, and counts it.
- LIVE: it hears the events of that log as they pass. What the last page held already is not heard
  twice: the seam is an offset.
- `later` is kept for a durable subscription with bounds alone: they act on what it has not read too.
- It has a right to every event from `start` on. Where `start` is not known (the log was found later, or the subscription
  is transient) the first last page says it. A durable subscription needs nothing up to `hold`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from tidings.availability.progress import LogProgress
from tidings.availability.told import Span, Told
from tidings.model.filter import Filter
from tidings.protocol.lines import EMPTY, own
from tidings.protocol.messages import Envelope


class LanePhase(StrEnum):
    READING = "reading"  # the log's end, read, ends it
    LIVE = "live"  # a full queue (durable) ends it


class Passed(NamedTuple):
    """An event that passed while the lane was read; without an id: all that there was when we began."""

    offset: int
    at: float
    source: str = ""
    id: str = ""


class Lane:
    __slots__ = (
        "again", "at", "hold", "later", "log", "missed", "pending", "phase", "progress", "reading", "rights",
        "silent_upto", "start", "told_from", "unread",
    )  # fmt: skip

    def __init__(self, log: str, at: int, *, start: int | None, hold: int) -> None:
        self.log = log
        self.phase = LanePhase.READING
        self.at = at  # everything up to here was read
        self.told_from = at + 1  # where its reading with this filter began
        self.start = start
        self.hold = hold
        self.progress = LogProgress(heard=at + 1)
        self.unread: deque[int] = EMPTY  # handed out in an earlier life, and to be read again
        self.again = False  # what it reads may have been sent in an earlier life
        self.rights: Sequence[Span] = ()  # what it was owed under earlier filters
        self.reading: int | None = None  # the page that is on its way
        self.pending: deque[Envelope] = EMPTY
        self.later: deque[Passed] = EMPTY  # of one with bounds: what it is owed and has not read
        self.missed = 0  # the last live event that is neither in `pending` nor read
        self.silent_upto = -1

    @property
    def is_live(self) -> bool:
        return self.phase is LanePhase.LIVE

    def floor(self, known: int) -> int:
        """Everything below is settled; `known` is how far the log is known at this broker."""
        if self.is_live:
            self.progress.silence(known + 1)
        return self.progress.low_water

    def settled_upto(self, known: int) -> int:
        """A durable subscription needs nothing up to here."""
        return self.hold if self.start is None else max(self.hold, self.floor(known) - 1)

    def read_to(self, upto: int) -> None:
        """Everything up to there was read; what was owed there and was not found has ended."""
        while self.unread and self.unread[0] <= upto:
            self.progress.settle(self.unread.popleft())
        while self.later and self.later[0].offset <= upto:
            self.later.popleft()
        self.at = max(self.at, upto)
        self.progress.silence(self.at + 1)

    def give_up(self, passed: Passed) -> None:
        """Pass over it: the log need not keep it for us."""
        self.hold = max(self.hold, passed.offset)
        self.read_to(passed.offset)
        while self.pending and (self.pending[0].offset or 0) <= passed.offset:
            self.pending.popleft()

    def wait(self, envelope: Envelope, most: int) -> None:
        """A live event comes while the log is read."""
        assert envelope.offset is not None
        if self.reading is not None and not self.missed and len(self.pending) < most:
            own(self, "pending").append(envelope)
        else:
            self.pending.clear()
            self.missed = envelope.offset

    def merged(self, read: tuple[Envelope, ...], upto: int) -> list[Envelope]:
        """What is heard up to there, in order: what was read, and what passed meanwhile. Of that the page
        may lack some: the log keeps nothing for a transient subscription, and what came while the request
        was on its way seems older there than the subscription."""
        found = {envelope.offset or 0: envelope for envelope in read}
        found |= {e.offset or 0: e for e in self.pending if (e.offset or 0) <= upto}
        left = [e for e in self.pending if (e.offset or 0) > upto]
        self.pending = deque(left) if left else EMPTY
        return [found[offset] for offset in sorted(found)]

    def remember(self, told: Told, filter: Filter, known: int) -> None:
        """Add what was told so far: what was heard, less what is owed."""
        self.floor(known)
        start = self.told_from
        for owed in self.progress.owed:
            told.add(filter, self.log, start, owed)
            start = owed + 1
        told.add(filter, self.log, start, self.progress.heard)

    def check(self, waiting: list[int]) -> None:
        """`waiting`: the offsets of this log that are in the queue or with members."""
        unread = set(self.unread)
        owed = [offset for offset in self.progress.owed if offset not in unread]
        assert owed == sorted(waiting), f"{self.log}: what was read and not settled is somewhere, once"
        assert not (self.is_live and (self.pending or self.unread)), f"{self.log}: something was left"
