"""An event in the hands of one subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tidings.model.event import Event
from tidings.model.subscription import Position

if TYPE_CHECKING:
    from tidings.protocol.delivery.migration_header import MigrationHeader
    from tidings.protocol.delivery.pending import PendingPublish


class Item(msgspec.Struct, eq=False, gc=False):
    """It waits in a queue, or is with a member that has not acknowledged it."""

    event: Event
    size: int  # bytes of the event, encoded
    position: Position | None  # None: no log holds it
    accepted: float
    expires_at: float | None  # None: it never ends
    attempt: int = 1
    again: bool = False  # it was sent before
    first_tag: int = 0  # ... under this tag the first time, and given back since
    after: int = 0  # while a replay goes on: not before the log was read up to here
    ticket: PendingPublish | None = None  # its publisher waits until there is room for it
    moved: MigrationHeader | None = None  # its publisher was at another broker before
    barred_at: float = 0.0  # it waits for that since then
    dead_letter: int | None = None  # its number, when it is a dead letter

    def again_for_one(self, tag: int) -> Item:
        """A copy that was sent before, now under this tag: others may have been handed the same item."""
        copy = Item(self.event, self.size, self.position, self.accepted, self.expires_at, self.attempt, True)
        copy.first_tag, copy.after, copy.dead_letter = self.first_tag or tag, self.after, self.dead_letter
        return copy

    @property
    def log(self) -> str:
        """The log that holds it; empty: none does, or it is a dead letter."""
        return "" if self.position is None or self.dead_letter is not None else self.position.log

    @property
    def offset(self) -> int | None:
        return None if self.position is None else self.position.offset

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_behind(self, position: Position | None) -> bool:
        """Is it in the same log, and not before that position?"""
        own = self.position
        if own is None or position is None:
            return False
        return own.log == position.log and own.offset >= position.offset
