"""Deduplication window of a client for events in no log: a broker that crashed may deliver such an event
again.

Duplicates are dropped only over another link than the first time: a broker that delivers twice over one link
has a defect, which must show.

A publisher publishes again, under the same identity, when its broker crashed before it answered. Brokers
recognise the identity; one that crashed too does not, unless a log holds the event.

An identity that was published at two brokers is in two logs. A client hands over the first copy that comes
and passes over the other, as long as it remembers the first: so many ids of foreign publishers (`copies`).
Ids that our clients made are in one log. Both copies may wait for the application before it takes the first:
so what waits is looked at once more when it is handed over, from the moment on that a second log delivers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tidings.model.event import TENANT
from tidings.protocol.client_subscription import ClientSubscription
from tidings.protocol.messages import Deliver


class ClientDedupWindow:
    """The last so many of the current link, and as many of the links before it, of all subscriptions of a
    client."""

    def __init__(self, most: int, copies: int = 0) -> None:
        self._most, self._most_copies = most, copies
        self._copies: dict[
            tuple[int, str, str], str
        ] = {}  # by subscription and identity: the log it came from
        self._received: deque[tuple[int, str, str]] = deque(maxlen=most)  # over this link
        self._before: dict[tuple[int, str, str], None] = {}  # over earlier links
        self.notes_unlogged = most > 0  # is an event that no log holds remembered?
        self.knows_unlogged = False  # can such an event be known from an earlier link?
        self._log = ""  # that delivered last
        self.may_hold_copies = False  # did several logs deliver?

    def link_up(self) -> None:
        self._before.update(dict.fromkeys(self._received))
        for key in list(self._before)[: max(0, len(self._before) - self._most)]:
            del self._before[key]
        self._received.clear()
        self.knows_unlogged = bool(self._before)

    def has(self, subscription: ClientSubscription, deliver: Deliver) -> bool:
        if deliver.position is not None:
            if deliver.position.log != self._log:
                self.may_hold_copies = self.may_hold_copies or bool(self._log and self._most_copies)
                self._log = deliver.position.log
            log = self._copies.get(_key(deliver)) if self._copies else None
            return log not in (None, deliver.position.log) and self._concerns(subscription, deliver)
        return self.knows_unlogged and self._concerns(subscription, deliver) and _key(deliver) in self._before

    def is_copy(self, subscription: ClientSubscription, deliver: Deliver) -> bool:
        """Was a copy of this delivery, which waited, handed over meanwhile? If not it is now, and noted."""
        if deliver.position is None:
            return False
        is_known = self.has(subscription, deliver)
        if not is_known:
            self.note(subscription, (deliver,))
        return is_known

    def note(self, subscription: ClientSubscription, batch: Sequence[Deliver]) -> None:
        """Remember deliveries that the application is handed."""
        options, delivered = subscription.options, self._received
        if options.group is not None or options.dead_letters_of is not None:
            return
        for deliver in batch:
            if deliver.attempt != 1 or deliver.again:
                continue
            if deliver.position is None:
                if self.notes_unlogged:
                    event = deliver.event
                    is_plain = TENANT not in event.body  # then the identity is known without making it
                    delivered += ((deliver.ref, event.source, event.id) if is_plain else _key(deliver),)
            elif self._most_copies and not is_numbered(deliver.event.id):
                self._copies[_key(deliver)] = deliver.position.log
                if len(self._copies) > self._most_copies:
                    del self._copies[next(iter(self._copies))]

    def _concerns(self, subscription: ClientSubscription, deliver: Deliver) -> bool:
        """Returned events, and events that the broker believes unhandled, are to be delivered again; those of
        a group another member may have handled."""
        options = subscription.options
        return (
            deliver.attempt == 1
            and not deliver.again
            and options.group is None
            and options.dead_letters_of is None
        )


def _key(deliver: Deliver) -> tuple[int, str, str]:
    return (deliver.ref, *deliver.event.identity)


def is_numbered(id: str) -> bool:
    """Does it look like an id that one of our clients made, `<incarnation>-<sequence>`?"""
    incarnation, _, number = id.rpartition("-")
    return len(incarnation) == 12 and number.isdecimal() and incarnation.isalnum()
