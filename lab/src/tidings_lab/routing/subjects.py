"""Routing by subject on two levels, in the manner of TIB/RV (Virgillito 2003, 2.5.1; Baldoni et al. 2002,
section 2).

Each host runs a daemon (a broker), which keeps its own subscriptions. An event is broadcast on the local
network once; each daemon takes from it what its subscribers want. One daemon of each network is its router.
Routers know the subjects that are wanted in every network. The router of the publisher's network sends the
event along a tree of the routers whose networks have a subscriber for its subject, and of no others; each of
them broadcasts it at home. The tree is made anew from the subject and carried along, so that routers with
different knowledge cannot lead an event in a circle. Best effort: datagrams and broadcasts, no event is
repeated.

Interest is sent when it changes, and whole every `refresh` seconds, since datagrams get lost; a router that
is silent for `SILENT` times as long is forgotten. A router that begins asks its network and the other
routers.

A subject is a topic; wildcards are those of patterns. The recipient's daemon checks the rest of a filter. A
filter that names no topic wants every subject.

With `cache` the router of a network keeps the last so many events of each subject that were published there.
A newcomer's daemon asks all routers, waits until what is on its way has come (`PATIENCE`), and hands over
what was not heard.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import ClassVar
from zlib import crc32

import msgspec

from tidings.language.evaluate import accepts
from tidings.model.constraint import Constraint, Equals, OneOf, TopicIs
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.model.topic import is_pattern, topic_matches
from tidings.protocol.effects import Channel
from tidings.protocol.inputs import Input, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings_lab.lans import Lan

EVERY = "#"  # every subject, and events that have none
PATIENCE = 1.0  # seconds until what was on its way has come
REFRESH = 30.0  # seconds until every daemon says again what it wants; less heals sooner and costs messages
SILENT = 3.5  # times as long, and a host or a network is taken for gone
MOST_SUBJECTS = 10_000  # in a cache; then the one that was silent longest goes


class OnLan(Message, frozen=True, tag="OnLan"):
    """An event, broadcast on a local network."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope
    from_outside: bool = False  # the router has it from another network


class Subject(Message, frozen=True, tag="Subject"):
    """The sender wants this subject from now on, or does not any more: a host to its router, a router for its
    network."""

    subject: str
    wanted: bool


class SubjectSet(Message, frozen=True, tag="Subjects"):
    """All subjects that the sender wants."""

    subjects: tuple[str, ...]
    asks: bool = False  # and who hears this is to say the same of itself


