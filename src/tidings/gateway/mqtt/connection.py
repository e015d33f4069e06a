"""One MQTT connection: handshake, keep-alive, the packets that one read brings, and their answers.

Rules
- The first packet is CONNECT, within ten seconds.
- The packets of one read are decoded together; publishes that follow one another are published together.
- PUBACK, PUBREC and PUBCOMP leave in the order of the packets that they answer (MQTT-4.6.0). A bounded
  number of publishes is unanswered: in version 5 the receive maximum, and more end the connection with 0x93;
  in version 3.1.1 no more are read until some are answered.
- Packets of one turn of the event loop are written together.
- A protocol violation ends the connection, with a reason for version 5.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Sequence
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.errors import RefusedError, StoreFullError, TidingsError
from tidings.gateway.authentication import ConnectionOrigin
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import FILTER
from tidings.gateway.mqtt.packets import V5, V31, Malformed, Packet, PacketKind, Reason
from tidings.gateway.mqtt.pushes import PushChannel
from tidings.gateway.mqtt.reading import ANY, PacketReader
from tidings.gateway.mqtt.session import MOST_AHEAD, NEVER, MqttSession
from tidings.gateway.mqtt.sessions_file import SessionKey, key_of
from tidings.gateway.mqtt.shares import is_shared
from tidings.gateway.mqtt.writing import write
from tidings.runtime.admission import AdmittedConnection
from tidings.runtime.local_clients import DEAREST, SLICE, charge
from tidings.security.attempts import TooManyAttempts

if TYPE_CHECKING:
    from tidings.gateway.mqtt.listener import MqttListener

log = logging.getLogger("tidings.gateway")

LARGEST = 2**20  # bytes of a packet
HANDSHAKE_SECONDS = 10.0
AHEAD = 100  # publishes of QoS 1 and 2 that are accepted before they are answered: our receive maximum
ALIASES = 32
BUFFER = 256 * 1024  # bytes that may wait for a slow client before its delivery pauses
MOST_WAITING = 8 * 2**20  # bytes of QoS 0 that wait for a slow client
READ_BYTES = 2**16
USER_PROPERTIES = {
    PacketKind.PUBLISH: ANY,
    PacketKind.SUBSCRIBE: FILTER,
}  # those of other packets are not kept
_OLD_CODES = {
    Reason.VERSION: 1, Reason.CLIENT_ID: 2, Reason.UNAVAILABLE: 3, Reason.PASSWORD: 4, Reason.NOT_AUTHORISED:
    5,
}  # fmt: skip


def _reason_of(error: TidingsError, connect: mq.ConnectPacket) -> Reason:
    if isinstance(error, TooManyAttempts | StoreFullError):
        return Reason.UNAVAILABLE
    return Reason.NOT_AUTHORISED if connect.password is None else Reason.PASSWORD


class PendingAnswer:
    """The place of an answer among those of a connection; `packet` is the answer once it is known."""

    __slots__ = ("is_puback", "packet")

    def __init__(self, *, is_puback: bool) -> None:
        self.is_puback = is_puback
        self.packet: mq.AckPacket | None = None


class MqttConnection:
    """One connection."""

    def __init__(
        self,
        listener: MqttListener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        visit: AdmittedConnection,
    ) -> None:
        self._listener, self._visit = listener, visit
        self._reader, self._writer = reader, writer
        self._read = PacketReader(LARGEST, topic_filters=listener.topic_filters, user=USER_PROPERTIES)
        self._version = 4
        self._session: MqttSession | None = None
        self._line: deque[PendingAnswer] = deque()  # answers, in the order in which they leave
        self._pubacks = 0  # of those
        self._has_room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._aliases: dict[int, str] = {}  # the client's
        self._own_aliases: dict[str, int] = {}  # ours, as many as the client allows
        self._most_aliases = 0
        self._largest = 0  # bytes of a packet that the client takes; 0: any
        self._will: mq.Will | None = None
        self._is_over = False
        self._lines: list[bytes] = []  # to be written in this turn of the loop
        self._line_bytes = 0
        self._waiting = 0  # bytes that the transport had not sent when this turn of the loop began to write
        self._loop = asyncio.get_running_loop()
        self.lost = 0
        self.over = asyncio.Event()
        writer.transport.set_write_buffer_limits(high=BUFFER)

    # -- to the client -----------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        if self._is_over:
            return
        if self._most_aliases and isinstance(packet, mq.PublishPacket):
            packet = self._aliased(packet)
        data = write(packet, self._version)
        if self._largest and len(data) > self._largest:  # a client that cannot even take an answer
            self._is_over = True
            self._writer.close()
            return
        self._put(data)

    def _put(self, data: bytes) -> None:
        if not self._lines:
            self._waiting = self._writer.transport.get_write_buffer_size()
            self._loop.call_soon(self._flush)
        self._lines.append(data)
        self._line_bytes += len(data)

    def _aliased(self, packet: mq.PublishPacket) -> mq.PublishPacket:
        """With a number for its topic, of the first topics that there are numbers for; known ones by that
        alone."""
        alias = self._own_aliases.get(packet.topic)
        if alias is not None:
            return msgspec.structs.replace(
                packet, topic="", properties=packet.properties | {"topic_alias": alias}
            )
        if len(self._own_aliases) >= self._most_aliases:
            return packet
        alias = self._own_aliases[packet.topic] = len(self._own_aliases) + 1
        return msgspec.structs.replace(packet, properties=packet.properties | {"topic_alias": alias})

    def send_bytes(self, data: bytes) -> None:
        """Of QoS 0: what a client that reads too slowly has no room for is lost to it, as the standard
        allows."""
        if self._is_over:
            return
        if self._waiting + self._line_bytes > MOST_WAITING:
            self.lost += 1
            return
        self._put(data)

    async def _drained(self) -> None:
        """Wait until few bytes wait for the client; many may be woken at once, and the first may fill it
        again."""
        self._flush()
        while not self._is_over and self._writer.transport.get_write_buffer_size() > BUFFER:
            try:
                await self._writer.drain()
            except ConnectionError:  # no event is to blame: it stays as it is until the session is detached
                await self._loop.create_future()
            await asyncio.sleep(0)

    def _is_full(self) -> bool:
        return self._waiting + self._line_bytes > MOST_WAITING // 2

    def _flush(self) -> None:
        """Everything of one turn of the loop in one write."""
        if self._lines and not self._is_over:
            self._writer.write(b"".join(self._lines))
        self._lines.clear()
        self._line_bytes = 0

    def end(self, reason: Reason) -> None:
        """Leave the client, with a reason if it understands one."""
        if self._version == V5 and self._session is not None:
            self.send(mq.DisconnectPacket(reason))
        self._flush()
        self._is_over = True
        self._writer.close()

    # -- answers -----------------------------------------------------------------------------------

    def _reserve(self, *, is_puback: bool = False) -> PendingAnswer:
        """The next place among the answers."""
        answer = PendingAnswer(is_puback=is_puback)
        self._line.append(answer)
        self._pubacks += is_puback
        return answer

    def _answer(self, answer: PendingAnswer, kind: PacketKind, packet_id: int, reason: int) -> None:
        """An answer is known; it leaves when those before it have."""
        answer.packet = mq.AckPacket(kind, packet_id, reason)
        line = self._line
        while line and (packet := line[0].packet) is not None:
            self._pubacks -= line.popleft().is_puback
            self.send(packet)
        if len(line) < AHEAD:
            self._has_room.set()

    async def _bound(self) -> None:
        """Wait until a bounded number of packets is unanswered."""
        while len(self._line) >= AHEAD and not self._is_over:
            self._has_room.clear()
            await self._has_room.wait()

    def _do(self, work: Awaitable[None]) -> None:
        """Have it done beside the packets that come next."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- beginning and end -------------------------------------------------------------------------

    def expiry(self, connect: mq.ConnectPacket) -> int:
        """Seconds for which the session outlives the connection."""
        if connect.version == V5:
            return int(connect.properties.get("session_expiry", 0))
        return 0 if connect.clean else NEVER

    async def run(self) -> None:
        connect, rest = await self._first()
        try:
            principal = await self._listener.proved(connect, self._where())
            session, present = await self._listener.session(principal, connect, self)
        except (RefusedError, StoreFullError) as error:
            log.info("mqtt %s: %s", connect.client_id, error)
            self._refuse(_reason_of(error, connect))
            self.over.set()
            return
        self._visit.serve()
        key = key_of(principal, connect.client_id)
        self._session, self._will = session, connect.will
        session.on_refused = lambda: self.end(Reason.NOT_AUTHORISED)
        self._largest = connect.properties.get("maximum_packet", 0)
        self._most_aliases = min(connect.properties.get("topic_alias_maximum", 0), ALIASES)
        try:
            self.send(mq.ConnackPacket(0, present and self._version != V31, self._said(connect)))
            outlet = PushChannel(
                self.send, self.send_bytes, self._drained, self._is_full, version=self._version,
                largest=self._largest, aliases=self._most_aliases,
            )  # fmt: skip
            await session.attach(outlet, ahead=connect.properties.get("receive_maximum", 0xFFFF))
            await self._receive_all(rest, connect.keep_alive * 1.5 or None)
        finally:
            await self._over(key, session)

    async def _over(self, key: SessionKey, session: MqttSession) -> None:
        self._is_over = True
        self._has_room.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        will, self._will = self._will, None
        if will is not None:
            delay = min(will.properties.get("will_delay", 0), session.expiry)
            if delay and session.durable:
                self._listener.wills.add(session.owner, key, will, self._listener.now() + delay)
            else:
                await session.will(will)
        await self._listener.left(key, session, self)
        self.over.set()

    async def _first(self) -> tuple[mq.ConnectPacket, list[Packet]]:
        """CONNECT, and what came behind it."""
        found: list[Packet] = []
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                while not found:
                    data = await self._reader.read(READ_BYTES)
                    if not data:
                        raise ConnectionResetError("gone before CONNECT")
                    found = list(self._read.feed(data))
            connect = found[0]
            assert isinstance(connect, mq.ConnectPacket)
            self._version = connect.version
            self._check(connect)
        except Malformed as error:
            # what is no CONNECT at all gets no answer, as 3.1.1 demands and 5 allows
            if found or error.reason not in (Reason.MALFORMED, Reason.PROTOCOL):
                self._refuse(error.reason)
            raise ConnectionResetError(str(error)) from None
        return connect, found[1:]

    def _check(self, connect: mq.ConnectPacket) -> None:
        """Refuse a CONNECT that can be read and breaks a rule. Raises `Malformed`."""
        properties = connect.properties
        for name in ("receive_maximum", "maximum_packet"):
            if properties.get(name) == 0:
                raise Malformed(f"{name} is 0", Reason.PROTOCOL)
        if "authentication_method" in properties:
            raise Malformed("no such method", Reason.AUTHENTICATION)
        if "authentication_data" in properties:
            raise Malformed("authentication data without a method", Reason.PROTOCOL)
        if not connect.client_id:
            if connect.version == V31 or (connect.version != V5 and not connect.clean):
                raise Malformed("a session without a client id", Reason.CLIENT_ID)
            connect.client_id = f"auto-{secrets.token_hex(8)}"
            properties["assigned"] = connect.client_id

    def _refuse(self, reason: Reason) -> None:
        self._version = self._read.version or 4
        code = int(reason) if self._version == V5 else _OLD_CODES.get(reason)
        if code is not None:
            self._writer.write(write(mq.ConnackPacket(code), self._version))

    def _where(self) -> ConnectionOrigin:
        peer = self._writer.get_extra_info("peername") or ("",)
        try:
            is_loopback = ipaddress.ip_address(peer[0]).is_loopback
        except ValueError:
            is_loopback = False
        return ConnectionOrigin(
            str(peer[0]), is_loopback, self._writer.get_extra_info("ssl_object") is not None
        )

    def _said(self, connect: mq.ConnectPacket) -> mq.Properties:
        if self._version != V5:
            return {}
        stated: mq.Properties = {
            "receive_maximum": AHEAD,
            "maximum_packet": LARGEST,
            "topic_alias_maximum": ALIASES,
            "subscription_ids_available": 1,
            "shared_available": 1,
        }
        if "assigned" in connect.properties:
            stated["assigned_client_id"] = connect.properties["assigned"]
        return stated

    # -- from the client ---------------------------------------------------------------------------

    async def _receive_all(self, rest: list[Packet], silence: float | None) -> None:
        session = self._session
        assert session is not None
        try:
            await self._handle_all(session, rest)
            while not self._is_over:
                try:
                    async with asyncio.timeout(silence):
                        data = await self._reader.read(READ_BYTES)
                except TimeoutError:
                    self.end(Reason.KEEP_ALIVE)
                    return
                if not data:
                    return
                if pause := charge(session.bus, len(data)):  # by the quota of the principal
                    await asyncio.sleep(pause)
                await self._handle_read(session, data)
                await self._writer.drain()  # a client that does not read its answers is not read from
        except Malformed as error:
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(error.reason)

    async def _handle_read(self, session: MqttSession, data: bytes) -> None:
        """Handle what one read brought, a slice in each turn of the loop, and charge the time to the
        principal. A malformed packet counts after those before it were handled."""
        packets: list[Packet] = []
        began = perf_counter()
        try:
            for packet in self._read.feed(data):
                packets.append(packet)
                if len(packets) == SLICE:
                    batch, packets = packets, []
                    await self._handle_all(session, batch)
                    await asyncio.sleep(charge(session.bus, 0, min(perf_counter() - began, SLICE * DEAREST)))
                    began = perf_counter()
        finally:
            await self._handle_all(session, packets)

    async def _handle_all(self, session: MqttSession, packets: Sequence[Packet]) -> None:
        for is_publish, batch in groupby(packets, lambda packet: type(packet) is mq.PublishPacket):
            if self._is_over:
                return
            if is_publish:
                await self._publish_all(session, list(batch))  # type: ignore[arg-type]
            else:
                for packet in batch:
                    await self._handle(session, packet)

    async def _handle(self, session: MqttSession, packet: Packet) -> None:
        if self._is_over:
            return
        match packet:
            case mq.AckPacket(kind=PacketKind.PUBREL):
                await self._bound()
                self._do(self._release(session, packet.packet_id, self._reserve()))
            case mq.AckPacket():
                session.acknowledged(packet)
            case mq.SubscribePacket():
                await self._subscribe(session, packet)
            case mq.UnsubscribePacket():
                reasons = await session.unsubscribe(packet.filters)
                self.send(mq.UnsubackPacket(packet.packet_id, reasons))
                await self._listener.is_written()
            case mq.PingPacket(is_answer=False):
                self.send(mq.PingPacket(True))
            case mq.DisconnectPacket():
                self._leave(session, packet)
            case _:
                raise Malformed(f"{type(packet).__name__} from a client", Reason.PROTOCOL)

    async def _subscribe(self, session: MqttSession, packet: mq.SubscribePacket) -> None:
        """The answer first, then what is retained."""
        reasons = await session.subscribe(packet)
        is_kept = session.durable or any(is_shared(wish.filter) for wish in packet.wishes)
        if is_kept and not await self._listener.is_written() and session.durable:
            reasons = [Reason.QUOTA] * len(reasons)
        old = [reason if reason < 0x80 else 0x80 for reason in reasons]
        self.send(mq.SubackPacket(packet.packet_id, reasons if self._version == V5 else old))
        session.serve()

    def _leave(self, session: MqttSession, packet: mq.DisconnectPacket) -> None:
        expiry = packet.properties.get("session_expiry")
        if expiry is not None:
            if expiry and not session.expiry:
                raise Malformed("an expiry where there was none", Reason.PROTOCOL)
            session.expiry = expiry
        if packet.reason == Reason.SUCCESS:  # every other reason has the will published (MQTT-3.14.4-3)
            self._will = None
        self._flush()
        self._is_over = True
        self._writer.close()

    # -- publishes ---------------------------------------------------------------------------------

    async def _publish_all(self, session: MqttSession, packets: list[mq.PublishPacket]) -> None:
        """Publish packets that came one after the other: those of QoS 0 and of QoS 1 in batches. Those
        before a violation count."""
        violation: Malformed | None = None
        unanswered = self._pubacks + session.publisher.open_exchanges if self._version == V5 else 0
        for position, packet in enumerate(packets):
            try:
                packet.topic = self._named(packet)
                unanswered += self._version == V5 and packet.qos > 0 and not packet.dup
                if unanswered > AHEAD:  # MQTT-3.3.4-9
                    raise Malformed(f"more than {AHEAD} unanswered publishes", Reason.RECEIVE_MAXIMUM)
            except Malformed as error:
                packets, violation = packets[:position], error
                break
        for qos, run in groupby(packets, lambda packet: packet.qos):
            batch = list(run)
            if qos == 0:
                session.publisher.publish_soon(batch)
                continue
            for packet in batch if qos == 2 else ():
                await self._publish_once(session, packet)
            while qos == 1 and batch and not self._is_over:
                await self._bound()
                part, batch = batch[: AHEAD - len(self._line)], batch[AHEAD - len(self._line) :]
                answers = [self._reserve(is_puback=True) for _ in part]
                reasons = session.publisher.publish_all(part)
                if isinstance(reasons, list):
                    self._acknowledge_all(session, part, answers, reasons)
                else:
                    self._do(self._acknowledge_later(session, part, answers, reasons))
        if violation is not None:
            raise violation

    async def _acknowledge_later(
        self,
        session: MqttSession,
        packets: list[mq.PublishPacket],
        answers: list[PendingAnswer],
        reasons: Awaitable[list[int | None]],
    ) -> None:
        self._acknowledge_all(session, packets, answers, await reasons)

    def _acknowledge_all(
        self,
        session: MqttSession,
        packets: list[mq.PublishPacket],
        answers: list[PendingAnswer],
        reasons: list[int | None],
    ) -> None:
        for packet, answer, reason in zip(packets, answers, reasons, strict=True):
            self._acknowledge(session, packet, answer, reason)

    async def _publish_once(self, session: MqttSession, packet: mq.PublishPacket) -> None:
        """QoS 2."""
        await self._bound()
        answer = self._reserve()
        if not session.publisher.is_new(packet.packet_id, AHEAD if self._version == V5 else MOST_AHEAD):
            self._answer(answer, PacketKind.PUBREC, packet.packet_id, Reason.SUCCESS)
            return

        async def publish() -> None:
            self._acknowledge(session, packet, answer, await session.publisher.publish(packet))

        self._do(publish())

    def _acknowledge(
        self, session: MqttSession, packet: mq.PublishPacket, answer: PendingAnswer, reason: int | None
    ) -> None:
        """Acknowledge when the broker has."""
        if reason is None:
            session.publisher.unsure(packet.packet_id)
            self.end(Reason.BUSY)
            return
        if reason >= 0x80:
            session.publisher.refused(packet.packet_id)
            if self._version != V5:
                self.end(Reason(reason))
                return
        kind = PacketKind.PUBACK if packet.qos == 1 else PacketKind.PUBREC
        self._answer(answer, kind, packet.packet_id, reason)

    async def _release(self, session: MqttSession, packet_id: int, answer: PendingAnswer) -> None:
        try:
            reason = await session.publisher.released(packet_id)
        except StoreFullError as error:  # without an answer the client asks again
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(Reason.QUOTA)
            return
        self._answer(answer, PacketKind.PUBCOMP, packet_id, reason)

    def _named(self, packet: mq.PublishPacket) -> str:
        """The topic, by its alias if it has one."""
        alias: Any = packet.properties.pop("topic_alias", None)
        if "subscription_id" in packet.properties:
            raise Malformed("a subscription id from a client", Reason.PROTOCOL)
        if alias is None:
            return packet.topic
        if alias > ALIASES:
            raise Malformed(f"topic alias {alias}", Reason.TOPIC_ALIAS)
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise Malformed(f"topic alias {alias} stands for nothing", Reason.PROTOCOL)
        return self._aliases[alias]
