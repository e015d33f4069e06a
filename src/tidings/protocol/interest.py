"""Interest table: every filter that this node matches events against, in one matcher.

A subscription of a client and a filter that a neighbour wants over its link are entries of the same table, so
an event is matched once: the result names the subscriptions to dispatch to and the links to forward over.
Rules
- An entry has a handle. `version` grows with each change; a match is valid as long as the version is the
  same.
- The last match is kept: strategies ask about the event that passes at this moment.
- While every subscription filters by topic alone, the match of a topic serves all events of that topic.
- A link's filter stands for others, so over its work budget it counts as a match (`language/work.py`). A
  subscription's filter does not: the caller reports it (`over_budget`). Neither does a filter beyond the
  budget of all filters of its owner (`language/owner_work.py`): it is not even evaluated.
- What filters compute is charged while they do (`language/meter.py`), to their owners; filters of links have
  a budget together, and beyond it they count as matches too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from tidings.language.evaluate import lightly_accepts
from tidings.language.meter import WorkMeter
from tidings.language.owner_work import OwnerWork
from tidings.language.work import WorkIndex
from tidings.matching.matcher import Matcher, match_each, match_without
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Envelope

if TYPE_CHECKING:
    from tidings.protocol.delivery.pending import PendingPublish

TOPIC = "topic"
LINKS = "\x1flinks"  # owner of the filters of links; no principal has such a name


class Match(msgspec.Struct, frozen=True, gc=False):
    """The entries that accept one event."""

    subscriptions: Sequence[Any]  # as given to `add`, by ascending handle
    link_filters: Sequence[int] = ()  # handles, ascending


@runtime_checkable
class Metered(Protocol):
    """A matcher that can charge what filters compute."""

    def charge(self, meter: WorkMeter | None) -> None: ...


class InterestTable:
    def __init__(self, matcher: Matcher, limits: ResourceLimits = DEFAULT_LIMITS) -> None:
        self.matcher = matcher
        self._limits = limits
        self.version = 0
        self._entries: list[Any] = []  # by handle: a subscription; None for a link's filter or a free handle
        self._is_link: dict[int, None] = {}  # handles of links' filters
        self._work = WorkIndex()  # of subscriptions' filters that may be over their work budget
        self._owner_work = OwnerWork(limits.owner_work)  # the same by owner
        self._meter = WorkMeter(limits.owner_work)
        self._metered: dict[tuple[str, str], frozenset[int]] = {}  # by source and id: what it left out
        self._last_over: tuple[Event | None, frozenset[int]] = (None, frozenset())
        self.has_work = False  # is there one, or a filter beyond the budget of computing?
        self._is_metered = False
        self._link_work = WorkIndex()  # the same of links' filters
        self._last: tuple[Event | None, Match] = (None, Match(()))
        self._by_topic: dict[str | None, Match] = {}
        self._beyond_topic = 0  # filters that read more than the topic

    # -- entries ---------------------------------------------------------------------------------

    def add(self, filter: Filter, subscription: Any, owner: str = "") -> int:
        """Add a subscription's filter, of this principal; its handle."""
        handle = self._add(filter)
        self._work.add(handle, filter)
        self._owner_work.add(handle, filter, owner)
        self._charge(handle, filter, owner)
        while handle >= len(self._entries):
            self._entries.append(None)
        self._entries[handle] = subscription
        return handle

    def add_link_filter(self, filter: Filter) -> int:
        """Add a filter that is wanted over links; its handle."""
        handle = self._add(filter)
        self._link_work.add(handle, filter)
        self._charge(handle, filter, LINKS)
        self._is_link[handle] = None
        return handle

    def _add(self, filter: Filter) -> int:
        self._changed()
        self._beyond_topic += not _is_by_topic(filter)
        return self.matcher.add(filter)

    def remove(self, handle: int, filter: Filter) -> None:
        """Remove an entry; `filter` is the one that it was added with."""
        self._changed()
        self._beyond_topic -= not _is_by_topic(filter)
        self.matcher.remove(handle)
        if handle in self._is_link:
            del self._is_link[handle]
            self._link_work.remove(handle)
        else:
            self._work.remove(handle)
            self._owner_work.remove(handle)
            self._entries[handle] = None
        self._meter.remove(handle, filter)
        self._use_meter()

    def _charge(self, handle: int, filter: Filter, owner: str) -> None:
        self._meter.add(handle, filter, owner)
        self._use_meter()

    def _use_meter(self) -> None:
        """Have the matcher charge what filters compute, while that could be too much."""
        is_used = self._meter.is_used and isinstance(self.matcher, Metered)
        if is_used is not self._is_metered and isinstance(self.matcher, Metered):
            self._is_metered = is_used
            self.matcher.charge(self._meter if is_used else None)
        self.has_work = bool(self._work) or is_used

    def _changed(self) -> None:
        self.version += 1
        self._last = (None, Match(()))
        self._last_over = (None, frozenset())
        self._metered.clear()
        self._by_topic.clear()

    # -- matching --------------------------------------------------------------------------------

    def match(self, event: Event) -> Match:
        """The entries that accept the event."""
        last = self._last
        if last[0] is event:
            return last[1]
        if not self._beyond_topic:
            found = self._of_topic(event)
        else:
            matcher = self.matcher
            handles: Sequence[int]
            if self.has_work and (without := self._beyond_owners(event)):
                light = self._lightly(event, without)
                handles = sorted({*match_without(matcher, event, without), *light})
            else:
                handles = matcher.match(event)
            if self._is_metered and self._meter.beyond:
                handles = self._without_computing(event, handles)
            if self._is_link:
                found = self._split(event, handles)
            else:
                entries = self._entries
                found = Match([entries[handle] for handle in handles] if handles else ())
        self._last = (event, found)
        return found

    def _without_computing(self, event: Event, found: Sequence[int]) -> Sequence[int]:
        """Note the filters that were left out; those of links count as matches."""
        beyond = self._meter.beyond.difference(found)
        links = beyond.intersection(self._is_link)
        if len(self._metered) >= self._limits.publishes_together:
            self._metered.clear()
        self._metered[event.source, event.id] = frozenset(beyond - links)
        return sorted({*found, *links})

    def match_all(self, events: Sequence[Event]) -> list[Match]:
        """The same for each of several events."""
        if not self._beyond_topic:
            known = self._by_topic
            return [known.get(event.topic) or self._of_topic(event) for event in events]
        if (self._is_metered and any(map(self._meter.needs, events))) or (
            self.has_work and any(map(self._beyond_owners, events))
        ):
            return [self.match(event) for event in events]
        lists = match_each(self.matcher, events)
        if self._is_link:
            return [self._split(event, handles) for event, handles in zip(events, lists, strict=True)]
        matches: list[Match] = []
        entries, handles, found = self._entries, None, Match(())
        for each in lists:  # neighbours often have the same match
            if each != handles:
                handles, found = each, Match([entries[handle] for handle in each])
            matches.append(found)
        return matches

    def match_each(self, envelopes: Sequence[Envelope | PendingPublish]) -> list[Match]:
        """The same for each of several events on their way."""
        if len(envelopes) == 1:
            return [self.match(envelopes[0].event)]
        return self.match_all([envelope.event for envelope in envelopes])

    def keep(self, event: Event, match: Match) -> Match:
        """Have `match` answer with this for the event: it was matched in this version."""
        self._last = (event, match)
        return match

    def entry(self, handle: int) -> Any:
        """The subscription under a handle."""
        return self._entries[handle]

    def over_budget(self, event: Event) -> list[Any]:
        """The subscriptions whose filters are over their work budget for the event; almost always none."""
        if not self.has_work:
            return []
        work, beyond = self._work, self._beyond_owners(event)
        over = {
            handle for handle in work.may_accept(event) if not lightly_accepts(work.filter(handle), event)
        }
        if beyond:
            over |= beyond.difference(self._lightly(event, beyond))
        over |= self._metered.pop((event.source, event.id), frozenset())
        return [self._entries[handle] for handle in sorted(over)]

    def _lightly(self, event: Event, some: frozenset[int]) -> list[int]:
        """Of filters beyond the budgets of their owners, those that a part without a weight accepts."""
        filter = self._owner_work.filter
        return [handle for handle in some if lightly_accepts(filter(handle), event)]

    def _beyond_owners(self, event: Event) -> frozenset[int]:
        """Handles of filters beyond the budgets of their owners for the event; almost always none."""
        if not self.has_work:
            return frozenset()
        if self._last_over[0] is not event:
            self._last_over = (event, self._owner_work.over(event))
        return self._last_over[1]

    def _split(self, event: Event, handles: Sequence[int]) -> Match:
        entries = self._entries
        if not self._is_link:
            return Match([entries[handle] for handle in handles] if handles else ())
        is_link = [handle in self._is_link for handle in handles]
        links: Sequence[int] = list(compress(handles, is_link))
        if self._link_work and (over := self._link_work.may_accept(event)):
            links = sorted({*links, *over})
        return Match(
            [entries[handle] for handle, link in zip(handles, is_link, strict=True) if not link], links
        )

    def _of_topic(self, event: Event) -> Match:
        """The match of an event's topic, while no filter reads anything else."""
        topic = event.topic
        found = self._by_topic.get(topic)
        if found is None:
            found = self._split(event, self.matcher.match(event))
            if topic is not None and len(topic) > self._limits.matched_topic:
                return found
            if len(self._by_topic) >= self._limits.matched_topics:
                self._by_topic.clear()
            self._by_topic[topic] = found
        return found

    # -- upkeep ----------------------------------------------------------------------------------

    def maintain(self, budget: int) -> int:
        """Do some steps of the matcher's upkeep; the steps that are left."""
        return self.matcher.maintain(budget)

    def check(self) -> None:
        assert all(
            self._entries[handle] is None for handle in self._is_link if handle < len(self._entries)
        ), "an entry is a subscription or a link's filter"


def _is_by_topic(filter: Filter) -> bool:
    """Does the filter read the topic alone?"""
    return all(
        not conjunction.residuals and all(c.attribute == TOPIC for c in conjunction.constraints)
        for conjunction in filter.conjunctions
    )