class ToRouters(Message, frozen=True, tag="ToRouters"):
    """An event for the networks of these routers: the receiver's own, and those that it sends it on to."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope
    onward: tuple[str, ...] = ()


class CacheRequest(Message, frozen=True, tag="CacheAsk"):
    """What was published last on these subjects? Routers answer straight to the asker."""

    asker: str
    number: int
    subjects: tuple[str, ...]
    is_first: bool = False  # at the asker's own router: pass it on


class CacheReply(Message, frozen=True, tag="CacheAnswer"):
    number: int
    envelopes: tuple[Envelope, ...]


class _Newcomer(msgspec.Struct):
    """A subscription that waits for what was published before it."""

    subscription: Subscription
    until: float
    received: set[tuple[str, str]]  # that came live meanwhile
    found: list[Envelope]


class SubjectRouting(OneByOne):
    name = "broadcast and a tree per subject"
    messages = (OnLan, Subject, SubjectSet, ToRouters, CacheRequest, CacheReply)

    def __init__(self, lan: Lan, *, cache: int = 0, fan_out: int = 3, refresh: float = REFRESH) -> None:
        self.lan = lan
        self.cache = cache
        self.fan_out = max(1, fan_out)
        self._own: Counter[str] = Counter()  # subjects that our clients want
        self._hosts = SubjectWishes(refresh * SILENT)  # at a router: of its network's other hosts
        self._lans = SubjectWishes(refresh * SILENT)  # at a router: of the other networks, by their routers
        self._announced: frozenset[str] = (
            frozenset()
        )  # at a router: what the others know that our network wants
        self._refresh = refresh
        self._refresh_at: float | None = None
        self._last: OrderedDict[str, deque[Envelope]] = OrderedDict()  # at a router: by topic
        self._newcomers: dict[int, _Newcomer] = {}
        self._requested = 0

    @property
    def is_router(self) -> bool:
        return self.lan.router == self.ports.name

    def table_size(self) -> int:
        """Subjects of hosts and of networks that a router knows."""
        return len(self._hosts) + len(self._lans)

    # -- who wants which subject ---------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._refresh_at = now + self._refresh
            if self.is_router:
                for router in self.lan.others():
                    self.ports.send(router, SubjectSet((), asks=True), Channel.DATAGRAM)
                self.ports.send(self.lan.name, SubjectSet((), asks=True), Channel.MULTICAST)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        subjects = subjects_of(subscription.filter)
        for subject in subjects:
            self._own[subject] += 1
            if self._own[subject] == 1:
                self._own_changed(Subject(subject, True), now)
        if self.cache:
            self._requested += 1
            self._newcomers[self._requested] = _Newcomer(subscription, now + PATIENCE, set(), [])
            ask = CacheRequest(self.ports.name, self._requested, subjects, is_first=True)
            self._to(self.lan.router, ask, now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        for subject in subjects_of(subscription.filter):
            self._own[subject] -= 1
            if not self._own[subject]:
                del self._own[subject]
                self._own_changed(Subject(subject, False), now)
        for number, newcomer in list(self._newcomers.items()):
            if newcomer.subscription.id == subscription.id:
                del self._newcomers[number]

    def _own_changed(self, change: Subject, now: float) -> None:
        if self.is_router:
            self._announce_to_routers(now)
        else:
            self.ports.send(self.lan.router, change, Channel.DATAGRAM)

    def _announce_to_routers(self, now: float) -> None:
        """Changes of our network's interest."""
        wanted = frozenset(self._own) | self._hosts.all(now)
        for subject in sorted(wanted ^ self._announced):
            for router in self.lan.others():
                self.ports.send(router, Subject(subject, subject in wanted), Channel.DATAGRAM)
        self._announced = wanted

    def _note_wish(self, sender: str, message: Subject | SubjectSet, now: float) -> None:
        if isinstance(message, SubjectSet) and message.asks:
            self._say_all(sender)  # to a router that begins; what it wants itself it will say
        elif self.is_router:
            self._take_wish(sender, message, now)

    def _take_wish(self, sender: str, message: Subject | SubjectSet, now: float) -> None:
        wishes = self._lans if sender in self.lan.routers else self._hosts
        if isinstance(message, SubjectSet):
            wishes.replace(sender, message.subjects, now)
        else:
            wishes.change(sender, message.subject, message.wanted, now)
        if wishes is self._hosts:
            self._announce_to_routers(now)

    def _say_all(self, to: str) -> None:
        wanted = self._announced if self.is_router else frozenset(self._own)
        self.ports.send(to, SubjectSet(tuple(sorted(wanted))), Channel.DATAGRAM)

    def _refresh_all(self, now: float) -> None:
        self._refresh_at = now + self._refresh
        if not self.is_router:
            if self._own:
                self._say_all(self.lan.router)
            return
        self._announce_to_routers(now)  # without those who fell silent
        self._lans.all(now)
        if self._announced:
            for router in self.lan.others():
                self._say_all(router)

    def _routers_for(self, topic: str | None) -> set[str]:
        """The other routers with subscribers of this subject in their networks."""
        return {router for subject, router in self._lans.each() if covers_subject(subject, topic)}

    # -- the way of an event -------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, OnLan):
            if self.is_router and not message.from_outside:
                self._outside(message.envelope)
            self._arrived(message.envelope, sender, now)
        elif isinstance(message, ToRouters):
            self._onward(message.envelope, message.onward)
            self._broadcast(message.envelope, from_outside=True)
            self._arrived(message.envelope, sender, now)
        elif isinstance(message, Subject | SubjectSet):
            self._note_wish(sender, message, now)
        elif isinstance(message, CacheRequest):
            self._cache_asked(message, now)
        elif isinstance(message, CacheReply):
            self._cache_answered(message)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is not None:
            return
        self._note(envelope.event)
        self._broadcast(envelope, from_outside=False)
        if self.is_router:
            self._outside(envelope)

    def _broadcast(self, envelope: Envelope, *, from_outside: bool) -> None:
        self.ports.send(self.lan.name, OnLan(envelope, from_outside), Channel.MULTICAST)

    def _outside(self, envelope: Envelope) -> None:
        """From our own network to all others where it is wanted."""
        topic = envelope.event.topic
        if self.cache:
            self._keep(envelope)
        wanted = sorted(
            self._routers_for(topic), key=lambda router: (crc32(f"{topic}/{router}".encode()), router)
        )
        self._onward(envelope, wanted)

    def _onward(self, envelope: Envelope, routers: Iterable[str]) -> None:
        """Our branches of the tree: so many routers, each with its part of the others."""
        names = list(routers)
        for number, child in enumerate(names[: self.fan_out]):
            rest = tuple(names[number + self.fan_out :: self.fan_out])
            self.ports.send(child, ToRouters(envelope, rest), Channel.DATAGRAM)

    def _arrived(self, envelope: Envelope, sender: str, now: float) -> None:
        self._note(envelope.event)
        self.ports.events.arrived((envelope,), sender, now)

    def wanted_elsewhere(self, event: Event) -> bool:
        return True  # a broadcast needs no interest

    # -- what was published last ---------------------------------------------------------------

    def _note(self, event: Event) -> None:
        for newcomer in self._newcomers.values():
            newcomer.received.add(event.identity)

    def _keep(self, envelope: Envelope) -> None:
        topic = envelope.event.topic or ""
        last = self._last.setdefault(topic, deque(maxlen=self.cache))
        last.append(envelope)
        self._last.move_to_end(topic)
        if len(self._last) > MOST_SUBJECTS:
            self._last.popitem(last=False)

    def _cache_asked(self, ask: CacheRequest, now: float) -> None:
        if ask.is_first:
            for router in self.lan.others():
                self.ports.send(router, msgspec.structs.replace(ask, is_first=False), Channel.DATAGRAM)
        found = tuple(
            envelope
            for topic, last in self._last.items()
            if any(covers_subject(subject, topic or None) for subject in ask.subjects)
            for envelope in last
        )
        if found:
            self._to(ask.asker, CacheReply(ask.number, found), now)

    def _cache_answered(self, answer: CacheReply) -> None:
        newcomer = self._newcomers.get(answer.number)
        if newcomer is not None:
            newcomer.found += answer.envelopes

    def _to(self, broker: str, message: Message, now: float) -> None:
        if broker == self.ports.name:
            self.on_message(broker, message, now)
        else:
            self.ports.send(broker, message, Channel.DATAGRAM)

    def next_deadline(self) -> float | None:
        waiting = [newcomer.until for newcomer in self._newcomers.values()]
        return min(waiting if self._refresh_at is None else [*waiting, self._refresh_at], default=None)

    def on_timer(self, now: float) -> None:
        if self._refresh_at is not None and self._refresh_at <= now:
            self._refresh_all(now)
        for number, newcomer in list(self._newcomers.items()):
            if newcomer.until <= now:
                del self._newcomers[number]
                wanted = newcomer.subscription
                for envelope in newcomer.found:
                    event = envelope.event
                    if event.identity not in newcomer.received and accepts(wanted.filter, event):
                        self.ports.dispatcher.deliver_to(wanted.id, envelope, now)

    def check(self) -> None:
        assert self.is_router or not (len(self._hosts) or len(self._lans) or self._last), (
            "only routers know networks"
        )
        assert all(count > 0 for count in self._own.values())


