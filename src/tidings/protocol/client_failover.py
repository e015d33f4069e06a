"""A client that finds its distributor by itself: view management at publishers and subscribers (Mathur et al.
1995, 4.1.1).

Rules
- It knows a list of distributors from a well-known place: the first is its primary, the others are its
  secondaries. The list may be stale. When none of it can be reached it is fetched again.
- When the link to the primary breaks, or the primary is silent for too long, that one is dropped from the
  list and the next is tried. Clients decide alone which distributors are up, and ask no other process.
- Publishes that were not acknowledged are sent again to the next distributor, in order and under their
  numbers.
- It may have suspected wrongly. Then two distributors serve it for a while: the application hears each event
  once, in the order of its publisher, and the older of the two is left as soon as a word of it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from tidings.history.schema import ntfy_row
from tidings.model.event import Event
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg
from tidings.protocol.client import Client
from tidings.protocol.client_subscription import BrokerLinkState, ClientSubscription
from tidings.protocol.effects import CloseLink, Effect, Notify, OpenLink, Record, Send
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits


class KeepaliveRequest(msg.Message, frozen=True, tag="StillThere"):
    """A client to its distributor; answered by `KeepaliveReply`."""

    number: int


class KeepaliveReply(msg.Message, frozen=True, tag="StillHere"):
    number: int


class FailoverSettings(msgspec.Struct, frozen=True, kw_only=True):
    beat_seconds: float = 1.0  # between two words to the primary; oftener notices sooner
    suspect_seconds: float = 3.0  # of silence; shorter suspects the slow
    connect_seconds: float = 1.0  # for each distributor that is tried
    fetch_seconds: float = 2.0  # before the list is fetched again


def _number(event: Event) -> tuple[str, int] | None:
    """The stream of an event, and its number there; None: its publisher does not number."""
    life, _, number = event.id.rpartition("-")
    return (f"{event.source}/{life}", int(number)) if number.isdecimal() else None


class FailoverClient(Client):
    def __init__(
        self,
        name: str,
        distributors: tuple[str, ...],
        *,
        rng: Random,
        fetch: Callable[[], tuple[str, ...]] | None = None,
        settings: FailoverSettings | None = None,
        reports_received: Callable[[dict[str, dict[str, int]]], msg.Message] | None = None,
        recording: bool = False,
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(name, distributors[0], rng=rng, recording=recording, limits=limits)
        self._settings = settings or FailoverSettings()
        self._list = list(distributors)  # the primary, then the secondaries
        self._fetch = fetch or (lambda: distributors)
        self._trying: str | None = distributors[0]
        self._try_until: float | None = None
        self._beat_at: float | None = None
        self._last_word = 0.0
        self._older: set[str] = set()  # suspected, and their links are still up
        self._overheard: list[tuple[str, msg.Deliver]] = []
        self._received: dict[str, dict[str, int]] = {}  # by subscription's name and stream: the last number
        self._reported: dict[str, dict[str, int]] = {}
        self._reports_received = reports_received  # no-gap mode: how the distributor is told
        self.fail_overs = self.fetches = self.received_twice = 0
        self._on_input[ins.TimerFired] = self._on_timer
        self._on_message[KeepaliveReply] = lambda message, now: None

    # -- finding a distributor -------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return min((at for at in (self._try_until, self._beat_at) if at is not None), default=None)

    def _link_up(self, input: ins.LinkUp, now: float) -> None:
        if self._link is not BrokerLinkState.DOWN or input.peer != self._trying:
            if (
                input.peer != self.broker or self._link is BrokerLinkState.DOWN
            ):  # a link that stays up never comes up
                self._out.append(CloseLink(input.peer, "not wanted any more"))
            return
        self._trying = self._try_until = None
        self._older.discard(input.peer)
        self._last_word, self._beat_at = now, now + self._settings.beat_seconds
        super()._link_up(input, now)

    def _link_down(self, input: ins.LinkDown, now: float) -> None:
        self._older.discard(input.peer)
        if input.peer == self.broker and self._link is not BrokerLinkState.DOWN:
            super()._link_down(input, now)
            self._go_on(now)
        elif input.peer == self._trying:
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        """To the next distributor of the list."""
        self.fail_overs += 1
        self._beat_at = None
        tried = self._trying or self.broker
        self._list = [name for name in self._list if name != tried]
        if self._list:
            self._try(self._list[0], now, self._settings.connect_seconds)
        else:
            self._trying, self._try_until = None, now + self._settings.fetch_seconds

    def _try(self, distributor: str, now: float, patience: float) -> None:
        self._trying, self._try_until = distributor, now + patience
        self._out.append(OpenLink(distributor))

    def _on_timer(self, input: ins.Input, now: float) -> None:
        if self._try_until is not None and now >= self._try_until:
            if self._trying is not None:
                self._go_on(now)
            else:
                self.fetches += 1
                self._list = list(self._fetch())
                self._try(self._list[0], now, self._settings.connect_seconds)
        if self._beat_at is not None and now >= self._beat_at:
            self._beat(now)

    def _beat(self, now: float) -> None:
        if now - self._last_word > self._settings.suspect_seconds:
            self.suspect(now)
            return
        self._beat_at = now + self._settings.beat_seconds
        self._out.append(Send(self.broker, KeepaliveRequest(int(now))))
        self._report_received()

    def suspect(self, now: float) -> None:
        """The primary is taken for dead. It may be alive: its link is left as it is."""
        self._older.add(self.broker)
        super()._link_down(ins.LinkDown(self.broker), now)
        self._go_on(now)

    def _interrupt(self, subscription: ClientSubscription, now: float) -> None:
        """To the application its subscription goes on: what is missed meanwhile is a gap in it."""

    # -- hearing each event once ------------------------------------------------------------------

    def handle(self, input: ins.Input, now: float) -> list[Effect]:
        if not isinstance(input, ins.Received | ins.ReceivedAll):
            return super().handle(input, now)
        effects: list[Effect] = []
        for message in (input.message,) if isinstance(input, ins.Received) else input.messages:
            if input.sender == self.broker and self._link is not BrokerLinkState.DOWN:
                self._last_word = now
                effects += super().handle(ins.Received(input.sender, message), now)
            elif input.sender in self._older:
                self._overhear(input.sender, message, now)
                effects += self._out
                self._out = []
        return effects

    def _welcome(self, message: msg.Welcome, now: float) -> None:
        self._reported = {}
        self._link = BrokerLinkState.UP
        self._report_received()
        super()._welcome(message, now)

    def _report_received(self) -> None:
        if self._reports_received is None or self._link is not BrokerLinkState.UP:
            return
        news = {
            name: dict(marks) for name, marks in self._received.items() if self._reported.get(name) != marks
        }
        if news:
            self._reported |= news
            self._send(self._reports_received(news))

    def _is_new(self, subscription: ClientSubscription, event: Event) -> bool:
        numbered = _number(event)
        if numbered is None:
            return True
        stream, number = numbered
        marks = self._received.setdefault(subscription.id.name, {})
        if number <= marks.get(stream, 0):
            self.received_twice += 1
            return False
        marks[stream] = number
        return True

    def _notify(
        self, subscription: ClientSubscription, batch: Sequence[msg.Deliver], call: int | None, now: float
    ) -> None:
        new: list[msg.Deliver] = []
        for deliver in batch:
            if deliver.position is not None or self._is_new(subscription, deliver.event):
                new.append(deliver)
            else:
                self._send(msg.Ack(subscription.ref, (deliver.tag,)))
        if new:
            super()._notify(subscription, new, call, now)

    def _overhear(self, sender: str, message: msg.Message, now: float) -> None:
        """A word of a distributor that was suspected wrongly."""
        if isinstance(message, msg.DeliverAll):
            for deliver in message.one_by_one():
                self._overhear(sender, deliver, now)
        elif isinstance(message, msg.Deliver):
            self._overheard.append((sender, message))
            self._hand_over_overheard(now)
        elif self._link is BrokerLinkState.UP:
            self._leave_older(sender)

    def _hand_over_overheard(self, now: float) -> None:
        waiting, self._overheard = self._overheard, []
        for sender, deliver in waiting:
            subscription = self._listenings.get(deliver.ref)
            if subscription is not None and not subscription.is_on:
                self._overheard.append((sender, deliver))  # until the next distributor serves it
            elif subscription is not None and self._is_new(subscription, deliver.event):
                self._out.append(
                    Notify(subscription.ref, (subscription.notification(deliver),), (deliver.tag,))
                )
                if self._recording:
                    row = ntfy_row(now, self.name, subscription.id, deliver.event, broker=sender)
                    self._out.append(Record(row))
        for older in sorted(self._older):
            if any(sender == older for sender, _ in waiting) and self._link is BrokerLinkState.UP:
                self._leave_older(older)

    def _leave_older(self, older: str) -> None:
        """Two serve us: unsubscribe from the older one."""
        if older in self._older:
            self._older.discard(older)
            for ref in self._listenings:
                self._out.append(Send(older, msg.Unsubscribe(-ref, ref)))
            self._out.append(CloseLink(older, "another distributor serves us"))

    def _subscribed(self, message: msg.Subscribed, now: float) -> None:
        super()._subscribed(message, now)
        if self._overheard:
            self._hand_over_overheard(now)
