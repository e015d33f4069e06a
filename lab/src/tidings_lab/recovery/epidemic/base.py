"""Common part of all styles of epidemic recovery: marks on events, losses, the cache, trust in peers.

A style (`push.py`, `pull.py`, `lazy.py`) adds what a round sends and what is done with gossip. Rules
- Events pass as they would without recovery; it only marks, notes and keeps them.
- Requests and replies go straight from broker to broker, by datagram; gossip takes the links.
- A recovered event is delivered here and not sent on. If it comes over a link after all, it is sent on then,
  and not delivered again. - Only requested events are accepted.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

from tidings.model.event import Event
from tidings.model.subscription import Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.roles import PatternInterest
from tidings.protocol.slots import Ports, Recovery
from tidings_lab.recovery.epidemic.cache import CachedEvent, EventCache
from tidings_lab.recovery.epidemic.marks import UNWANTED, Counters, LostBuffer, ReceivedNumbers, SourceNumbers
from tidings_lab.recovery.epidemic.messages import (
    HEADERS,
    MARK,
    MESSAGES,
    TAGS_AT,
    Id,
    Mark,
    PushWant,
    Recovered,
    id_of,
    read_mark,
    tags_of,
)
from tidings_lab.recovery.epidemic.pace import Pace
from tidings_lab.recovery.epidemic.patience import Patience
from tidings_lab.recovery.epidemic.settings import FOREIGN, INTEREST, EpidemicSettings
from tidings_lab.recovery.epidemic.standing import REQUEST, PeerStanding

MOST_AHEAD = 10_000  # recovered events whose copy on the link is still waited for


class Epidemic(Recovery):
    needs = (PatternInterest,)
    messages = MESSAGES
    headers = HEADERS
    uses_tags: ClassVar[bool] = False
    uses_routes: ClassVar[bool] = False

    def __init__(self, settings: EpidemicSettings | None = None) -> None:
        self.settings = settings or EpidemicSettings()
        self.count: Counter[str] = Counter()

    @property
    def files_events(self) -> bool:
        """Does the style look for events in the cache by their patterns?"""
        return False

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        settings = self.settings
        self.counters = Counters(lambda: f"{ports.name}.{ports.rng.getrandbits(32):08x}")
        self.losses = LostBuffer(self.wanted_here, most=settings.most_lost, give_up=settings.give_up)
        self.received = ReceivedNumbers(settings.window, self.losses.expected_of)
        self.cache = EventCache(settings.cache, settings.evicts, ports.rng)
        self.patience = Patience(settings.patience_seconds)
        self.pace = Pace(settings.interval_seconds, settings.longest_seconds, ports.rng)
        self.standing = PeerStanding(
            settings.strikes, settings.ignore_seconds, settings.longest_ignore_seconds
        )
        self._ahead: OrderedDict[Id, None] = OrderedDict()  # recovered, and not yet seen on a link
        self._name = ports.name
        self._sources, self._most_numbers = self.received.sources, self.received.most
        self._here = (ports.name,) if self.uses_routes else ()
        self._put = self.cache.put
        self._sorts_interest = settings.caches == INTEREST or settings.evicts == FOREIGN
        self._keeps_plainly = not self._sorts_interest and not self.files_events

    def interested(self, subscription: Subscription, now: float) -> None:
        self.losses.review(subscription.filter.signature)

    def uninterested(self, subscription: Subscription, now: float) -> None:
        self.losses.review(subscription.filter.signature)

    # -- events ------------------------------------------------------------------------------

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        observed = [self._observe(envelope, came_from, now) for envelope in envelopes]
        return [envelope for envelope in observed if envelope is not None]

    def _observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope | None:
        """Hot path of every event at every broker: it is written out, and calls little."""
        if came_from is None:
            return self._published(envelope, now)
        try:
            mark = envelope.headers[MARK]
            source = self._sources.get(mark[0])
            if source is None:
                source = self._new_source(mark[0])
            number, count = mark[1], mark[2]
            was_here = number in source or number <= source.floor
            has_lost = 0
            if count and not was_here:
                expected = source.expected
                for at in range(TAGS_AT, TAGS_AT + 2 * count, 2):
                    pattern = mark[at]
                    next_one = expected.get(pattern)
                    if next_one == mark[at + 1]:
                        expected[pattern] = next_one + 1  # type: ignore[operator]  # equal to a counter
                    elif next_one != UNWANTED:
                        has_lost += self.losses.unexpected(mark[0], pattern, mark[at + 1])
        except (KeyError, IndexError, TypeError, ValueError):  # no broker of ours wrote this
            self.count["unmarked"] += 1
            return envelope
        if was_here:
            self._again(envelope, came_from, now)
            return None
        source.add(number)
        if len(source) > self._most_numbers:
            self.received.shrink(source)
        if has_lost:
            self.noticed_loss(now)
        if self.uses_routes:
            if type(mark) is list:  # it came over a network and is not shared
                mark.append(self._name)
                source.mark = mark
            else:
                envelope = self._routed(envelope, source)
        if self._keeps_plainly:
            self._put((envelope, now, (), False))
        else:
            self.keep(envelope, now, now, is_own=False)
        return envelope

    def _new_source(self, name: Any) -> SourceNumbers:
        if type(name) is not str:
            raise TypeError("a source is a name")
        return self.received.source(name)

    def _again(self, envelope: Envelope, came_from: str, now: float) -> None:
        """The event was here before, over a link or recovered; now the brokers behind us get it too."""
        id = id_of(envelope.headers)
        if id is None or id not in self._ahead:
            self.count["doubles"] += 1
            return
        del self._ahead[id]
        self.count["late"] += 1
        if self.uses_routes:
            envelope = self._routed(envelope, self.received.source(id[0]))
        matches = (self.ports.interest.match(envelope.event),)
        self.ports.router.forward((envelope,), matches, None, came_from, now)

    def _published(self, envelope: Envelope, now: float) -> Envelope:
        patterns = self.matching(envelope.event) if self.uses_tags else ()
        mark = self.counters.mark(patterns, self._here)
        self.received.source(mark[0]).floor = mark[1]  # ours: all of them were here
        marked = _with_headers(envelope, {**envelope.headers, MARK: mark})
        if self._keeps_plainly:
            self._put((marked, now, (), False))
        else:
            self.keep(marked, now, now, is_own=True)
        return marked

    def _routed(self, envelope: Envelope, source: SourceNumbers) -> Envelope:
        """Mark the event as passed here.

        Envelopes shared by brokers of one process are copied, not changed.
        """
        source.mark = mark = (*envelope.headers[MARK], self._name)
        return _with_headers(envelope, {**envelope.headers, MARK: mark})

    def keep(self, envelope: Envelope, since: float, now: float, *, is_own: bool) -> None:
        """An event is here, over a link or brought back; it was published at `since` or earlier."""
        is_foreign = False
        if self._sorts_interest and not is_own:
            is_foreign = not self._is_wanted(envelope)
            if is_foreign and self.settings.caches == INTEREST:
                return
        self._put((envelope, since, self.filed_under(envelope), is_foreign))

    def _is_wanted(self, envelope: Envelope) -> bool:
        """Does a client here want it?"""
        if self.uses_tags:
            return any(
                self.wanted_here(pattern) is not None for pattern, _ in tags_of(envelope.headers[MARK])
            )
        return bool(self.ports.subscribers.wanting(envelope.event))

    def filed_under(self, envelope: Envelope) -> tuple[int, ...]:
        """The patterns by which the style looks for events in the cache."""
        return ()

    def noticed_loss(self, now: float) -> None:
        """An event is missing."""

    def links(self) -> tuple[str, ...]:
        return self.ports.neighbours.links()

    # -- patterns ------------------------------------------------------------------------------

    def matching(self, event: Event) -> tuple[int, ...]:
        """The patterns that are wanted over some link and accept an event."""
        return self.ports.patterns.matching(event)

    def links_wanting(self, pattern: int) -> tuple[str, ...]:
        return self.ports.patterns.links_wanting(pattern)

    def wanted_here(self, pattern: int) -> float | None:
        """Since when a client here has wanted this pattern; None: none does."""
        return self.ports.patterns.wanted_here(pattern)

    # -- giving and taking -------------------------------------------------------------------

    def give(self, peer: str, cached: CachedEvent, now: float) -> bool:
        """Send an event to the broker that asked for it; False: that one was given it often enough."""
        if not self.standing.give(peer, cached.mark.id, now):
            return False
        self.count["given"] += 1
        self.ports.send(peer, Recovered(cached.envelope, max(0.0, now - cached.since)), Channel.DATAGRAM)
        return True

    def give_wanted(self, sender: str, want: PushWant, now: float) -> bool:
        """Send what is held of this; False: the request made no sense."""
        ids = [(source, number) for source, numbers in want.ids.items() for number in numbers]
        if len(ids) > self.settings.most_entries or not any(id in self.received for id in ids):
            self.standing.strike(sender, REQUEST, now)  # no broker offered that
            return False
        cached = [each for id in ids if (each := self.cache.get(id)) is not None]
        given = [self.give(sender, each, now) for each in cached]
        if given and not any(given):
            self.standing.strike(sender, REQUEST, now)
        return True

    def take(self, sender: str, here: Recovered, now: float) -> None:
        """An event that was asked for, perhaps."""
        mark = read_mark(here.envelope.headers)
        if mark is None:
            self.count["unmarked"] += 1
        elif mark.id in self.received:
            self.count["copies"] += 1
            if self.was_impatient(mark.id):
                self.patience.was_short()
        elif not self.was_asked_for(mark):
            self.count["unasked"] += 1
        else:
            self.count["recovered"] += 1
            self.standing.clear(sender)
            self.bring_back(sender, here.envelope, mark, now - max(0.0, here.age), now)

    def was_impatient(self, id: Id) -> bool:
        """A copy came: because we asked again? A Bloom filter brings unrequested events, too."""
        return id in self._ahead

    def was_asked_for(self, mark: Mark) -> bool:
        return any(loss in self.losses for loss in mark.losses())

    def bring_back(self, sender: str, envelope: Envelope, mark: Mark, since: float, now: float) -> None:
        self.received.add(mark.id)
        self._ahead[mark.id] = None
        if len(self._ahead) > MOST_AHEAD:
            self._ahead.popitem(last=False)
        if mark.tags and self.losses.see(mark.source, mark.tags):
            self.noticed_loss(now)
        self.keep(envelope, since, now, is_own=False)
        self.ports.dispatcher.deliver((envelope,), (self.ports.interest.match(envelope.event),), now)

    # -- gossip ------------------------------------------------------------------------------

    def gossip(self, links: Sequence[str], message: Message, came_from: str | None = None) -> None:
        """To some of these links, never back."""
        possible = [link for link in links if link != came_from]
        chosen = self.ports.rng.sample(possible, min(self.settings.fan_out, len(possible)))
        for link in chosen:
            self.count["gossip"] += 1
            self.ports.send(link, message, self.channel)

    @property
    def channel(self) -> Channel:
        return Channel.DATAGRAM if self.settings.datagrams else Channel.LINK

    def may_ask(self, peer: str, now: float) -> bool:
        return peer != self.ports.name and not self.standing.is_ignored(peer, REQUEST, now)

    # -- the timer -----------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self.pace.due

    def on_timer(self, now: float) -> None:
        if self.pace.due is not None and self.pace.due <= now:
            self.round(now)

    def round(self, now: float) -> None:
        """One round of gossip, and when the next one is due."""

    # -- for people ------------------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        return {
            "events lost": self.losses.noticed,
            "events recovered": self.count["recovered"],
            "recovered twice": self.count["copies"],
            "losses given up": self.losses.given_up,
            "losses open": self.losses.count,
            "events held for others": len(self.cache),
            "events given": self.count["given"],
            "gossip sent": self.count["gossip"],
            "peers ignored": self.standing.banned,
        }

    def check(self) -> None:
        self.losses.check()
        self.cache.check()
        assert len(self._ahead) <= MOST_AHEAD


def _with_headers(envelope: Envelope, headers: dict[str, object]) -> Envelope:
    return Envelope(
        envelope.event, envelope.origin, envelope.offset, envelope.sequence, envelope.remaining,
        envelope.expires, headers,
    )  # fmt: skip
