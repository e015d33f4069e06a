"""Activity of a broker since the last look, from its trace: the inquiry `activity`.

Counts of events over each link and to each subscription, how they came (live, by replay, by recovery), and
the last events. Of each the observer's part alone: events and subscriptions that it may see. A look costs as
much as happened since the last one, and the broker counts no events between looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from tidings.errors import InputError
from tidings.model.event import Event
from tidings.model.subscription import SubscriptionId
from tidings.runtime.observing import ObservedScope
from tidings.runtime.trace import DELIVERED, PUBLISHED, RECEIVED, SENT, TraceRing

LIVE = "live"
MOST_EVENTS = 50  # that are named in one answer
MOST_NAMES = 20  # attributes that are named of an event
MOST_SUBSCRIPTIONS = 2_000  # that are counted one by one in one answer: those that were told most


def activity(
    ring: TraceRing | None, about: dict[str, Any], now: float, view: ObservedScope
) -> dict[str, Any]:
    """Since `about["after"]`, a time that an earlier answer gave as `now`."""
    after, wanted = _time(about), _count(about)
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    delivered: Counter[SubscriptionId | None] = Counter()
    ways: Counter[str] = Counter()
    recent: list[dict[str, Any]] = []
    for moment in ring.since(after) if ring is not None else ():
        for time, what, peer, names, ref, how, some in moment.steps:
            if time <= after:
                continue
            events = moment.events if some is None else some
            if not view.is_whole:
                events = tuple(event for event in events if view.event(event))
            if what == SENT:
                sent[peer] += len(events)
            elif what == DELIVERED:
                delivered[(names or {}).get(ref)] += len(events)
            elif what in (RECEIVED, PUBLISHED):
                ways[PUBLISHED if what == PUBLISHED else how or LIVE] += len(events)
                if what == RECEIVED:
                    received[peer] += len(events)
                recent += _named(events, time, what, peer, wanted - len(recent))
    seen = {id: count for id, count in delivered.most_common() if id is not None and view.subscription(id)}
    return {
        "now": now,
        "is_traced": ring is not None,
        "sent": _positive(sent),
        "received": _positive(received),
        "delivered": {id.shown: count for id, count in islice(seen.items(), MOST_SUBSCRIPTIONS) if count},
        "ways": _positive(ways),
        "recent": recent,
    }


def _positive(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _named(events: Sequence[Event], time: float, what: str, peer: str, room: int) -> list[dict[str, Any]]:
    return [
        {
            "id": event.id,
            "source": event.source,
            "topic": event.topic or "",
            "names": sorted(event.body)[:MOST_NAMES],
            "time": time,
            "what": what,
            "peer": peer,
        }
        for event in events[: max(room, 0)]
    ]


def _time(about: dict[str, Any]) -> float:
    after = about.get("after", 0.0)
    if isinstance(after, bool) or not isinstance(after, int | float) or not math.isfinite(after):
        raise InputError("`after` is a time in seconds")
    return float(after)


def _count(about: dict[str, Any]) -> int:
    wanted = about.get("events", 0)
    if type(wanted) is not int or not 0 <= wanted <= MOST_EVENTS:
        raise InputError(f"`events` is a number from 0 to {MOST_EVENTS}")
    return wanted
