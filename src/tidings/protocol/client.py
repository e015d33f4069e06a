"""The client: what the application asks, as messages to its broker. A state machine like the node.

Rules
- Publishing has rules of its own (`client_publishing.py`).
- Taking the next notification commits the previous one.
- While there is no link everything waits. When it is back, what was open is opened again under
  its name and with its token, and what was not acknowledged is published again, in order.
- A client may go to another broker. It says there where its last acknowledged events are, so that
  those of one source keep their order; what was not acknowledged is of unknown outcome then.
- A name that was left is asked for again only when the broker has answered the leaving: until then
  it takes the one for the other, or refuses a second listener.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from tidings.errors import SettingsError, UnknownOutcomeError
from tidings.history.schema import OK, REFUSED, UNKNOWN, Outcome, Row, sub_row, usub_row
from tidings.model.subscription import Notification, SubscriptionId
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg
from tidings.protocol.client_dedup import ClientDedupWindow
from tidings.protocol.client_publishing import PublishingClient
from tidings.protocol.client_subscription import (
    BrokerLinkState,
    ClientSubscription,
    SubscriptionPhase,
    UncommittedDelivery,
)
from tidings.protocol.lazy_queues import EMPTY, own
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.publishing import stage_refusal
from tidings.protocol.resume_tokens import ResumeTokens

OVER = ("closed", "the subscription has ended")


class Client(PublishingClient):
    """One subscriber and publisher. Only `handle` changes it."""

    def __init__(
        self, name: str, broker: str, *, rng: Random, incarnation: str | None = None, recording: bool = False,
        remembers: int | None = None, limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:  # fmt: skip
        super().__init__(name, broker, rng=rng, incarnation=incarnation, recording=recording, limits=limits)
        self._rng = rng
        self._listenings: dict[int, ClientSubscription] = {}  # by ref
        self._leaving: dict[int, ClientSubscription] = {}  # by ref: those that wait for the answer to it ...
        self._held_back: dict[int, ClientSubscription] = {}  # ... and those that wait for one of their name
        self._merges = False  # does the broker take `AckCredit`?
        self._last_ref, self._tokens = 0, ResumeTokens(limits.remembered_copies)
        most = limits.remembered_events if remembers is None else remembers
        self._known_again = ClientDedupWindow(most, limits.remembered_copies)
        self._homes: dict[str, str] = {}  # by name of a durable subscription: where it was opened first
        self._asked: dict[int, msg.Message] = {}  # by call, in order: questions without an answer
        self._on_input: dict[type, Callable[[Any, float], None]] = {
            ins.LinkUp: self._link_up,
            ins.LinkDown: self._link_down,
            ins.ClientPublish: self._publish,
            ins.ClientPublishAll: self._publish,
            ins.ClientSubscribe: self._subscribe,
            ins.ClientTake: self._take,
            ins.ClientCancel: self._cancel,
            ins.ClientAck: self._ack,
            ins.ClientWindow: self._set_window,
            ins.ClientNack: self._nack,
            ins.ClientSkip: self._skip,
            ins.ClientLeave: self._leave,
            ins.ClientAdvertise: self._advertise,
            ins.ClientUnadvertise: self._unadvertise,
            ins.ClientAsk: self._ask,
        }
        self._on_message: dict[type, Callable[[Any, float], None]] = {
            **dict.fromkeys((msg.LogRead, msg.Staged, msg.Committed, msg.LogHeld), self._answered),
            msg.Welcome: self._welcome, msg.Published: self._published, msg.PublishedAll: self._published,
            msg.Subscribed: self._subscribed, msg.Unsubscribed: self._unsubscribed, msg.Fenced: self._fenced,
            msg.Silence: self._silence, msg.Lost: self._lost, msg.Refused: self._refused,
            msg.Closed: self._closed, msg.Advertised: self._advertised, msg.Quench: self._advertising.quench,
        }  # fmt: skip

    # -- the door ------------------------------------------------------------------------

    def handle(self, input: ins.Input, now: float) -> list[fx.Effect]:
        kind = type(input)
        if kind is ins.Received:
            self._receive(input.sender, (input.message,), now)  # type: ignore[union-attr]
        elif kind is ins.ReceivedAll:
            self._receive(input.sender, input.messages, now)  # type: ignore[union-attr]
        elif kind in self._on_input:
            self._on_input[kind](input, now)
        else:
            raise SettingsError(f"a client takes no {kind.__name__}", hint="hand it to a node")
        effects, self._out = self._out, []
        return effects

    def next_deadline(self) -> float | None:
        return None

    def check(self) -> None:
        assert not self._out, "no effect is left behind"
        assert len(self._in_flight) <= self._limits.publishes_in_flight, "publishes in flight are bounded"
        for listening in self._listenings.values():
            listening.check()

    def _receive(self, sender: str, messages: Sequence[msg.Message], now: float) -> None:
        """Handle messages that came together; deliveries to one subscription that follow one another are a
        batch."""
        handlers = self._on_message
        batch: list[msg.Deliver] = []
        for message in messages if self._link is not BrokerLinkState.DOWN else ():
            kind = type(message)
            if kind is msg.Deliver or kind is msg.DeliverAll:
                if batch and batch[0].ref != message.ref:  # type: ignore[attr-defined]
                    self._deliver(batch, now)
                    batch = []
                batch += (message,) if kind is msg.Deliver else message.one_by_one()  # type: ignore[attr-defined, arg-type]
                continue
            if batch:
                self._deliver(batch, now)
                batch = []
            if kind in handlers:
                handlers[kind](message, now)
        if batch:
            self._deliver(batch, now)

    # -- the link ------------------------------------------------------------------------

    def _link_up(self, input: ins.LinkUp, now: float) -> None:
        self.broker = input.peer
        self._merges = bool(input.features & ins.Feature.ACK_CREDIT)
        self._link = BrokerLinkState.GREETING
        self._known_again.link_up()
        self._out.append(fx.Send(self.broker, msg.Hello(self.name, self.incarnation)))

    def _welcome(self, message: msg.Welcome, now: float) -> None:
        self._link = BrokerLinkState.UP
        if (came := self._places.arrive(message.log)) is not None:
            self._send(came)
        self._log = message.log
        self._event_bytes = min(self._limits.event_bytes, message.event_bytes or self._limits.event_bytes)
        self._line = deque(each for each in self._line if not self._is_too_large(each))
        for advertise in self._advertising.again():
            self._send(advertise)
        self._out.extend(fx.CallResult(call) for call in self._advertising.waiting())
        for listening in self._listenings.values():
            if listening.phase is not SubscriptionPhase.ENDED:
                self._open(listening)
        for publishing in list(self._in_flight.values()):
            if self._is_too_large(publishing):
                del self._in_flight[publishing.call]
            elif publishing.log == message.log:
                self._send(publishing.sent_to(self.broker))
            else:
                self._give_up(publishing)
        for question in self._asked.values():
            self._send(question)
        self._send_line()

    def _link_down(self, input: ins.LinkDown, now: float) -> None:
        self._link = BrokerLinkState.DOWN
        for publishing in self._in_flight.values():
            self._record_publish(publishing, UNKNOWN)
        for listening in list(self._listenings.values()):
            listening.forget_link()
            self._interrupt(listening, now)
            if listening.phase is SubscriptionPhase.LEAVING and not listening.must_end:
                self._over(listening, now)

    def _interrupt(self, listening: ClientSubscription, now: float) -> None:
        """With its link a transient subscription ends at the broker; it begins again on the next one."""
        if listening.phase is SubscriptionPhase.OPEN and not listening.options.durable:
            self._record_leave(listening, now)

    # -- questions ------------------------------------------------------------------------

    def _ask(self, input: ins.ClientAsk, now: float) -> None:
        if (failed := stage_refusal(input, self._event_bytes)) is not None:
            self._out.append(failed)
            return
        self._asked[input.call] = input.message
        self._send(input.message)

    def _answered(self, message: msg.LogRead | msg.Staged | msg.Committed | msg.LogHeld, now: float) -> None:
        if self._asked.pop(message.call, None) is not None:
            self._out.append(fx.CallResult(message.call, message))

    # -- subscribing ---------------------------------------------------------------------

    def _subscribe(self, input: ins.ClientSubscribe, now: float) -> None:
        self._last_ref += 1
        name = input.name or input.options.group or f"~{self._rng.getrandbits(64):016x}"
        listening = ClientSubscription(
            self._last_ref,
            input.call,
            SubscriptionId(self.name, name),
            input.filter,
            input.options,
            named=input.name is not None or input.options.group is not None,
            window=input.window,
            auto=input.auto,
            after=input.after,
        )
        self._tokens.resume(listening)
        listening.home = self._homes.get(name, "") if listening.options.durable else ""
        self._listenings[listening.ref] = listening
        self._open(listening)

    def _open(self, listening: ClientSubscription) -> None:
        """Ask for it, or ask again on a new link. One that is to be ended must be opened to be ended."""
        if self._link is not BrokerLinkState.UP:
            return
        listening.waits = self._is_being_left(listening)
        if listening.waits:
            self._held_back[listening.ref] = listening
            return
        self._held_back.pop(listening.ref, None)
        call = -listening.ref if listening.call is None else listening.call
        if listening.home not in ("", self._log):
            self._send(msg.Home(listening.ref, listening.home))
        self._send(listening.asked(call))
        if listening.phase is SubscriptionPhase.LEAVING:
            self._send(msg.Unsubscribe(call, listening.ref, end=True))

    def _is_being_left(self, listening: ClientSubscription) -> bool:
        """Does an earlier one of its name wait for the answer to its leaving?"""
        return any(
            other.phase is SubscriptionPhase.LEAVING
            and other.ref < listening.ref
            and other.is_namesake(listening)
            for other in self._leaving.values()
        )

    def _open_waiting(self, left: ClientSubscription) -> None:
        """The name is free: send the next subscribe that waits for it."""
        for listening in list(self._held_back.values()):
            if listening.waits and listening.is_namesake(left):
                self._tokens.resume(listening)
                self._open(listening)

    def _subscribed(self, message: msg.Subscribed, now: float) -> None:
        listening = self._listenings.get(message.ref)
        if listening is None or not listening.step("Subscribed"):
            return
        listening.id = SubscriptionId(message.subscriber, message.name)
        if listening.options.durable:
            listening.home = self._homes.setdefault(listening.id.name, self._log)
        if not listening.is_on:
            listening.is_on = True
            self._record_subscribe(listening, now, OK)
        if listening.call is not None:
            call, listening.call = listening.call, None
            self._out.append(
                fx.CallResult(call, fx.SubscriptionOpened(listening.ref, listening.id, message.resumed))
            )
        if listening.phase is SubscriptionPhase.OPEN:
            self._hand_over(listening, now)

    def _record_subscribe(self, listening: ClientSubscription, now: float, outcome: Outcome) -> None:
        if self._recording:
            row = sub_row(now, self.name, listening.id, listening.filter, outcome=outcome, broker=self.broker)
            self._out.append(fx.Record(row))

    # -- hearing -------------------------------------------------------------------------

    def _take(self, input: ins.ClientTake, now: float) -> None:
        listening = self._listenings.get(input.ref)
        if (
            listening is None
            or listening.phase is SubscriptionPhase.LEAVING
            or listening.phase is SubscriptionPhase.ENDED
        ):
            ending = listening.ending if listening is not None and listening.ending else OVER
            self._out.append(fx.CallFailed(input.call, *ending))
            return
        tags: tuple[int, ...] = listening.commit(None) if input.commits and listening.taken else ()
        listening.waiting += ((input.call, input.most),)
        listening.wanted += input.most
        if not listening.buffer:
            self._grant(listening, tags)
            return
        if tags and self._link is BrokerLinkState.UP:
            self._out.append(fx.Send(self.broker, msg.Ack(input.ref, tags)))
        self._hand_over(listening, now)

    def _deliver(self, batch: list[msg.Deliver], now: float) -> None:
        """Deliveries to one subscription, in order."""
        listening = self._listenings.get(batch[0].ref)
        if listening is None or (listening.phase is not SubscriptionPhase.OPEN and not listening.hears):
            return
        may_be_known = self._known_again.knows_unlogged
        for deliver in batch:
            listening.granted -= 1
            may_be_known = may_be_known or deliver.position is not None
        if may_be_known:
            batch = self._unknown(listening, batch, now)
        self._pass_on(listening, batch, now)
        if listening.buffer:
            self._hand_over(listening, now)
        elif listening.granted or listening.window or listening.waiting:
            self._grant(listening)

    def _unknown(
        self, listening: ClientSubscription, batch: list[msg.Deliver], now: float
    ) -> list[msg.Deliver]:
        """The last deliveries of the batch that were not delivered before. Those before a copy of one of
        themselves are passed on first: then the copy is known."""
        new: dict[tuple[str, str], msg.Deliver] = {}
        for deliver in batch:
            identity = deliver.event.identity
            if identity in new:
                self._pass_on(listening, list(new.values()), now)
                new = {}
            if not self._is_known(listening, deliver):
                new[identity] = deliver
        return list(new.values())

    def _pass_on(self, listening: ClientSubscription, batch: list[msg.Deliver], now: float) -> None:
        """Hand deliveries over that can go straight to the application; the others wait."""
        hears = listening.phase is not SubscriptionPhase.OPENING and not listening.is_fenced
        if hears and not listening.buffer and not listening.skipped:
            if listening.auto and batch:
                self._notify(listening, batch, None, now)
                return
            while batch and listening.waiting:
                call, most = listening.waiting[0]
                listening.waiting, listening.wanted = listening.waiting[1:], listening.wanted - most
                self._notify(listening, batch[:most], call, now)
                batch = batch[most:]
        for deliver in batch:
            listening.queue_up(deliver)

    def _is_known(self, listening: ClientSubscription, deliver: msg.Deliver) -> bool:
        """Was this delivered before? Then it is acknowledged again, or stays in the application's hands."""
        if listening.was_committed(deliver):
            self._send(msg.Ack(deliver.ref, (deliver.tag,)))
        elif listening.was_told(deliver) or self._known_again.has(listening, deliver):
            self._pass_over(listening, deliver)
        else:
            return listening.held_again(deliver)
        return True

    def _hand_over(self, listening: ClientSubscription, now: float) -> None:
        """Hand received events to waiting takes, and grant more credit."""
        if listening.phase is not SubscriptionPhase.OPENING and not listening.is_fenced:
            buffer = listening.buffer
            while buffer and (listening.waiting or listening.auto):
                batch: list[msg.Deliver] = []
                most = len(buffer) if listening.auto else listening.waiting[0][1]
                while buffer and len(batch) < most:
                    deliver = buffer.popleft()
                    if listening.skipped and listening.skips(deliver):
                        self._pass_over(listening, deliver)
                    else:
                        batch.append(deliver)
                if batch:
                    self._notify(listening, batch, None if listening.auto else listening.next_waiting(), now)
            if not buffer:
                listening.buffer = EMPTY
        self._grant(listening)

    def _grant(self, listening: ClientSubscription, tags: tuple[int, ...] = ()) -> None:
        """Grant the broker credit for what the application waits for (or, below 0, take credit back): for
        each take that waits, and with a window by half windows. Acknowledge `tags` with it."""
        granted, window, amount = listening.granted, listening.window, 0
        if not window or granted <= 0 or granted < window // 2:
            amount = listening.wanted - granted
            if window:
                amount += max(window - len(listening.buffer), 0)
            if listening.phase is SubscriptionPhase.LEAVING:
                amount = 0
            listening.granted += amount
        if self._link is not BrokerLinkState.UP:
            return
        if amount and tags and self._merges:
            self._out.append(fx.Send(self.broker, msg.AckCredit(listening.ref, tags, amount)))
            return
        if tags:
            self._out.append(fx.Send(self.broker, msg.Ack(listening.ref, tags)))
        if amount:
            self._out.append(fx.Send(self.broker, msg.Credit(listening.ref, amount)))

    def _set_window(self, input: ins.ClientWindow, now: float) -> None:
        listening = self._listenings.get(input.ref)
        if listening is not None and listening.phase is SubscriptionPhase.OPEN:
            listening.window = input.window
            self._hand_over(listening, now)

    def _skip(self, input: ins.ClientSkip, now: float) -> None:
        listening = self._listenings.get(input.ref)
        if listening is not None:
            listening.skipped, listening.policy = input.upto, input.policy

    def _pass_over(self, listening: ClientSubscription, deliver: msg.Deliver) -> None:
        if deliver.position is not None:
            listening.advance(deliver.position)
        self._send(msg.Ack(listening.ref, (deliver.tag,)))

    def _notify(
        self, listening: ClientSubscription, batch: Sequence[msg.Deliver], call: int | None, now: float
    ) -> None:
        """Hand deliveries to the application: as the answer of a take, or pushed."""
        id, first = listening.id, batch[0]
        notifications = [Notification(id, first.event, first.position, first.attempt)]
        tags: tuple[int, ...] = (first.tag,)
        listening.taken += (UncommittedDelivery(first, call, first.tag),)
        is_noted = self._known_again.notes_unlogged or first.position is not None
        if more := batch[1:]:
            notifications += [Notification(id, each.event, each.position, each.attempt) for each in more]
            tags += tuple([each.tag for each in more])
            listening.taken += tuple([UncommittedDelivery(each, call, each.tag) for each in more])
            is_noted = is_noted or any(each.position is not None for each in more)
        if is_noted:
            self._known_again.note(listening, batch)
        self._out.append(fx.Notify(listening.ref, notifications, tags, call))
        for deliver in batch if self._recording else ():
            self._out.append(fx.Record(listening.row(deliver, now, self.name, self.broker)))
        if listening.auto:  # it is taken by being handed over
            self._commit(listening, None)

    def _silence(self, message: msg.Silence, now: float) -> None:
        listening = self._listenings.get(message.ref)
        if listening is not None:
            listening.hear_silence(message.position)

    def _lost(self, message: msg.Lost, now: float) -> None:
        if message.ref in self._listenings:
            self._out.append(fx.Counted(message.ref, message.counts))

    def _cancel(self, input: ins.ClientCancel, now: float) -> None:
        if input.ref is None:
            self._cancel_call(input.call, now)
            return
        listening = self._listenings.get(input.ref)
        if listening is None:
            return
        if not listening.stop_waiting(input.call) and listening.phase is SubscriptionPhase.OPEN:
            self._put_back(listening, input.call)
        if listening.phase is SubscriptionPhase.OPEN:
            self._hand_over(listening, now)

    def _put_back(self, listening: ClientSubscription, call: int) -> None:
        """The application was cancelled before it saw what was handed over."""
        batch = listening.untake(call)
        if batch and listening.options.group is None:
            again = [msgspec.structs.replace(deliver, again=True) for deliver in reversed(batch)]
            own(listening, "buffer").extendleft(again)
        elif batch:  # another member may be waiting for it
            self._send(msg.Nack(listening.ref, tuple([deliver.tag for deliver in batch]), counted=False))

    def _cancel_call(self, call: int, now: float) -> None:
        """The caller gave up: what was not sent yet is never sent. A publish says how it ends."""
        self._asked.pop(call, None)
        self._cancel_publish(call)
        for listening in list(self._listenings.values()):
            if listening.call == call:
                listening.call = None
                self._stop(listening, call, end=False, now=now)

    # -- committing and leaving ------------------------------------------------------------

    def _ack(self, input: ins.ClientAck, now: float) -> None:
        listening = self._listenings.get(input.ref)
        if listening is not None:
            self._commit(listening, input.tag)

    def _commit(self, listening: ClientSubscription, tag: int | None) -> None:
        tags = listening.commit(tag) if listening.taken else ()
        if tags:
            self._send(msg.Ack(listening.ref, tags))

    def _nack(self, input: ins.ClientNack, now: float) -> None:
        listening = self._listenings.get(input.ref)
        tags = () if listening is None else listening.give_back(input.tags)
        if tags:
            self._send(msg.Nack(input.ref, tags))
        if tags and listening is not None and listening.window and self._link is BrokerLinkState.UP:
            # Events sent ahead follow the returned ones in order, so they wait until those are redelivered.
            listening.granted += len(tags)
            listening.fence, listening.is_fenced = listening.fence + 1, True
            self._send(msg.Credit(input.ref, len(tags)))
            self._send(msg.Fence(input.ref, listening.fence))

    def _fenced(self, message: msg.Fenced, now: float) -> None:
        listening = self._listenings.get(message.ref)
        if listening is not None and listening.fence == message.number:
            listening.is_fenced = False
            self._hand_over(listening, now)

    def _leave(self, input: ins.ClientLeave, now: float) -> None:
        listening = self._listenings.get(input.ref)
        if listening is None or listening.phase is SubscriptionPhase.ENDED:
            self._listenings.pop(input.ref, None)
            self._out.append(fx.CallResult(input.call))
            return
        if input.commit:
            self._commit(listening, None)
        listening.leaving_calls += (input.call,)
        self._stop(listening, input.call, end=input.end, now=now)

    def _stop(self, listening: ClientSubscription, call: int, *, end: bool, now: float) -> None:
        """Ask the broker to stop, once; no further event is handed over."""
        if listening.phase is SubscriptionPhase.LEAVING:
            return
        listening.step("leave")
        self._leaving[listening.ref] = listening
        listening.must_end = end and listening.options.durable
        self._fail_waiting(listening, OVER)
        if listening.waits:  # the broker never heard of it
            if not listening.must_end:
                self._over(listening, now)
        elif self._link is BrokerLinkState.UP:
            ends = end or not listening.options.durable
            self._send(msg.Unsubscribe(call, listening.ref, ends, takes_rest=listening.auto))
        elif not listening.must_end:
            self._over(listening, now)

    def _unsubscribed(self, message: msg.Unsubscribed, now: float) -> None:
        listening = self._listenings.get(message.ref)
        if listening is not None and listening.phase is SubscriptionPhase.LEAVING:
            self._over(listening, now)

    def _over(self, listening: ClientSubscription, now: float) -> None:
        """The subscription has ended, or is detached, as the application wanted."""
        listening.step("Unsubscribed")
        self._tokens.leave(listening)
        if listening.must_end:
            self._homes.pop(listening.id.name, None)  # the next one of this name begins anew
        self._record_leave(listening, now)
        del self._listenings[listening.ref]
        self._leaving.pop(listening.ref, None)
        self._held_back.pop(listening.ref, None)
        for call in listening.leaving_calls:
            self._out.append(fx.CallResult(call))
        self._open_waiting(listening)

    def _closed(self, message: msg.Closed, now: float) -> None:
        listening = self._listenings.get(message.ref)
        if listening is not None and listening.phase is SubscriptionPhase.LEAVING:
            self._over(listening, now)
        elif listening is not None and listening.call is not None:  # the answer to its opening
            self._refused(msg.Refused(listening.call, message.code, message.reason), now)
        elif listening is not None and listening.step("Closed"):
            self._broken(listening, message.code, message.reason, now)

    def _refused(self, message: msg.Refused, now: float) -> None:
        if self._asked.pop(message.call, None) is not None or self._advertising.is_refused(message.call):
            self._out.append(fx.CallFailed(message.call, message.code, message.reason))
            return
        publishing = self._in_flight.pop(message.call, None)
        if publishing is not None:
            failed = publishing.failed(message)
            self._record_publish(publishing, UNKNOWN if failed.code == UnknownOutcomeError.code else REFUSED)
            self._finish(publishing, failed)
            self._send_line()
            return
        for listening in list(self._listenings.values()):
            leaving = (*listening.leaving_calls, -listening.ref)
            if listening.phase is SubscriptionPhase.LEAVING and message.call in leaving:
                self._over(listening, now)
            elif listening.call == message.call:
                self._record_subscribe(listening, now, UNKNOWN if message.code == OVER[0] else REFUSED)
                del self._listenings[listening.ref]
                self._out.append(fx.CallFailed(message.call, message.code, message.reason))
            elif message.call == -listening.ref and listening.step("Refused"):
                self._broken(listening, message.code, message.reason, now)

    def _broken(self, listening: ClientSubscription, code: str, reason: str, now: float) -> None:
        """The broker ended the subscription; waiting takes fail with its reason."""
        listening.ending = (code, reason)
        listening.buffer = EMPTY
        self._tokens.leave(listening)  # the next one of this name goes on from here
        self._record_leave(listening, now)
        self._fail_waiting(listening, listening.ending)
        self._out.append(fx.SubscriptionEnded(listening.ref, code, reason))

    def _fail_waiting(self, listening: ClientSubscription, ending: tuple[str, str]) -> None:
        while listening.waiting:
            self._out.append(fx.CallFailed(listening.next_waiting(), *ending))

    def _record_leave(self, listening: ClientSubscription, now: float) -> None:
        was_on, listening.is_on = listening.is_on, False
        if self._recording and was_on:
            detach = listening.options.durable and not listening.must_end and listening.ending is None
            row: Row = usub_row(now, self.name, listening.id, detach=detach, broker=self.broker)
            self._out.append(fx.Record(row))
