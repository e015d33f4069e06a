"""Routing by subscriptions: an event goes only over links with interest in it.

`SubscriptionRouting(reduce="identical")` is subscription forwarding (Costa et al. 2003, section 2):
each filter is told once per direction. `reduce="covering"` is SIENA's protocol: a filter that
another one covers is not told, and comes out again when its cover goes; with `advertisements`
it is told only toward publishers whose advertisements overlap it. `hierarchical` is SIENA's other
protocol: filters and events go up to the parent, events come down where they are wanted.
Needs an overlay without cycles.

With `advertisements` and `remember_links` advertising is optional. An event that a link has not settled (see
`settled.py`) counts as wanted there; and a broker advertises everything after a publish that none of its
clients advertised, until no such publish comes for a while. An advertisement that is withdrawn, or whose
client has gone, lingers, since the client may be back soon.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from tidings.algebra import overlaps
from tidings.errors import SettingsError
from tidings.matching.engine import THRESHOLD
from tidings.model.event import Event
from tidings.model.filter import EVERYTHING, Filter
from tidings.model.subscription import Advertisement, Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.inputs import Input, LinkDown, LinkUp, Parted, Started
from tidings.protocol.interest import Match
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.roles import PatternInterest
from tidings.protocol.routing.diffusion import LOCAL, Diffusion, Interest, InterestAck
from tidings.protocol.routing.duplicates import NUMBER, Forward, ForwardAll, Numbering, NumberWindow
from tidings.protocol.routing.outlets import OUTLETS
from tidings.protocol.routing.settled import ANSWERED, FilterSet, SettledInterest
from tidings.protocol.slots import Ports, Routing

SUBSCRIPTIONS = "subscriptions"
ADVERTISEMENTS = "advertisements"
LINGER_SECONDS = (
    30.0  # that a withdrawn advertisement stays; less moves more filters when clients come and go
)
MOST_LINGERING = 1024  # of them; then the oldest goes at once, so that coming and going holds no memory
MAINTAIN_BUDGET = 4  # steps of the matcher's upkeep at once, some milliseconds
MAINTAIN_SECONDS = 0.05
IMPLICIT_SECONDS = 600.0  # without such an event, until a broker no longer advertises everything


class SubscriptionRouting(Routing, PatternInterest):
    messages = (Forward, ForwardAll, Interest, InterestAck)
    headers = frozenset({NUMBER})

    def __init__(
        self,
        *,
        reduce: str = "covering",
        advertisements: bool = False,
        parent: str | None = None,
        hierarchical: bool = False,
        acknowledged: bool = False,
        remember_links: bool = False,
        numbered: bool = True,
        channel: Channel = Channel.LINK,
        linger_seconds: float = LINGER_SECONDS,
        implicit_seconds: float = IMPLICIT_SECONDS,
    ) -> None:
        if reduce not in OUTLETS:
            raise SettingsError(f"no reduction is called {reduce!r}", hint=f"there are: {', '.join(OUTLETS)}")
        self.reduce = reduce
        self.acknowledged = acknowledged
        self.parent = parent
        self.hierarchical = hierarchical
        self.remember_links = remember_links  # True: a broken link keeps its interest, for replay
        self.numbered = numbered  # False: recovery alone tells what was here before
        self.channel = channel  # of events; filters always take the link
        gate = self._gate if advertisements or hierarchical else None
        self._uses_advertisements = advertisements
        self._settles = advertisements and remember_links
        self.linger_seconds = linger_seconds
        self.implicit_seconds = implicit_seconds
        self._subs = Diffusion(
            SUBSCRIPTIONS, reduce=reduce, acknowledged=acknowledged, remembers=remember_links, gate=gate
        )
        self._ads = Diffusion(
            ADVERTISEMENTS, acknowledged=acknowledged, remembers=remember_links, dated=self._settles
        )
        self._settled = SettledInterest(self._ads, self._subs)
        self._own = FilterSet()  # what our clients advertise
        self._own_counts: Counter[str] = Counter()  # by digest
        self._leaving: deque[tuple[float, Filter]] = deque()  # advertisements that linger, and until when
        self._implicit_until: float | None = None  # we advertise everything; None: we do not
        self._subs.on_change = self._subscription_changed
        self._ads.on_change = self._advertisement_changed
        self._maintain_at: float | None = None
        self._handles: dict[
            str, int
        ] = {}  # digest -> handle in the interest table, for filters wanted over a link
        self._wanted_over: dict[int, tuple[str, ...]] = {}  # handle -> the links
        self._signatures: dict[int, int] = {}  # handle -> signature
        self._links_wanting: dict[int, tuple[str, ...]] = {}  # signature -> the links
        self._wanted_here: dict[int, float] = {}  # signature -> since when
        self._generation = 0  # grows with each input and message but events
        self._links_of: tuple[Event | None, Any, frozenset[str]] = (
            None,
            None,
            frozenset(),
        )  # the last answer
        self._seen = NumberWindow()
        self._gates_to_review: dict[str, None] = {}
        self._checked = (-1, -1)  # versions of the tables

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._links, self._peers = ports.neighbours.links, ports.neighbours.peers
        self._subs.peers = self._ads.peers = self._peers
        self._restart()

    def _restart(self) -> None:
        self._incarnation = f"{self.ports.name}.{self.ports.rng.getrandbits(32):08x}"
        self._numbering = Numbering(self._incarnation)

    # -- inputs ----------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        self._generation += 1
        if isinstance(input, Started):
            self._restart()
        elif isinstance(input, LinkUp) and input.peer in self._links():
            session = f"{self._incarnation}/{self.ports.rng.getrandbits(32):08x}"
            self._ads.link_up(input.peer, session)
            self._subs.link_up(input.peer, session)
            self._flush(now)
        elif isinstance(input, LinkDown):
            self._settled.link_down(input.peer)
            for diffusion in (self._ads, self._subs):
                if self.remember_links:
                    diffusion.quiet(input.peer)
                else:
                    diffusion.link_down(input.peer)
            self._flush(now)
        elif isinstance(input, Parted):
            for diffusion in (self._ads, self._subs):
                diffusion.link_down(input.peer)
            self._settled.part(input.peer)
            self._flush(now)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subs.local_added(subscription.filter)
        self._wanted_here.setdefault(subscription.filter.signature, now)
        self._flush(now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subs.local_removed(subscription.filter)
        if not self._subs.is_local(subscription.filter.digest):
            self._wanted_here.pop(subscription.filter.signature, None)
        self._flush(now)

    def advertisement_added(self, advertisement: Advertisement, now: float) -> None:
        self._own_counts[advertisement.filter.digest] += 1
        self._own.add(advertisement.filter)
        self._ads.local_added(advertisement.filter)
        self._flush(now)

    def advertisement_removed(self, advertisement: Advertisement, now: float) -> None:
        if self._settles:
            self._leaving.append((now + self.linger_seconds, advertisement.filter))
            if len(self._leaving) > MOST_LINGERING:
                self._disown(self._leaving.popleft()[1])
                self._flush(now)
            return
        self._disown(advertisement.filter)
        self._flush(now)

    def _disown(self, filter: Filter) -> None:
        self._own_counts[filter.digest] -= 1
        if not self._own_counts[filter.digest]:
            del self._own_counts[filter.digest]
            self._own.discard(filter)
        self._ads.local_removed(filter)

    def _published(self, events: Sequence[Event], now: float) -> None:
        """Our clients published these events: has one of them advertised all of them?"""
        for event in events:
            if not self._own.accepts(event):
                break
        else:
            return
        is_new = self._implicit_until is None
        self._implicit_until = now + self.implicit_seconds
        if is_new:
            self._ads.local_added(EVERYTHING)
            self._flush(now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Forward | ForwardAll):
            self.on_messages(sender, (message,), now)
        elif sender not in self._links():
            return  # a neighbour no longer; it was on its way
        elif isinstance(message, Interest):
            self._receive(sender, message)
            self._flush(now)
        else:
            assert isinstance(message, InterestAck)
            self._generation += 1
            self._seen_by(sender, message, now)

    def on_messages(self, sender: str, messages: Sequence[Message], now: float) -> None:
        """Pass on together the events that came together."""
        new: list[Envelope] = []
        for message in messages:
            if isinstance(message, Forward | ForwardAll):
                new += (message.envelope,) if isinstance(message, Forward) else message.envelopes
                continue
            self._received(new, sender, now)
            new = []
            self.on_message(sender, message, now)
        self._received(new, sender, now)

    def _received(self, envelopes: list[Envelope], sender: str, now: float) -> None:
        if self.numbered:
            envelopes = [envelope for envelope in envelopes if self._is_new(envelope)]
        if envelopes:
            self.ports.events.received(envelopes, sender, now)

    def _receive(self, link: str, message: Interest) -> None:
        was_unknown = self._ads.is_unknown(link)
        self._diffusion(message.what).receive(link, message, self.ports.send)
        if was_unknown and not self._ads.is_unknown(link):
            self._gates_to_review[link] = None

    def _seen_by(self, link: str, message: InterestAck, now: float) -> None:
        if message.what == ANSWERED:
            self._settled.receive(link, message.session, message.number)
        else:
            self._diffusion(message.what).seen(link, message)
        if self._settles:
            self._settled.answer(self.ports.send, self._links())

    def _diffusion(self, what: str) -> Diffusion:
        return self._ads if what == ADVERTISEMENTS else self._subs

    def _flush(self, now: float) -> None:
        self._generation += 1
        links = self._links()
        if len(self._handles) > THRESHOLD:
            self._maintain_at = now
        if self._uses_advertisements:
            self._ads.flush(self.ports.send, links, now)
        for link in self._gates_to_review:
            self._subs.review_link(link)
        self._gates_to_review.clear()
        self._subs.flush(self.ports.send, links, now)
        if self._settles:
            self._settled.review(links, now)
            self._settled.answer(self.ports.send, links)

    def on_timer(self, now: float) -> None:
        self._generation += 1
        links = self._links()
        if self._maintain_at is not None and self._maintain_at <= now:
            left = self.ports.interest.maintain(MAINTAIN_BUDGET)
            self._maintain_at = now + MAINTAIN_SECONDS if left else None
        self._withdraw(now)
        self._settled.ask_again(self.ports.send, links, now)
        for diffusion in (self._ads, self._subs):
            diffusion.repeat(self.ports.send, links, now)

    def _withdraw(self, now: float) -> None:
        """Advertisements whose time is over."""
        has_changed = False
        while self._leaving and self._leaving[0][0] <= now:
            self._disown(self._leaving.popleft()[1])
            has_changed = True
        if self._implicit_until is not None and self._implicit_until <= now:
            self._implicit_until = None
            self._ads.local_removed(EVERYTHING)
            has_changed = True
        if has_changed:
            self._flush(now)

    def next_deadline(self) -> float | None:
        if not self.acknowledged:
            return self._maintain_at
        earliest = self._subs.next_deadline()
        at = self._maintain_at
        if at is not None and (earliest is None or at < earliest):
            earliest = at
        if self._uses_advertisements:
            for at in (
                self._ads.next_deadline(),
                self._settled.next_deadline(),
                self._leaving[0][0] if self._leaving else None,
                self._implicit_until,
            ):
                if at is not None and (earliest is None or at < earliest):
                    earliest = at
        return earliest

    # -- tables ----------------------------------------------------------------------------

    def _gate(self, link: str, filter: Filter) -> bool:
        if self.hierarchical:
            return link == self.parent
        if self._ads.is_unknown(link):
            return True
        return any(ad.is_always_true or overlaps(ad, filter) for ad in self._ads.behind(link))

    def _advertisement_changed(self, _filter: Filter, source: str, _came: bool) -> None:
        if source != LOCAL:
            self._gates_to_review[source] = None

    def _subscription_changed(self, filter: Filter, source: str, _came: bool) -> None:
        """Keep in the interest table the filters that some link wants."""
        if source == LOCAL:
            return
        digest = filter.digest
        links = tuple(other for other in self._subs.sources[digest] if other != LOCAL)
        handle = self._handles.get(digest)
        if links and handle is None:
            handle = self._handles[digest] = self.ports.interest.add_link_filter(filter)
            self._signatures[handle] = filter.signature
        elif handle is not None and not links:
            del self._handles[digest], self._wanted_over[handle], self._signatures[handle]
            self._links_wanting.pop(filter.signature, None)
            self.ports.interest.remove(handle, filter)
        if links and handle is not None:
            self._wanted_over[handle] = self._links_wanting[filter.signature] = links

    # -- events ----------------------------------------------------------------------------

    def _is_new(self, envelope: Envelope) -> bool:
        origin, number = envelope.headers[NUMBER]
        return bool(origin != self._incarnation and self._seen.is_new(origin, number))

    def forward(
        self,
        envelopes: Sequence[Envelope],
        matches: Sequence[Match],
        at: tuple[str, ...] | None,
        came_from: str | None,
        now: float,
    ) -> None:
        if self.numbered:
            envelopes = [
                each if NUMBER in each.headers else self._numbering.numbered(each)
                for each in envelopes  # ours have none, and those that recovery brought back
            ]
        events: list[Event] = []
        for envelope in envelopes:
            events += (envelope.event,)
        if self._settles and came_from is None:
            self._published(events, now)
        wanted = self._wanting_each(events, matches, came_from)
        up, parent = self._links(), self.parent if self.hierarchical else None
        last: Sequence[Envelope] | None = None
        messages: Sequence[Message] = ()
        for link in self._peers():
            if link == came_from:
                continue
            going = envelopes
            for links in wanted if link != parent else ():
                if link not in links:
                    going = [e for e, some in zip(envelopes, wanted, strict=True) if link in some]
                    break
            leaving = self.ports.passage.outgoing(going, link, now) if going else ()
            if link in up and leaving:
                if leaving is not last:  # most links are sent the same events: one message for all of them
                    last, messages = leaving, self._messages(leaving)
                for message in messages:
                    self.ports.send(link, message, self.channel)

    def _messages(self, envelopes: Sequence[Envelope]) -> Sequence[Message]:
        """Events of one batch for one link: in one message, unless each may get lost by itself."""
        if envelopes[1:] and self.channel is Channel.LINK:
            return (ForwardAll(tuple(envelopes)),)
        return [Forward(each) for each in envelopes] if envelopes[1:] else (Forward(envelopes[0]),)

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        if self.numbered or (self.hierarchical and self.parent is not None):
            return [False] * len(events)
        if self._settles:
            self._published(events, now)
        return [not links for links in self._wanting_each(events, matches)]

    def _wanting(self, event: Event) -> frozenset[str]:
        """The links over which the event is wanted. Asked several times for an event that passes, and
        computed once as long as no table changes."""
        last, state = self._links_of, (self._generation, self.ports.interest.version, self._peers())
        if last[0] is event and last[1] == state:
            return last[2]
        found = self._wanting_each((event,), (self.ports.interest.match(event),))[0]
        self._links_of = (event, state, found)
        return found

    def _wanting_each(
        self, events: Sequence[Event], matches: Sequence[Match], but: str | None = None
    ) -> list[frozenset[str]]:
        """For each event: the links over which it is wanted, or may be; whether the link `but` is among them
        is not asked. Neighbouring events mostly have the same ones."""
        peers, found = self._peers(), list[frozenset[str]]()
        if not peers and not self._wanted_over:
            return [frozenset()] * len(events)  # most brokers of small networks have no neighbour
        filters: Sequence[int] | None = None
        known = frozenset[str]()
        for event, match in zip(events, matches, strict=True):
            if match.link_filters is not filters:
                filters = match.link_filters
                links: set[str] = set()
                for handle in filters:
                    links.update(self._wanted_over[handle])
                known = frozenset(links)
            wanted = known
            if self.remember_links:
                for link in peers:
                    if link not in known and self._is_open(link, event):
                        wanted = wanted | {link}
            found += (wanted,)
        return found

    def matching(self, event: Event) -> tuple[int, ...]:
        signatures = self._signatures
        return tuple([signatures[handle] for handle in self.ports.interest.match(event).link_filters])

    def links_wanting(self, signature: int) -> tuple[str, ...]:
        return self._links_wanting.get(signature, ())

    def wanted_here(self, signature: int) -> float | None:
        return self._wanted_here.get(signature)

    def _is_open(self, link: str, event: Event) -> bool:
        """Is the interest behind the link in this event unknown?"""
        return self._subs.is_unknown(link) or (self._settles and not self._settled.covers(link, event))

    def wanted_elsewhere(self, event: Event) -> bool:
        if self.hierarchical and self.parent is not None:
            return True
        return bool(self._wanting(event))

    def wants(self, link: str, event: Event) -> bool:
        return link in self._wanting(event)

    def agreed(self, link: str) -> bool:
        return self._subs.agreed(link)

    def interest(self, link: str) -> tuple[Filter, ...]:
        return self._subs.behind(link)

    def ways_changed(self, now: float) -> None:
        self._flush(now)

    def table_size(self) -> int:
        """Filters held for links."""
        return sum(len([s for s in sources if s != LOCAL]) for sources in self._subs.sources.values())

    def check(self) -> None:
        version = (self._subs.version, self._ads.version)
        if version == self._checked:
            return  # events change no table, and most steps are events
        self._checked = version
        self._subs.check()
        self._ads.check()
        self._settled.check()
        assert len(self._handles) == len(self._wanted_over)
        for digest, sources in self._subs.sources.items():
            assert (digest in self._handles) == any(s != LOCAL for s in sources), "matcher and table differ"


class CoveringRouting(SubscriptionRouting):
    name = "covering"


class SubscriptionForwarding(SubscriptionRouting):
    name = "subscription forwarding"

    def __init__(
        self, *, acknowledged: bool = False, numbered: bool = True, channel: Channel = Channel.LINK
    ) -> None:
        super().__init__(reduce="identical", acknowledged=acknowledged, numbered=numbered, channel=channel)
