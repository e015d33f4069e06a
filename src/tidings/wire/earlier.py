"""Messages as a peer reads them that does not announce `Feature.RICH_BODIES` or `Feature.EVENT_RUNS`.

Rules
- Events with positions that share a message are sent in single messages, in one write.
- A client receives events with values that it knows: decimals, UUIDs, dates, times and wide integers as text;
  lists, bytes and None stay. No rich event is sent to a broker (`protocol/recovery/far_ends.py`).
- A broker receives filters without conditions on lists and exact decimals, which it could not read: they
  accept more, and the broker behind the link matches again.
- The withdrawal of a filter that was sent in a weaker form, or that equals such a form, is not sent: the peer
  forwards more than needed until the link begins anew, and never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from tidings.language.lists import is_beyond_earlier, without_lists
from tidings.model.body import unpacked_body
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.textual import json_ready
from tidings.model.value import INT_MAX, INT_MIN
from tidings.protocol.inputs import Feature
from tidings.protocol.messages import Deliver, DeliverAll, Message
from tidings.protocol.recovery.messages import ReplayRequest, ReplayRequests
from tidings.protocol.routing.diffusion import Interest
from tidings.protocol.routing.duplicates import ForwardAll

_replace = msgspec.structs.replace


def legible(event: Event) -> Event:
    """The event with a body of values that the version before knows; itself when it is not rich."""
    if not event.rich:
        return event
    body = {name: _legible(value) for name, value in unpacked_body(event.body).items()}
    return _replace(event, body=body, rich=False)


def _legible(value: Any) -> Any:
    if type(value) is dict:
        return {name: _legible(item) for name, item in value.items()}
    if type(value) is list:
        return [_legible(item) for item in value]
    if type(value) is int:
        return value if INT_MIN <= value <= INT_MAX else str(value)
    return value if type(value) in (bytes, Ext, float) else json_ready(value)


class EarlierForm:
    """The messages of one connection to a peer that lacks some of the features of this version."""

    def __init__(self, features: int = 0) -> None:
        self._reads_rich = bool(features & Feature.RICH_BODIES)
        self._weaker: dict[
            str, str
        ] = {}  # digests of filters that were sent in a weaker form, and its digest

    def parts(self, message: Message) -> Sequence[Message]:
        """The messages that the peer reads in the place of this one: `Feature.EVENT_RUNS` is not for it."""
        if isinstance(message, ForwardAll) or (isinstance(message, DeliverAll) and message.offsets):
            return [self.of(single) for single in message.one_by_one()]
        return (self.of(message),)

    def of(self, message: Message) -> Message:
        """The message as the peer reads it."""
        if self._reads_rich:
            return message
        match message:
            case Deliver() if message.event.rich:
                return _replace(message, event=legible(message.event))
            case DeliverAll() if any(event.rich for event in message.events):
                return _replace(message, events=tuple(map(legible, message.events)))
            case Interest():
                return self._interest(message)
            case ReplayRequest():
                return _replace(message, filter=without_lists(message.filter))
            case ReplayRequests():
                asks = (_replace(ask, filter=without_lists(ask.filter)) for ask in message.asks)
                return _replace(message, asks=tuple(asks))
        return message

    def _interest(self, message: Interest) -> Interest:
        if message.reset:
            self._weaker.clear()
        kept = set(self._weaker.values())
        remove = tuple(d for d in message.remove if d not in self._weaker and d not in kept)
        return _replace(message, add=tuple(map(self._sent, message.add)), remove=remove)

    def _sent(self, filter: Filter) -> Filter:
        if not is_beyond_earlier(filter):
            return filter
        weaker = without_lists(filter)
        self._weaker[filter.digest] = weaker.digest
        return weaker


__all__ = ["EarlierForm", "legible"]
