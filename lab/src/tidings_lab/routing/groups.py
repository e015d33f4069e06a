"""Content over multicast groups: subscriptions that accept much the same share a group (Virgillito 2003,
2.3.1, 6.1).

There are at most so many groups. A subscription joins one of them when it begins, at its access broker, and
every broker is told: its filter, its group, and over which link. The publisher's broker finds the groups with
a filter that accepts the event, once; from then on no broker matches: each broker sends the event over the
links behind which those groups have members. Every member of a group hears what any member wants, so some
brokers hear what none of their subscribers want (`useless`): the fewer groups, the more of it.

Clustering is online (`Clusters`): a newcomer joins the group where it adds least useless traffic, as far as
the last events that passed its broker tell. No choice can lose an event; a bad one costs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from random import Random
from typing import ClassVar

from tidings.algebra import overlaps
from tidings.errors import SettingsError
from tidings.language.evaluate import accepts
from tidings.matching.engine import MatchingEngine
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.slots import Ports

LOCAL = ""  # our own clients; no link has this name


class GroupInterest(Message, frozen=True, tag="Grouped"):
    """A filter is wanted by the members of a group behind this link, or is not any more."""

    filter: Filter
    group: int
    access: str
    count: int  # +1 or -1


class ToGroups(Message, frozen=True, tag="ToGroups"):
    """An event for every member of these groups."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope
    groups: tuple[int, ...]


class Clusters:
    """Choice of the group that a newcomer joins."""

    def __init__(self, most: int, sample: int) -> None:
        if most < 1:
            raise SettingsError(f"{most} multicast groups", hint="ask for one or more")
        self.most = most
        self._sample: deque[Event] = deque(maxlen=sample)  # the last events that passed here
        self._filters: dict[
            int, dict[str, tuple[Filter, Counter[str]]]
        ] = {}  # by group and digest: who wants it

    def note(self, event: Event) -> None:
        self._sample.append(event)

    def change(self, filter: Filter, group: int, access: str, change: int) -> None:
        filters = self._filters.setdefault(group, {})
        wanted = filters.setdefault(filter.digest, (filter, Counter()))[1]
        wanted[access] += change
        if wanted[access] <= 0:
            del wanted[access]
        if not wanted:
            del filters[filter.digest]
        if not filters:
            del self._filters[group]

    def choose(self, filter: Filter, rng: Random) -> int:
        """The group of the same filter; else any free one, so that two who choose at one moment seldom meet;
        else where it costs least."""
        costs = [(self._cost(filter, group), group) for group in sorted(self._filters)]
        if costs and min(costs)[0] == 0:
            return min(costs)[1]
        free = [number for number in range(self.most) if number not in self._filters]
        return rng.choice(free) if free else min(costs)[1]

    def _cost(self, filter: Filter, group: int) -> float:
        """Useless deliveries, in the sample, that come of joining: to the newcomer, and to the members.
        Before any event passed: the filters that it does not overlap."""
        filters = self._filters[group]
        if filter.digest in filters:
            return 0.0
        if not self._sample:
            return sum(not overlaps(filter, other) for other, _ in filters.values()) + 0.5
        members = len({access for _, wanted in filters.values() for access in wanted})
        to_newcomer = to_members = 0
        for event in self._sample:
            is_wanted = accepts(filter, event)
            is_delivered = any(accepts(other, event) for other, _ in filters.values())
            to_newcomer += is_delivered and not is_wanted
            to_members += is_wanted and not is_delivered
        return to_newcomer + to_members * members + 0.5 + len(filters) / 1e6  # among equals the smallest


class GroupMulticast(OneByOne):
    name = "multicast groups"
    messages = (GroupInterest, ToGroups)

    def __init__(self, groups: int = 16, sample: int = 64) -> None:
        self._clusters = Clusters(groups, sample)
        self.useless = (
            0  # events that came though no subscriber here wants them, and no broker behind us needed them
        )
        self.received = 0

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._matcher = MatchingEngine(routes=True)
        self._handles: dict[tuple[str, int], int] = {}  # by digest and group
        self._group_of: dict[int, int] = {}
        self._wanted: Counter[tuple[str, int]] = Counter()  # by digest and group: subscriptions everywhere
        self._behind: dict[int, Counter[str]] = {}  # by group: members behind each link
        self._own: dict[
            str, tuple[int, int]
        ] = {}  # by digest: the group of our clients' filter, and how many

    def matchers(self) -> tuple[Matcher, ...]:
        return (self._matcher,)

    def table_size(self) -> int:
        """Filters, each in its group."""
        return len(self._handles)

    # -- who is in which group -----------------------------------------------------------------

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        filter = subscription.filter
        group, wanted = self._own.get(filter.digest, (None, 0))
        if group is None:
            group = self._clusters.choose(filter, self.ports.rng)
        self._own[filter.digest] = (group, wanted + 1)
        self._spread(GroupInterest(filter, group, self.ports.name, +1), LOCAL)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        filter = subscription.filter
        group, wanted = self._own[filter.digest]
        if wanted > 1:
            self._own[filter.digest] = (group, wanted - 1)
        else:
            del self._own[filter.digest]
        self._spread(GroupInterest(filter, group, self.ports.name, -1), LOCAL)

    def _spread(self, change: GroupInterest, came_from: str) -> None:
        self._take(change, came_from)
        self._send(change, self._links(), came_from)

    def _links(self) -> tuple[str, ...]:
        return self.ports.neighbours.links()

    def _send(self, message: Message, links: Iterable[str], came_from: str) -> None:
        """Over these links, never back."""
        for link in links:
            if link != came_from:
                self.ports.send(link, message)

    def _take(self, change: GroupInterest, came_from: str) -> None:
        key = (change.filter.digest, change.group)
        if change.count < 0 and not self._wanted[key]:
            return  # its beginning was lost on the way
        self._wanted[key] += change.count
        self._clusters.change(change.filter, change.group, change.access, change.count)
        behind = self._behind.setdefault(change.group, Counter())
        behind[came_from] += change.count
        if not behind[came_from]:
            del behind[came_from]
        if self._wanted[key] and key not in self._handles:
            self._handles[key] = handle = self._matcher.add(change.filter)
            self._group_of[handle] = change.group
        elif not self._wanted[key]:
            del self._wanted[key]
            handle = self._handles.pop(key)
            del self._group_of[handle]
            self._matcher.remove(handle)

    # -- the way of an event -------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, GroupInterest):
            self._spread(message, sender)
            return
        assert isinstance(message, ToGroups)
        event = message.envelope.event
        self._clusters.note(event)
        self._send_on(message, sender)
        if any(LOCAL in self._behind.get(group, ()) for group in message.groups):
            self.received += 1
            self.useless += not self.ports.subscribers.wanting(event)
            self.ports.events.arrived((message.envelope,), sender, now)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is not None:
            return  # sent on already
        self._clusters.note(envelope.event)
        found = tuple(sorted({self._group_of[handle] for handle in self._matcher.match(envelope.event)}))
        if found:
            self._send_on(ToGroups(envelope, found), LOCAL)

    def _send_on(self, message: ToGroups, came_from: str) -> None:
        wanted = {link for group in message.groups for link in self._behind.get(group, ())}
        self._send(message, [link for link in self._links() if link in wanted], came_from)

    def wanted_elsewhere(self, event: Event) -> bool:
        groups = {self._group_of[handle] for handle in self._matcher.match(event)}
        return any(link != LOCAL for group in groups for link in self._behind[group])

    def check(self) -> None:
        assert len(self._handles) == len(self._group_of) == len(self._wanted)
        assert all(wanted > 0 for wanted in self._wanted.values())
