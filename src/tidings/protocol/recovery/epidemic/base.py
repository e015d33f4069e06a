"""What every style of epidemic recovery shares: marks on events, losses, the cache, who is believed.

A style (`push.py`, `pull.py`, `lazy.py`) adds what a round sends and what is done with gossip. Rules
- Events pass as they would without recovery; it only marks, notes and keeps them.
- Requests and replies go straight from broker to broker, by datagram; gossip takes the links.
- What comes back is delivered here and not sent on. If it comes over a link after all, it is sent on
  then, and not told again.
- Only what was asked for is taken.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import ClassVar

from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.recovery.epidemic.cache import Cache, Held
from tidings.protocol.recovery.epidemic.marks import Counters, Losses, Received
from tidings.protocol.recovery.epidemic.pace import Pace
from tidings.protocol.recovery.epidemic.settings import FOREIGN, INTEREST, EpidemicSettings
from tidings.protocol.recovery.epidemic.standing import REQUEST, Standing
from tidings.protocol.recovery.epidemic.words import (
    HEADERS,
    MESSAGES,
    ROUTE,
    Id,
    Mark,
    PushWant,
    Recovered,
    id_of,
    read_mark,
)
from tidings.protocol.slots import Ports, Recovery

MOST_AHEAD = 10_000  # recovered events whose copy on the link is still waited for


class Epidemic(Recovery):
    messages = MESSAGES
    headers = HEADERS
    uses_tags: ClassVar[bool] = False
    uses_routes: ClassVar[bool] = False

    def __init__(self, settings: EpidemicSettings | None = None) -> None:
        self.settings = settings or EpidemicSettings()
        self.count: Counter[str] = Counter()

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        settings = self.settings
        self.counters = Counters(lambda: f"{ports.name}.{ports.rng.getrandbits(32):08x}")
        self.losses = Losses(ports.routing.wanted_here, most=settings.most_lost, give_up=settings.give_up)
        self.received = Received(settings.window)
        self.cache = Cache(settings.cache, settings.evicts, ports.rng)
        self.pace = Pace(settings.interval_seconds, settings.longest_seconds, ports.rng)
        self.standing = Standing(settings.strikes, settings.ignore_seconds, settings.longest_ignore_seconds)
        self._ahead: OrderedDict[Id, None] = OrderedDict()  # recovered, and not yet seen on a link
        self._sorts_interest = settings.caches == INTEREST or settings.evicts == FOREIGN

    # -- events ------------------------------------------------------------------------------

    def observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope | None:
        if came_from is None:
            envelope, mark = self._published(envelope, now)
            self.received.add(mark.id)
        else:
            found = read_mark(envelope.headers)
            if found is None:
                self.count["unmarked"] += 1
                return envelope
            mark = found
            if self.uses_routes:
                envelope, mark = self._routed(envelope, mark)
        self.note(envelope, mark, now, now, is_own=came_from is None)
        return envelope

    def _published(self, envelope: Envelope, now: float) -> tuple[Envelope, Mark]:
        patterns = self.ports.routing.matching(envelope.event) if self.uses_tags else ()
        number, tags = self.counters.next(patterns)
        route = (self.ports.name,) if self.uses_routes else ()
        mark = Mark(self.counters.source, number, tags, route)
        return _with_headers(envelope, {**envelope.headers, **mark.headers()}), mark

    def _routed(self, envelope: Envelope, mark: Mark) -> tuple[Envelope, Mark]:
        route = (*mark.route, self.ports.name)
        marked = Mark(mark.source, mark.number, mark.tags, route)
        return _with_headers(envelope, {**envelope.headers, ROUTE: route}), marked

    def note(self, envelope: Envelope, mark: Mark, since: float, now: float, *, is_own: bool) -> None:
        """An event is here, over a link or brought back; it was published at `since` or earlier."""
        if mark.tags and not is_own and self.losses.see(mark.source, mark.tags):
            self.noticed_loss(now)
        is_foreign = False
        if self._sorts_interest and not is_own:
            is_foreign = not self._is_wanted(envelope, mark)
            if is_foreign and self.settings.caches == INTEREST:
                return
        self.cache.add(envelope, mark, self.filed_under(envelope, mark), since, is_foreign=is_foreign)

    def _is_wanted(self, envelope: Envelope, mark: Mark) -> bool:
        """Does a client here want it?"""
        if self.uses_tags:
            wanted_here = self.ports.routing.wanted_here
            return any(wanted_here(pattern) is not None for pattern, _ in mark.tags)
        return bool(self.ports.delivery.wanting(envelope.event))

    def filed_under(self, envelope: Envelope, mark: Mark) -> Iterable[int]:
        """The patterns by which the style looks for events in the cache."""
        return ()

    def noticed_loss(self, now: float) -> None:
        """Something is missing."""

    def admit(self, envelope: Envelope, came_from: str, now: float) -> bool:
        id = id_of(envelope.headers)
        if id is None or self.received.add(id):
            return True  # it is here, from now on
        if id in self._ahead:
            del self._ahead[id]
            self.count["late"] += 1
            mark = read_mark(envelope.headers)
            if self.uses_routes and mark is not None:
                envelope, _ = self._routed(envelope, mark)
            self.ports.routing.forward(envelope, None, came_from, now)
        else:
            self.count["doubles"] += 1
        return False

    def lookup(self, ids: Iterable[tuple[str, str]]) -> tuple[Envelope, ...]:
        wanted = set(ids)
        return tuple(held.envelope for held in self.cache.all() if held.envelope.event.identity in wanted)

    # -- giving and taking -------------------------------------------------------------------

    def give(self, peer: str, held: Held, now: float) -> bool:
        """Send an event to whoever asked for it; False: that one was given it often enough."""
        if not self.standing.give(peer, held.mark.id, now):
            return False
        self.count["given"] += 1
        self.ports.send(peer, Recovered(held.envelope, max(0.0, now - held.since)), Channel.DATAGRAM)
        return True

    def give_wanted(self, sender: str, want: PushWant, now: float) -> bool:
        """Send what is held of this; False: the request made no sense."""
        ids = [(source, number) for source, numbers in want.ids.items() for number in numbers]
        if len(ids) > self.settings.most_entries or not any(id in self.received for id in ids):
            self.standing.strike(sender, REQUEST, now)  # nobody offered that
            return False
        held = [each for id in ids if (each := self.cache.get(id)) is not None]
        given = [self.give(sender, each, now) for each in held]
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
        elif not self.was_asked_for(mark):
            self.count["unasked"] += 1
        else:
            self.count["recovered"] += 1
            self.standing.clear(sender)
            self.bring_back(sender, here.envelope, mark, now - max(0.0, here.age), now)

    def was_asked_for(self, mark: Mark) -> bool:
        return any(loss in self.losses for loss in mark.losses())

    def bring_back(self, sender: str, envelope: Envelope, mark: Mark, since: float, now: float) -> None:
        self.received.add(mark.id)
        self._ahead[mark.id] = None
        if len(self._ahead) > MOST_AHEAD:
            self._ahead.popitem(last=False)
        self.note(envelope, mark, since, now, is_own=False)
        self.ports.delivery.deliver(envelope, now)

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

    def may_speak(self, peer: str, now: float) -> bool:
        return peer != self.ports.name and not self.standing.is_ignored(peer, now)

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
        assert len(self.cache) <= self.settings.cache, "the cache is over its bound"
        assert len(self._ahead) <= MOST_AHEAD


def _with_headers(envelope: Envelope, headers: dict[str, object]) -> Envelope:
    return Envelope(
        envelope.event, envelope.origin, envelope.offset, envelope.sequence, envelope.remaining,
        envelope.expires, headers,
    )  # fmt: skip
