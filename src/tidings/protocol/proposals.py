"""Proposals of members for the log of their group: delivery makes them, recovery agrees on them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidings.availability.records import Put
from tidings.model.event import Event


class Proposal(msgspec.Struct, frozen=True, array_like=True):
    """An event that a client published, before it has a place in the log."""

    event: Event
    incarnation: str  # of the publisher: with its number it is known again
    sequence: int
    is_own: bool  # its id was made of these two
    age: float = 0.0  # seconds since it was accepted; clocks need not agree

    @property
    def identity(self) -> tuple[str, str]:
        return self.event.identity


class PlacedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event in its place in the log."""

    offset: int
    proposal: Proposal


class CopyRequest(NamedTuple):
    """A member's request for a page of the group's log."""

    after: int
    committed: int  # how far the log is committed
    rows_after: str | None  # not None: it has the log, and asks for identities behind this place
    pages: bool  # can it take identities in pages?


class LogCopy(NamedTuple):
    """A page of the group's log; the fields are those of `LogCopyPage`."""

    upto: int
    entries: tuple[PlacedEvent, ...]
    end: int
    identities: tuple[Put, ...]
    more: str
