"""Topic tables and supertopic tables over an underlying gossip membership (Baehni et al. 2004, 4.2).

Rules
- A peer has a partial view of all peers (scope `""`), one of each group it belongs to (its topic table, ln S
  + c entries), and for each direct supertopic of each group a supertopic table of z entries.
- In each period a peer shuffles a part of each view with one member of it. A shuffle in a group carries some
  entries of the supertopic tables too, so what one has found all get, and numbers from which the group's
  size is estimated (`sketch.py`).
- In each period it probes one member (`probing.py`), and with chance p_sel = g/S all of its supertopic
  tables. When fewer than `tau` of a table live it asks these for z - tau + 1 others: z - tau, as printed,
  would leave the table one short. When all live, it sometimes swaps one for another, for balance.
- Groups and supertopics without a known member are searched for (`peer_discovery.py`).
- A topic without supertopics has no supertopic table and searches for none: plain membership is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from tidings.protocol.effects import Channel
from tidings.protocol.gossip_constants import constants_for
from tidings.protocol.inputs import Input, Parted, Started
from tidings.protocol.membership.messages import (
    PeerFound,
    PeerJoin,
    PeerLeave,
    PeerPing,
    PeerPingFor,
    PeerPong,
    PeerSearch,
    PeerShuffle,
    PeerSubscribe,
)
from tidings.protocol.membership.peer_discovery import PeerDiscovery, PeerDiscoverySettings
from tidings.protocol.membership.probing import Prober, ProbeSettings
from tidings.protocol.membership.sketch import Sketch
from tidings.protocol.membership.tables import KnownMember, PartialView, PeerRecord, SuperTable
from tidings.protocol.messages import Message
from tidings.protocol.slots import Membership, Ports
from tidings.protocol.topic_graph import TopicGraph, over

EVERYBODY = ""
MOST_LEVELS = 5  # of a hierarchy, as far as the automatic choice cares


class TableSettings(msgspec.Struct, frozen=True, kw_only=True):
    period: float = 1.0  # seconds of a round
    c: float = 5.0
    g: float = 5.0
    z: int = 3
    tau: int = 2  # fewer that live, and others are asked for
    success: float = 1.0  # chance that a message arrives, when tables are to make up for loss
    wanted: float = (
        0.0  # above 0: choose c, and what to make up for, for this reliability at the observed loss
    )
    swap: float = 0.1  # chance to swap one entry of a sound supertopic table, each time it is looked at
    sought_seconds: float = 60.0  # how long members that strangers have events for are kept
    epoch_seconds: float = 20.0
    probe: ProbeSettings = ProbeSettings()
    discovery: PeerDiscoverySettings = PeerDiscoverySettings()


class TopicTables(Membership):
    name = "topic tables"
    messages = (
        PeerJoin,
        PeerShuffle,
        PeerSearch,
        PeerFound,
        PeerSubscribe,
        PeerPing,
        PeerPong,
        PeerPingFor,
        PeerLeave,
    )

    def __init__(
        self,
        *,
        contacts: Iterable[str] = (),
        topics: Iterable[str] = (),
        graph: TopicGraph | None = None,
        settings: TableSettings | None = None,
    ) -> None:
        self.settings = settings or TableSettings()
        self.graph = graph or TopicGraph()
        self._contacts = tuple(contacts)
        self._first_topics = tuple(topics)
        self.topics: dict[str, None] = {}  # our own
        self.known: dict[str, KnownMember] = {}
        self.views: dict[str, PartialView] = {}
        self.supers: dict[str, SuperTable] = {}
        self._sketches: dict[str, Sketch] = {}
        self._shuffling: dict[str, tuple[str, list[str]]] = {}  # by scope: the partner, and what was sent
        self._sought: dict[str, float] = {}  # scopes of strangers' events: until when
        self._tick: float | None = None
        self._is_left = False

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        settings = self.settings
        self.peer_discovery = PeerDiscovery(settings.discovery)
        self.prober = Prober(
            settings.probe,
            ping=lambda to, number: self._send(to, PeerPing(number, self.prober.take_news())),
            ask=lambda to, number, target: self._send(to, PeerPingFor(number, target)),
            pong=lambda to, number: self._send(to, PeerPong(number, self._me(), self.prober.take_news())),
            helpers=self._helpers, lost=self._lost, incarnation_of=self._incarnation_of,
            is_known=lambda name: name in self.known,
        )  # fmt: skip
        self.views[EVERYBODY] = PartialView(math.ceil(2 * settings.c))
        self._sketches[EVERYBODY] = Sketch(ports.rng, settings.epoch_seconds)

    # -- the port ------------------------------------------------------------------------------

    def view(self, scope: str = "") -> tuple[str, ...]:
        found = self.supers.get(scope) or self.views.get(scope)
        return tuple(found.names) if found is not None else ()

    def size(self, scope: str = "") -> int:
        sketch = self._sketches.get(scope)
        if sketch is None:
            return len(self.view(scope))
        return max(1 + len(self.views[scope]), round(sketch.size())) if self.views[scope] else 1

    def join(self, scope: str, now: float) -> None:
        if scope in self.topics:
            return
        self.topics[scope] = None
        self.prober.incarnation += 1  # what others know of our topics is old
        self.views[scope] = PartialView(self._limit(1))
        self._sketches[scope] = Sketch(self.ports.rng, self.settings.epoch_seconds)
        for up in self.graph.supers(scope):
            self.supers[over(scope, up)] = SuperTable(self.settings.z, self.graph.above(up))
        for name, known in self.known.items():
            self._file(name, known)
        self._review_searches(now)

    def leave(self, scope: str, now: float) -> None:
        if scope not in self.topics:
            return
        for name in self.view(scope):
            self._send(name, PeerLeave(self.prober.incarnation, (scope,)))
        del self.topics[scope], self.views[scope], self._sketches[scope]
        self.peer_discovery.end(scope)
        for up in self.graph.supers(scope):
            self.supers.pop(over(scope, up), None)
            self.peer_discovery.end(over(scope, up))
        self.prober.incarnation += 1  # what others know of our topics is old

    def loss(self) -> float:
        return self.prober.loss()

    def correct(self, peer: str, topics: tuple[str, ...]) -> bool:
        self._send(peer, PeerLeave(self.prober.incarnation, topics))
        return True

    def seek(self, scope: str, now: float) -> None:
        """Search for members of `into(topic)`, to hand them an event of a topic that is not ours."""
        if scope not in self.supers:
            self.supers[scope] = SuperTable(self.settings.z, self.graph.above(scope.removeprefix("^")))
            for name, known in self.known.items():
                self._file(name, known)
        self._sought[scope] = now + self.settings.sought_seconds
        self._review_searches(now)

    # -- inputs and time -----------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            for topic in self._first_topics:
                self.join(topic, now)
            self._tick = now + self.settings.period * self.ports.rng.random()
            self._arrive()
        elif isinstance(input, Parted) and input.peer == self.ports.name:
            self._leave_all()

    def _arrive(self) -> None:
        for contact in self._contacts:
            if contact != self.ports.name:
                self._send(contact, PeerJoin(self._me()))

    def _leave_all(self) -> None:
        """We go for good: say so to all known members."""
        for name in self.known:
            self._send(name, PeerLeave(self.prober.incarnation))
        self._is_left = True

    def next_deadline(self) -> float | None:
        if self._is_left or self._tick is None:
            return None
        times = (self._tick, self.prober.next_deadline(), self.peer_discovery.next_deadline())
        return min(time for time in times if time is not None)

    def on_timer(self, now: float) -> None:
        if self._is_left:
            return
        self.prober.on_timer(now)
        for number, topics in self.peer_discovery.due(now):
            self._pass_on(PeerSearch(self._me(), number, topics, self.settings.discovery.ttl))
        assert self._tick is not None
        if now >= self._tick:
            self._tick = now + self.settings.period * self.prober.pace()
            self._round(now)

    def _round(self, now: float) -> None:
        if not self.known:
            self._arrive()  # all known members are gone, or none answered yet
        for scope, view in self.views.items():
            self._sketches[scope].tick(now)
            if scope in self.topics:
                view.limit = self._limit(self.size(scope))
                view.trim(self.ports.rng)
            if view.names:
                partner = self.ports.rng.choice(list(view.names))
                self._shuffling[scope] = (partner, self._shuffle(scope, partner, is_answer=False, now=now))
        if self.known:
            self.prober.probe(self.ports.rng.choice(list(self.known)), now)
        self.prober.probe_suspects(now)
        for topic in self.topics:
            if self.ports.rng.random() * self.size(topic) < self.settings.g:
                self._look_at_supers(topic, now)
        for scope in [scope for scope, until in self._sought.items() if until <= now]:
            del self._sought[scope], self.supers[scope]
            self.peer_discovery.end(scope)
        self._forget()
        self._review_searches(now)

    def _limit(self, size: int) -> int:
        c, success = self.settings.c, self.settings.success
        if self.settings.wanted:
            found = constants_for(self.settings.wanted, MOST_LEVELS, loss=min(0.9, round(self.loss(), 2)))
            c, success = found.c, found.success
        return math.ceil((math.log(max(2, size)) + c) / success)

    # -- messages ------------------------------------------------------------------------------

    def _send(self, to: str, message: Message) -> None:
        self.ports.send(to, message, Channel.DATAGRAM)

    def _me(self) -> PeerRecord:
        return (self.ports.name, tuple(self.topics), self.prober.incarnation, 0.0)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if self._is_left:
            return
        self.prober.seen(sender)
        if sender in self.known:
            self.known[sender].last_seen = now
        match message:
            case PeerJoin():
                self._learn([message.me], now)
                self._send(sender, PeerFound((self._me(), *self._entries(self._some(EVERYBODY, 8), now))))
            case PeerFound():
                self._learn(message.members, now)
                self._review_searches(now)
            case PeerShuffle():
                self._on_shuffle(sender, message, now)
            case PeerSearch():
                self._on_search(message, now)
            case PeerSubscribe():
                names = [
                    n for n in self.known if n != sender and set(self.known[n].topics) & {*message.topics}
                ]
                chosen = self.ports.rng.sample(names, max(0, min(message.count, len(names))))
                self._send(sender, PeerFound((self._me(), *self._entries(chosen, now))))
            case PeerPing():
                self.prober.receive(self.ports.name, message.news, now)
                self._send(sender, PeerPong(message.number, self._me(), self.prober.take_news()))
            case PeerPong():
                self.prober.receive(self.ports.name, message.news, now)
                self._learn([message.me], now)
                self.prober.answered(message.number, sender, now)
            case PeerPingFor():
                self.prober.probe(message.target, now, (sender, message.number))
            case PeerLeave():
                self._on_leaving(sender, message, now)

    def _on_leaving(self, sender: str, message: PeerLeave, now: float) -> None:
        if not message.topics:
            self.prober.bury(sender, message.incarnation, now)
            return
        known = self.known.get(sender)
        if known is not None and set(known.topics) & set(message.topics):
            known.topics = tuple(topic for topic in known.topics if topic not in message.topics)
            # above what all others were told, who may know the sender by an earlier life
            known.incarnation = max(known.incarnation, message.incarnation) + 1
            self._take_out(sender)
            self._file(sender, known)

    # -- shuffles ------------------------------------------------------------------------------

    def _shuffle(self, scope: str, partner: str, *, is_answer: bool, now: float) -> list[str]:
        """Send a part of a view; the names that were sent."""
        names = [name for name in self._some(scope, len(self.views[scope]) // 2 + 1) if name != partner]
        above = (
            [name for up in self.graph.supers(scope) for name in self.view(over(scope, up))] if scope else []
        )
        epoch, least = self._sketches[scope].summary()
        members = (self._me(), *self._entries(names, now))
        supers = self._entries(dict.fromkeys(above), now)
        news = self.prober.take_news()
        self._send(partner, PeerShuffle(scope, members, supers, epoch, least, is_answer, news))
        return names

    def _on_shuffle(self, sender: str, message: PeerShuffle, now: float) -> None:
        self.prober.receive(self.ports.name, message.news, now)
        scope = message.scope
        self._learn(message.members, now, apart=scope)
        if scope in self.views:
            self._sketches[scope].merge(message.epoch, message.least, now)
            if message.is_answer:
                partner, sent = self._shuffling.pop(scope, ("", []))
                sent = [sender, *sent] if partner == sender else []
            else:
                sent = self._shuffle(scope, sender, is_answer=True, now=now)
            came = [name for name, *_ in message.members if self._belongs(name, scope)]
            self.views[scope].swap(came, sent)
        self._learn(message.supers, now)

    def _belongs(self, name: str, scope: str) -> bool:
        known = self.known.get(name)
        return known is not None and (scope == EVERYBODY or scope in known.topics)

    def _some(self, scope: str, count: int) -> list[str]:
        names = list(self.views[scope].names)
        return self.ports.rng.sample(names, min(count, len(names)))

    def _entries(self, names: Iterable[str], now: float) -> tuple[PeerRecord, ...]:
        delivered = []
        for name in names:
            known = self.known.get(name)
            if known is not None and name not in self.prober.suspects:
                delivered.append((name, known.topics, known.incarnation, round(now - known.last_seen, 3)))
        return tuple(delivered)

    def _learn(self, members: Iterable[PeerRecord], now: float, apart: str | None = None) -> None:
        """Learn members from statements of others; `apart` is a scope whose view is swapped instead."""
        for name, topics, incarnation, age in members:
            if name == self.ports.name:
                self._receive_own_entry(topics, incarnation)
                continue
            if age > 10 * self.settings.period * self.prober.pace():
                continue  # no peer has heard from it for long
            self.prober.refuted(name, incarnation, now=now, last_seen=now - age)
            if self.prober.is_gone(name):
                continue
            known = self.known.get(name)
            if known is None:
                known = self.known[name] = KnownMember(topics, incarnation, now - age)
            elif incarnation >= known.incarnation:
                if set(topics) != set(known.topics):
                    self._take_out(name)
                known.topics, known.incarnation = topics, incarnation
            known.last_seen = max(known.last_seen, now - age)
            self._file(name, known, apart)

    def _receive_own_entry(self, topics: tuple[str, ...], incarnation: int) -> None:
        """Correct statements of others about us: they may be of an earlier life, or of other topics."""
        old = set(topics) != self.topics.keys()
        if incarnation > self.prober.incarnation or (incarnation == self.prober.incarnation and old):
            self.prober.incarnation = incarnation + 1

    def _file(self, name: str, known: KnownMember, apart: str | None = None) -> None:
        """Into each table that it belongs in."""
        rng = self.ports.rng
        for scope in (EVERYBODY, *known.topics):
            if scope != apart and (scope in self.topics or scope == EVERYBODY):
                self.views[scope].add(name)
        for table in self.supers.values():
            table.offer(name, known.topics, rng)

    def _forget(self) -> None:
        """Forget members that are in no table."""
        used = {name for table in (*self.views.values(), *self.supers.values()) for name in table.names}
        for name in [name for name in self.known if name not in used]:
            del self.known[name]

    def _incarnation_of(self, name: str) -> int:
        known = self.known.get(name)
        return known.incarnation if known is not None else 0

    def _lost(self, name: str) -> None:
        self.known.pop(name, None)
        self._take_out(name)

    def _take_out(self, name: str) -> None:
        for table in (*self.views.values(), *self.supers.values()):
            table.drop(name)

    def _helpers(self, count: int, target: str) -> tuple[str, ...]:
        names = [name for name in self.known if name != target]
        return tuple(self.ports.rng.sample(names, min(count, len(names))))

    # -- supertopics ---------------------------------------------------------------------------

    def _look_at_supers(self, topic: str, now: float) -> None:
        """Probe the supertopic tables; ask for others where too few live, or for balance."""
        settings = self.settings
        for up in self.graph.supers(topic):
            table = self.supers[over(topic, up)]
            alive = [name for name in table.names if name not in self.prober.suspects]
            for name in table.names:
                self.prober.probe(name, now)
            if len(alive) < settings.tau:
                for name in alive:
                    self._send(name, PeerSubscribe(table.wanted, settings.z - settings.tau + 1))
            elif alive and self.ports.rng.random() < settings.swap:
                self._send(self.ports.rng.choice(alive), PeerSubscribe(table.wanted, 1))

    def _review_searches(self, now: float) -> None:
        """Begin searches for what is missing, end those that are over."""
        for topic in self.topics:
            if self.views[topic].names:
                self.peer_discovery.end(topic)
            else:
                self.peer_discovery.begin(topic, (topic,), now)
        for scope, table in self.supers.items():
            if table.is_near:
                self.peer_discovery.end(scope)
            else:
                self.peer_discovery.begin(scope, table.wanted, now)

    def _pass_on(self, search: PeerSearch) -> None:
        others = [name for name in self.known if name != search.seeker[0]]
        count = min(self.settings.discovery.fan_out, len(others))
        for name in self.ports.rng.sample(others, count):
            self._send(name, search)

    def _on_search(self, message: PeerSearch, now: float) -> None:
        seeker = message.seeker[0]
        if seeker == self.ports.name or not self.peer_discovery.is_new(seeker, message.number):
            return
        wanted = {*message.topics}
        names = [n for n in self.known if n != seeker and wanted & {*self.known[n].topics}]
        found = self._entries(self.ports.rng.sample(names, min(self.settings.z, len(names))), now)
        if wanted & self.topics.keys():
            found = (self._me(), *found)
        self._learn([message.seeker], now)
        if found:
            self._send(seeker, PeerFound(found))
        elif message.ttl > 1:
            self._pass_on(PeerSearch(message.seeker, message.number, message.topics, message.ttl - 1))

    def check(self) -> None:
        for scope, view in self.views.items():
            assert self.ports.name not in view, f"{scope}: we are in our own view"
            assert len(view) <= view.limit, f"{scope}: {len(view)} entries, {view.limit} at most"
            assert all(self._belongs(name, scope) for name in view.names), f"{scope}: a stranger in the view"
        for scope, table in self.supers.items():
            assert len(table) <= table.limit, f"{scope}: {len(table)} entries"
            assert table.names.keys() <= self.known.keys(), f"{scope}: a member of which nothing is known"
            wanted = set(table.wanted)
            assert all(wanted & set(self.known[name].topics) for name in table.names), f"{scope}: a stranger"
        for each in (*self.views.values(), *self.supers.values()):
            assert not self.prober.graves.keys() & each.names.keys(), "a member that is gone is in a table"


class StaticTables(Membership):
    """Tables that are given and never change, as in the paper's simulation (6.1)."""

    name = "static topic tables"

    def __init__(self, tables: dict[str, tuple[str, ...]], sizes: dict[str, int]) -> None:
        self.tables = tables
        self._sizes = sizes

    def view(self, scope: str = "") -> tuple[str, ...]:
        return self.tables.get(scope, ())

    def size(self, scope: str = "") -> int:
        return self._sizes.get(scope, 0)
