"""Settled advertisements of a link: within them a broker knows all interest behind it.

An advertisement restricts where subscriptions travel, so a broker that was told no filter over a link
cannot tell missing interest from an advertisement that has not arrived there. Rules
- An event that no settled advertisement of a link accepts counts as wanted there. So an event that was never
  advertised, or not long enough ago, is delivered all the same: it costs messages only.
- An advertisement is settled on a link when the far end has *answered* it: all of its other links
  have settled what they were told because of it, and we have seen every filter that it wants here.
  The leaves of the tree answer at once.
- It is no longer settled as soon as it is withdrawn: from then on the far end may withdraw its filters.
- A link that comes back keeps what was settled: a far end that begins again wants everything over
  the link until it has heard our advertisements again, and withdraws no filter before it knows all.
"""

from __future__ import annotations

from tidings.matching.small import SmallMatcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.routing.diffusion import Diffusion, InterestAck
from tidings.protocol.slots import Sender

ANSWERED = "answered"  # `InterestAck.what`: the advertisements up to this number are answered


class FilterSet:
    """Filters, and whether one of them accepts an event."""

    def __init__(self) -> None:
        self._matcher = SmallMatcher()
        self._handles: dict[str, int] = {}
        self._everything = 0

    def __contains__(self, digest: str) -> bool:
        return digest in self._handles

    def __len__(self) -> int:
        return len(self._handles)

    def add(self, filter: Filter) -> None:
        if filter.digest not in self._handles:
            self._handles[filter.digest] = self._matcher.add(filter)
            self._everything += filter.is_always_true

    def discard(self, filter: Filter) -> None:
        handle = self._handles.pop(filter.digest, None)
        if handle is not None:
            self._matcher.remove(handle)
            self._everything -= filter.is_always_true

    def accepts(self, event: Event) -> bool:
        return self._everything > 0 or (bool(self._handles) and bool(self._matcher.match(event)))


class SettledInterest:
    """Settled advertisements on each link of a broker, and the answers it may give to others."""

    def __init__(self, ads: Diffusion, subs: Diffusion, *, patience: float = 1.0, slow: float = 30.0) -> None:
        self._ads = ads
        self._subs = subs
        self._patience = patience  # seconds until an answer that did not come is asked for
        self._slow = slow  # the longest pause between two tries; a broker far away may be down for long
        self._filters: dict[str, dict[str, Filter]] = {}  # by link, by digest
        self._sets: dict[str, FilterSet] = {}
        self._answered: dict[str, tuple[str, int]] = {}  # by link: the last advertisements that we answered
        self._asking: dict[str, tuple[float, float]] = {}  # by link: when to ask, and the pause after that

    def covers(self, link: str, event: Event) -> bool:
        """Do we know whether this event is wanted behind the link?"""
        found = self._sets.get(link)
        return found is not None and found.accepts(event)

    def is_settled(self, link: str) -> bool:
        """Is all that the link was told, or is to be told?"""
        outlet = self._ads.outlets.get(link)
        settled = self._filters.get(link, {})
        return outlet is not None and all(digest in settled for digest in outlet.announced)

    def receive(self, link: str, session: str, number: int) -> None:
        """The far end has answered our advertisements up to a number."""
        settled = self._filters.setdefault(link, {})
        filters = self._sets.setdefault(link, FilterSet())
        for filter in self._ads.announced_by(link, session, number):
            settled[filter.digest] = filter
            filters.add(filter)
        if self.is_settled(link):
            self._asking.pop(link, None)

    def review(self, links: tuple[str, ...], now: float) -> None:
        """Advertisements were told, or withdrawn."""
        for link, outlet in self._ads.outlets.items():
            settled = self._filters.get(link, {})
            for digest in [digest for digest in settled if digest not in outlet.announced]:
                self._sets[link].discard(settled.pop(digest))
        for link in links:
            if not self.is_settled(link):
                self._asking.setdefault(link, (now + self._patience, self._patience))

    def answer(self, send: Sender, links: tuple[str, ...]) -> None:
        """Answer the links that advertised to us once they know all interest here."""
        for link in links:
            received = self._ads.last_received(link)
            if received[1] and received != self._answered.get(link) and self._is_whole(link):
                self._answered[link] = received
                send(link, InterestAck(ANSWERED, *received))

    def _is_whole(self, link: str) -> bool:
        if not (self._subs.is_whole(link) and self._subs.agreed(link)):
            return False
        return all(self.is_settled(other) for other in self._ads.peers() if other != link)

    # -- asking again --------------------------------------------------------------------------

    def link_down(self, link: str) -> None:
        self._asking.pop(link, None)

    def part(self, link: str) -> None:
        """The far end is gone for good."""
        self._filters.pop(link, None)
        self._sets.pop(link, None)
        self._answered.pop(link, None)
        self._asking.pop(link, None)

    def next_deadline(self) -> float | None:
        return min([at for at, _ in self._asking.values()]) if self._asking else None

    def ask_again(self, send: Sender, links: tuple[str, ...], now: float) -> None:
        """An answer may have been lost: say again what it would answer."""
        for link, (at, pause) in list(self._asking.items()):
            if at > now:
                continue
            if link not in links or self.is_settled(link):
                del self._asking[link]
                continue
            pause = min(2 * pause, self._slow)
            self._asking[link] = (now + pause, pause)
            self._ads.announce_all(send, link, now)

    def check(self) -> None:
        for link, settled in self._filters.items():
            assert len(self._sets[link]) == len(settled)
            assert settled.keys() <= self._ads.outlets[link].announced.keys(), (
                f"{link}: settled, and not announced"
            )
