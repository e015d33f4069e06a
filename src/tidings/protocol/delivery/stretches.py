"""Stretches of a batch: neighbouring events that the same subscriptions accept are dispatched together."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.delivery.pending import PendingPublish
from tidings.protocol.interest import Match
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import Envelope

ONE = ((0, 1),)  # the stretch of a batch of one


def stretches(
    batch: Sequence[Envelope | PendingPublish], matches: Sequence[Match], limits: ResourceLimits
) -> Sequence[tuple[int, int]]:
    """Begin and end of each stretch. One fits one message, and makes no more deliveries than a step may; an
    event with a key is alone, since it ends those of its key that wait."""
    found: list[tuple[int, int]] = []
    begin, count = 0, len(batch)
    many = limits.deliveries_together // limits.batch_count  # subscriptions, for which a step makes fewer
    while begin < count:
        subscriptions, end = matches[begin].subscriptions, begin + 1
        most = begin + limits.batch_count  # all of these subscriptions share the message
        if subscriptions and len(subscriptions) > many:
            most = begin + limits.deliveries_together // len(subscriptions)
        if batch[begin].event.key is None:
            while (
                end < count
                and end < most
                and matches[end].subscriptions == subscriptions
                and batch[end].event.key is None
            ):
                end += 1
        found += ((begin, end),)
        begin = end
    return found
