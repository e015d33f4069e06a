"""Push with positive digests (Costa et al. 2003, 4.1 and Figure 2; COS-3).

Every round a broker offers the events that it holds of one pattern, drawn from its whole table, to
subscribers of that pattern. A subscriber that misses some asks the initiator for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Ports
from tidings_lab.recovery.epidemic.base import Epidemic
from tidings_lab.recovery.epidemic.cache import CachedEvent
from tidings_lab.recovery.epidemic.messages import Id, Mark, PushOffer, PushWant, Recovered
from tidings_lab.recovery.epidemic.requests import Requests
from tidings_lab.recovery.epidemic.standing import OFFER


class Push(Epidemic):
    name = "push"

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self.requests = Requests(self.patience, self.received, self.standing)

    @property
    def files_events(self) -> bool:
        return True

    def filed_under(self, envelope: Envelope) -> tuple[int, ...]:
        return self.matching(envelope.event)

    def keep(self, envelope: Envelope, since: float, now: float, *, is_own: bool) -> None:
        super().keep(envelope, since, now, is_own=is_own)
        self.pace.begin(now)

    # -- offering ----------------------------------------------------------------------------

    def round(self, now: float) -> None:
        self.requests.review(now)
        patterns = [pattern for pattern in self.cache.patterns() if self.links_wanting(pattern)]
        if not patterns:
            self.pace.rest()
            return
        pattern = self.ports.rng.choice(patterns)
        cached = self.cache.matching(pattern)[-self.settings.most_entries :]
        self.count["rounds"] += 1
        self.gossip(self.links_wanting(pattern), PushOffer(self.ports.name, pattern, by_source(cached, now)))
        self.pace.next(now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, PushOffer):
            self._on_offer(sender, message, now)
        elif isinstance(message, PushWant):
            if self.may_ask(sender, now) and self.give_wanted(sender, message, now):
                self.pace.learned(now)
        elif isinstance(message, Recovered):
            self.take(sender, message, now)

    def _on_offer(self, sender: str, offer: PushOffer, now: float) -> None:
        self.requests.review(now)
        if offer.initiator == self.ports.name or self.standing.is_ignored(offer.initiator, OFFER, now):
            return
        since = self.wanted_here(offer.pattern)
        if since is not None:
            self._request(offer.initiator, self.missing(offer.offered, now - since), now)
        if self.ports.rng.random() < self.settings.forward:
            self.gossip(self.links_wanting(offer.pattern), offer, sender)

    def missing(self, stored: dict[str, tuple[tuple[int, int], ...]], youth: float) -> list[Id]:
        """Events of an offer that were not here, are younger than the interest in them, and were not asked
        for."""
        most = 1000 * youth
        found = [
            (source, number)
            for source, numbers in stored.items()
            for number, age in numbers
            if age <= most and (source, number) not in self.received
        ]
        return [id for id in found if id not in self.requests]

    def _request(self, initiator: str, ids: list[Id], now: float) -> None:
        if not ids:
            return
        self.count["asked"] += len(ids)
        self.requests.note(initiator, ids, now)
        self.pace.learned(now)
        wanted: dict[str, tuple[int, ...]] = {}
        for source, number in ids:
            wanted[source] = (*wanted.get(source, ()), number)
        self.ports.send(initiator, PushWant(wanted), Channel.DATAGRAM)

    def was_asked_for(self, mark: Mark) -> bool:
        return self.requests.take(mark.id)


def by_source(cached: Iterable[CachedEvent], now: float) -> dict[str, tuple[tuple[int, int], ...]]:
    """A digest of these events, with their ages in milliseconds."""
    found: dict[str, list[tuple[int, int]]] = {}
    for each in cached:
        age = max(0, int(1000 * (now - each.since)))
        found.setdefault(each.mark.source, []).append((each.mark.number, age))
    return {source: tuple(numbers) for source, numbers in found.items()}
