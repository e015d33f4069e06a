"""What a broker did since somebody last looked, from its trace: the inquiry `activity`.

Counts of events over each link and to each subscription, how they came (live, by replay, by recovery), and
the last of the events that whoever asks may observe. A look costs as much as happened since the last one,
and nothing is counted while nobody looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tidings.errors import InputError
from tidings.model.event import Event
from tidings.runtime.trace import DELIVERED, PUBLISHED, RECEIVED, SENT, Ring

LIVE = "live"
MOST_EVENTS = 50  # that are named in one answer
MOST_NAMES = 20  # attributes that are named of an event
MOST_SUBSCRIPTIONS = 2_000  # that are counted one by one in one answer: those that were told most


def activity(
    ring: Ring | None, about: dict[str, Any], now: float, may_see: Callable[[Event], bool]
) -> dict[str, Any]:
    """Since `about["after"]`, a time that an earlier answer gave as `now`."""
    after, wanted = _time(about), _count(about)
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    told: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    recent: list[dict[str, Any]] = []
    for moment in ring.since(after) if ring is not None else ():
        for time, what, peer, names, ref, how, some in moment.steps:
            if time <= after:
                continue
            events = moment.events if some is None else some
            if what == SENT:
                sent[peer] += len(events)
            elif what == DELIVERED:
                told[(names or {}).get(ref, "")] += len(events)
            elif what in (RECEIVED, PUBLISHED):
                ways[PUBLISHED if what == PUBLISHED else how or LIVE] += len(events)
                if what == RECEIVED:
                    received[peer] += len(events)
                recent += _named(events, time, what, peer, wanted - len(recent), may_see)
    told.pop("", None)
    return {
        "now": now,
        "is_traced": ring is not None,
        "sent": dict(sent),
        "received": dict(received),
        "told": dict(told.most_common(MOST_SUBSCRIPTIONS)),
        "ways": dict(ways),
        "recent": recent,
    }


def _named(
    events: Iterable[Event], time: float, what: str, peer: str, room: int, may_see: Callable[[Event], bool]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for event in events:
        if len(found) >= room:
            break
        if may_see(event):
            found.append(
                {
                    "id": event.id,
                    "source": event.source,
                    "topic": event.topic or "",
                    "names": sorted(event.attributes)[:MOST_NAMES],
                    "time": time,
                    "what": what,
                    "peer": peer,
                }
            )
    return found


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
