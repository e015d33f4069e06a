"""Messages of QoS 1 and 2 in flight to one client: packet ids, receive maximum, resends and acknowledgements.

Rules
- At most as many messages are unacknowledged as the client's receive maximum, resends among them: those that
  have no room after a reconnect are sent as others are acknowledged, before any new message.
- A resend has DUP and its earlier packet id, also after a restart of the broker (`exchanges.py`).
- UNSUBSCRIBE ends no exchange: a message that was sent is sent again until it is acknowledged
  (MQTT-3.10.4-3).
- A message of QoS 2 leaves when the journal holds it, and messages of a lower QoS wait for those before them.
- A resend carries the expiry interval that is left.
- PUBREL leaves when the journal holds that the client has the message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.gateway.mqtt.exchanges import Exchanges
from tidings.gateway.mqtt.packets import AckPacket, Malformed, Packet, PacketKind, PublishPacket, Reason
from tidings.gateway.mqtt.state import InFlightMessage, MqttSubscription
from tidings.model.event import Event
from tidings.model.subscription import Position
from tidings.runtime.listener import Listener

if TYPE_CHECKING:
    from tidings.gateway.mqtt.shares import SharedSubscription

MOST_AHEAD = 1000  # messages in flight to a client, whichever receive maximum it sets


class InFlightMessages:
    """Those of one session. `send` hands a packet to the connection, if there is one."""

    def __init__(self, exchanges: Exchanges, key: tuple[str, str, str], *, durable: bool) -> None:
        self._exchanges = exchanges
        self._key = key
        self._durable = durable
        self._messages: dict[int, InFlightMessage] = {}  # by packet id, in the order of their first sending
        self._unsent: deque[int] = deque()  # to be sent again when there is room
        self._room = asyncio.Semaphore(0)
        self._last_id = 0
        self._unjournalled: asyncio.Future[None] | None = None  # the last one
        self.send: Callable[[Packet], None] = lambda packet: None
        for packet_id in exchanges.resume():
            received = InFlightMessage(PublishPacket("", b"", 2, False), None, -1, is_received=True)
            self._messages[packet_id] = received

    def __len__(self) -> int:
        return len(self._messages)

    # -- the connection ----------------------------------------------------------------------------

    def attach(self, send: Callable[[Packet], None], receive_maximum: int) -> None:
        """A connection carries the session: send again what its client has not acknowledged."""
        self.send = send
        left = min(receive_maximum, MOST_AHEAD)
        self._unsent.clear()
        for packet_id, message in self._messages.items():
            message.has_room = not message.is_received and left > 0
            left -= message.has_room
            if message.is_received:
                send(AckPacket(PacketKind.PUBREL, packet_id))
            elif not message.has_room:
                self._unsent.append(packet_id)
            elif message.is_sent:
                self.send(message.to_send_again())
        self._room = asyncio.Semaphore(left)

    def detach(self) -> None:
        self.send = lambda packet: None

    # -- sending -----------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until another message may be sent."""
        await self._room.acquire()

    async def journalled(self) -> None:
        """Wait until the messages of QoS 2 have left that were added: those behind them stay behind them."""
        if self._unjournalled is not None and not self._unjournalled.done():
            await asyncio.wait([self._unjournalled])

    def release(self) -> None:
        """A message needs its room no longer."""
        while self._unsent:
            message = self._messages.get(self._unsent.popleft())
            if message is not None and not message.is_received:
                message.has_room = True
                if message.is_sent:
                    self.send(message.to_send_again())
                return
        self._room.release()

    def add(
        self,
        publish: PublishPacket,
        subscription: MqttSubscription,
        tag: int,
        position: Position | None,
        lender: Listener[Event] | None = None,
    ) -> None:
        """Send a message, after `room`. One of QoS 2 leaves when the journal holds its packet id."""
        is_anyones = (
            subscription.share is not None and publish.qos == 1
        )  # after a crash it goes to any member
        if position is None or not self._durable or is_anyones:
            publish.packet_id = self._next_id()
            self._messages[publish.packet_id] = InFlightMessage(publish, subscription, tag, lender=lender)
            self.send(publish)
            return
        name = subscription.wish.filter
        earlier = self._exchanges.packet_id(name, position)
        packet_id = publish.packet_id = self._next_id() if earlier is None else earlier
        message = self._messages[packet_id] = InFlightMessage(
            publish, subscription, tag, position, lender=lender
        )
        if subscription.share is not None and publish.qos == 2:
            subscription.share.sent(self._key, packet_id, position)
        if earlier is not None:
            self.send(message.to_send_again())
        elif publish.qos == 1:
            self._exchanges.note_sent(packet_id, name, position)
            self.send(publish)
        else:
            message.is_sent = False
            self._unjournalled = self._exchanges.send(packet_id, name, position)
            then(self._unjournalled, lambda: self._is_journalled(message))

    def _is_journalled(self, message: InFlightMessage) -> None:
        """The journal holds it: it may leave."""
        if self._messages.get(message.publish.packet_id) is message:
            message.is_sent = True
            if message.has_room:
                self.send(message.publish)

    def add_lent(
        self,
        publish: PublishPacket,
        subscription: MqttSubscription,
        tag: int,
        position: Position,
        lender: Listener[Event],
    ) -> None:
        """Send a QoS 2 message of a share again that the broker delivered to another session."""
        self._exchanges.packet_id(subscription.wish.filter, position)
        self._messages[publish.packet_id] = InFlightMessage(
            publish, subscription, tag, position, lender=lender
        )
        self.send(publish)

    def get(self, packet_id: int) -> InFlightMessage | None:
        return self._messages.get(packet_id)

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 0xFFFF + 1
            if self._last_id not in self._messages and self._last_id not in self._exchanges.outgoing:
                return self._last_id

    # -- leaving a subscription --------------------------------------------------------------------

    def leave(self, subscription: MqttSubscription) -> None:
        """The subscription ends. Messages of a share that were sent with QoS 1 go to another session; all
        others are completed, and the broker needs no answer about them."""
        for packet_id, message in list(self._messages.items()):
            if message.subscription is not subscription:
                continue
            if subscription.share is not None and message.lender is None:
                del self._messages[packet_id]
                self._freed(message)
            else:
                message.subscription = message.lender = message.position = None

    def drop(self, subscription: MqttSubscription, tag: int) -> None:
        """This message could not be sent after all."""
        for packet_id, message in list(self._messages.items()):
            if message.subscription is subscription and message.tag == tag:
                del self._messages[packet_id]
                self._freed(message)

    def settle_received(self, subscription: MqttSubscription) -> None:
        """Have the broker know that QoS 2 messages of a share go to no other session."""
        for message in self._messages.values():
            if message.subscription is subscription and message.publish.qos == 2 and not message.is_received:
                message.settle()

    def _freed(self, message: InFlightMessage) -> None:
        if message.has_room:
            self.release()

    # -- acknowledgements --------------------------------------------------------------------------

    def acknowledged(self, ack: AckPacket) -> None:
        """PUBACK, PUBREC or PUBCOMP came. Raises `Malformed` for one that does not fit the message."""
        packet_id, message = ack.packet_id, self._messages.get(ack.packet_id)
        if message is not None and (ack.kind is PacketKind.PUBACK) != (message.publish.qos == 1):
            raise Malformed(f"{ack.kind.name} for a message of QoS {message.publish.qos}", Reason.PROTOCOL)
        if ack.kind is PacketKind.PUBREC:
            if message is None and packet_id not in self._exchanges.outgoing:
                self.send(AckPacket(PacketKind.PUBREL, packet_id, Reason.PACKET_ID_NOT_FOUND))
            elif message is not None and ack.reason >= 0x80:
                self._exchanges.received(packet_id)
                self._finish(packet_id, message)
            else:
                then(self._exchanges.received(packet_id), lambda: self._received(packet_id, message))
        elif message is None:
            if ack.kind is PacketKind.PUBCOMP:
                self._exchanges.done(packet_id)
        elif ack.kind is PacketKind.PUBCOMP and not message.is_received:
            raise Malformed("PUBCOMP before PUBREC", Reason.PROTOCOL)
        else:
            self._finish(packet_id, message)

    def _received(self, packet_id: int, message: InFlightMessage | None) -> None:
        """The journal holds that the client has it: it is not sent again."""
        if message is not None and not message.is_received:
            message.is_received = True
            self._settle(message)
        self.send(AckPacket(PacketKind.PUBREL, packet_id))

    def _finish(self, packet_id: int, message: InFlightMessage) -> None:
        del self._messages[packet_id]
        if not message.is_received:
            self._settle(message)
        self._exchanges.done(packet_id)
        self._freed(message)

    @staticmethod
    def _settle(message: InFlightMessage) -> None:
        message.settle()
        share: SharedSubscription | None = (
            None if message.subscription is None else message.subscription.share
        )
        if message.position is not None and share is not None:
            share.received(message.position)


def then(kept: asyncio.Future[None] | None, go_on: Callable[[], None]) -> None:
    """Go on when it is kept. A journal that cannot be written stops no exchange: the client may receive it
    twice if the broker is killed now, and the log says so."""
    if kept is None:
        go_on()
        return

    def on_kept(future: asyncio.Future[None]) -> None:
        future.exception()  # the journal has said so
        go_on()

    kept.add_done_callback(on_kept)
