"""State of a log at one broker: how far it is known here, and what each link was sent of it.

Rules
- `known`: every event up to this offset that is wanted at this broker has been here, in order.
- An event that comes with an earlier one missing waits in `waiting`, which is bounded: what
  does not fit is dropped and asked for later.
- A trail is what one link was told since it is up: from `base` on we answer for every event. The far end
  knows what was sent before, or by an earlier life of ours, or asks for it.
- `due` and `acked` outlive the link: what the far end wants, sent or not, up to `due`, is kept at the
  log until it is acknowledged. A link that is silent in this life has acknowledged no event.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import PREVIOUS, LogKnowledge

UNREPORTED = -1
LogReport = tuple[int, int, int, bool]  # fields of `LogAck` beside the name of the log
ORPHAN = ""  # upstream of a log whose link was undone, until it comes by another; no link has this name


class EventChain:
    """Events on their way over links, each with the offset of the one before it on its link."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[Envelope], int, tuple[Envelope, ...]] = ((), 0, ())

    def after(self, previous: int, envelopes: Sequence[Envelope]) -> tuple[Envelope, ...]:
        """The events as they follow that offset. Most links are sent the same events after the same offset:
        those share one sequence, which is encoded once."""
        last = self._last
        if last[0] is envelopes and last[1] == previous:
            return last[2]
        chained: list[Envelope] = []
        before = previous
        for envelope in envelopes:
            if (headers := envelope.headers).get(PREVIOUS) != before:  # else it goes on as it came
                envelope = Envelope(
                    envelope.event, envelope.origin, envelope.offset, envelope.sequence, envelope.remaining,
                    envelope.expires, {**headers, PREVIOUS: before},
                )  # fmt: skip
            chained += (envelope,)
            before = envelope.offset or 0
        self._last = (envelopes, previous, tuple(chained))
        return self._last[2]


class LinkProgress:
    """Progress of one link in one log: what it was sent, and what it acknowledged."""

    __slots__ = (
        "acked", "base", "due", "has_reported", "have", "keyed", "last", "received_upto", "superseded",
    )  # fmt: skip

    def __init__(self, known: int) -> None:
        self.base = self.last = self.due = known
        self.have = UNREPORTED  # what the far end knows, as it said since the link is up
        self.acked = 0
        self.has_reported = False  # it has spoken in this life of ours
        self.superseded = False  # did it say that it needs events also when a newer one has their key?
        self.keyed = 0  # the last event with a key that was sent over the link
        self.received_upto = (
            0  # the highest offset that the far end, or a subscription behind it, has heard of
        )

    def restart(self, known: int) -> None:
        """The link is up again."""
        self.base = self.last = known
        self.have = UNREPORTED

    @property
    def is_behind(self) -> bool:
        """A message to the link may be lost, or its confirmation."""
        return self.have < self.last

    @property
    def owes(self) -> bool:
        return not self.has_reported or self.acked < self.due

    def wants(self, offset: int) -> bool:
        """May the far end still ask for this?"""
        return not self.has_reported or self.acked < offset <= self.due

    def wants_superseded(self, offset: int) -> bool:
        """May the far end still ask for this when a newer event has its key? What it said last counts for the
        events that it had then, and for those that came while the link was down."""
        is_open = self.superseded or not self.has_reported or self.have < offset <= self.last
        return is_open and self.wants(offset)

    @property
    def may_need_superseded(self) -> bool:
        """May the far end need events that have reached it also when a newer one has their key?"""
        return self.superseded or not self.has_reported or self.have < self.keyed


class LogView:
    """One log at this broker, with the progress of each link."""

    def __init__(self, name: str, upstream: str | None, known: int) -> None:
        self.name = name
        self.upstream = upstream  # the link toward it; None: it is ours
        self.known = known
        self.admitted = known  # the last event that was let through; the step that did so makes it known
        self.last = known  # the last event that is said to exist for us
        self.waiting: dict[int, tuple[Envelope, int]] = {}  # by offset: it, and the one before it
        self.progress_by_link: dict[str, LinkProgress] = {}
        self.reported: LogReport | None = None  # what upstream was told last
        self.hurried_at = float("-inf")  # when it was last asked for because a reader waits for it
        self.pause = 0.0  # until the next try to fill a gap

    def is_sent_to(self, link: str) -> bool:
        """Away from where it comes from; while that is not known, nowhere."""
        return self.upstream not in (link, ORPHAN)

    def link_progress(self, link: str) -> LinkProgress:
        found = self.progress_by_link.get(link)
        if found is None:
            found = self.progress_by_link[link] = LinkProgress(self.known)
        return found

    def news(self, link: str) -> LogKnowledge:
        progress = self.link_progress(link)
        return LogKnowledge(self.name, progress.base, progress.last, max(self.known, progress.last))

    def advance(self, offset: int) -> None:
        if offset > self.known:
            self.known = offset
            self.admitted = offset if offset > self.admitted else self.admitted
            self.last = offset if offset > self.last else self.last

    def admit(self, envelope: Envelope, offset: int, most: int) -> Sequence[Envelope]:
        """The events that may pass now that this one has come; at most so many wait for earlier ones."""
        previous = envelope.headers[PREVIOUS]
        self.last = max(self.last, offset)
        if len(self.waiting) < most or previous <= self.admitted:
            self.waiting[offset] = (envelope, previous)
        return self.admit_waiting()

    def admit_waiting(self) -> list[Envelope]:
        """Let the waiting events through that lack no earlier one, in order."""
        ready: list[Envelope] = []
        while self.waiting:
            offset = min(self.waiting)
            envelope, previous = self.waiting[offset]
            if offset > self.admitted:
                if previous > self.admitted:
                    break
                ready.append(envelope)
                self.admitted = offset
            del self.waiting[offset]
        return ready

    def filled(self, after: int, upto: int) -> None:
        """All events between these offsets wait: no earlier one is missing."""
        for offset, (envelope, previous) in self.waiting.items():
            if offset <= upto:
                self.waiting[offset] = (envelope, min(previous, after))

    def gap(self) -> int | None:
        """Offset up to which events are missing; None: none are."""
        upto = self.waiting[min(self.waiting)][1] if self.waiting else self.last
        return upto if upto > self.admitted else None

    def check(self) -> None:
        assert self.last >= self.known == self.admitted, "every event that was let through has passed"
        assert all(offset > self.known for offset in self.waiting), "what waits is not known"
        for link, progress in self.progress_by_link.items():
            assert link != self.upstream, f"{self.name} is announced to its upstream"
            assert progress.base <= progress.last <= self.known, (
                f"{self.name}: announced beyond what is known"
            )
