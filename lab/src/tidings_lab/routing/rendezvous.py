"""Rendezvous trees: events climb to the broker of their key, and descend the tree of those who subscribed
there.

As in Scribe and Hermes (Virgillito 2003, 2.5.2 and 2.5.5). Rules
- A broker with a subscription for a key, or with children in its tree, is in the tree: it grafts itself at
  the next hop toward the key, which thereby is in the tree too. So a tree is made of reverse ways, and the
  broker without a next hop is its root. When the way changes, the broker grafts itself at the new parent and
  prunes itself from the old one.
- A graft is acknowledged, repeated until it is, and said again every `refresh_seconds`; a parent that does
  not answer is doubted (the overlay finds out), a child that is not heard of for `children_seconds` is
  forgotten.
- An event climbs hop by hop to the root of each of its keys, as one message while the ways are one, and no
  broker delivers it on the way. From the roots it descends; a broker in several trees takes it once (a
  bounded memory).
- `on_path`: grafts carry what is wanted below, reduced by covering, and an event descends only where it is
  wanted. Otherwise events are filtered at the recipients' brokers alone.
- `enrolled`: the root of a key also holds one copy of each subscription (`enrolment.py`).
- Keys in `quenched`: a root without a tree tells the publisher's broker to send no event for a while, and
  takes that back as soon as a subscriber comes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.algebra import covers
from tidings.matching.small import SmallMatcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.messages import Envelope, Message
from tidings_lab.routing.enrolment import Enrolment
from tidings_lab.routing.keyed import MOST_HOPS, KeyRouting, TreeSettings
from tidings_lab.routing.rendezvous_messages import (
    Climb,
    Descend,
    Enrol,
    Enrolled,
    Graft,
    Grafted,
    KeyUnwanted,
    KeyWanted,
    Prune,
    Version,
)

MOST_COMPARED = 1 << 16  # pairs of filters that are remembered


class _Child(msgspec.Struct):
    version: Version
    until: float
    filters: tuple[Filter, ...] | None = None  # None: everything
    handles: tuple[int, ...] = ()  # in the tree's matcher


class _KeyTree:
    """One broker's part in the tree of a key."""

    __slots__ = (
        "announced", "below", "children", "due", "handles", "is_acknowledged", "is_stale", "local", "matcher",
        "parent", "tries", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.local: dict[
            str, tuple[Filter, int]
        ] = {}  # our clients' filters by digest, with how many want it
        self.children: dict[str, _Child] = {}
        self.parent: str | None = None  # None: we are the root, or not in the tree yet
        self.version: Version = ("", 0)
        self.is_acknowledged = False
        self.tries = 0
        self.due = 0.0  # when to graft again
        self.below: tuple[Filter, ...] | None = None  # what is wanted here and below; None: everything
        self.is_stale = True  # `below` is to be worked out again
        self.announced: tuple[str, ...] | None = None  # digests of what the parent was told; None: everything
        self.matcher: SmallMatcher | None = None  # of the children's filters
        self.handles: dict[int, str] = {}  # the child of each

    @property
    def is_wanted(self) -> bool:
        return bool(self.local or self.children)


class RendezvousTrees(KeyRouting):
    name = "rendezvous trees"
    messages = (Graft, Grafted, Prune, Climb, Descend, KeyUnwanted, KeyWanted, Enrol, Enrolled)

    def __init__(
        self,
        settings: TreeSettings | None = None,
        *,
        on_path: bool = False,
        enrolled: bool = False,
        quenched: Iterable[str] = (),
    ) -> None:
        super().__init__(settings)
        self.on_path = on_path
        self._quenched = frozenset(quenched)
        self._trees: dict[str, _KeyTree] = {}
        self._taken: dict[tuple[str, str], set[str]] = {}  # by event: the keys under which it descended here
        self._unwanted: dict[str, float] = {}  # by key: until when no subscriber wants it
        self._lessees: dict[str, dict[str, str]] = {}  # by key: the brokers that we told so, with addresses
        self._covered: dict[tuple[str, str], bool] = {}  # by digests: does the first cover the second?
        self._due: float | None = None
        self.enrolment = Enrolment(self) if enrolled else None

    # -- what is wanted here -----------------------------------------------------------------------

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        digest = subscription.filter.digest
        for key in at:
            tree = self._trees.setdefault(key, _KeyTree())
            count = tree.local[digest][1] if digest in tree.local else 0
            tree.local[digest] = (subscription.filter, count + 1)
            tree.is_stale = tree.is_stale or count == 0
            self._review(key, now)
            self._enrol(key, now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        digest = subscription.filter.digest
        for key in at:
            tree = self._trees.get(key)
            if tree is None or digest not in tree.local:
                continue
            filter, count = tree.local[digest]
            if count > 1:
                tree.local[digest] = (filter, count - 1)
            else:
                del tree.local[digest]
                tree.is_stale = True
            self._review(key, now)
            self._enrol(key, now)

    def _enrol(self, key: str, now: float) -> None:
        if self.enrolment is not None:
            tree = self._trees.get(key)
            self.enrolment.tell(key, () if tree is None else tuple(f for f, _ in tree.local.values()), now)

    # -- our place in the trees ----------------------------------------------------------------------

    def _review(self, key: str, now: float) -> None:
        """Be grafted where the way to the key leads now, with what is wanted now."""
        tree = self._trees[key]
        parent = self.next_hop(key) if tree.is_wanted else None
        if parent != tree.parent and tree.parent is not None:
            self.send(tree.parent, Prune(key, self.new_version()))
            tree.parent = None
        if not tree.is_wanted:
            del self._trees[key]
            return
        if parent is None:
            self._want_again(key)
            return
        announced = self._wanted_below(tree) if self.on_path else None
        digests = None if announced is None else tuple(filter.digest for filter in announced)
        if parent != tree.parent or digests != tree.announced:
            tree.parent, tree.announced, tree.tries = parent, digests, 0
            self._graft(key, tree, announced, now)

    def _graft(self, key: str, tree: _KeyTree, filters: tuple[Filter, ...] | None, now: float) -> None:
        assert tree.parent is not None
        tree.version, tree.is_acknowledged = self.new_version(), False
        tree.tries += 1
        self._set_due(tree, now + self.settings.retry_seconds)
        self.send(tree.parent, Graft(key, tree.version, filters))

    def _wanted_below(self, tree: _KeyTree) -> tuple[Filter, ...] | None:
        """The fewest filters that hold all that is wanted here and below; None: too many to say."""
        if tree.is_stale:
            tree.below, tree.is_stale = self._reduced(tree), False
        return tree.below

    def _reduced(self, tree: _KeyTree) -> tuple[Filter, ...] | None:
        wanted = {digest: filter for digest, (filter, _) in tree.local.items()}
        for child in tree.children.values():
            if child.filters is None:
                return None
            wanted.update((filter.digest, filter) for filter in child.filters)
        kept: list[Filter] = []
        for _, filter in sorted(wanted.items()):
            if not any(self._covers(other, filter) for other in kept):
                kept = [other for other in kept if not self._covers(filter, other)]
                kept.append(filter)
        return tuple(kept) if len(kept) <= self.settings.most_filters else None

    def _covers(self, one: Filter, other: Filter) -> bool:
        """Remembered: the same filters are compared at each change below."""
        pair = (one.digest, other.digest)
        found = self._covered.get(pair)
        if found is None:
            if len(self._covered) >= MOST_COMPARED:
                self._covered.clear()
            found = self._covered[pair] = covers(one, other)
        return found

    def ways_changed(self, now: float) -> None:
        for key in list(self._trees):
            self._review(key, now)
        for key in [key for key in self._lessees if self.next_hop(key) is not None]:
            self._want_again(key)  # another broker is responsible now, and knows of no promise
        if self.enrolment is not None:
            self.enrolment.ways_changed(now)

    def _grafted(self, sender: str, graft: Graft, now: float) -> None:
        tree = self._trees.setdefault(graft.key, _KeyTree())
        child = tree.children.get(sender)
        if child is None or child.version[0] != graft.version[0] or child.version[1] < graft.version[1]:
            until = now + self.settings.children_seconds
            same = child is not None and child.filters == graft.filters
            handles = (
                child.handles
                if child is not None and same
                else self._index(tree, sender, child, graft.filters)
            )
            tree.children[sender] = _Child(graft.version, until, graft.filters, handles)
            self._set_due_at(until)
        self.send(sender, Grafted(graft.key, graft.version))
        self._review(graft.key, now)

    def _index(
        self, tree: _KeyTree, name: str, before: _Child | None, filters: tuple[Filter, ...] | None
    ) -> tuple[int, ...]:
        """Put a child's filters in the place of those that it had."""
        tree.is_stale = True
        for handle in before.handles if before is not None else ():
            assert tree.matcher is not None
            tree.matcher.remove(handle)
            del tree.handles[handle]
        if not filters:
            return ()
        matcher = tree.matcher = tree.matcher or SmallMatcher()
        handles = tuple(matcher.add(filter) for filter in filters)
        tree.handles.update(dict.fromkeys(handles, name))
        return handles

    def _drop_child(self, key: str, name: str, now: float) -> None:
        tree = self._trees[key]
        self._index(tree, name, tree.children.pop(name), None)
        self._review(key, now)

    def _pruned(self, sender: str, prune: Prune, now: float) -> None:
        tree = self._trees.get(prune.key)
        child = None if tree is None else tree.children.get(sender)
        if child is not None and (
            child.version[0] != prune.version[0] or child.version[1] < prune.version[1]
        ):
            self._drop_child(prune.key, sender, now)

    def _acknowledged(self, sender: str, message: Grafted, now: float) -> None:
        tree = self._trees.get(message.key)
        if tree is not None and tree.parent == sender and tuple(message.version) == tree.version:
            tree.is_acknowledged, tree.tries = True, 0
            tree.due = now + self.settings.refresh_seconds * self.ports.rng.uniform(0.8, 1.0)

    # -- the way of events -------------------------------------------------------------------------------

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is None:
            keys = [key for key in at or () if self._unwanted.get(key, 0.0) <= now]
            self._climb(Climb(tuple(keys), envelope, 0, self.ports.address), self.ports.name, now)

    def _climb(self, climb: Climb, came_from: str, now: float) -> None:
        envelope, hops = climb.envelope, climb.hops + 1
        ways: dict[str, list[str]] = {}
        here: list[str] = []
        for key in climb.keys:
            hop = self.next_hop(key)
            (here if hop is None else ways.setdefault(hop, [])).append(key)
        if ways and hops > MOST_HOPS:
            self.dropped += 1
            ways = {}
        for hop, together in ways.items():
            leaving = self._outgoing(envelope, hop, now)
            if leaving is not None:
                self.send(hop, Climb(tuple(together), leaving, hops, climb.address))
        if here:
            self._quench(here, climb, now)
            self._descend(here, envelope, came_from, now)

    def _descend(self, keys: Iterable[str], envelope: Envelope, came_from: str, now: float) -> None:
        """Take the event, and send it to our children in these trees, each once."""
        event = envelope.event
        taken = self._taken.get(event.identity)
        if taken is None:
            taken = self._taken[event.identity] = set()
            if len(self._taken) > self.settings.remembered:
                del self._taken[next(iter(self._taken))]
        ways: dict[str, list[str]] = {}
        is_wanted = False
        for key in keys:
            tree = self._trees.get(key)
            if tree is None or key in taken:
                continue
            taken.add(key)
            is_wanted = is_wanted or bool(tree.local)
            for child in self._takers(tree, event):
                ways.setdefault(child, []).append(key)
        for child, together in ways.items():
            leaving = self._outgoing(envelope, child, now)
            if leaving is not None:
                self.send(child, Descend(tuple(together), leaving))
        if is_wanted and envelope.origin != self.ports.name and _HERE not in taken:
            taken.add(_HERE)
            self.ports.events.received((envelope,), came_from, now)

    def _outgoing(self, envelope: Envelope, to: str, now: float) -> Envelope | None:
        return next(iter(self.ports.passage.outgoing((envelope,), to, now)), None)

    def _takers(self, tree: _KeyTree, event: Event) -> list[str]:
        if tree.matcher is None:
            return [name for name, child in tree.children.items() if child.filters is None]
        found = {tree.handles[handle] for handle in tree.matcher.match(event)}
        return [name for name, child in tree.children.items() if child.filters is None or name in found]

    # -- keys without subscribers ----------------------------------------------------------------------------

    def _quench(self, keys: Iterable[str], climb: Climb, now: float) -> None:
        origin, seconds = climb.envelope.origin, self.settings.quench_seconds
        for key in self._quenched.intersection(keys):
            if key not in self._trees and origin != self.ports.name:
                self._lessees.setdefault(key, {})[origin] = climb.address
                self.send(origin, KeyUnwanted(key, seconds), climb.address)

    def _want_again(self, key: str) -> None:
        for lessee, address in self._lessees.pop(key, {}).items():
            self.send(lessee, KeyWanted(key), address)

    # -- messages and time -----------------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        match message:
            case Climb():
                self._climb(message, sender, now)
            case Descend():
                self._descend(message.keys, message.envelope, sender, now)
            case Graft():
                self._grafted(sender, message, now)
            case Grafted():
                self._acknowledged(sender, message, now)
            case Prune():
                self._pruned(sender, message, now)
            case KeyUnwanted():
                self._unwanted[message.key] = now + message.seconds
            case KeyWanted():
                self._unwanted.pop(message.key, None)
            case Enrol() | Enrolled():
                if self.enrolment is not None:
                    self.enrolment.on_message(sender, message, now)

    def _set_due(self, tree: _KeyTree, at: float) -> None:
        tree.due = at
        self._set_due_at(at)

    def _set_due_at(self, at: float) -> None:
        self._due = at if self._due is None else min(self._due, at)

    def next_deadline(self) -> float | None:
        other = None if self.enrolment is None else self.enrolment.next_deadline()
        return min((at for at in (self._due, other) if at is not None), default=None)

    def on_timer(self, now: float) -> None:
        if self.enrolment is not None:
            self.enrolment.on_timer(now)
        if self._due is None or self._due > now:
            return
        soon = (
            now + self.settings.slack
        )  # what is due soon is done with the rest: many trees are looked at seldom
        for key, tree in list(self._trees.items()):
            for name in [name for name, child in tree.children.items() if child.until <= soon]:
                self._drop_child(key, name, now)
            if tree.is_wanted and tree.parent is not None and tree.due <= soon:
                self._again(key, tree, now)
        self._due = min(self._moments(), default=None)

    def _again(self, key: str, tree: _KeyTree, now: float) -> None:
        """No answer came, or a refresh is due."""
        assert tree.parent is not None
        if not tree.is_acknowledged and tree.tries >= self.settings.tries:
            self.ports.keys.doubted(tree.parent, now)
        self._graft(key, tree, self._wanted_below(tree) if self.on_path else None, now)

    def _moments(self) -> Iterable[float]:
        for tree in self._trees.values():
            if tree.parent is not None:
                yield tree.due
            for child in tree.children.values():
                yield child.until

    # -- for people and tests
    # ----------------------------------------------------------------------------------

    def table_size(self) -> int:
        """State held here for others: children, with their filters, and enrolled subscriptions."""
        stored = 0 if self.enrolment is None else self.enrolment.table_size()
        children = (child for tree in self._trees.values() for child in tree.children.values())
        return stored + sum(len(child.filters) if child.filters is not None else 1 for child in children)

    def trees(self) -> dict[str, tuple[str | None, tuple[str, ...], bool]]:
        """By key: our parent, our children, and whether a client of ours subscribed."""
        return {
            key: (tree.parent, tuple(tree.children), bool(tree.local)) for key, tree in self._trees.items()
        }

    def wants(self, link: str, event: Event) -> bool:
        trees = map(self._trees.get, self.keys_of(event))
        return any(link in self._takers(tree, event) for tree in trees if tree is not None)

    def agreed(self, link: str) -> bool:
        if self.enrolment is not None and not self.enrolment.is_acknowledged:
            return False
        return all(tree.is_acknowledged for tree in self._trees.values() if tree.parent == link)

    def wanted_elsewhere(self, event: Event) -> bool:
        return True  # as far as a broker can know that is no root

    def check(self) -> None:
        for key, tree in self._trees.items():
            assert tree.is_wanted, f"in the tree of {key} for nobody"
            assert self.ports.name not in tree.children, "our own child"
        if self.enrolment is not None:
            self.enrolment.check()


_HERE = ""  # no key: the event was taken by this broker
