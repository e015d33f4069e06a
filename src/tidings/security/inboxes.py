"""Inboxes: topics that carry replies, each of one principal.

Rules
- Replies to `ann` go to topics below `_inbox/ann`, to `ann` of the tenant `acme` below `_inbox/acme:ann`.
  Names are percent-encoded, so a name is one level and no name looks like another with a tenant.
- An event below an inbox is delivered to the principal of the inbox alone, whatever its rules allow to
  others, and to those that may administer the broker.
- Earlier clients have addresses without a principal (`_inbox/RANDOM`). Such an event is delivered to a
  subscription that names its topic in full, and to no wider one.
- Principals that proved nothing are one principal.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from tidings.model.constraint import Equals
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter
from tidings.security.principal import Principal

INBOX = "_inbox"
BELOW, LENGTH = INBOX + "/", len(INBOX) + 1
_SAFE = "@"  # beside letters, digits and _.-~


def in_inbox(topic: str | None) -> bool:
    """Is this the topic of a reply?"""
    return topic is not None and topic[:LENGTH] == BELOW


class _LastBatch:
    """The batch that was looked at last: all its subscribers share it."""

    events: Sequence[Event] = ()
    has_replies = False


def has_replies(events: Sequence[Event]) -> bool:
    """Is one of these events a reply?"""
    if events is not _LastBatch.events:
        _LastBatch.events, _LastBatch.has_replies = events, False
        for event in events:
            if event.topic is not None and event.topic[:LENGTH] == BELOW:
                _LastBatch.has_replies = True
    return _LastBatch.has_replies


def inbox_of(principal: Principal) -> str:
    """The topic below which replies to the principal go."""
    if principal.is_anonymous:
        return BELOW + ":anonymous"
    tenant = quote(principal.tenant, _SAFE) + ":" if principal.tenant else ""
    return BELOW + tenant + quote(principal.name, _SAFE)


def has_owner(topic: str) -> bool:
    """Does this topic of an inbox name a principal?"""
    return "/" in topic.removeprefix(BELOW)


def named_inbox(filter: Filter) -> str | None:
    """The topic of an inbox that a filter names in full, if it asks for no other."""
    topics = {_topic_of(part) for part in filter.conjunctions}
    topic = topics.pop() if len(topics) == 1 else None
    return topic if in_inbox(topic) else None


def of_topic(topic: str) -> Filter:
    """The filter for the events of one topic."""
    text = topic.replace("'", "\\'")
    return Filter(f"topic = '{text}'", (Conjunction((Equals("topic", topic),)),))


def _topic_of(part: Conjunction) -> str | None:
    for constraint in part.constraints:
        if isinstance(constraint, Equals) and constraint.attribute == "topic":
            return str(constraint.value)
    return None
