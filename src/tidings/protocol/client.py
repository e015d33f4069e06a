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

from tidings.errors import RefusedError, SettingsError, UnknownOutcomeError
from tidings.history.schema import OK, REFUSED, UNKNOWN, Outcome
from tidings.language.lists import is_beyond_earlier
from tidings.model.subscription import Notification, SubscriptionId
from tidings.protocol import client_history as rows
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg
from tidings.protocol.client_dedup import ClientDedupWindow
from tidings.protocol.client_holdings import late_commits, opening
from tidings.protocol.client_publishing import PublishingClient
from tidings.protocol.client_returns import fence_reached, give_back, put_back
from tidings.protocol.client_subscription import (
    DOWN,
    ENDED,
    GREETING,
    LEAVING,
    OPEN,
    OPENING,
    UP,
    ClientSubscription,
    UncommittedDelivery,
)  # fmt: skip
from tidings.protocol.lazy_queues import EMPTY
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
        self._postponed: dict[int, ClientSubscription] = {}  # ... and those that wait for one of their name
        self._merges = self._rejects = False  # does the broker take `AckCredit`, and `Nack` with a reason?
        self._most_holdings = 0  # how many does it take in `MemberHoldings`?
        self._last_ref, self._tokens = 0, ResumeTokens(limits.remembered_copies)
        most = limits.remembered_events if remembers is None else remembers
        self._known_again = ClientDedupWindow(most, limits.remembered_copies)
        self._homes: dict[str, str] = {}  # by name of a durable subscription: where it was opened first
        self._requests: dict[int, msg.Message] = {}  # by call, in order: questions without an answer
        self._on_input: dict[type, Callable[[Any, float], None]] = {
            ins.ReceivedAll: self._receive_all, ins.LinkUp: self._link_up, ins.LinkDown: self._link_down,
            ins.ClientAsk: self._request, ins.ClientPublish: self._publish, ins.ClientSkip: self._skip,
            ins.ClientPublishAll: self._publish, ins.ClientSubscribe: self._subscribe,
            ins.ClientTake: self._take, ins.ClientCancel: self._cancel, ins.ClientAck: self._ack,
            ins.ClientNack: self._nack, ins.ClientWindow: self._set_window, ins.ClientLeave: self._leave,
            ins.ClientAdvertise: self._advertise, ins.ClientUnadvertise: self._unadvertise,
        }  # fmt: skip
        self._on_message: dict[type, Callable[[Any, float], None]] = {
            **dict.fromkeys((msg.LogRead, msg.Staged, msg.Committed, msg.LogHeld), self._answered),
            msg.Deliver: lambda deliver, now: self._deliver([deliver], now),
            msg.DeliverAll: lambda batch, now: self._deliver(list(batch.one_by_one()), now),
            msg.Welcome: self._welcome, msg.Published: self._published, msg.PublishedAll: self._published,
            msg.Subscribed: self._subscribed, msg.Unsubscribed: self._unsubscribed, msg.Fenced: self._fenced,
            msg.Silence: self._silence, msg.Lost: self._lost, msg.Refused: self._refused,
            msg.Closed: self._closed, msg.Advertised: self._advertised, msg.Quench: self._advertising.quench,
        }  # fmt: skip

    # -- the door ------------------------------------------------------------------------

    def handle(self, input: ins.Input, now: float) -> list[fx.Effect]:
        kind = type(input)
        if kind is ins.Received:
            message = input.message  # type: ignore[union-attr]
            if self._link is not DOWN and type(message) in self._on_message:
                self._on_message[type(message)](message, now)
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
        for subscription in self._listenings.values():
            subscription.check()

    def _receive_all(self, input: ins.ReceivedAll, now: float) -> None:
        """Handle messages that came together; deliveries to one subscription that follow one another are a
        batch."""
        handlers = self._on_message
        batch: list[msg.Deliver] = []
        for message in input.messages if self._link is not DOWN else ():
            kind = type(message)
            if kind is msg.Deliver or kind is msg.DeliverAll:
                if batch and batch[0].ref != message.ref:  # type: ignore[attr-defined]
                    self._deliver(batch, now)
                    batch = []
                batch += (message,) if kind is msg.Deliver else message.one_by_one()  # type: ignore[arg-type]
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
        self._takes_rich = bool(input.features & ins.Feature.RICH_BODIES)
        self._rejects = bool(input.features & ins.Feature.REJECT)
        self._most_holdings = self._limits.client.holdings if input.features & ins.Feature.HOLDINGS else 0
        self._link = GREETING
        self._known_again.link_up()
        self._out.append(fx.Send(self.broker, msg.Hello(self.name, self.incarnation)))

    def _welcome(self, message: msg.Welcome, now: float) -> None:
        self._link = UP
        if (came := self._positions.arrive(message.log)) is not None:
            self._send(came)
        self._log = message.log
        self._event_bytes = min(self._limits.event_bytes, message.event_bytes or self._limits.event_bytes)
        self._line = deque(each for each in self._line if not self._is_too_much(each))
        for advertise in self._advertising.again():
            self._send(advertise)
        self._out.extend(fx.CallResult(call) for call in self._advertising.waiting())
        for subscription in list(self._listenings.values()):
            if subscription.phase is not ENDED:
                self._open(subscription, now)
        for publishing in list(self._in_flight.values()):
            if self._is_too_much(publishing):
                del self._in_flight[publishing.call]
            elif publishing.log == message.log:
                self._send(publishing.sent_to(self.broker))
            else:
                self._give_up(publishing)
        for question in self._requests.values():
            self._send(question)
        self._send_line()

    def _link_down(self, input: ins.LinkDown, now: float) -> None:
        if self._link is not DOWN and self._listenings:
            self._record(rows.lost_broker(self.name, self.broker, now))
        self._link = DOWN
        for publishing in self._in_flight.values():
            self._record_publish(publishing, UNKNOWN)
        for subscription in list(self._listenings.values()):
            subscription.forget_link()
            self._interrupt(subscription, now)
            if subscription.phase is LEAVING and not subscription.must_return:
                self._over(subscription, now)

    def _interrupt(self, subscription: ClientSubscription, now: float) -> None:
        """With its link a transient subscription ends at the broker; it begins again on the next one."""
        if subscription.phase is OPEN and not subscription.options.durable:
            self._record_leave(subscription, now)

    # -- questions ------------------------------------------------------------------------

    def _request(self, input: ins.ClientAsk, now: float) -> None:
        if (failed := stage_refusal(input, self._event_bytes)) is not None:
            self._out.append(failed)
            return
        self._requests[input.call] = input.message
        self._send(input.message)

    def _answered(self, message: msg.LogRead | msg.Staged | msg.Committed | msg.LogHeld, now: float) -> None:
        if self._requests.pop(message.call, None) is not None:
            self._out.append(fx.CallResult(message.call, message))

    # -- subscribing ---------------------------------------------------------------------

    def _subscribe(self, input: ins.ClientSubscribe, now: float) -> None:
        self._last_ref += 1
        name = input.name or input.options.group or f"~{self._rng.getrandbits(64):016x}"
        subscription = ClientSubscription(
            self._last_ref, input.call, SubscriptionId(self.name, name), input.filter, input.options,
            named=input.name is not None or input.options.group is not None, window=input.window,
            auto=input.auto, after=input.after,
        )  # fmt: skip
        self._listenings[subscription.ref] = subscription
        self._open(subscription, now)

    def _open(self, subscription: ClientSubscription, now: float) -> None:
        """Ask for it, or ask again on a new link. One that is left must be opened to be told of what was
        committed, or to be ended."""
        if self._link is not UP:
            return
        subscription.waits = self._is_being_left(subscription)
        if subscription.waits:
            self._postponed[subscription.ref] = subscription
            return
        self._postponed.pop(subscription.ref, None)
        if not subscription.is_resumed:  # not before: an earlier one of its name has left its token now
            subscription.home = (
                self._homes.get(subscription.id.name, "") if subscription.options.durable else ""
            )
            self._tokens.resume(subscription)
        call = -subscription.ref if subscription.call is None else subscription.call
        if not self._takes_rich and is_beyond_earlier(subscription.filter):
            self._refused(msg.Refused(call, RefusedError.code, ins.EARLIER_PEER.format("broker")), now)
            return
        for message in opening(subscription, call, self._log, self._most_holdings):
            self._send(message)
        if subscription.phase is LEAVING:
            self._send(msg.Unsubscribe(call, subscription.ref, end=subscription.must_end))

    def _is_being_left(self, subscription: ClientSubscription) -> bool:
        """Does an earlier one of its name wait for the answer to its leaving?"""
        return any(
            other.phase is LEAVING and other.ref < subscription.ref and other.is_namesake(subscription)
            for other in self._leaving.values()
        )

    def _open_waiting(self, left: ClientSubscription, now: float) -> None:
        """The name is free: send the next subscribe that waits for it."""
        for subscription in list(self._postponed.values()):
            if subscription.waits and subscription.is_namesake(left):
                self._open(subscription, now)

    def _subscribed(self, message: msg.Subscribed, now: float) -> None:
        subscription = self._listenings.get(message.ref)
        if subscription is None or not subscription.step("Subscribed"):
            return
        subscription.id = SubscriptionId(message.subscriber, message.name)
        subscription.is_answered()
        if subscription.options.durable:
            subscription.home = self._homes.setdefault(subscription.id.name, self._log)
        if not subscription.is_on:
            subscription.is_on = True
            self._record_subscribe(subscription, now, OK, message.narrowed)
        if subscription.call is not None:
            call, subscription.call = subscription.call, None
            ref, id = subscription.ref, subscription.id
            opened = fx.SubscriptionOpened(ref, id, message.resumed, message.warning)
            self._out.append(fx.CallResult(call, opened))
        if subscription.phase is OPEN:
            self._hand_over(subscription, now)

    def _record_subscribe(
        self, subscription: ClientSubscription, now: float, outcome: Outcome, narrowed: str = ""
    ) -> None:
        self._record(rows.subscribed(subscription, self.name, self.broker, now, outcome, narrowed))

    # -- delivery ------------------------------------------------------------------------

    def _take(self, input: ins.ClientTake, now: float) -> None:
        subscription = self._listenings.get(input.ref)
        if subscription is None or subscription.phase in (LEAVING, ENDED):
            ending = subscription.ending if subscription is not None and subscription.ending else OVER
            self._out.append(fx.CallFailed(input.call, *ending))
            return
        tags: tuple[int, ...] = subscription.commit(None) if input.commits and subscription.taken else ()
        if subscription.late:
            self._send(late_commits(subscription))
        subscription.waiting += ((input.call, input.most),)
        subscription.wanted += input.most
        if not subscription.buffer:
            self._grant(subscription, tags)
            return
        if tags and self._link is UP:
            self._out.append(fx.Send(self.broker, msg.Ack(input.ref, tags)))
        self._hand_over(subscription, now)

    def _deliver(self, batch: list[msg.Deliver], now: float) -> None:
        """Deliveries to one subscription, in order."""
        subscription = self._listenings.get(batch[0].ref)
        if subscription is None or not (subscription.phase is OPEN or subscription.is_receiving):
            return
        may_be_known = self._known_again.knows_unlogged
        for deliver in batch:
            subscription.granted -= 1
            if deliver.position is not None:
                may_be_known = True
        if may_be_known:
            batch = self._unknown(subscription, batch, now)
        self._pass_on(subscription, batch, now)
        if subscription.buffer:
            self._hand_over(subscription, now)
        elif subscription.granted or subscription.window or subscription.waiting:
            self._grant(subscription)

    def _unknown(
        self, subscription: ClientSubscription, batch: list[msg.Deliver], now: float
    ) -> list[msg.Deliver]:
        """The last deliveries of the batch that were not delivered before. Those before a copy of one of
        themselves are passed on first: then the copy is known."""
        new: dict[tuple[str, str], msg.Deliver] = {}
        for deliver in batch:
            identity = deliver.event.identity
            if identity in new:
                self._pass_on(subscription, list(new.values()), now)
                new = {}
            if not self._is_known(subscription, deliver):
                new[identity] = deliver
        return list(new.values())

    def _pass_on(self, subscription: ClientSubscription, batch: list[msg.Deliver], now: float) -> None:
        """Hand deliveries over that can go straight to the application; the others wait."""
        must_wait = subscription.is_fenced or subscription.buffer or subscription.skipped
        if not must_wait and subscription.phase is not OPENING:
            if subscription.auto and batch:
                self._notify(subscription, batch, None, now)
                return
            while batch and (waiting := subscription.waiting):
                call, most = waiting[0]
                subscription.waiting = waiting[1:]
                subscription.wanted -= most
                self._notify(subscription, batch[:most], call, now)
                batch = batch[most:]
        for deliver in batch:
            subscription.queue_up(deliver)

    def _is_known(self, subscription: ClientSubscription, deliver: msg.Deliver) -> bool:
        """Was this delivered before? Then it is acknowledged again, or stays in the application's hands."""
        if subscription.was_committed(deliver):
            self._send(msg.Ack(deliver.ref, (deliver.tag,)))
        elif subscription.was_delivered(deliver) or self._known_again.has(subscription, deliver):
            self._pass_over(subscription, deliver)
        elif (taken := subscription.taken_again(deliver)) is None:
            return False
        elif taken.is_committed:
            self._send(msg.Ack(deliver.ref, (deliver.tag,)))
        return True

    def _hand_over(self, subscription: ClientSubscription, now: float) -> None:
        """Hand received events to waiting takes, and grant more credit."""
        if subscription.phase is not OPENING and not subscription.is_fenced:
            buffer = subscription.buffer
            while buffer and (subscription.waiting or subscription.auto):
                batch: list[msg.Deliver] = []
                most = len(buffer) if subscription.auto else subscription.waiting[0][1]
                while buffer and len(batch) < most:
                    deliver = buffer.popleft()
                    if (subscription.skipped and subscription.skips(deliver)) or (
                        self._known_again.may_hold_copies and self._known_again.is_copy(subscription, deliver)
                    ):
                        self._pass_over(subscription, deliver)
                    else:
                        batch.append(deliver)
                if batch:
                    following = None if subscription.auto else subscription.next_waiting()
                    self._notify(subscription, batch, following, now)
            if not buffer:
                subscription.buffer = EMPTY
        self._grant(subscription)

    def _grant(self, subscription: ClientSubscription, tags: tuple[int, ...] = ()) -> None:
        """Grant the broker credit for what the application waits for (or, below 0, take credit back): for
        each take that waits, and with a window by half windows. Acknowledge `tags` with it."""
        granted, window, amount = subscription.granted, subscription.window, 0
        if not window:
            amount = subscription.wanted - granted
        elif granted <= 0 or granted < window // 2:
            amount = subscription.wanted - granted + max(window - len(subscription.buffer), 0)
        if amount:
            if subscription.phase is LEAVING or subscription.gives_way:
                amount = 0
            subscription.granted = granted + amount
        if self._link is not UP:
            return
        if amount and tags and self._merges:
            self._out.append(fx.Send(self.broker, msg.AckCredit(subscription.ref, tags, amount)))
            return
        if tags:
            self._out.append(fx.Send(self.broker, msg.Ack(subscription.ref, tags)))
        if amount:
            self._out.append(fx.Send(self.broker, msg.Credit(subscription.ref, amount)))

    def _set_window(self, input: ins.ClientWindow, now: float) -> None:
        if (subscription := self._listenings.get(input.ref)) is not None and subscription.phase is OPEN:
            subscription.window = input.window
            self._hand_over(subscription, now)

    def _skip(self, input: ins.ClientSkip, now: float) -> None:
        if (subscription := self._listenings.get(input.ref)) is not None:
            subscription.skipped, subscription.policy = input.upto, input.policy

    def _pass_over(self, subscription: ClientSubscription, deliver: msg.Deliver) -> None:
        if deliver.position is not None:
            subscription.advance(deliver.position)
        self._send(msg.Ack(subscription.ref, (deliver.tag,)))

    def _notify(
        self, subscription: ClientSubscription, batch: Sequence[msg.Deliver], call: int | None, now: float
    ) -> None:
        """Hand deliveries to the application: as the answer of a take, or pushed."""
        id, number, one = subscription.id, subscription.number + 1, batch[0]
        if not batch[1:]:
            subscription.number = number
            notifications = [Notification(id, one.event, one.position, one.attempt)]
            numbers: Sequence[int] = (number,)
            subscription.taken += (UncommittedDelivery(one, call, number, one.tag),)
            is_logged = one.position is not None
        else:
            notifications = [Notification(id, each.event, each.position, each.attempt) for each in batch]
            numbers = range(number, number + len(batch))
            subscription.number = numbers[-1]
            subscription.taken += tuple(
                [UncommittedDelivery(each, call, n, each.tag) for n, each in zip(numbers, batch, strict=True)]
            )
            is_logged = [each for each in batch if each.position is not None] != []
        if is_logged or self._known_again.notes_unlogged:
            self._known_again.note(subscription, batch)
        self._out.append(fx.Notify(subscription.ref, notifications, numbers, call))
        for deliver in batch if self._recording else ():
            self._out.append(fx.Record(subscription.row(deliver, now, self.name, self.broker)))
        if subscription.auto:  # it is taken by being handed over
            self._commit(subscription, None)

    def _silence(self, message: msg.Silence, now: float) -> None:
        if (subscription := self._listenings.get(message.ref)) is not None:
            subscription.receive_silence(message.position)

    def _lost(self, message: msg.Lost, now: float) -> None:
        if message.ref in self._listenings:
            self._out.append(fx.Counted(message.ref, message.counts))

    def _cancel(self, input: ins.ClientCancel, now: float) -> None:
        if input.ref is None:
            self._cancel_call(input.call, now)
            return
        if (subscription := self._listenings.get(input.ref)) is None:
            return
        if not subscription.stop_waiting(input.call) and subscription.phase is OPEN:
            self._put_back(subscription, input.call, now)
        if subscription.phase is OPEN:
            self._hand_over(subscription, now)

    def _put_back(self, subscription: ClientSubscription, call: int, now: float) -> None:
        """The application was cancelled before it saw what was handed over."""
        batch = subscription.untake(call)
        self._record(rows.given_back(subscription, batch, self.name, now))
        for message in put_back(subscription, batch):
            self._send(message)

    def _cancel_call(self, call: int, now: float) -> None:
        """The caller gave up: what was not sent yet is never sent. A publish says how it ends."""
        self._requests.pop(call, None)
        self._cancel_publish(call)
        for subscription in list(self._listenings.values()):
            if subscription.call == call:
                subscription.call = None
                self._stop(subscription, call, end=False, now=now)

    # -- committing and leaving ------------------------------------------------------------

    def _ack(self, input: ins.ClientAck, now: float) -> None:
        if (subscription := self._listenings.get(input.ref)) is not None:
            self._commit(subscription, input.number)

    def _commit(self, subscription: ClientSubscription, number: int | None) -> None:
        if subscription.taken and (tags := subscription.commit(number)):
            self._send(msg.Ack(subscription.ref, tags))
        if subscription.late:
            self._send(late_commits(subscription))

    def _nack(self, input: ins.ClientNack, now: float) -> None:
        subscription = self._listenings.get(input.ref)
        if subscription is not None:
            self._record(rows.nacked(subscription, input.numbers, self.name, now))
        reason = input.reason if self._rejects else ""
        tags = () if subscription is None else subscription.give_back(input.numbers, rejects=bool(reason))
        if subscription is None or not tags:
            return
        for message in give_back(subscription, tags, reason):
            self._send(message)

    def _fenced(self, message: msg.Fenced, now: float) -> None:
        if (subscription := self._listenings.get(message.ref)) and subscription.fence == message.number:
            for back in fence_reached(subscription):
                self._send(back)
            self._hand_over(subscription, now)

    def _leave(self, input: ins.ClientLeave, now: float) -> None:
        subscription = self._listenings.get(input.ref)
        if subscription is None or subscription.phase is ENDED:
            self._listenings.pop(input.ref, None)
            self._out.append(fx.CallResult(input.call))
            return
        if input.commit:
            self._commit(subscription, None)
        subscription.leaving_calls += (input.call,)
        self._stop(subscription, input.call, end=input.end, now=now)

    def _stop(self, subscription: ClientSubscription, call: int, *, end: bool, now: float) -> None:
        """Ask the broker to stop, once; no further event is handed over."""
        if subscription.phase is LEAVING:
            return
        subscription.step("leave")
        self._leaving[subscription.ref] = subscription
        subscription.must_end = end and subscription.options.durable
        self._fail_waiting(subscription, OVER)
        if subscription.waits:  # the broker never heard of it
            if not subscription.must_end:
                self._over(subscription, now)
        elif self._link is UP:
            ends = end or not subscription.options.durable
            self._send(msg.Unsubscribe(call, subscription.ref, ends, takes_rest=subscription.auto))
        elif not subscription.must_return:
            self._over(subscription, now)

    def _unsubscribed(self, message: msg.Unsubscribed, now: float) -> None:
        if (subscription := self._listenings.get(message.ref)) and subscription.phase is LEAVING:
            subscription.is_answered()  # a broker that has to leave at once says no more than this
            tells = subscription.has_untagged and subscription.must_return and not subscription.must_end
            (self._open if tells else self._over)(subscription, now)  # by the token of another request

    def _over(self, subscription: ClientSubscription, now: float) -> None:
        """The subscription has ended, or is detached, as the application wanted."""
        subscription.step("Unsubscribed")
        self._tokens.leave(subscription)
        if subscription.must_end:
            self._homes.pop(subscription.id.name, None)  # the next one of this name begins anew
        self._record_leave(subscription, now)
        del self._listenings[subscription.ref]
        self._leaving.pop(subscription.ref, None)
        self._postponed.pop(subscription.ref, None)
        for call in subscription.leaving_calls:
            self._out.append(fx.CallResult(call))
        self._open_waiting(subscription, now)

    def _closed(self, message: msg.Closed, now: float) -> None:
        subscription = self._listenings.get(message.ref)
        if subscription is not None and subscription.phase is LEAVING:
            self._over(subscription, now)
        elif subscription is not None and subscription.call is not None:  # the answer to its opening
            self._refused(msg.Refused(subscription.call, message.code, message.reason), now)
        elif subscription is not None and subscription.step("Closed"):
            self._broken(subscription, message.code, message.reason, now)

    def _refused(self, message: msg.Refused, now: float) -> None:
        if self._requests.pop(message.call, None) is not None or self._advertising.is_refused(message.call):
            self._out.append(fx.CallFailed(message.call, message.code, message.reason))
            return
        publishing = self._in_flight.pop(message.call, None)
        if publishing is not None:
            failed = publishing.failed(message)
            self._record_publish(publishing, UNKNOWN if failed.code == UnknownOutcomeError.code else REFUSED)
            self._finish(publishing, failed)
            self._send_line()
            return
        for subscription in list(self._listenings.values()):
            leaving = (*subscription.leaving_calls, -subscription.ref)
            if subscription.phase is LEAVING and message.call in leaving:
                self._over(subscription, now)
            elif subscription.call == message.call:
                self._record_subscribe(subscription, now, UNKNOWN if message.code == OVER[0] else REFUSED)
                del self._listenings[subscription.ref]
                self._out.append(fx.CallFailed(message.call, message.code, message.reason))
            elif message.call == -subscription.ref and subscription.step("Refused"):
                self._broken(subscription, message.code, message.reason, now)

    def _broken(self, subscription: ClientSubscription, code: str, reason: str, now: float) -> None:
        """The broker ended the subscription; waiting takes fail with its reason."""
        subscription.ending = (code, reason)
        subscription.buffer = EMPTY
        self._tokens.leave(subscription)  # the next one of this name goes on from here
        self._record_leave(subscription, now)
        self._fail_waiting(subscription, subscription.ending)
        self._out.append(fx.SubscriptionEnded(subscription.ref, code, reason))

    def _fail_waiting(self, subscription: ClientSubscription, ending: tuple[str, str]) -> None:
        while subscription.waiting:
            self._out.append(fx.CallFailed(subscription.next_waiting(), *ending))

    def _record_leave(self, subscription: ClientSubscription, now: float) -> None:
        was_on, subscription.is_on = subscription.is_on, False
        if was_on:
            self._record(rows.left(subscription, self.name, self.broker, now))
