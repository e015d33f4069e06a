"""Header of an event whose publisher was at other brokers before (see `publisher_migration.py`)."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.protocol.messages import Envelope

HEADER = "delivery.moved"


class MigrationHeader(msgspec.Struct, frozen=True, array_like=True):
    """An event of a publisher that was elsewhere before."""

    mover: str  # the publisher's incarnation
    stay: int  # grows with each move
    places: dict[str, int]  # by log: it comes after this offset


STAYED = MigrationHeader("", 0, {})  # it was nowhere else


def moved_of(envelope: Envelope) -> MigrationHeader | None:
    header: Any = envelope.headers.get(HEADER)
    if header is None or isinstance(header, MigrationHeader):
        return header
    return msgspec.convert(header, MigrationHeader)
