"""Events that one peer cannot take, since no frame of it holds them: dead letters that are still owed.

Rules
- A subscriber says how large a frame it reads. An event that is larger becomes a dead letter of its
  subscription, so that the events behind it pass. It is sent once more whenever a listener opens the
  subscription: one with a larger limit receives it, and its acknowledgement ends the letter.
- A neighbour of an earlier version may take less than other brokers do. Such an event is a dead letter of the
  link, at the broker that could not send it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.model.event import event_size
from tidings.model.subscription import Position, SubscriptionId
from tidings.protocol.delivery.dead_letters import LINK, DeadLetters, item_of
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.rows import DeadRow
from tidings.protocol.delivery.subscription_state import Member, SubscriptionState
from tidings.protocol.messages import Deliver, Envelope, Message
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.delivery.dispatcher import Dispatcher

LARGE = "larger than a frame of its receiver"


class OversizedEvents:
    def __init__(self, ports: Ports, dead: DeadLetters, queues: Dispatcher) -> None:
        self._ports = ports
        self._dead = dead
        self._queues = queues

    def undeliverable(self, members: dict[int, Member], message: Message, now: float) -> None:
        """A message to one client did not leave, since no frame of that client holds it."""
        member = members.get(message.ref) if isinstance(message, Deliver) else None
        if member is None or not isinstance(message, Deliver):
            return
        item = self._queues.take_off(member, message.tag)
        if item is not None:
            member.credit += 1
            self._queues.bury(member.subscription, item, now, LARGE, is_large=True)
            self._queues.pump(member.subscription, now)

    def retry(self, state: SubscriptionState) -> None:
        """A listener opened the subscription: its frames may hold more than those of the last one. What an
        operator has sent again is sent to it too."""
        dead_letters = [each for each in self._dead.letters(state.id) if each.is_large or each.is_redelivered]
        if dead_letters:
            self.resend(state, dead_letters)

    def resend(self, state: SubscriptionState, dead_letters: Iterable[DeadRow]) -> None:
        """Queue dead letters for their subscription again; each goes when it is acknowledged."""
        waiting = (*state.queue, *state.own.pending, *state.unacked.items())
        queued = {item.dead_letter for item in waiting}
        for dead_letter in dead_letters:
            if dead_letter.number not in queued:
                item = item_of(dead_letter)
                item.position = None  # the subscription's cursor is past it
                self._queues.enqueue(state, item)

    def bury_for(self, to: str, envelope: Envelope, now: float) -> None:
        """An event that a neighbour does not take: a dead letter of that link."""
        position = None if envelope.offset is None else Position(envelope.origin, envelope.offset)
        item = Item(envelope.event, event_size(envelope.event), position, now, None)
        self._ports.disk.keep(self._dead.add(SubscriptionId(to, LINK), item, now, LARGE)[1])
