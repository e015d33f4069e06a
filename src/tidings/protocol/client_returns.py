"""Events that an application gives back come again before those that the broker sent ahead.

Rules
- The broker redelivers them at once, with credit of their own. Behind the `Nack` goes a fence, and nothing is
  handed over until it is answered: then they are at the front of the buffer.
- If they are not all here by then (the broker's bounds on bytes and credit), what was sent ahead is returned
  too, without credit for more, behind a second fence. What is on its way meanwhile is returned at that fence;
  the broker then sends all of it again, in the order in which it was sent first.
- With nothing sent ahead, only what is on its way has to be returned.
- Members of a group get what others return: there is no order to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidings.protocol.client_subscription import NONE_AWAITED, ClientSubscription
from tidings.protocol.lazy_queues import own
from tidings.protocol.messages import Credit, Deliver, Fence, Message, Nack


def give_back(subscription: ClientSubscription, tags: tuple[int, ...], reason: str) -> Iterator[Message]:
    """The messages that return these; with a reason they become dead letters."""
    yield Nack(subscription.ref, tags, reason=reason)
    if not reason and (subscription.window or subscription.buffer or subscription.granted > 0):
        subscription.granted, subscription.is_fenced = subscription.granted + len(tags), True
        yield Credit(subscription.ref, len(tags))
    elif not (reason or subscription.is_fenced or subscription.options.group):
        subscription.is_fenced = subscription.gives_way = True
        subscription.awaited = NONE_AWAITED
    if subscription.is_fenced or subscription.buried:
        yield _fence(subscription)


def fence_reached(subscription: ClientSubscription) -> Iterator[Message]:
    """The broker has handled all that went before the last fence: the messages that follow."""
    subscription.bury()
    if subscription.awaited:
        subscription.awaited, subscription.gives_way = NONE_AWAITED, True
        if subscription.granted > 0:
            yield Credit(subscription.ref, -subscription.granted)
            subscription.granted = 0
        yield from _give_way(subscription)
        yield _fence(subscription)
        return
    if subscription.gives_way:
        yield from _give_way(subscription)
    subscription.is_fenced, subscription.gives_way, subscription.returned = False, False, 0


def put_back(subscription: ClientSubscription, batch: Sequence[Deliver]) -> Iterator[Message]:
    """The application was cancelled before it saw these: the messages that return them."""
    if batch and subscription.options.group is None:
        again = [msgspec.structs.replace(deliver, again=True) for deliver in reversed(batch)]
        own(subscription, "buffer").extendleft(again)
    elif batch:  # another member may be waiting for it
        yield Nack(subscription.ref, tuple([deliver.tag for deliver in batch]), counted=False)


def _fence(subscription: ClientSubscription) -> Fence:
    subscription.fence += 1
    return Fence(subscription.ref, subscription.fence)


def _give_way(subscription: ClientSubscription) -> Iterator[Message]:
    if tags := subscription.give_way():
        yield Nack(subscription.ref, tags, counted=False)
