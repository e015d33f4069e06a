"""Pending publishes: events between their acceptance and their acknowledgement, alone and in stretches.

One is an item too: a subscription without special cases has it in its queue as it is (`Dispatcher.dispatch`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.delivery.cursor import ANY_OFFSET
from tidings.protocol.delivery.item import Item
from tidings.protocol.interest import Match
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import AckMode, Envelope

ONE = ((0, 1),)  # the stretch of a batch of one


class PendingPublish(Item, eq=False, gc=False):
    """Acknowledged when it is on the disk (if the log has to hold it), dispatched, and no subscription blocks
    it."""

    number: int = 0  # orders publishes and subscribes of this node
    sequence: int | None = None  # the publisher's counter
    mode: AckMode = AckMode.AUTO
    is_own: bool = True  # its id is made of its publisher's number
    incarnation: str = ""  # of its publisher
    waiters: tuple[tuple[str, int], ...] = ()  # address and call of the clients that wait for the answer
    below: int = ANY_OFFSET  # of one that no log holds: it supersedes entries below this offset
    match: Match | None = None  # the entries that accept it ...
    version: int = -1  # ... at this version of the interest table
    followers: tuple[PendingPublish, ...] = ()  # later ones of the same source that need no disk
    blocked: int = 0  # subscriptions with policy `block` without room for it; one more: the disk
    is_begun: bool = False  # some subscriptions may have it: it is not to be tried again
    is_dispatched: bool = False


def offset_of(pending: PendingPublish) -> int:
    """The offset of a publish that the log holds."""
    assert pending.position is not None
    return pending.position.offset


def stretches(
    batch: Sequence[Envelope | PendingPublish], matches: Sequence[Match], limits: ResourceLimits
) -> Sequence[tuple[int, int]]:
    """Begin and end of each stretch: neighbouring events that the same subscriptions accept are dispatched
    together. One fits one message, and makes no more deliveries than a step may; an
    event with a key is alone, since it ends those of its key that wait."""
    found: list[tuple[int, int]] = []
    begin, count = 0, len(batch)
    many = limits.deliveries_together // limits.batch_count  # subscriptions, for which a step makes fewer
    while begin < count:
        match, end = matches[begin], begin + 1
        subscriptions = match.subscriptions
        most = begin + limits.batch_count  # all of these subscriptions share the message
        if len(subscriptions) > many:
            most = begin + limits.deliveries_together // len(subscriptions)
        if batch[begin].event.key is None:
            most = min(most, count)
            while end < most and (matches[end] is match or matches[end].subscriptions == subscriptions):
                if batch[end].event.key is not None:
                    break
                end += 1
        found += ((begin, end),)
        begin = end
    return found
