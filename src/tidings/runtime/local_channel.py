"""Channel of one local client: publishes, and deliveries to functions, that pass its client machine by.

A client machine bounds what is in flight, waits while there is no link, and knows again what it received. A
client in the broker's own process needs none of that: its link is a function call. Rules
- Events are numbered by the counters of the client machine, so that both may publish for one source.
- Publishes of one call go to the broker as one batch, and are answered together. Those that the broker has
  not answered when the link is replaced are sent again, in order.
- Live events for a subscription with a function are handed over at once, and acknowledged with as much credit
  as they used: the client machine's account of credit stays right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import force_setattr

from tidings.model.event import Event
from tidings.protocol.client import Client
from tidings.protocol.effects import CallFailed
from tidings.protocol.messages import (
    AckAll,
    AckMode,
    Credit,
    Deliver,
    DeliverAll,
    Message,
    Publish,
    Published,
    PublishedAll,
    Refused,
)

Results = list[CallFailed | None]  # for each event; None: the broker has accepted it
Answered = Callable[[Results], None]
TakeEvents = Callable[[tuple[Event, ...]], None]


class _OutstandingBatch(msgspec.Struct, eq=False):
    """Publishes of one call, until the broker has answered each of them."""

    first: int
    messages: list[Publish]
    results: Results
    left: int
    answered: Answered


class LocalChannel:
    """The channel of one client. `send` hands messages to the broker together."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.send: Callable[[list[Message]], None] = lambda messages: None
        self._outstanding: dict[int, _OutstandingBatch] = {}  # by call
        self._takers: dict[int, TakeEvents] = {}  # by ref of a subscription

    # -- publishing --------------------------------------------------------------------------------

    def publish(
        self,
        call: int,
        events: Sequence[Event],
        numbered: Iterable[bool],
        mode: AckMode,
        answered: Answered | None,
    ) -> None:
        """Publish events of this client, which it alone holds, in this order under calls from `call` on;
        `answered` is called when the broker has answered all of them."""
        messages: list[Publish] = []
        number_of, incarnation = self._client.next_number, self._client.incarnation
        for offset, (event, is_numbered) in enumerate(zip(events, numbered, strict=True)):
            number = number_of(event.source)
            if is_numbered:
                force_setattr(event, "id", f"{incarnation}-{number}")
            messages.append(Publish(call + offset, event, number, mode))
        if answered is not None:
            batch = _OutstandingBatch(call, messages, [None] * len(messages), len(messages), answered)
            for message in messages:
                self._outstanding[message.call] = batch
        self.send(messages)  # type: ignore[arg-type]

    def resume(self) -> None:
        """The link was replaced: send again what is not answered."""
        again = [batch.messages[call - batch.first] for call, batch in self._outstanding.items()]
        if again:
            self.send(again)  # type: ignore[arg-type]

    def fail(self, code: str, reason: str) -> None:
        """The link has ended for good: no answer comes any more."""
        outstanding, self._outstanding = self._outstanding, {}
        for call, batch in outstanding.items():
            event = batch.messages[call - batch.first].event
            self._answer(batch, call, CallFailed(call, code, reason, event.id))

    def _answer(self, batch: _OutstandingBatch, call: int, failure: CallFailed) -> None:
        batch.results[call - batch.first] = failure
        batch.left -= 1
        if not batch.left:
            batch.answered(batch.results)

    # -- deliveries --------------------------------------------------------------------------------

    def take_by(self, ref: int, take: TakeEvents | None) -> None:
        """Have a function called with the live events of a subscription, those of one message together; None
        ends it."""
        if take is None:
            self._takers.pop(ref, None)
        else:
            self._takers[ref] = take

    # -- messages of the broker --------------------------------------------------------------------

    def receive(self, message: Message) -> bool:
        """Handle a message of the broker; False: it is for the client machine."""
        kind = type(message)
        if kind is Published or kind is PublishedAll:
            outstanding, first = self._outstanding, message.call  # type: ignore[attr-defined]
            is_known = first in outstanding
            for call in (first,) if kind is Published else range(first, first + message.count):  # type: ignore[attr-defined]
                if (batch := outstanding.pop(call, None)) is not None:
                    batch.left -= 1
                    if not batch.left:
                        batch.answered(batch.results)
            return (is_known and kind is Published) or not self._client.has_unanswered
        if kind is DeliverAll:
            take = self._takers.get(message.ref)  # type: ignore[attr-defined]
            if take is None or message.offsets:  # type: ignore[attr-defined]
                return False
            ref, events = message.ref, message.events  # type: ignore[attr-defined]
            take(events)
            self.send([AckAll(ref, message.tag, len(events)), Credit(ref, len(events))])  # type: ignore[attr-defined]
            return True
        if kind is Deliver:
            take = self._takers.get(message.ref)  # type: ignore[attr-defined]
            if take is None or message.position is not None:  # type: ignore[attr-defined]
                return False
            take((message.event,))  # type: ignore[attr-defined]
            self.send([AckAll(message.ref, message.tag, 1), Credit(message.ref, 1)])  # type: ignore[attr-defined]
            return True
        if kind is Refused and (batch := self._outstanding.pop(message.call, None)) is not None:  # type: ignore[attr-defined]
            call, event = message.call, batch.messages[message.call - batch.first].event  # type: ignore[attr-defined]
            self._answer(batch, call, CallFailed(call, message.code, message.reason, event.id))  # type: ignore[attr-defined]
            return True
        return False
