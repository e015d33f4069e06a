"""Publishing of a client: events are numbered, sent within a window, and answered. The part of the client
machine that publishes.

Rules
- The client numbers what it publishes, per source; its own event ids are `<incarnation>-<sequence>`.
  So a publish that is sent again after a broken link is the same event to the broker.
- At most `limits.publishes_in_flight` publishes are unacknowledged; the rest wait here, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

from msgspec.msgpack import Encoder
from msgspec.structs import force_setattr, replace

from tidings.errors import UnknownOutcomeError
from tidings.history.schema import OK, REFUSED, UNKNOWN, Outcome, Row
from tidings.model.event import UNNUMBERED, Event
from tidings.model.subscription import Position
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg
from tidings.protocol.advertising import Advertising
from tidings.protocol.client_subscription import DOWN, UP, BrokerLinkState
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.publisher_positions import PublisherPositions
from tidings.protocol.publishing import OutstandingPublish, PublishBatch

_encode = Encoder().encode


class PublishingClient:
    """The publishing half of `Client`."""

    def __init__(
        self,
        name: str,
        broker: str,
        *,
        rng: Random,
        incarnation: str | None,
        recording: bool,
        limits: ResourceLimits,
    ) -> None:
        self.name = name
        self.broker = broker
        self.incarnation = incarnation or f"{rng.getrandbits(48):012x}"
        self._limits = limits
        self._event_bytes = limits.event_bytes  # the largest event that our broker accepts
        self._takes_rich = True  # does our broker read more than flat bodies, and filters on them?
        self._recording = recording
        self._link: BrokerLinkState = DOWN
        self._log = ""  # of the broker, as its welcome says
        self._positions = PublisherPositions()
        self._out: list[fx.Effect] = []
        self._sequences: dict[str, int] = {}  # by source
        self._in_flight: dict[int, OutstandingPublish] = {}  # by call, in order
        self._line: deque[OutstandingPublish] = deque()
        self._advertising = Advertising()

    def _send(self, message: msg.Message) -> None:
        if self._link is UP:
            self._out.append(fx.Send(self.broker, message))

    def next_number(self, source: str) -> int:
        """The number of the next event of this source, which a channel of this client publishes."""
        number = self._sequences[source] = self._sequences.get(source, 0) + 1
        return number

    @property
    def has_unanswered(self) -> bool:
        """Are there publishes of this machine that the broker has not answered?"""
        return bool(self._in_flight)

    def _publish(self, input: ins.ClientPublish | ins.ClientPublishAll, now: float) -> None:
        call, mode, batch = input.call, input.mode, None
        events: Iterable[tuple[Event, bool]]
        if type(input) is ins.ClientPublish:
            events = ((input.event, input.number),)
        else:
            events = zip(input.events, input.number, strict=True)  # type: ignore[union-attr, arg-type]
            batch = input.batch  # type: ignore[union-attr]
            if batch is None:
                count = len(input.events)  # type: ignore[union-attr]
                batch = PublishBatch(call, [None] * count, count)
        sequences, incarnation, in_flight = self._sequences, self.incarnation, self._in_flight
        is_wary = self._advertising.unwanted or not self._takes_rich
        broker, log, room, sent = self.broker, self._log, 0, list[msg.Message]()
        if self._link is UP and not self._line:
            room = self._limits.publishes_in_flight - len(in_flight)
        for event, is_numbered in events:
            source = event.source
            sequence = sequences[source] = sequences[source] + 1 if source in sequences else 1
            if is_numbered and event.id is UNNUMBERED:  # made for this call, and seen by no other
                force_setattr(event, "id", f"{incarnation}-{sequence}")
                facts = event.__dict__
                if facts:  # a schema's check has looked at it
                    facts.clear()
                size = facts["size"] = len(_encode(event))
            else:
                if is_numbered:
                    event = replace(event, id=f"{incarnation}-{sequence}")
                size = event.size
            message = msg.Publish(call, event, sequence, mode)
            if size > self._event_bytes or is_wary:
                publishing = OutstandingPublish(message, now, batch)
                if self._is_too_much(publishing) or self._is_unwanted(publishing):
                    call += 1
                    continue
            if room > 0:
                room -= 1
                in_flight[call] = OutstandingPublish(message, now, batch, log, broker)
                sent += (message,)
            else:
                self._line.append(OutstandingPublish(message, now, batch))
            call += 1
        if sent:
            self._out.append(fx.SendAll(broker, sent) if sent[1:] else fx.Send(broker, sent[0]))

    def _is_unwanted(self, publishing: OutstandingPublish) -> bool:
        """Hold an event back that has no subscriber, as the broker said."""
        message = publishing.message
        if message.mode is msg.AckMode.KEPT or not self._advertising.is_quenched(message.event):
            return False
        self._record_publish(publishing, OK)
        self._finish(publishing, fx.Receipt(message.event.source, message.event.id, unwanted=True))
        return True

    def _is_too_much(self, publishing: OutstandingPublish) -> bool:
        if (failed := publishing.refusal(self._event_bytes, self._takes_rich)) is None:
            return False
        self._record_publish(publishing, UNKNOWN if failed.code == UnknownOutcomeError.code else REFUSED)
        self._finish(publishing, failed)
        return True

    def _finish(self, publishing: OutstandingPublish, result: fx.Receipt | fx.CallFailed) -> None:
        """Answer the call of a publish; that of a batch when all of it is answered."""
        batch, call = publishing.batch, publishing.message.call
        if batch is None:
            self._out.append(fx.CallResult(call, result) if type(result) is fx.Receipt else result)  # type: ignore[arg-type]
            return
        batch.results[call - batch.call] = result
        batch.left -= 1
        if not batch.left:
            self._out.append(fx.CallResult(batch.call, batch.results))

    def _cancel_publish(self, call: int) -> None:
        """The caller gave up: what was not sent yet is never sent. The effect says how the call ends."""

        def is_meant(each: OutstandingPublish) -> bool:
            return each.call == call or (each.batch is not None and each.batch.call == call)

        sent = next(filter(is_meant, self._in_flight.values()), None)
        waiting = list(filter(is_meant, self._line))
        for publishing in waiting:
            self._line.remove(publishing)
            self._record_publish(publishing, REFUSED)
        if sent is not None:  # it is sent again on the next link: order holds
            self._out.append(fx.CallFailed(call, "unanswered", "it may be delivered or not", sent.event.id))
        elif waiting:
            self._out.append(fx.CallFailed(call, "timeout", "it is not published"))

    def _send_line(self) -> None:
        most = self._limits.publishes_in_flight
        while self._line and self._link is UP and len(self._in_flight) < most:
            self._send_first(self._line.popleft())

    def _send_first(self, publishing: OutstandingPublish) -> None:
        """Send a publish that was not sent before."""
        message = publishing.message
        publishing.log, publishing.broker = self._log, self.broker
        self._in_flight[message.call] = publishing
        self._out.append(fx.Send(self.broker, message))

    def _published(self, message: msg.Published | msg.PublishedAll, now: float) -> None:
        in_flight = self._in_flight
        position: Position | None = None
        calls: Iterable[int]
        if type(message) is msg.Published:
            calls, position = (message.call,), message.position
        else:
            calls = range(message.call, message.call + min(message.count, msg.MOST_TAGS))  # type: ignore[union-attr]
            calls = calls if len(calls) <= len(in_flight) else [call for call in in_flight if call in calls]
        for call in calls:
            if call not in in_flight:
                continue
            publishing = in_flight[call]
            del in_flight[call]
            event = publishing.message.event
            if position is not None:
                self._positions.note(event.source, position)
            if self._recording:
                self._record_publish(publishing, OK)
            receipt = fx.Receipt(event.source, event.id, position)
            batch = publishing.batch
            if batch is None:
                self._out.append(fx.CallResult(call, receipt))
            elif batch.left > 1:
                batch.results[call - batch.call] = receipt
                batch.left -= 1
            else:
                self._finish(publishing, receipt)
        if self._line:
            self._send_line()

    def _record(self, recorded: Iterable[Row]) -> None:
        """Record these rows; none is made when nobody records."""
        if self._recording:
            self._out.extend(map(fx.Record, recorded))

    def _record_publish(self, publishing: OutstandingPublish, outcome: Outcome) -> None:
        if self._recording:
            self._out.append(fx.Record(publishing.row(self.name, self.broker, outcome)))

    def _give_up(self, publishing: OutstandingPublish) -> None:
        """Another broker cannot tell whether it was kept where it was sent; sent again it might be told
        twice."""
        del self._in_flight[publishing.call]
        reason = "the broker went before it answered; the event may be delivered or not, never twice"
        failed = fx.CallFailed(publishing.call, UnknownOutcomeError.code, reason, publishing.event.id)
        self._finish(publishing, failed)

    # -- advertising -----------------------------------------------------------------------

    def _advertise(self, input: ins.ClientAdvertise, now: float) -> None:
        self._send(self._advertising.advertise(input))

    def _unadvertise(self, input: ins.ClientUnadvertise, now: float) -> None:
        if (message := self._advertising.unadvertise(input, is_up=self._link is UP)) is None:
            self._out.append(fx.CallResult(input.call))
        else:
            self._send(message)

    def _advertised(self, message: msg.Advertised, now: float) -> None:
        if self._advertising.is_answered(message.call):
            self._out.append(fx.CallResult(message.call))
