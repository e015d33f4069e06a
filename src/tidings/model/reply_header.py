"""The header of requests and replies: where a reply goes, and which request it belongs to.

It is no part of the content, so a request may have any body and no body makes a request. The MQTT gateway
reads and writes it as Response Topic and Correlation Data: a client of MQTT 5 can ask and answer.
"""

from __future__ import annotations

import msgspec

from tidings.model.decoding import UNREADABLE, remembering
from tidings.model.event import Event

NAME = "reply"  # in `Event.headers`


class ReplyHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request says of its reply, and a reply of its request."""

    topic: str | None = None  # of the reply; None: no reply is wanted
    correlation: bytes | None = None  # the same in a request and in its reply
    error: str | None = None  # of a replier that failed


@remembering
def _decoded(data: bytes) -> ReplyHeader | None:
    try:
        return msgspec.msgpack.decode(data, type=ReplyHeader)
    except UNREADABLE:
        return None


def reply_header_of(event: Event) -> ReplyHeader | None:
    """The header of a request or a reply; None: the event is neither."""
    data = event.headers.get(NAME) if event.headers else None
    return None if data is None else _decoded(data)


def encoded(header: ReplyHeader) -> dict[str, bytes]:
    """The header as an entry of `Event.headers`."""
    return {NAME: msgspec.msgpack.encode(header)}


def with_header(event: Event, header: ReplyHeader) -> Event:
    """The event as a request or a reply."""
    return msgspec.structs.replace(event, headers=event.headers | encoded(header))
