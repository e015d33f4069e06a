"""The header of a dead letter: why and when its subscription gave up on the event.

The broker writes it when it delivers the letter (`subscribe(dead_letters_of=…)`, or a redelivery); it is no
part of the content.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidings.model.decoding import UNREADABLE

NAME = "dead letter"  # in `Event.headers`
REASON = 1000  # characters of a reason


class DeadLetterHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an event is a dead letter, after how many attempts, and since when."""

    reason: str = ""  # of the consumer that rejected it, or of the broker
    attempts: int = 1  # deliveries to the subscription, the last one included
    died: float = 0.0  # seconds since 1970, by the broker's clock


def header_in(headers: Mapping[str, bytes]) -> DeadLetterHeader | None:
    """The header among those of an event; None: the event is no dead letter."""
    data = headers.get(NAME)
    try:
        return None if data is None else msgspec.msgpack.decode(data, type=DeadLetterHeader)
    except UNREADABLE:
        return None


def encoded(header: DeadLetterHeader) -> dict[str, bytes]:
    """The header as an entry of `Event.headers`."""
    return {NAME: msgspec.msgpack.encode(header)}


def reason_of(error: BaseException | str) -> str:
    """The reason of a rejection: one line, and bounded."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:REASON] or "rejected"
