"""What was published: the tries to publish one event made into one publication.

Rules
- An event is published when its first try that was not refused was issued; it is promised from
  its first try with the outcome ok. Only unknown outcomes: it may be delivered, and is not owed.
  Only refused ones: it must not be delivered.
- `ends` is the time after which no delivery is owed: `expires`, or a later event of the same key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec

from tidings.history.acceptance import event_of
from tidings.history.facts import PublishAttempt
from tidings.history.schema import OK, REFUSED
from tidings.model.event import Event


class Publication(msgspec.Struct, frozen=True, gc=False, array_like=True):
    run: str
    source: str
    event: str
    process: str
    published: float  # when it was refused only: the time of the first refusal
    promised: float  # infinite: never
    refused: bool
    sequence: int | None
    attributes: dict[str, Any]
    topic: str | None
    type: tuple[str, ...]
    lifetime: float
    key: str | None
    ends: float

    def content(self) -> Event:
        """The event as filters see it."""
        return event_of(self.source, self.event, self.attributes, self.topic, self.type)

    @property
    def order(self) -> tuple[float, int]:
        """Place of an event among those of its source."""
        return (self.published, -1 if self.sequence is None else self.sequence)


class KeyedPublication(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event that takes the place of older ones of its key."""

    run: str
    key: str
    source: str
    event: str
    published: float
    sequence: int


class SupersededPublication(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A later event of the same key took this one's place."""

    run: str
    source: str
    event: str
    time: float


def published(tries: Sequence[PublishAttempt]) -> Iterator[Publication]:
    """One publication from all tries to publish that event."""
    taken = [each for each in tries if each.outcome != REFUSED]
    first = min(taken or tries, key=lambda each: each.time)
    yield Publication(
        first.run,
        first.source,
        first.event,
        first.process,
        first.time,
        min((each.time for each in taken if each.outcome == OK), default=math.inf),
        not taken,
        first.sequence,
        first.attributes,
        first.topic,
        first.type,
        first.lifetime,
        first.key,
        first.expires,
    )


def keyed(publication: Publication) -> Iterator[KeyedPublication]:
    """The publication again, when it has a key and was not refused."""
    if publication.key is not None and not publication.refused:
        yield KeyedPublication(
            publication.run,
            publication.key,
            publication.source,
            publication.event,
            publication.published,
            -1 if publication.sequence is None else publication.sequence,
        )


def superseded(of_one_key: Sequence[KeyedPublication]) -> Iterator[SupersededPublication]:
    """Each event of a key ends when the next event of that key is published."""
    in_order = sorted(of_one_key, key=attrgetter("published", "sequence", "source", "event"))
    for older, newer in pairwise(in_order):
        yield SupersededPublication(older.run, older.source, older.event, newer.published)


def ended(
    publications: Sequence[Publication], losers: Sequence[SupersededPublication]
) -> Iterator[Publication]:
    """The publication with its end."""
    for each in publications:
        end = min((loser.time for loser in losers), default=math.inf)
        yield msgspec.structs.replace(each, ends=min(each.ends, end)) if end < each.ends else each
