"""Cost of a simulated run: messages between brokers, the wires that they crossed, bytes, the load of each
broker.

A meter watches what brokers handle and changes no state. *Messages* are those between brokers. *Hops* are
wires of the network beneath: a message between two brokers crosses as many as lie between them, so that a
datagram straight across the network is not counted as one step. Clients' own messages are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

import msgspec

from tidings.model.event import Event
from tidings.protocol.inputs import Received, ReceivedAll
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import ReplayReplies
from tidings.protocol.slots import Routing

FRAME = 9  # bytes around each message on the wire


def carries_event(message: Any) -> bool:
    """Is there an event in this message, or in a record that it holds?"""
    kind: type = type(message)
    if kind is ReplayReplies:
        return any(part.envelopes for part in message.parts)
    return any(getattr(message, name) for name in _event_fields(kind))


@cache
def _event_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if _has_event(field.type))


def _has_event(kind: Any, seen: set[Any] | None = None) -> bool:
    """`seen`: the records that were looked into, since expressions hold expressions."""
    seen = set() if seen is None else seen
    if kind in (Envelope, Event):
        return True
    parts = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        seen.add(kind)
        parts = tuple(field.type for field in msgspec.structs.fields(kind))
    return any(_has_event(part, seen) for part in parts)


class CostMeter:
    """Counts while it is `on`."""

    def __init__(self, hops: Mapping[str, Mapping[str, int]]) -> None:
        self._between = hops  # by broker: wires to every other
        self._encode = msgspec.msgpack.Encoder().encode
        self.on = True
        self.load: Counter[str] = Counter(
            dict.fromkeys(hops, 0)
        )  # messages from other brokers that each handled
        self.kinds: Counter[type] = Counter()
        self.with_events = 0  # messages that carried an event
        self.hops = 0  # of these
        self.bytes = 0

    def __call__(self, name: str, item: Any, _now: float) -> None:
        if not self.on or name not in self._between:
            return
        if type(item) is Received and item.sender in self._between:
            self._count(item.sender, name, item.message)
        elif type(item) is ReceivedAll and item.sender in self._between:
            for message in item.messages:
                self._count(item.sender, name, message)

    def _count(self, sender: str, name: str, message: Any) -> None:
        kind = type(message)
        self.load[name] += 1
        self.kinds[kind] += 1
        self.bytes += len(self._encode(message)) + FRAME
        if carries_event(message):
            self.with_events += 1
            self.hops += self._between[sender][name]

    @property
    def messages(self) -> int:
        return sum(self.kinds.values())

    def unevenness(self) -> float | None:
        """The busiest broker's share over the mean; None: no broker had work."""
        total = sum(self.load.values())
        return max(self.load.values()) * len(self.load) / total if total else None


def entries_of(nodes: Mapping[str, Any]) -> dict[str, int] | None:
    """Filters, or places in trees, that each broker holds for others; None: the system does not say."""
    found = {}
    for name, node in nodes.items():
        routing = node.slots["routing"]
        size: Callable[[], int] | None = getattr(routing, "table_size", None)
        if size is None and type(routing) is not Routing:
            return None
        found[name] = 0 if size is None else size()
    return found
