"""Trace of events at this broker: the last so many steps, for `tidings trace`.

Rules
- The ring watches messages on their way in and out of the node; it never looks into the node and
  never changes what happens. A step costs one tuple in the list of its event.
- It is bounded: by events, by steps of one event, and by what an event may weigh in it (a large
  payload is left out).
- A question is answered from the ring and from what the node says of the event now, for events and
  subscriptions that the observer may see; others are as if they had never been here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter, is_
from typing import Any, NamedTuple

import msgspec

from tidings.errors import InputError
from tidings.matching.explain import explain_briefly
from tidings.model.cloudevents import to_mapping
from tidings.model.event import Event
from tidings.model.subscription import Subscription, SubscriptionId
from tidings.protocol.messages import (
    BROKER_MESSAGES,
    CLIENT_MESSAGES,
    Deliver,
    DeliverAll,
    Message,
    Publish,
    Subscribed,
)
from tidings.protocol.node import Node
from tidings.protocol.recovery.messages import RangeReply, ReplayReply
from tidings.protocol.routing.duplicates import ForwardAll
from tidings.runtime.observing import ObservedScope, find_subscription

HEAVY = 4_096  # bytes of payload that are kept with a step
MOST_STEPS = 1_000  # of one event that are remembered one by one; more are counted
MOST_NAMES = 10_000  # subscriptions of one client whose names are remembered

# by the message that carried it; others: live
HOW: dict[type[Message], str] = {ReplayReply: "replay", RangeReply: "recovery"}
PUBLISHED, RECEIVED, SENT, DELIVERED, WITHHELD = "published", "received", "sent", "delivered", "withheld"

_CLIENTS, _BROKERS = frozenset(CLIENT_MESSAGES), frozenset(BROKER_MESSAGES)  # of these others carry events


class TraceStep(NamedTuple):
    """One step of one event."""

    time: float
    what: str
    peer: str  # a client's address, a broker's name, or a principal's
    subscription: SubscriptionId | None  # that it was delivered to
    event: Event
    how: str = ""  # replay or recovery; empty: live


_Some = tuple[Event, ...]
_Noted = tuple[float, str, str, dict[int, SubscriptionId] | None, int, str, _Some | None]


_size = attrgetter("size")


class _TraceMoment:
    """Steps of one batch of events, in the order in which they happened."""

    __slots__ = ("bytes", "events", "more", "most", "steps")

    def __init__(self, events: _Some, bytes: int = 0) -> None:
        self.events = events
        self.bytes = bytes
        self.steps: list[_Noted] = []  # the last of each: to which of the events; None: to all
        self.most = MOST_STEPS * len(events)
        self.more = 0  # steps beyond the bound


class TraceRing:
    """The last events at one broker. `came` and `went` are called for every message."""

    def __init__(self, events: int, most_bytes: int = 16 << 20) -> None:
        self._moments: deque[_TraceMoment] = deque()
        self._most = events
        self._most_bytes = most_bytes  # of all moments: large events are looked back on less far
        self._bytes = 0
        self._count = 0  # events of all moments
        self._last = _TraceMoment(())
        self._kept: _Some = ()  # its events: as long as they are held, no other object is taken for one
        self._here = frozenset[int]()  # what tells them apart from other objects, once looked up
        self._known: _Some = ()  # events of the last moment alone: many subscribers share this very tuple
        self._names: dict[str, dict[int, SubscriptionId]] = {}  # by client and ref

    # -- watching ------------------------------------------------------------------------------

    def came(self, peer: str, message: Message, now: float) -> None:
        if type(message) is Publish:
            self._note(now, PUBLISHED, peer, None, 0, (message.event,))
        elif type(message) not in _CLIENTS:
            self._carried(now, RECEIVED, peer, message)

    def came_all(self, peer: str, messages: Sequence[Message], now: float) -> None:
        published = tuple([message.event for message in messages if type(message) is Publish])
        if published:
            self._note(now, PUBLISHED, peer, None, 0, published)
        if len(published) < len(messages):
            carried: dict[str, list[Event]] = {}  # by how: those of one batch share a moment
            for message in messages:
                if type(message) not in _CLIENTS and (events := _events_of(message)):
                    carried.setdefault(HOW.get(type(message), ""), []).extend(events)
            for how in carried:
                self._note(now, RECEIVED, peer, None, 0, tuple(carried[how]), how)

    def publishes_came(self, batches: list[tuple[str, list[Message]]], now: float) -> None:
        """Publishes of several clients are one moment, with a step for each client."""
        moment = self._begin(tuple([message.event for _, some in batches for message in some]))  # type: ignore[attr-defined]
        for peer, some in batches:
            published = tuple([message.event for message in some])  # type: ignore[attr-defined]
            moment.steps.append((now, PUBLISHED, peer, None, 0, "", published))

    def went(self, peer: str, message: Message, now: float) -> None:
        kind = type(message)
        if kind is Deliver:  # the most common of all: as `_note` does, without a call
            event: Event = message.event  # type: ignore[attr-defined]
            here = self._here or self._look_up()
            moment = self._last if id(event) in here else self._begin((event,))
            if len(moment.steps) < moment.most:
                delivered = None if moment.most == MOST_STEPS else (event,)
                moment.steps.append((now, DELIVERED, peer, self._names.get(peer), message.ref, "", delivered))  # type: ignore[attr-defined]
            else:
                moment.more += 1
        elif kind is DeliverAll:
            self._note(now, DELIVERED, peer, self._names.get(peer), message.ref, message.events)  # type: ignore[attr-defined]
        elif kind is Subscribed:
            names = self._names.setdefault(peer, {})
            if len(names) >= MOST_NAMES:
                del names[next(iter(names))]
            names[message.ref] = SubscriptionId(message.subscriber, message.name)  # type: ignore[attr-defined]
        elif kind not in _BROKERS:
            self._carried(now, SENT, peer, message)

    def gone(self, peer: str) -> None:
        self._names.pop(peer, None)

    def withheld(self, principal: str, event: Event, now: float) -> None:
        """The rules did not let it out."""
        self._note(now, WITHHELD, principal, None, 0, (event,))

    def _carried(self, now: float, what: str, peer: str, message: Message) -> None:
        """Note each event of a message between brokers."""
        if type(message) is ForwardAll:
            self._note(now, what, peer, None, 0, tuple(_events_of(message)))
            return
        how = HOW.get(type(message), "")
        for event in _events_of(message):
            self._note(now, what, peer, None, 0, (event,), how)

    def _note(
        self,
        now: float,
        what: str,
        peer: str,
        names: dict[int, SubscriptionId] | None,
        ref: int,
        events: _Some,
        how: str = "",
    ) -> None:
        """Append a step of a batch: to the last moment when all of its events are of that."""
        moment = self._last
        if events is not self._known:
            if not self._holds(events):
                moment = self._begin(events)
            self._known = events
        if len(moment.steps) < moment.most:
            moment.steps.append(
                (now, what, peer, names, ref, how, None if moment.most == MOST_STEPS else events)
            )
        else:
            moment.more += 1

    def _holds(self, events: _Some) -> bool:
        """Are all of these events of the last moment?"""
        kept = self._kept
        if len(events) == len(kept) and all(map(is_, events, kept)):
            return True
        return (self._here or self._look_up()).issuperset(map(id, events))

    def _look_up(self) -> frozenset[int]:
        self._here = frozenset(map(id, self._kept))
        return self._here

    def _begin(self, events: _Some) -> _TraceMoment:
        self._here, self._kept, self._known = frozenset(), events, ()
        sizes = list(map(_size, events))
        size = sum(sizes)
        if max(sizes) > HEAVY and any(map(_is_heavy, events)):
            if len(events) == 1:  # the steps of several hold them as they came
                size -= len(events[0].payload or b"")
            events = tuple(map(_light, events))
        moment = self._last = _TraceMoment(events, size)
        self._moments.append(moment)
        self._count += len(events)
        self._bytes += size
        while len(self._moments) > 1 and (self._count > self._most or self._bytes > self._most_bytes):
            oldest = self._moments.popleft()
            self._count -= len(oldest.events)
            self._bytes -= oldest.bytes
        return moment

    def __len__(self) -> int:
        return self._count

    def delays(self, after: float) -> Iterator[float]:
        """Delay at this broker of each event that left to a subscriber since then. Latency inside one broker
        step is not included."""
        came: dict[tuple[str, str], float] = {}
        for moment in self._moments:
            for time, what, *_, some in moment.steps:
                for event in moment.events if some is None else some:
                    if what == DELIVERED:
                        if time > after and event.identity in came:
                            yield time - came[event.identity]
                    elif what in (PUBLISHED, RECEIVED):
                        came.setdefault(event.identity, time)

    def since(self, after: float) -> Iterator[_TraceMoment]:
        """The moments with a step after this time, the newest first."""
        for moment in reversed(self._moments):
            if moment.steps[-1][0] <= after:
                return
            yield moment

    # -- answering -----------------------------------------------------------------------------

    def _found(self, id: str, source: str | None) -> list[tuple[_TraceMoment, Event]]:
        return [
            (moment, event)
            for moment in self._moments
            for event in moment.events
            if event.id == id and (source is None or event.source == source)
        ]

    def steps(self, id: str, source: str | None = None) -> list[TraceStep]:
        return [
            TraceStep(time, what, peer, names.get(ref) if names is not None else None, event, how)
            for moment, event in self._found(id, source)
            for time, what, peer, names, ref, how, some in moment.steps
            if some is None or any(event.identity == one.identity for one in some)
        ]

    def answer(self, node: Node, about: dict[str, Any], now: float, view: ObservedScope) -> dict[str, Any]:
        """Knowledge of this broker about an event, and, when asked, about a subscription's part in it."""
        id, source, subscription = (_text(about, name) for name in ("id", "source", "subscription"))
        if not id:
            raise InputError("a trace needs the id of an event")
        steps = [step for step in self.steps(id, source or None) if _is_seen(step, view)]
        event = steps[0].event if steps else None
        answer: dict[str, Any] = {
            "broker": node.name,
            "steps": [self._shown(step, now) for step in steps],
            "sources": sorted({step.event.source for step in steps}),
            "more": self._more(id, source or None) if steps and view.is_whole else 0,
            "ring": self._ring(now) if view.is_whole else {"events": None, "seconds": None},
            "wanted": None if event is None else node.wanting(event, view.subscription),
            "event": None if event is None else to_mapping(event),
        }
        if subscription:
            answer["subscription"] = self._why(node, subscription, event, steps, now, view)
        return answer

    def _more(self, id: str, source: str | None) -> int:
        return sum(moment.more for moment, _ in self._found(id, source))

    def _shown(self, step: TraceStep, now: float) -> dict[str, Any]:
        return {
            "ago": round(now - step.time, 6),
            "time": step.time,
            "what": step.what,
            "peer": step.peer,
            "subscription": None if step.subscription is None else step.subscription.shown,
            "how": step.how,
            "source": step.event.source,
            "id": step.event.id,
        }

    def _ring(self, now: float) -> dict[str, Any]:
        """Events that the ring holds, and the seconds that it reaches back: figures over all principals."""
        reach = round(now - self._moments[0].steps[0][0], 3) if self._moments else None
        return {"events": len(self), "seconds": reach}

    def _why(
        self,
        node: Node,
        name: str,
        event: Event | None,
        steps: list[TraceStep],
        now: float,
        view: ObservedScope,
    ) -> dict[str, Any]:
        registered = find_subscription(node, name, view)
        answer: dict[str, Any] = {
            "id": name,
            "is_here": registered is not None,
            "filter": None,
            "accepts": None,
        }
        if registered is None:
            return answer | {"why": "this broker does not hold it"}
        subscription, since = registered
        answer |= {"filter": subscription.filter.text, "dialect": subscription.filter.dialect}
        if event is None:
            return answer | {"why": "the event was not seen at this broker, or too long ago"}
        explanation = explain_briefly(event, subscription.filter)
        answer |= {"accepts": explanation.accepted, "explanation": str(explanation)}
        return answer | {"why": self._reason(subscription, explanation.accepted, since, steps, now)}

    def _reason(
        self, subscription: Subscription, accepts: bool, since: float, steps: list[TraceStep], now: float
    ) -> str:
        event = steps[0].event
        delivered = [step for step in steps if step.subscription == subscription.id]
        hidden = [
            step
            for step in steps
            if step.what == WITHHELD and subscription.id.subscriber.startswith(step.peer)
        ]
        if not accepts:
            return "its filter does not accept the event"
        if hidden:
            return f"the rules do not let {hidden[0].peer} hear it"
        if delivered:
            return f"it was handed over {now - delivered[0].time:.3f} s ago"
        if any(moment.more for moment, _ in self._found(event.id, event.source)):
            return "the event was handed to so many that not all are remembered"
        if steps[0].time < since and event.lifetime <= since - steps[0].time:
            return "it began after the event, whose lifetime was over by then"
        return (
            "its filter accepts the event, and it was not handed over yet: its listener is away, slow, "
            "or lost it by its policy"
        )


def _is_seen(step: TraceStep, view: ObservedScope) -> bool:
    """Deliveries to others, and which principal the rules kept it from, are not for everyone that sees the
    event."""
    if view.is_whole:
        return True
    if step.what == DELIVERED and (step.subscription is None or not view.subscription(step.subscription)):
        return False
    return step.what != WITHHELD and view.event(step.event)


def _events_of(message: Message) -> list[Event]:
    """Events of a message between brokers: it carries one envelope, or several, or none."""
    envelope = getattr(message, "envelope", None)
    if envelope is not None:
        return [envelope.event]
    return [envelope.event for envelope in getattr(message, "envelopes", ())]


def _is_heavy(event: Event) -> bool:
    return event.payload is not None and len(event.payload) > HEAVY


def _light(event: Event) -> Event:
    """Without a payload that weighs too much."""
    if _is_heavy(event):
        return msgspec.structs.replace(event, payload=None)
    return event


def _text(about: dict[str, Any], name: str) -> str:
    value = about.get(name) or ""
    if not isinstance(value, str) or len(value) > 1_000:
        raise InputError(f"the {name} in a trace's question is no short text")
    return value
