"""Messages between brokers in epidemic recovery, and the headers that they put on events.

Numbers of one source, or of one pattern, stand together, since most digests name few of them. A message
names its initiator: gossip is handed on, so the sender is seldom the one who asks or offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tidings.protocol.messages import Envelope, Message

# The header: source, its number for the event, how many tags, the tags, the route; see `Mark`. One flat
# array, since every event carries it over every link.
MARK = "recovery.mark"
TAGS_AT = 3  # where the tags begin
HEADERS = frozenset({MARK})

Id = tuple[str, int]
Loss = tuple[str, int, int]  # source, pattern, counter


class Mark(msgspec.Struct, frozen=True):
    """Headers of an event, decoded."""

    source: str
    number: int
    tags: tuple[tuple[int, int], ...] = ()  # pairs of a pattern and the source's counter for it
    route: tuple[str, ...] = ()  # the brokers that the event crossed, its source first

    @property
    def id(self) -> Id:
        return (self.source, self.number)

    def losses(self) -> list[Loss]:
        """The event as a receiver would know it that missed it."""
        source = self.source
        return [(source, tag[0], tag[1]) for tag in self.tags]

    def headers(self) -> dict[str, Any]:
        flat = [part for tag in self.tags for part in tag]
        return {MARK: (self.source, self.number, len(self.tags), *flat, *self.route)}


def read_mark(headers: dict[str, Any]) -> Mark | None:
    """None: no broker of ours wrote these. They came over a network, so they may be anything."""
    try:
        mark = headers[MARK]
        source, number, count = mark[:TAGS_AT]
        if type(source) is not str or type(number) is not int or type(count) is not int:
            return None
        tags, route = tags_of(mark), tuple(mark[TAGS_AT + 2 * max(0, count) :])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if not all(type(part) is int for tag in tags for part in tag):
        return None
    return Mark(source, number, tags, route) if all(type(each) is str for each in route) else None


def tags_of(mark: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """The tags of a header."""
    return tuple((mark[at], mark[at + 1]) for at in range(TAGS_AT, TAGS_AT + 2 * mark[2], 2))


def id_of(headers: dict[str, Any]) -> Id | None:
    """The identity alone, which most questions are about."""
    try:
        source, number = headers[MARK][:2]
    except (KeyError, TypeError, ValueError):
        return None
    return (source, number) if type(source) is str and type(number) is int else None


class Bloom(msgspec.Struct, frozen=True, array_like=True):
    """A digest that says "perhaps"."""

    bits: bytes
    hashes: int
    count: int  # entries
    given: tuple[tuple[Any, int], ...] = ()  # those of them that are answered


class PushOffer(Message, frozen=True, tag="PushOffer"):
    """Push: the initiator holds these events of a pattern; each with its age there, in milliseconds."""

    initiator: str
    pattern: int
    offered: dict[str, tuple[tuple[int, int], ...]]


class PushWant(Message, frozen=True, tag="PushWant"):
    """Push: the sender misses these of what was offered to it."""

    ids: dict[str, tuple[int, ...]]


class Recovered(Message, frozen=True, tag="Recovered"):
    """One event that was asked for, and how long it has been held, in seconds."""

    envelope: Envelope
    age: float = 0.0


class PatternPull(Message, frozen=True, tag="PatternPull"):
    """The initiator lost events of a pattern: counters by source."""

    initiator: str
    pattern: int
    lost: dict[str, tuple[int, ...]]
    bloom: Bloom | None = None  # instead of `lost`


class SourcePull(Message, frozen=True, tag="SourcePull"):
    """The initiator lost events of a source: counters by pattern. Walks the route, nearest first."""

    initiator: str
    source: str
    lost: dict[int, tuple[int, ...]]
    route: tuple[str, ...]
    bloom: Bloom | None = None


class LazyAnnounce(Message, frozen=True, tag="LazyAnnounce"):
    """Lazy push: these went over the link lately; each with its age, in milliseconds."""

    offered: dict[str, tuple[tuple[int, int], ...]]


class CounterBeat(Message, frozen=True, tag="CounterBeat"):
    """The last counter of each of these patterns at a source that has been silent for a while."""

    source: str
    counters: dict[int, int]
    route: tuple[str, ...]


MESSAGES: tuple[type[Message], ...] = (
    PushOffer, PushWant, Recovered, PatternPull, SourcePull, LazyAnnounce, CounterBeat,
)  # fmt: skip
