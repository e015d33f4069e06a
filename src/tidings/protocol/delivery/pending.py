"""Pending publish: one event between its acceptance and its acknowledgement."""

from __future__ import annotations

import msgspec

from tidings.model.event import Event
from tidings.model.subscription import Position
from tidings.protocol.delivery.cursor import ANY_OFFSET
from tidings.protocol.delivery.migration_header import MigrationHeader
from tidings.protocol.interest import Match
from tidings.protocol.messages import AckMode


class PendingPublish(msgspec.Struct, eq=False, gc=False):
    """Acknowledged when it is on the disk (if the log has to hold it), dispatched, and no subscription blocks
    it."""

    event: Event
    number: int  # orders publishes and subscribes of this node
    sequence: int | None  # the publisher's counter
    accepted: float
    size: int = 0  # bytes of the event, encoded
    mode: AckMode = AckMode.AUTO
    is_own: bool = True  # its id is made of its publisher's number
    expires_at: float | None = None
    moved: MigrationHeader | None = None  # its publisher was at other brokers before
    incarnation: str = ""  # of its publisher
    waiters: list[tuple[str, int]] = []  # address and call of the clients that wait for the answer
    position: Position | None = None  # in the log; None: the log does not hold it
    below: int = ANY_OFFSET  # of one that no log holds: it supersedes entries below this offset
    match: Match | None = None  # the entries that accept it ...
    version: int = -1  # ... at this version of the interest table
    followers: list[PendingPublish] = []  # later ones of the same source that need no disk
    blocked: int = 0  # subscriptions with policy `block` without room for it; one more: the disk
    is_begun: bool = False  # some subscriptions may have it: it is not to be tried again
    is_dispatched: bool = False

    @property
    def offset(self) -> int | None:
        return None if self.position is None else self.position.offset


def offset_of(pending: PendingPublish) -> int:
    """The offset of a publish that the log holds."""
    assert pending.position is not None
    return pending.position.offset
