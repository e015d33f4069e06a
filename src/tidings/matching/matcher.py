"""The matcher interface: which of the subscribed filters accept this event?

Six methods. A matcher knows filters by *handles*: small integers that it gives out, so
that results are arrays and the owner of the matcher decides what a handle stands for
(a subscription, a link, a row). Handles of removed filters are used again, smallest
first, so a run is the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tidings.model.event import Event
from tidings.model.filter import Filter


class Matches(NamedTuple):
    """Matches of a batch: those of event i are `handles[offsets[i]:offsets[i + 1]]`, ascending."""

    offsets: Sequence[int]
    handles: Sequence[int]


def lists_of(matches: Matches) -> Iterator[Sequence[int]]:
    """The handles of each event by themselves, as plain numbers, one event after the other."""
    offsets, handles = (
        part.tolist() if hasattr(part, "tolist") else part for part in (matches.offsets, matches.handles)
    )
    return map(handles.__getitem__, map(slice, offsets, offsets[1:]))


def match_each(matcher: Matcher, events: Sequence[Event]) -> Iterable[Sequence[int]]:
    """The handles of each event by themselves; a matcher that can makes no arrays of all of them first."""
    own = getattr(matcher, "match_each", None)
    found: Iterable[Sequence[int]] = lists_of(matcher.match_batch(events)) if own is None else own(events)
    return found


def match_without(matcher: Matcher, event: Event, without: frozenset[int]) -> Sequence[int]:
    """The filters that accept the event, without these; a matcher that can does not evaluate them."""
    own = getattr(matcher, "match_without", None)
    if own is not None:
        found: Sequence[int] = own(event, without)
        return found
    return [handle for handle in matcher.match(event) if handle not in without]


class Matcher(Protocol):
    def add(self, filter: Filter) -> int:
        """Take a filter in; the handle is in effect at once."""

    def remove(self, handle: int) -> None:
        """Forget a filter. An unknown handle is a KeyError."""

    def match(self, event: Event) -> Sequence[int]:
        """Handles of the filters that accept the event, ascending, each once."""

    def match_batch(self, events: Iterable[Event]) -> Matches:
        """The same for many events (fast matchers also take an Arrow record batch)."""

    def maintain(self, budget: int) -> int:
        """Do at most about `budget` steps of pending upkeep; the steps that are left (0: none)."""

    def stats(self) -> dict[str, Any]:
        """Statistics: kind of matcher, size and fill."""