class SubjectWishes:
    """Interest of others by subject; that of a router which is silent for `seconds` is forgotten."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._subjects: dict[str, dict[str, None]] = {}
        self._until: dict[str, float] = {}

    def change(self, who: str, subject: str, wanted: bool, now: float) -> None:
        self._until[who] = now + self._seconds
        subjects = self._subjects.setdefault(who, {})
        if wanted:
            subjects[subject] = None
        else:
            subjects.pop(subject, None)

    def replace(self, who: str, subjects: Iterable[str], now: float) -> None:
        self._until[who] = now + self._seconds
        self._subjects[who] = dict.fromkeys(subjects)

    def each(self) -> Iterable[tuple[str, str]]:
        return ((subject, who) for who, subjects in self._subjects.items() for subject in subjects)

    def all(self, now: float) -> frozenset[str]:
        """Every wanted subject; routers that were silent too long are forgotten."""
        for who in [who for who, until in self._until.items() if until <= now]:
            del self._until[who], self._subjects[who]
        return frozenset(subject for subject, _ in self.each())

    def __len__(self) -> int:
        return sum(len(subjects) for subjects in self._subjects.values())


def subjects_of(filter: Filter) -> tuple[str, ...]:
    """The subjects, some with wildcards, among which every event is that the filter can accept."""
    found = [subject for conjunction in filter.conjunctions for subject in _subjects(conjunction.constraints)]
    return tuple(dict.fromkeys(found))


def _subjects(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    """Subjects of one conjunction: the constraint that names fewest."""
    best: tuple[str, ...] = (EVERY,)
    for constraint in constraints:
        if constraint.attribute != "topic":
            continue
        if isinstance(constraint, Equals):
            return (str(constraint.value),)
        if isinstance(constraint, OneOf) and (best == (EVERY,) or len(constraint.values) < len(best)):
            best = tuple(str(value) for value in constraint.values)
        elif isinstance(constraint, TopicIs) and not constraint.negated and best == (EVERY,):
            best = (constraint.pattern,)
    return best


def covers_subject(subject: str, topic: str | None) -> bool:
    """Does an event of this topic fall under a subject that is wanted?"""
    if subject == EVERY:
        return True
    if topic is None:
        return False
    return topic_matches(subject, topic) if is_pattern(subject) else subject == topic
