"""Holdings of a member of a durable group: the events that its application has in hand, and those that it
committed last.

A member has no token, and a broker that was restarted does not know which member had which event. So the
client says it with each subscribe (`MemberHoldings`), before any event is sent to the group. Rules
- Held events are sent to the member again, which recognises them; no other member gets them.
- Committed events are settled, also those that were committed while there was no link.
- A commit of an event that came over an earlier link, and was not sent again yet, names the event by its
  position: it settles the event with any member.
- Both are bounded (`client.holdings`): the events that were taken last, and those that were committed last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from tidings.model.subscription import Position
from tidings.protocol.client_subscription import ClientSubscription
from tidings.protocol.messages import Home, MemberHoldings, Message


def opening(subscription: ClientSubscription, call: int, log: str, most: int) -> Iterator[Message]:
    """The messages that ask the broker with this log for the subscription. It takes so many holdings."""
    if subscription.goes_to(log):
        yield Home(subscription.ref, subscription.home)
    subscription.most_late, subscription.late = 0, ()
    if most and subscription.options.durable and subscription.committed is not None:
        subscription.most_late = most
        taken = [each.deliver.position for each in subscription.taken if not each.is_committed]
        last = islice(reversed(subscription.committed.positions), most)
        yield MemberHoldings(subscription.ref, _by_log(taken[-most:]), _by_log(last))
    yield subscription.asked(call)


def late_commits(subscription: ClientSubscription) -> MemberHoldings:
    """The message that settles events which were committed without a tag."""
    late, subscription.late = subscription.late, ()
    return MemberHoldings(subscription.ref, committed=_by_log(late))


def _by_log(positions: Iterable[Position | None]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for position in positions:
        if position is not None:
            found.setdefault(position.log, []).append(position.offset)
    return {log: tuple(sorted(offsets)) for log, offsets in found.items()}
