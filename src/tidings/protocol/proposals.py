"""What the members of a group propose for their log: shared by delivery, which makes it, and recovery, which agrees."""

from __future__ import annotations

import msgspec

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


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """An event in its place in the log."""

    offset: int
    proposal: Proposal
