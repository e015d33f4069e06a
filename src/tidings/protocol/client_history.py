"""The rows of a history that a client records of its subscriptions.

Rules
- A subscription that the client's rights narrow is recorded with the filter that holds, as its broker says.
- What is taken and not committed when the application leaves, and what it gives back, is a `nack` row: only
  beside one does a checker take a second notification for a redelivery.
- A client that loses its broker records a `suspect` row: the broker may not have heard its last
  acknowledgements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tidings.history.schema import OK, Outcome, Row, nack_row, sub_row, suspect_row, usub_row
from tidings.protocol.client_subscription import ClientSubscription
from tidings.protocol.messages import Deliver


def subscribed(
    of: ClientSubscription, client: str, broker: str, now: float, outcome: Outcome, narrowed: str = ""
) -> Iterator[Row]:
    """The answer to a subscribe, with the filter that holds: as the rights narrowed it, if they did."""
    dialect, filter = of.filter.dialect, narrowed or of.filter
    yield sub_row(now, client, of.id, filter, outcome=outcome, dialect=dialect, broker=broker)


def left(subscription: ClientSubscription, client: str, broker: str, now: float) -> Iterator[Row]:
    """The application left, or the broker ended the subscription."""
    open_ones = [each.deliver for each in subscription.taken if not each.is_committed]
    yield from given_back(subscription, open_ones, client, now)
    has_end = subscription.must_end or subscription.ending is not None
    detach = subscription.options.durable and not has_end
    yield usub_row(now, client, subscription.id, outcome=OK, detach=detach, broker=broker)


def nacked(
    subscription: ClientSubscription, numbers: Collection[int] | None, client: str, now: float
) -> Iterator[Row]:
    """The application gives back these notifications, or all that it has not committed."""
    returned = [
        each.deliver for each in subscription.taken
        if not each.is_committed and (numbers is None or each.number in numbers)
    ]  # fmt: skip
    return given_back(subscription, returned, client, now)


def given_back(
    subscription: ClientSubscription, deliveries: Iterable[Deliver], client: str, now: float
) -> Iterator[Row]:
    """These deliveries were handed over, and are not committed."""
    for deliver in deliveries:
        yield nack_row(now, client, subscription.id, deliver.event)


def lost_broker(client: str, broker: str, now: float) -> Iterator[Row]:
    """The link to the broker broke."""
    yield suspect_row(now, client, broker)
