"""One MQTT session: its subscriptions, and the delivery of their events to the client.

Rules
- A session has a client of the broker's own. With an expiry (or without a clean start in 3.1.1) its
  subscriptions are durable: the broker keeps what comes while the client is away.
- A message of QoS 1 or 2 stays the broker's until the client has acknowledged it (`in_flight.py`).
- Each SUBSCRIBE brings the retained messages that match (MQTT-3.3.1-9). A SUBSCRIBE that is sent again
  leaves its subscription as it is, with all that waits: a reader of the available events sends the retained
  ones beside it.
- A shared subscription is a member of a group that sessions have in common (`shares.py`), without retained
  messages.
- Durable subscriptions are written down before the broker has them, so that one which no session knows of
  cannot be left at the broker.
- A session holds a bounded number of bytes of subscriptions (`session_bytes`), since all sessions are
  written down together. Of the user properties of a SUBSCRIBE it keeps the content filter; a broker ignores
  the others.
- A message whose expiry has passed before it was sent is not sent.
- An event that no packet can carry ends neither the connection nor the delivery of later ones: it is given
  back until it is a dead letter of its subscription. Of QoS 0 without a queue of its own it is dropped. Both
  are logged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tidings.errors import FilterError, RefusedError, TidingsError
from tidings.gateway.mqtt.events import (
    MessageHeader,
    UnsendableEvent,
    filters_of,
    has_expired,
    header_of,
    publish_of,
    qos_of,
    wanted,
)
from tidings.gateway.mqtt.exchanges import Exchanges
from tidings.gateway.mqtt.in_flight import MOST_AHEAD as MOST_AHEAD
from tidings.gateway.mqtt.in_flight import InFlightMessages
from tidings.gateway.mqtt.packets import (
    MOST_SUBSCRIPTIONS,
    AckPacket,
    Malformed,
    Packet,
    PublishPacket,
    Reason,
    SubscribePacket,
    SubscriptionRequest,
    Will,
)
from tidings.gateway.mqtt.publishing import SessionPublisher, message_of
from tidings.gateway.mqtt.pushes import PacketCache, PushChannel, Pushes
from tidings.gateway.mqtt.shares import SharedSubscription, SharedSubscriptions, is_shared
from tidings.gateway.mqtt.state import MqttSubscription, StoredMqttSubscription
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.gateway.mqtt.writing import write
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Notification, Position
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.bus import Bus
from tidings.runtime.listener import Listener
from tidings.runtime.local_clients import SLICE

log = logging.getLogger("tidings.gateway")


class PlannedSubscription(NamedTuple):
    """An entry of a SUBSCRIBE that the session has room for."""

    kept: StoredMqttSubscription
    old: StoredMqttSubscription | None  # that the session has under the same filter
    stays: bool  # is the old one's subscription at the broker left as it is?


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
        now: Callable[[], float],
        legacy_before: float = 0.0,
        packets: PacketCache | None = None,
    ) -> None:
        self.client_id = client_id
        self.bus = bus
        self.owner = owner  # the principal that owns the rights of the bus
        self.key = (getattr(owner, "tenant", ""), str(getattr(owner, "name", owner)), client_id)
        self.durable = durable
        self.kept = kept if kept is not None else {}
        self._most_bytes = most_bytes  # of subscriptions
        self._kept_bytes = sum(each.size for each in self.kept.values())
        self._now = now
        self._legacy_before = legacy_before  # see `events.py`
        self.expiry = 0
        self.left_at: float | None = None
        self._subscriptions: dict[str, MqttSubscription] = {}
        self.exchanges = exchanges or Exchanges("", None)
        self.publisher = SessionPublisher(bus, client_id, self.key, undecided, self.exchanges)
        self._in_flight = InFlightMessages(self.exchanges, self.key, durable=durable)
        self._shares = shares
        self._borrowing: set[asyncio.Task[None]] = set()
        self._outlet: PushChannel | None = None
        self._pushes = Pushes(client_id, bus, packets or PacketCache(), legacy_before)
        self._version = 4
        self._largest = 0
        self.on_refused: Callable[[], None] = lambda: None  # called when the session of the principal ends
        bus.watch(lambda state: self.on_refused() if state == "refused" else None)

    # -- the connection ----------------------------------------------------------------------------

    async def attach(self, outlet: PushChannel, *, ahead: int) -> None:
        """A connection carries this session from now on."""
        self._outlet, self._version, self._largest = outlet, outlet.version, outlet.largest
        self._pushes.attach(outlet)
        self._in_flight.attach(outlet.send, ahead)
        for name, kept in self.kept.items():
            if name not in self._subscriptions:
                try:
                    await self._reopen(name, kept)
                except (RefusedError, FilterError) as error:  # it stays the session's, without a delivery
                    log.warning("mqtt %s: %s brings nothing now: %s", self.client_id, name, error)
        self.serve()
        for name, subscription in self._subscriptions.items():
            if subscription.share is not None:
                self.borrow(name)

    async def detach(self) -> None:
        """The connection is gone; what is on its way stays so."""
        self._outlet = None
        self._in_flight.detach()
        await self._pushes.detach()
        tasks = [each.task for each in self._subscriptions.values() if each.task is not None]
        tasks += [
            subscription.retained
            for subscription in self._subscriptions.values()
            if subscription.retained is not None
        ]
        tasks += self._borrowing
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """The session is left: a durable one goes on at the broker."""
        await self.detach()
        for subscription in self._subscriptions.values():
            if subscription.share is not None:
                subscription.share.members.pop(self.key, None)
        await self.bus.close(commit=False)

    async def end(self) -> bool:
        """The session is over, with all its subscriptions. False: `kept` holds those that could not be
        ended."""
        await self.detach()
        left: dict[str, StoredMqttSubscription] = {}

        async def end(name: str, kept: StoredMqttSubscription) -> None:
            try:
                if name not in self._subscriptions and self.durable:
                    await self._reopen(name, kept)
                if name in self._subscriptions:
                    await self._unsubscribe(self._subscriptions[name])
            except TidingsError as error:
                log.warning("mqtt %s: %s could not be ended: %s", self.client_id, name, error)
                left[name] = kept

        names = list(self.kept)
        for begin in range(0, len(names), SLICE):  # one commit of the disk serves all of a slice
            await asyncio.gather(*(end(name, self.kept[name]) for name in names[begin : begin + SLICE]))
        self._subscriptions.clear()
        self.kept = left
        self._shares.forget(self.key)
        self.exchanges.end()
        await self.bus.close()
        return not left

    # -- subscriptions -----------------------------------------------------------------------------

    async def subscribe(self, packet: SubscribePacket, write: Callable[[], Awaitable[bool]]) -> list[int]:
        """A reason for each filter; `serve` lets events come. `write` has the sessions written down; False:
        they could not be. Others are served between two filters, and one line of the log is about all.
        Raises `Malformed`."""
        if any(wish.no_local and is_shared(wish.filter) for wish in packet.wishes):
            raise Malformed("no local on a shared subscription", Reason.PROTOCOL)
        plans = [self._planned(wish, packet) for wish in packet.wishes]
        if self.durable and not await write():
            for plan in reversed(plans):
                self._take_back(plan)
            return [Reason.QUOTA] * (len(plans) + packet.beyond)
        reasons, errors = [], []
        for plan in plans:
            try:
                reasons.append(Reason.QUOTA if plan is None else await self._granted(plan))
            except TidingsError as error:
                self._take_back(plan)
                errors.append(error)
                is_refused = isinstance(error, RefusedError)
                reasons.append(Reason.NOT_AUTHORISED if is_refused else Reason.TOPIC_FILTER)
            await asyncio.sleep(0)  # refusals never await: let other tasks run
        if (errors and self.durable) or any(is_shared(wish.filter) for wish in packet.wishes):
            await write()
        if errors or packet.beyond:
            total = len(reasons) + packet.beyond
            reason = errors[0] if errors else "too many in one packet"
            count = len(errors) + packet.beyond
            log.info("mqtt %s: %d of %d filters are refused: %s", self.client_id, count, total, reason)
        return reasons + [Reason.QUOTA] * packet.beyond

    def _planned(self, wish: SubscriptionRequest, packet: SubscribePacket) -> PlannedSubscription | None:
        """Have the session know of a subscription; None: there is no room for it."""
        user = filters_of(packet.properties.get("user", ()))
        kept = StoredMqttSubscription(wish, packet.properties.get("subscription_id", []), user)
        old, before = self.kept.get(wish.filter), self._subscriptions.get(wish.filter)
        if len(self.kept) - (old is not None) >= MOST_SUBSCRIPTIONS:
            return None
        if self._kept_bytes + kept.size - (0 if old is None else old.size) > self._most_bytes:
            return None
        stays = old is not None and (before is None or self._stays(before, kept))
        if old is not None and stays:
            kept.name, kept.began = old.name, old.began
        else:
            kept.name, kept.began = f"mqtt:{secrets.token_hex(4)}:{wish.filter}", self._now()
            kept.replaces = old if self.durable and not is_shared(wish.filter) else None
        self._keep(kept)
        return PlannedSubscription(kept, old, stays)

    def _take_back(self, plan: PlannedSubscription | None) -> None:
        """The session has what it had before."""
        if plan is not None:
            name = plan.kept.wish.filter
            self._forget(name)
            if plan.old is not None and name in self._subscriptions:
                self._keep(plan.old)

    async def _granted(self, plan: PlannedSubscription) -> int:
        kept, wish = plan.kept, plan.kept.wish
        before = self._subscriptions.get(wish.filter)
        if before is None:
            await self._open(wish.filter, kept)
        elif plan.stays:
            before.wish, before.ids = wish, kept.ids
            before.is_new = wish.handling == 0 and before.share is None
        else:
            await self._replace(before, kept)
        kept.replaces = None
        return wish.qos

    def _keep(self, kept: StoredMqttSubscription) -> None:
        self._forget(kept.wish.filter)
        self.kept[kept.wish.filter] = kept
        self._kept_bytes += kept.size

    def _forget(self, name: str) -> None:
        old = self.kept.pop(name, None)
        if old is not None:
            self._kept_bytes -= old.size

    def _stays(self, before: MqttSubscription, kept: StoredMqttSubscription) -> bool:
        """Does a SUBSCRIBE that is sent again leave the subscription at the broker as it is? To end it would
        drop the events that wait for the session."""
        old = self.kept.get(kept.wish.filter)
        is_same = old is not None and old.user == kept.user
        return is_same and (not before.is_pushed or self._is_plain(kept))

    async def _replace(self, before: MqttSubscription, kept: StoredMqttSubscription) -> None:
        """Open a subscription in place of one with another content filter or another kind of delivery; the
        new one begins before the old one ends."""
        name = kept.wish.filter
        if before.share is None:
            await self._open(name, kept, is_again=True)
            await self._end(before)
        else:
            await self._leave(name)
            await self._open(name, kept)

    async def _reopen(self, name: str, kept: StoredMqttSubscription) -> None:
        """Open a subscription of the file. One that it was to replace when the broker was killed ends."""
        if kept.replaces is not None:
            await self._unsubscribe(await self._open(name, kept.replaces))
            kept.replaces = None
        await self._open(name, kept)

    async def _open(
        self, name: str, kept: StoredMqttSubscription, *, is_again: bool = False
    ) -> MqttSubscription:
        filter, group = wanted(name, {"user": kept.user})
        if group is not None:
            return await self._join(name, kept, filter)
        options: dict[str, Any] = {"replay": self._replays(kept.wish, is_again), "superseding": False}
        if self.durable:
            options |= {"durable": True, "name": kept.name or f"mqtt:{name}"}
        is_plain = self._is_plain(kept)
        if is_plain:
            listener = await self._pushes.open(filter, options)
        else:
            listener = await self.bus.subscribe(filter, **options)
        subscription = MqttSubscription(kept.wish, kept.ids, listener, began=kept.began or self._now())
        subscription.is_pushed = is_plain
        self._subscriptions[name] = subscription
        return subscription

    async def _join(self, name: str, kept: StoredMqttSubscription, filter: Filter) -> MqttSubscription:
        async with self._shares.changing(self.owner, name) as share:
            listener = await share.join(self, kept, filter)
            began = kept.began or self._now()
            subscription = self._subscriptions[name] = MqttSubscription(
                kept.wish, kept.ids, listener, share, began=began
            )
        return subscription

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
        for begin in range(0, len(names), SLICE):
            known: list[str] = []
            for name in names[begin : begin + SLICE]:
                is_known = name in self._subscriptions and name not in known
                reasons.append(Reason.SUCCESS if is_known else Reason.NO_SUBSCRIPTION)
                known += [name] if is_known else []
            await asyncio.gather(*(self._leave(name) for name in known))  # one commit serves all of them
            for name in known:
                self._forget(name)
        return reasons

    async def _leave(self, name: str) -> None:
        await self._end(self._subscriptions.pop(name))
        self.exchanges.left(name)

    async def _end(self, subscription: MqttSubscription) -> None:
        for task in (subscription.task, subscription.retained):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._unsubscribe(subscription)
        self._in_flight.leave(subscription)

    async def _unsubscribe(self, subscription: MqttSubscription) -> None:
        if subscription.share is None:
            self._pushes.close(subscription.listener)
            await subscription.listener.unsubscribe()
            return
        self._in_flight.settle_received(subscription)  # no other session may have them
        async with self._shares.changing(self.owner, subscription.wish.filter) as share:
            await share.leave(self, subscription)

    # -- to the client -----------------------------------------------------------------------------

    def serve(self) -> None:
        """Deliver to the client what its subscriptions bring, the new ones too."""
        self._pushes.start()
        for subscription in self._subscriptions.values():
            if not subscription.is_pushed and (subscription.task is None or subscription.task.done()):
                subscription.task = asyncio.create_task(
                    self._deliver_all(subscription), name=f"mqtt {self.client_id}"
                )
            if subscription.is_new:
                subscription.is_new = False
                self._send_retained(subscription)

    def _send_retained(self, subscription: MqttSubscription) -> None:
        """Send the retained messages again, beside all that waits; a reading that is under way begins
        anew."""
        if subscription.retained is not None:
            subscription.retained.cancel()
        subscription.retained = asyncio.create_task(
            self._read_retained(subscription), name=f"mqtt {self.client_id} retained"
        )

    async def _read_retained(self, subscription: MqttSubscription) -> None:
        kept = self.kept[subscription.wish.filter]
        filter, _ = wanted(subscription.wish.filter, {"user": kept.user})
        reader: Listener[Event] = await self.bus.subscribe(filter, until_live=True)
        try:
            while True:
                notification, tag = await reader.take()
                publish = await self._ready(subscription, notification.event, is_retained=True)
                if publish is None:
                    reader.settle(tag)
                elif publish.qos:
                    self._in_flight.add(publish, subscription, tag, None, lender=reader)
                else:
                    self._send(publish)
                    reader.settle(tag)
        except UnsendableEvent as error:
            log.warning("mqtt %s: a retained event cannot be sent: %s", self.client_id, error)
        except TidingsError as error:
            log.debug("mqtt %s: all retained messages were read: %s", self.client_id, error)
        finally:
            await reader.close(commit=False)

    async def _deliver_all(self, subscription: MqttSubscription) -> None:
        while True:
            if subscription.parked is None:
                try:
                    notification, tag = await subscription.listener.take()
                except TidingsError:
                    return  # the subscription is over, or the session of its principal
            else:
                notification, tag = subscription.parked
            try:
                if subscription.parked is None:
                    await self._deliver(subscription, notification, tag)
                else:
                    await self._send_parked(subscription)
            except Exception as error:  # of this event alone: those behind it are delivered
                self._give_back(subscription, notification, tag, error)

    async def _deliver(self, subscription: MqttSubscription, notification: Notification, tag: int) -> None:
        """Send one event, or commit it when this client is not to have it."""
        listener, wish = subscription.listener, subscription.wish
        position = notification.position
        if position is not None and self.exchanges.is_handled(wish.filter, position):
            listener.settle(tag)
            return
        if wish.no_local and notification.event.source == self.bus.name:
            listener.settle(tag)
            return
        share = subscription.share
        if share is not None and share.is_elsewhere(self, subscription, notification, tag):
            return
        subscription.parked = (notification, tag)
        await self._send_parked(subscription)

    async def _ready(
        self,
        subscription: MqttSubscription,
        event: Event,
        position: Position | None = None,
        *,
        is_retained: bool = False,
    ) -> PublishPacket | None:
        """The packet for this subscription, as soon as the client has room for it. None: it has expired
        meanwhile, or is too large; it took no room then. Raises `UnsendableEvent`."""
        header, name = header_of(event, self._legacy_before), subscription.wish.filter
        sent = self.exchanges.qos(name, position)
        qos = qos_of(header, subscription.wish.qos) if sent is None else sent
        await self._wait_for_room(qos)
        publish = None
        try:
            if sent is not None or not has_expired(event, header):
                publish = self._publish_of(subscription, event, header, qos, is_retained=is_retained)
                if self._largest and len(write(publish, self._version)) > self._largest:
                    publish = None
        finally:
            if publish is None and qos:
                self._in_flight.release()
        return publish

    def _publish_of(
        self,
        subscription: MqttSubscription,
        event: Event,
        header: MessageHeader | None,
        qos: int,
        *,
        is_retained: bool = False,
    ) -> PublishPacket:
        """The packet for this subscription. Raises `UnsendableEvent`."""
        is_retained = is_retained or (
            event.time is not None and event.time < subscription.began and event.lifetime > 0
        )
        was_retained = event.key is not None if header is None else header.retain
        retain = is_retained or (was_retained and subscription.wish.as_published)
        publish = publish_of(event, qos, retain=retain, with_properties=self._version == 5, header=header)
        if subscription.ids:
            publish.properties["subscription_id"] = subscription.ids
        return publish

    def borrow(self, name: str) -> None:
        """Send again, when there is room, what this session has in flight and the broker delivered to
        another."""
        subscription = self._subscriptions.get(name)
        if subscription is not None and subscription.share is not None and self._outlet is not None:
            sending = self._send_lent(subscription, subscription.share)
            task = asyncio.create_task(sending, name=f"mqtt {self.client_id}")
            self._borrowing.add(task)
            task.add_done_callback(self._borrowing.discard)

    async def _send_lent(self, subscription: MqttSubscription, share: SharedSubscription) -> None:
        for position, packet_id in share.lent_to(self.key):
            message = self._in_flight.get(packet_id)
            if message is None:
                await self._in_flight.room()
            lent = share.take_lent(position)
            if lent is None:
                if message is None:
                    self._in_flight.release()
            elif message is not None:
                message.lender, message.tag = lent.listener, lent.tag
                if message.is_received:
                    message.settle()
            else:
                event = lent.notification.event
                publish = self._publish_of(subscription, event, header_of(event, self._legacy_before), 2)
                publish.packet_id, publish.dup = packet_id, True
                self._in_flight.add_lent(publish, subscription, lent.tag, position, lent.listener)

    def _give_back(
        self, subscription: MqttSubscription, notification: Notification, tag: int, error: Exception
    ) -> None:
        """Give back an event that could not be sent: after `max_deliveries` attempts it is a dead letter."""
        subscription.parked = None
        self._in_flight.drop(subscription, tag)
        if notification.attempt == 1:
            is_ours = not isinstance(error, UnsendableEvent)
            identity, name = notification.event.identity, subscription.wish.filter
            log.warning(
                "mqtt %s: event %s cannot be sent and becomes a dead letter of %r: %s",
                self.client_id, identity, name, error, exc_info=is_ours,
            )  # fmt: skip
        subscription.listener.settle(tag, handled=False)

    async def _wait_for_room(self, qos: int) -> None:
        if self._outlet is not None:
            await self._outlet.drained()
        if qos < 2:
            await self._in_flight.journalled()
        if qos:
            await self._in_flight.room()

    async def _send_parked(self, subscription: MqttSubscription) -> None:
        """Send what is parked as soon as there is room."""
        assert subscription.parked is not None
        notification, tag = subscription.parked
        publish = await self._ready(subscription, notification.event, notification.position)
        subscription.parked = None
        if publish is not None and publish.qos:
            self._in_flight.add(publish, subscription, tag, notification.position)
            return
        if publish is not None:
            self._send(publish)
        subscription.listener.settle(tag)

    def _send(self, packet: Packet) -> None:
        if self._outlet is not None:
            self._outlet.send(packet)

    def acknowledged(self, ack: AckPacket) -> None:
        """PUBACK, PUBREC or PUBCOMP came. Raises `Malformed` for one that does not fit the message."""
        self._in_flight.acknowledged(ack)

    async def will(self, will: Will) -> None:
        """The client is gone without a word: publish what it left to say."""
        await self.publisher.publish(message_of(will))
