"""Gossip over topics: daMulticast (Baehni et al. 2004, 4.3), and its options beyond.

Rules
- An event is gossiped in each of our groups whose topic includes the event's, once, when we first hear it
  (infect and die): to floor(ln S + c) members of the topic table.
- We elect ourselves as a link with chance g/S; a link sends to each entry of its supertopic tables with
  chance a/z. The root only gossips.
- `named`: the peer that brings the event into a group names links for g turns, in an order: itself for the
  first `own`, then others of its table. In its turn a link sends to exactly a entries, the n-th turn n
  `stagger` later, so that most of the later ones find the group above reached, and no second naming follows.
  A link with several turns takes other entries.
- `lazy`: inside a group the event itself goes only to those who ask; see `GossipOffer`. The first steps from
  the publisher push it at once. Turns are three times as far apart, as the steps of a lazy group are; and
  only the first sends the event, later ones say that they have it.
- An event that we publish for a topic that is not ours is handed to members of its group, or of the nearest
  one above that has any. As long as no such member is known it waits, and membership looks for one.
- No event is sent to a peer whose topics do not include the event's; one that comes to us so all the same is
  counted (`parasites`) and goes no further. After we left a group, or began again after a crash, those who
  have not heard of it yet may still send (`late`): each is told that we do not belong there, and has to
  believe it.
- In a history a peer that belongs to a group is subscribed to its topic and all below.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from tidings.history.schema import recv_row, sub_row, usub_row
from tidings.model.event import Event
from tidings.model.subscription import Subscription
from tidings.model.topic import ROOT
from tidings.protocol.effects import Channel, Record
from tidings.protocol.gossip_constants import constants_for
from tidings.protocol.inputs import Input, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.topic_graph import TopicGraph, groups_of, into, over

Identity = tuple[str, str]
LAZY_HOPS = 3  # of a lazy step: to say so, to ask, to answer
FROM_BELOW = -1  # in place of the step, when a link tells the group above
RETRY = 0.2  # seconds until an event without a known receiver is tried again


class GossipSettings(msgspec.Struct, frozen=True, kw_only=True):
    c: float = 5.0
    g: float = 5.0
    a: float = 1.0
    z: int = 3
    success: float = 1.0  # below 1: the fan-out makes up for loss
    wanted: float = 0.0  # above 0: choose c, g, a for this reliability at the observed loss; links are named
    forced: bool = False  # the publisher is always a link
    named: bool = False
    own: int = 1  # turns that the one who names takes itself
    stagger: float = 0.03  # seconds between one named link and the next; three rounds of the network
    lazy: bool = False
    eager: int = (
        -1
    )  # steps in which a lazy group pushes at once; -1: as long as they reach a quarter of it at most
    patience: float = 0.1  # seconds until the next one is asked
    tries: int = 12
    wait: float = 30.0  # seconds that an event waits for a receiver to be found
    corrections: int = 100  # times that a peer is told that we are not who it takes us for; many may get lost
    remembered: int = 100_000  # events that are known again
    kept: int = 2_000  # events that can be sent to those who ask

    def at_loss(self, loss: float, levels: int) -> GossipSettings:
        """These settings with the constants for the wanted reliability."""
        found = constants_for(self.wanted, levels, loss=min(0.9, round(loss, 2)))
        return msgspec.structs.replace(
            self, c=found.c, g=found.g, a=found.a, success=found.success, named=True, wanted=0.0
        )

    @property
    def turn_seconds(self) -> float:
        """From the turn of one named link to the next."""
        return LAZY_HOPS * self.stagger if self.lazy else self.stagger

    def eager_steps(self, size: int) -> int:
        if self.eager >= 0:
            return self.eager
        return math.floor(math.log(max(1.0, size / 4)) / math.log(max(2, self.fan_out(size))))

    def fan_out(self, size: int) -> int:
        wanted = math.log(max(1, size)) + self.c
        count = math.floor(wanted) if self.success >= 1.0 else round(wanted / self.success)
        return max(0, min(count, size - 1))


class GossipEvents(Message, frozen=True, tag="Rumour"):
    """The event itself.

    `links` are those that the peer which brought it into this group has named, in order.
    """

    envelope: Envelope
    step: int = 0  # from the peer that brought it into this group
    links: tuple[str, ...] = ()
    is_entry: bool = False  # it comes from below, or from its publisher


class GossipOffer(Message, frozen=True, tag="RumourHave"):
    """We have this event: ask for it if you do not."""

    source: str
    id: str
    step: int
    links: tuple[str, ...] = ()


class GossipRequest(Message, frozen=True, tag="RumourAsk"):
    source: str
    id: str


class _MissingEvent(msgspec.Struct):
    """An event that we were told of and do not have."""

    tellers: list[str]
    requests: int
    at: float
    below: set[str]  # those of the tellers that are links of a group below


class _Turn(msgspec.Struct):
    """Ours as a named link."""

    number: int
    at: float
    until: float
    envelope: Envelope


class TopicGossip(OneByOne):
    name = "topic gossip"
    messages = (GossipEvents, GossipOffer, GossipRequest)
    names_links = True  # when told to; otherwise its links are its own affair
    across = 0  # members of any group that events are handed to

    def __init__(
        self, topics: tuple[str, ...] = (), *, graph: TopicGraph | None = None,
        settings: GossipSettings | None = None
    ) -> None:  # fmt: skip
        self.settings = settings or GossipSettings()
        self.graph = graph or TopicGraph()
        self._given = topics
        self._wanted: dict[str, int] = {}  # by topic: how many subscriptions want its group
        self._seen: dict[Identity, None] = {}
        self._kept: dict[Identity, tuple[Envelope, int, tuple[str, ...]]] = {}
        self._missing: dict[Identity, _MissingEvent] = {}
        self._turns: list[_Turn] = []
        self._linked: dict[tuple[Identity, str], None] = {}  # namings that we were in
        self._sent_to: dict[tuple[Identity, str], None] = {}  # members that we handed events to in our turns
        self._waiting: list[tuple[float, str, Envelope]] = []  # for a receiver to be found: until when
        self._retry_at: float | None = None
        self._now_entry: tuple[str, GossipEvents] | None = None
        self._corrected: dict[str, int] = {}  # by peer that took us for another: how often it was told
        self.received = self.parasites = self.late = self.payloads = self.handed_up = 0

    # -- interest --------------------------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._given, *self._wanted)))

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            for topic in self._given:
                self._record(topic, now)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        for topic in self._joined(subscription):
            if topic not in self.topics():
                self._record(topic, now)
                self.ports.topics.join(topic, now)
            self._wanted[topic] = self._wanted.get(topic, 0) + 1

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        for topic in self._joined(subscription):
            self._wanted[topic] -= 1
            if not self._wanted[topic]:
                del self._wanted[topic]
                if topic not in self._given:
                    self._record(topic, now, left=True)
                    self._corrected.clear()  # there is news that no peer was sent yet
                    self.ports.topics.leave(topic, now)

    def _joined(self, subscription: Subscription) -> tuple[str, ...]:
        topics = groups_of(subscription.filter)
        return tuple(dict.fromkeys(group for topic in topics for group in self.graph.joins(topic)))

    def _record(self, topic: str, now: float, *, left: bool = False) -> None:
        if not self.ports.recording:
            return
        name, peer = f"{self.ports.name}:{topic}", self.ports.name
        row = usub_row(now, peer, name) if left else sub_row(now, peer, name, self.graph.events_of(topic))
        self.ports.emit(Record(row))

    def wanted_elsewhere(self, event: Event) -> bool:
        return True

    # -- the way of an event ---------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, GossipEvents):
            self._on_gossip(sender, message, now)
        elif isinstance(message, GossipOffer):
            self._on_have(sender, message, now)
        elif isinstance(message, GossipRequest):
            kept = self._kept.get((message.source, message.id))
            if kept is not None:
                self._push(sender, GossipEvents(kept[0], kept[1], kept[2]))

    def _on_gossip(self, sender: str, message: GossipEvents, now: float) -> None:
        event = message.envelope.event
        self.received += 1
        if not self._groups(event):
            self._count_stray(sender, event)
            return
        if self.ports.recording:
            self.ports.emit(Record(recv_row(now, self.ports.name, event, sender)))
        self._note_links(message.envelope, message.links, now)  # though we have had the event
        if event.identity in self._seen:
            return
        missing = self._missing.pop(event.identity, None)
        if missing is not None and sender in missing.below:
            message = GossipEvents(message.envelope, is_entry=True)
        self._now_entry = (sender, message)
        self.ports.events.received((message.envelope,), sender, now)
        self._now_entry = None

    def _count_stray(self, sender: str, event: Event) -> None:
        """Not for us. No clock says until when that may be: clocks jump."""
        delivered = self._corrected.pop(sender, 0)
        can_tell = self.ports.topics.correct(sender, self.graph.above(event.topic or ROOT))
        if can_tell and delivered < self.settings.corrections:
            self.late += 1
        else:
            self.parasites += 1
        self._corrected[sender] = delivered + 1
        _shorten(self._corrected, self.settings.remembered)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        event = envelope.event
        if event.identity in self._seen:
            return
        self._remember(event.identity)
        came = self._now_entry[1] if self._now_entry is not None else None
        for topic in self._groups(event):
            self._in_group(topic, envelope, came, now)
        if came is None:
            for scope in self._strange(event.topic or ROOT):
                self._hand_over(scope, envelope, now)

    def members(self, scope: str) -> tuple[str, ...]:
        """The members of a scope that we know of."""
        return self.ports.members.view(scope)

    def sample(self, k: int, scope: str = "") -> tuple[str, ...]:
        """At most k of them."""
        return self.ports.sampling.sample(k, scope)

    def _groups(self, event: Event) -> list[str]:
        """Our groups that the event is for."""
        return [topic for topic in self.topics() if self.graph.includes(topic, event.topic or ROOT)]

    def _in_group(self, topic: str, envelope: Envelope, came: GossipEvents | None, now: float) -> None:
        settings, rng = self.settings, self.ports.rng
        if settings.wanted:
            levels = len(self.graph.above(envelope.event.topic or ROOT))
            settings = settings.at_loss(self.ports.sampling.loss(), levels)
        size = self.ports.sampling.size(topic)
        members = self.sample(settings.fan_out(size), topic)
        is_entry = came is None or came.is_entry
        links = came.links if came is not None else ()
        step = 0 if came is None or came.is_entry else came.step + 1
        is_named = settings.named and self.names_links
        if is_named and is_entry and self.graph.supers(topic):
            own = min(settings.own, round(settings.g))
            others = rng.sample(members, min(len(members), round(settings.g) - own))
            links = (*(self.ports.name,) * own, *others)
            self._note_links(envelope, links, now)
        is_lazy = settings.lazy and step >= settings.eager_steps(size)
        self._spread(members, envelope, step, links, is_lazy=is_lazy)
        if not is_named:
            self._elect(topic, size, envelope, came)

    def _spread(
        self,
        members: tuple[str, ...],
        envelope: Envelope,
        step: int,
        links: tuple[str, ...],
        *,
        is_lazy: bool,
    ) -> None:
        event = envelope.event
        if self.settings.lazy:
            self._kept[event.identity] = (envelope, step, links)
            _shorten(self._kept, self.settings.kept)
        if is_lazy:
            for name in members:
                self.ports.send(name, GossipOffer(event.source, event.id, step, links), Channel.DATAGRAM)
            return
        for name in members:
            self._push(name, GossipEvents(envelope, step, links))

    def _push(self, to: str, message: GossipEvents) -> None:
        self.payloads += 1
        self.ports.send(to, message, Channel.DATAGRAM)

    # -- links between groups ----------------------------------------------------------------------

    def contacts(self, size: int) -> int:
        """Number of members to know of a group of this size, above one of ours."""
        return min(self.settings.z, size)

    def _elect(self, topic: str, size: int, envelope: Envelope, came: GossipEvents | None) -> None:
        settings, rng = self.settings, self.ports.rng
        for up in self.graph.supers(topic):
            if rng.random() * size >= settings.g and not (settings.forced and came is None):
                continue
            table = self.members(over(topic, up))
            for name in table:
                if rng.random() * min(settings.z, len(table)) < settings.a:
                    self._hand_up(name, envelope)

    def _hand_up(self, to: str, envelope: Envelope) -> None:
        self.handed_up += 1
        self._push(to, GossipEvents(envelope, 0, (), is_entry=True))

    def _note_links(self, envelope: Envelope, links: tuple[str, ...], now: float) -> None:
        """Are we among those who were named?"""
        if self.ports.name not in links:
            return
        naming = (envelope.event.identity, links[0])
        if naming in self._linked:
            return
        self._linked[naming] = None
        _shorten(self._linked, self.settings.remembered)
        for number, name in enumerate(links):
            if name == self.ports.name:
                at = now + number * self.settings.turn_seconds
                self._turns.append(_Turn(number, at, at + self.settings.wait, envelope))

    def _act_as_links(self, now: float) -> None:
        """Send as the links whose turn has come; a link that knows no member above yet tries again for a
        while."""
        due = [turn for turn in self._turns if turn.at <= now]
        self._turns = [turn for turn in self._turns if turn.at > now]
        for turn in due:
            groups = self._groups(turn.envelope.event)
            scopes = [over(topic, up) for topic in groups for up in self.graph.supers(topic)]
            found = [self._take_turn(turn, scope) for scope in scopes]
            if scopes and not any(found) and now < turn.until:
                turn.at = now + RETRY
                self._turns.append(turn)

    def _take_turn(self, turn: _Turn, scope: str) -> bool:
        """Did we know a receiver?"""
        event, table = turn.envelope.event, self.members(scope)
        others = [name for name in table if (event.identity, name) not in self._sent_to]
        count = min(len(others), max(1, round(self.settings.a)))
        for name in self.ports.rng.sample(others, count):
            self._sent_to[(event.identity, name)] = None
            if self.settings.lazy and turn.number:
                have = GossipOffer(event.source, event.id, FROM_BELOW)
                self.ports.send(name, have, Channel.DATAGRAM)
            else:
                self._hand_up(name, turn.envelope)
        _shorten(self._sent_to, self.settings.remembered)
        return bool(table)

    def _strange(self, topic: str) -> tuple[str, ...]:
        """Members to hand an event of ours to because its topic is not one of ours."""
        return () if self.graph.above(topic)[0] in self.topics() else (into(topic),)

    def _hand_over(self, scope: str, envelope: Envelope, now: float) -> None:
        self.ports.topics.seek(scope, now)
        table = self.sample(max(2, round(self.settings.a)), scope)
        for name in table:
            self._hand_up(name, envelope)
        if not table:
            self._waiting.append((now + self.settings.wait, scope, envelope))
            self._retry_at = self._retry_at or now + RETRY

    # -- lazy push ---------------------------------------------------------------------------------

    def _on_have(self, sender: str, message: GossipOffer, now: float) -> None:
        identity = (message.source, message.id)
        if identity in self._seen:
            return
        missing = self._missing.get(identity)
        if missing is None:
            self._missing[identity] = missing = _MissingEvent([], 0, now, set())
        missing.tellers.append(sender)
        if message.step == FROM_BELOW:
            missing.below.add(sender)
        if not missing.requests:
            self._request(identity, missing, now)

    def _request(self, identity: Identity, missing: _MissingEvent, now: float) -> None:
        if missing.requests >= self.settings.tries:
            del self._missing[identity]
            return
        reporter = missing.tellers[missing.requests % len(missing.tellers)]
        missing.requests += 1
        missing.at = now + self.settings.patience
        self.ports.send(reporter, GossipRequest(*identity), Channel.DATAGRAM)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        times = [turn.at for turn in self._turns]
        times += [missing.at for missing in self._missing.values()]
        if self._retry_at is not None:
            times.append(self._retry_at)
        return min(times, default=None)

    def on_timer(self, now: float) -> None:
        self._act_as_links(now)
        for identity, missing in list(self._missing.items()):
            if missing.at <= now:
                self._request(identity, missing, now)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            waiting, self._waiting = self._waiting, []
            for until, scope, envelope in waiting:
                if until > now:
                    self._hand_over_again(until, scope, envelope, now)
            if self._waiting:
                self._retry_at = now + RETRY

    def _hand_over_again(self, until: float, scope: str, envelope: Envelope, now: float) -> None:
        home = self.graph.above(scope.removeprefix("^"))[0]
        if home in self.topics():  # we have joined meanwhile
            self._in_group(home, envelope, None, now)
            return
        table = self.sample(max(2, round(self.settings.a)), scope)
        for name in table:
            self._hand_up(name, envelope)
        if not table:
            self._waiting.append((until, scope, envelope))

    def _remember(self, identity: Identity) -> None:
        self._seen[identity] = None
        _shorten(self._seen, self.settings.remembered)

    def check(self) -> None:
        assert self.parasites == 0, "an event came to a peer whose topics do not include its own"
        assert not self._missing.keys() & self._seen.keys(), "we ask for an event that we have had"


def _shorten(kept: dict[Any, Any], most: int) -> None:
    """The oldest go."""
    while len(kept) > most:
        del kept[next(iter(kept))]
