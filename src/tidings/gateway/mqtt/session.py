"""One MQTT session: its subscriptions, what is on its way to the client, and what came from it.

Rules
- A session has a client of the broker's own. With an expiry (or without a clean start in 3.1.1) its
  subscriptions are durable: the broker keeps what comes while the client is away.
- A message of QoS 1 or 2 stays the broker's until the client has acknowledged it; after a broken connection
  it is sent again with DUP, under its packet id.
- At most as many are on their way as the client's receive maximum.
- A shared subscription is a member of a group that sessions have in common (`shares.py`).
- A message with QoS 2 is published once: its packet id is remembered until PUBREL. That, and QoS 2 messages
  on their way to the client, outlive the broker's process (`exchanges.py`).
- A session holds a bounded number of bytes of subscriptions (`session_bytes`), since all sessions are written
  down together. Of the user properties of a SUBSCRIBE it keeps the content filter; a broker ignores the
  others.
- An event that no packet can carry ends neither the connection nor the delivery of later ones: it is given
  back until it is a dead letter of its subscription. Of QoS 0 without a queue of its own it is dropped. Both
  are logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tidings.errors import (
    RefusedError,
    StoreFullError,
    TidingsError,
    TooLargeError,
    UnknownOutcomeError,
)
from tidings.gateway.mqtt.events import (
    UnsendableEvent,
    attributes_of,
    filters_of,
    options_of,
    publish_of,
    qos_of,
    wanted,
)
from tidings.gateway.mqtt.exchanges import Exchanges
from tidings.gateway.mqtt.packets import (
    AckPacket,
    Malformed,
    Packet,
    PacketKind,
    PublishPacket,
    Reason,
    SubscribePacket,
    SubscriptionRequest,
    Will,
)
from tidings.gateway.mqtt.pushes import PushChannel, Pushes
from tidings.gateway.mqtt.shares import SharedSubscription, SharedSubscriptions, is_shared
from tidings.gateway.mqtt.state import InFlightMessage, MqttSubscription, StoredMqttSubscription
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.gateway.mqtt.writing import write
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Notification
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import AckMode
from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.gateway")

MOST_AHEAD = 1000  # messages on their way to a client, whichever receive maximum it sets
MOST_SUBSCRIPTIONS = 10_000
NEVER = 0xFFFFFFFF  # an expiry


class MqttSession:
    def __init__(
        self,
        client_id: str,
        bus: Bus,
        undecided: UnconfirmedPublishes,
        shares: SharedSubscriptions,
        *,
        owner: Any,
        durable: bool,
        kept: dict[str, StoredMqttSubscription] | None = None,
        exchanges: Exchanges | None = None,
        most_bytes: int = DEFAULT_LIMITS.client.session_bytes,
    ) -> None:
        self.client_id = client_id
        self.bus = bus
        self.owner = owner  # the principal that owns the rights of the bus
        self.key = (getattr(owner, "tenant", ""), str(getattr(owner, "name", owner)), client_id)
        self.durable = durable
        self.kept = kept if kept is not None else {}
        self._most_bytes = most_bytes  # of subscriptions
        self._kept_bytes = sum(each.size for each in self.kept.values())
        self.expiry = 0
        self.left_at: float | None = None
        self._held: dict[str, MqttSubscription] = {}
        self._ways: dict[int, InFlightMessage] = {}
        self._received: set[int] = set()  # packet ids of QoS 2 that wait for PUBREL
        self.exchanges = exchanges or Exchanges("", None)
        self._undecided = undecided  # of all sessions of the listener, like the next
        self._shares = shares
        self._borrowing: set[asyncio.Task[None]] = set()
        for packet_id in self.exchanges.resume():
            self._ways[packet_id] = InFlightMessage(
                PublishPacket("", b"", 2, False), None, -1, is_received=True
            )
        self._last_id = 0
        self._outlet: PushChannel | None = None
        self._pushes = Pushes(client_id, bus)
        self._version = 4
        self._largest = 0
        self.on_refused: Callable[[], None] = lambda: None  # called when the session of the principal ends
        bus.watch(lambda state: self.on_refused() if state == "refused" else None)
        self._room = asyncio.Semaphore(0)

    # -- the connection ----------------------------------------------------------------------------

    async def attach(self, outlet: PushChannel, *, ahead: int) -> None:
        """A connection carries this session from now on."""
        self._outlet, self._version, self._largest = outlet, outlet.version, outlet.largest
        self._pushes.attach(outlet)
        ahead = min(ahead, MOST_AHEAD)
        self._room = asyncio.Semaphore(max(ahead - len(self._ways), 0))
        for packet_id, way in self._ways.items():
            if way.is_received:
                outlet.send(AckPacket(PacketKind.PUBREL, packet_id))
            elif way.is_sent:
                way.publish.dup = True
                outlet.send(way.publish)
        for name, kept in self.kept.items():
            if name not in self._held:
                await self._open(name, kept)
        self.serve()
        for name, held in self._held.items():
            if held.share is not None:
                self.borrow(name)

    async def detach(self) -> None:
        """The connection is gone; what is on its way stays so."""
        self._outlet = None
        await self._pushes.detach()
        tasks = [held.task for held in self._held.values() if held.task is not None]
        tasks += self._borrowing
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """The session is left: a durable one goes on at the broker."""
        await self.detach()
        for held in self._held.values():
            if held.share is not None:
                held.share.members.pop(self.key, None)
        await self.bus.close(commit=False)

    async def end(self) -> None:
        """The session is over, with all that it wanted."""
        await self.detach()
        for name, kept in self.kept.items():
            if name not in self._held and self.durable:
                try:
                    await self._open(name, kept)
                except TidingsError as error:
                    log.warning("mqtt %s: %s could not be ended: %s", self.client_id, name, error)
        for held in self._held.values():
            await self._unsubscribe(held)
        self._held.clear()
        self.kept.clear()
        self._shares.forget(self.key)
        self.exchanges.end()
        await self.bus.close()

    # -- subscriptions -----------------------------------------------------------------------------

    async def subscribe(self, packet: SubscribePacket) -> list[int]:
        """A reason for each filter; `serve` lets events come. Others are served between two of them, and one
        line of the log is about all."""
        reasons, errors = [], []
        for wish in packet.wishes:
            try:
                reasons.append(await self._wish(wish, packet))
            except TidingsError as error:
                errors.append(error)
                is_refused = isinstance(error, RefusedError)
                reasons.append(Reason.NOT_AUTHORISED if is_refused else Reason.TOPIC_FILTER)
            await asyncio.sleep(0)  # refusals never await: let other tasks run
        if errors or packet.beyond:
            total = len(reasons) + packet.beyond
            log.info(
                "mqtt %s: %d of %d filters are refused: %s",
                self.client_id, len(errors) + packet.beyond, total,
                errors[0] if errors else "too many in one packet",
            )  # fmt: skip
        return reasons + [Reason.QUOTA] * packet.beyond

    async def _wish(self, wish: SubscriptionRequest, packet: SubscribePacket) -> int:
        if wish.no_local and is_shared(wish.filter):
            raise Malformed("no local on a shared subscription", Reason.PROTOCOL)
        if len(self._held) >= MOST_SUBSCRIPTIONS:
            return Reason.QUOTA
        user = filters_of(packet.properties.get("user", ()))
        kept = StoredMqttSubscription(wish, packet.properties.get("subscription_id", []), user)
        old = self.kept.get(wish.filter)
        if self._kept_bytes + kept.size - (0 if old is None else old.size) > self._most_bytes:
            return Reason.QUOTA
        before = self._held.get(wish.filter)
        if before is not None and self._stays(kept):
            before.wish, before.ids = wish, kept.ids
            self._keep(kept)
            return wish.qos
        if before is not None:
            await self._leave(wish.filter)
        await self._open(wish.filter, kept, is_again=before is not None)
        self._keep(kept)
        return wish.qos

    def _keep(self, kept: StoredMqttSubscription) -> None:
        self._forget(kept.wish.filter)
        self.kept[kept.wish.filter] = kept
        self._kept_bytes += kept.size

    def _forget(self, name: str) -> None:
        old = self.kept.pop(name, None)
        if old is not None:
            self._kept_bytes -= old.size

    def _stays(self, kept: StoredMqttSubscription) -> bool:
        """Does a SUBSCRIBE that is sent again leave the durable subscription as it is? To end it would drop
        the events that wait for the session."""
        old = self.kept.get(kept.wish.filter)
        return self.durable and old is not None and old.user == kept.user

    async def _open(
        self, name: str, kept: StoredMqttSubscription, *, is_again: bool = False
    ) -> MqttSubscription:
        filter, group = wanted(name, {"user": kept.user})
        if group is not None:
            return await self._join(name, kept, filter)
        options: dict[str, Any] = {"replay": self._replays(kept.wish, is_again)}
        if self.durable:
            options |= {"durable": True, "name": f"mqtt:{name}"}
        if self._is_plain(kept):
            listener = await self._pushes.open(filter, options)
        else:
            listener = await self.bus.subscribe(filter, **options)
        held = self._held[name] = MqttSubscription(kept.wish, kept.ids, listener)
        held.is_pushed = self._is_plain(kept)
        return held

    async def _join(self, name: str, kept: StoredMqttSubscription, filter: Filter) -> MqttSubscription:
        async with self._shares.changing(self.owner, name) as share:
            listener = await share.join(self, kept, filter)
            held = self._held[name] = MqttSubscription(kept.wish, kept.ids, listener, share)
        return held

    def _is_plain(self, kept: StoredMqttSubscription) -> bool:
        """Plain QoS 0: notifications are written at once."""
        wish = kept.wish
        return not (wish.qos or self.durable or kept.ids or wish.no_local or wish.as_published)

    @staticmethod
    def _replays(wish: SubscriptionRequest, is_again: bool) -> bool:
        return wish.handling == 0 or (wish.handling == 1 and not is_again)

    async def unsubscribe(self, names: list[str]) -> list[int]:
        """A reason for each filter."""
        reasons: list[int] = []
        for name in names:
            if name in self._held:
                await self._leave(name)
                await asyncio.sleep(0)
                self._forget(name)
                reasons.append(Reason.SUCCESS)
            else:
                reasons.append(Reason.NO_SUBSCRIPTION)
        return reasons

    async def _leave(self, name: str) -> None:
        held = self._held.pop(name)
        if held.task is not None:
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
        await self._unsubscribe(held)
        for packet_id in [id for id, way in self._ways.items() if way.held is held]:
            del self._ways[packet_id]
            self._room.release()
        self.exchanges.left(name)

    async def _unsubscribe(self, held: MqttSubscription) -> None:
        if held.share is None:
            self._pushes.close(held.listener)
            await held.listener.unsubscribe()
            return
        for way in self._ways.values():
            if way.held is held and way.publish.qos == 2 and not way.is_received:
                way.settle()  # no other session may have it
        async with self._shares.changing(self.owner, held.wish.filter) as share:
            await share.leave(self, held)

    # -- to the client -----------------------------------------------------------------------------

    def serve(self) -> None:
        """Deliver to the client what its subscriptions bring, the new ones too."""
        self._pushes.start()
        for held in self._held.values():
            self._pump(held)

    def _pump(self, held: MqttSubscription) -> None:
        if not held.is_pushed and (held.task is None or held.task.done()):
            held.task = asyncio.create_task(self._tell(held), name=f"mqtt {self.client_id}")

    async def _tell(self, held: MqttSubscription) -> None:
        while True:
            if held.parked is None:
                try:
                    notification, tag = await held.listener.take()
                except TidingsError:
                    return  # the subscription is over, or the session of its principal
            else:
                _, tag, notification = held.parked
            try:
                await (
                    self._deliver(held, notification, tag) if held.parked is None else self._on_its_way(held)
                )
            except Exception as error:  # of this event alone: those behind it are delivered
                self._give_back(held, notification, tag, error)

    async def _deliver(self, held: MqttSubscription, notification: Notification, tag: int) -> None:
        """Send one event, or commit it when this client is not to have it."""
        listener, wish = held.listener, held.wish
        event, position = notification.event, notification.position
        if position is not None and self.exchanges.is_handled(wish.filter, position):
            listener.settle(tag)
            return
        if wish.no_local and event.source == self.bus.name:
            listener.settle(tag)
            return
        if held.share is not None and held.share.is_elsewhere(self, held, notification, tag):
            return
        publish = self._publish_of(held, event)
        if self._largest and len(write(publish, self._version)) > self._largest:
            listener.settle(tag)  # the client says that it cannot take it
        else:
            held.parked = (publish, tag, notification)
            await self._on_its_way(held)

    def _publish_of(self, held: MqttSubscription, event: Event) -> PublishPacket:
        """The packet for this subscription. Raises `UnsendableEvent`."""
        is_old = event.time is not None and event.time < held.began and event.lifetime > 0
        retain = event.key is not None and held.wish.as_published if not is_old else True
        qos = qos_of(event, held.wish.qos)
        publish = publish_of(event, qos, retain=retain, with_properties=self._version == 5)
        if held.ids:
            publish.properties["subscription_id"] = held.ids
        return publish

    def borrow(self, name: str) -> None:
        """Send again, when there is room, what this session has in flight and the broker delivered to
        another."""
        held = self._held.get(name)
        if held is not None and held.share is not None and self._outlet is not None:
            task = asyncio.create_task(self._send_lent(held, held.share), name=f"mqtt {self.client_id}")
            self._borrowing.add(task)
            task.add_done_callback(self._borrowing.discard)

    async def _send_lent(self, held: MqttSubscription, share: SharedSubscription) -> None:
        for position, packet_id in share.lent_to(self.key):
            way = self._ways.get(packet_id)
            if way is None:
                await self._room.acquire()
            lent = share.take_lent(position)
            if lent is None:
                if way is None:
                    self._room.release()
            elif way is not None:
                way.lender, way.tag = lent.listener, lent.tag
                if way.is_received:
                    way.settle()
            else:
                publish = self._publish_of(held, lent.notification.event)
                publish.qos, publish.packet_id, publish.dup = 2, packet_id, True
                self.exchanges.packet_id(held.wish.filter, position)
                self._ways[packet_id] = InFlightMessage(
                    publish, held, lent.tag, position, lender=lent.listener
                )
                self._say(publish)

    def _give_back(
        self, held: MqttSubscription, notification: Notification, tag: int, error: Exception
    ) -> None:
        """Give back an event that could not be sent: after `max_deliveries` attempts it is a dead letter."""
        held.parked = None
        for packet_id in [id for id, way in self._ways.items() if way.held is held and way.tag == tag]:
            del self._ways[packet_id]
            self._room.release()
        if notification.attempt == 1:
            is_ours = not isinstance(error, UnsendableEvent)
            log.warning(
                "mqtt %s: event %s cannot be sent and becomes a dead letter of %r: %s",
                self.client_id, notification.event.identity, held.wish.filter, error, exc_info=is_ours,
            )  # fmt: skip
        held.listener.settle(tag, handled=False)

    async def _on_its_way(self, held: MqttSubscription) -> None:
        """Send what is parked as soon as there is room."""
        assert held.parked is not None
        if self._outlet is not None:
            await self._outlet.drained()
        if held.parked[0].qos:
            await self._room.acquire()
        (publish, tag, notification), held.parked = held.parked, None
        position, name = notification.position, held.wish.filter
        if not publish.qos:
            self._say(publish)
            held.listener.settle(tag)
            return
        if publish.qos != 2 or position is None or not self.durable:
            publish.packet_id = self._next_id()
            self._ways[publish.packet_id] = InFlightMessage(publish, held, tag)
            self._say(publish)
            return
        earlier = self.exchanges.packet_id(name, position)
        packet_id = publish.packet_id = self._next_id() if earlier is None else earlier
        way = self._ways[packet_id] = InFlightMessage(publish, held, tag, position)
        if held.share is not None:
            held.share.sent(self.key, packet_id, position)
        if earlier is not None:
            publish.dup = True
            self._say(publish)
        else:
            way.is_sent = False
            _then(self.exchanges.send(packet_id, name, position), lambda: self._sent(way))

    def _sent(self, way: InFlightMessage) -> None:
        """The journal holds it: it may leave."""
        if self._ways.get(way.publish.packet_id) is way:
            way.is_sent = True
            self._say(way.publish)

    def _say(self, packet: Packet) -> None:
        if self._outlet is not None:
            self._outlet.send(packet)

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 0xFFFF + 1
            if self._last_id not in self._ways and self._last_id not in self.exchanges.outgoing:
                return self._last_id

    def acknowledged(self, ack: AckPacket) -> None:
        """PUBACK, PUBREC or PUBCOMP came. Raises `Malformed` for one that does not fit the message."""
        way = self._ways.get(ack.packet_id)
        if way is not None and (ack.kind is PacketKind.PUBACK) != (way.publish.qos == 1):
            raise Malformed(f"{ack.kind.name} for a message of QoS {way.publish.qos}", Reason.PROTOCOL)
        if ack.kind is PacketKind.PUBREC:
            if way is None and ack.packet_id not in self.exchanges.outgoing:
                self._say(AckPacket(PacketKind.PUBREL, ack.packet_id, Reason.PACKET_ID_NOT_FOUND))
            elif way is not None and ack.reason >= 0x80:
                self.exchanges.received(ack.packet_id)
                self._settled(ack.packet_id, way)
            else:
                _then(self.exchanges.received(ack.packet_id), lambda: self._has(ack.packet_id, way))
        elif way is not None:
            self._settled(ack.packet_id, way)
        elif ack.kind is PacketKind.PUBCOMP:
            self.exchanges.done(ack.packet_id)

    def _has(self, packet_id: int, way: InFlightMessage | None) -> None:
        """The journal holds that the client has it: it is not sent again."""
        if way is not None and not way.is_received:
            way.is_received = True
            self._settle(way)
        self._say(AckPacket(PacketKind.PUBREL, packet_id))

    def _settled(self, packet_id: int, way: InFlightMessage) -> None:
        del self._ways[packet_id]
        if not way.is_received:
            self._settle(way)
        self.exchanges.done(packet_id)
        self._room.release()

    @staticmethod
    def _settle(way: InFlightMessage) -> None:
        way.settle()
        if way.position is not None and way.held is not None and way.held.share is not None:
            way.held.share.received(way.position)

    # -- from the client ---------------------------------------------------------------------------

    async def publish(self, packet: PublishPacket) -> int | None:
        """Publish, and answer when the broker has it; the reason code. None: the outcome is unknown, and the
        client is to send it again."""
        known = self._undecided.id_of(self.key, packet)
        reason = await self._published(packet, known)
        if reason is not None:
            self._undecided.decided(self.key, packet)
        return reason

    async def _published(self, packet: PublishPacket, known: str | None) -> int | None:
        try:
            options = options_of(packet)
            if packet.qos == 2:
                options["id"] = await self.exchanges.begin(packet.packet_id, known)
            elif known is not None:
                options["id"] = known
            await self.bus.publish(
                attributes_of(packet),
                mode=AckMode.BEST_EFFORT if packet.qos == 0 else AckMode.AUTO,
                **options,
            )
        except UnknownOutcomeError as error:
            log.info("mqtt %s: %s", self.client_id, error)
            self._undecided.note(self.key, packet, error.id)
            return None
        except RefusedError as error:
            log.info("mqtt %s: %s", self.client_id, error)
            return Reason.NOT_AUTHORISED
        except Malformed as error:
            return error.reason
        except StoreFullError as error:
            log.info("mqtt %s: %s", self.client_id, error)
            if packet.dup and known is None:
                return None  # the broker may have an earlier copy with a lost answer
            return Reason.QUOTA
        except TooLargeError as error:
            log.info("mqtt %s: %s", self.client_id, error)
            return Reason.QUOTA
        except TidingsError as error:
            log.warning("mqtt %s: %s", self.client_id, error)
            return Reason.IMPLEMENTATION
        if packet.qos == 2:
            self.exchanges.published(packet.packet_id)
        return Reason.SUCCESS

    def publish_soon(self, packet: PublishPacket) -> None:
        """QoS 0: publish without waiting for the acknowledgement."""
        try:
            self.bus.publish_soon(attributes_of(packet), **options_of(packet))
        except TidingsError as error:
            log.info("mqtt %s: %s", self.client_id, error)

    def is_new(self, packet_id: int, most: int) -> bool:
        """Of QoS 2:

        False when it came before and waits for PUBREL. Raises `Malformed` above `most` exchanges.
        """
        if packet_id in self._received or self.exchanges.is_kept(packet_id):
            return False
        if max(len(self._received), self.exchanges.open) >= most:
            raise Malformed(f"more than {most} messages of QoS 2 wait for PUBREL", Reason.RECEIVE_MAXIMUM)
        self._received.add(packet_id)
        return True

    def refused(self, packet_id: int) -> None:
        """The message was refused: its packet id is free."""
        self._received.discard(packet_id)
        self.exchanges.drop(packet_id)

    def unsure(self, packet_id: int) -> None:
        """The message may have been accepted: a resend is the same message."""
        self._received.discard(packet_id)

    async def released(self, packet_id: int) -> int:
        """PUBREL came; the reason of PUBCOMP, once it is kept that the packet id is free."""
        is_known = packet_id in self._received or self.exchanges.is_open(packet_id)
        await self.exchanges.release(packet_id)
        self._received.discard(packet_id)
        return Reason.SUCCESS if is_known else Reason.PACKET_ID_NOT_FOUND

    async def will(self, will: Will) -> None:
        """The client is gone without a word: say what it left to say."""
        properties = {k: v for k, v in will.properties.items() if k != "will_delay"}
        await self.publish(
            PublishPacket(will.topic, will.payload, will.qos, will.retain, properties=properties)
        )


def _then(kept: asyncio.Future[None] | None, say: Callable[[], None]) -> None:
    """Go on when it is kept. A journal that cannot be written stops no exchange: the client may receive it
    twice if the broker is killed now, and the log says so."""
    if kept is None:
        say()
        return

    def go_on(future: asyncio.Future[None]) -> None:
        future.exception()  # the journal has said so
        say()

    kept.add_done_callback(go_on)
