"""One MQTT connection: handshake, keep-alive, the packets that one read brings, and their answers.

Rules
- The first packet is CONNECT, within ten seconds.
- The packets of one read are decoded together; publishes that follow one another are published together.
  Publishes, acknowledgements and pings are handled in the call that brings their bytes, and what that
  writes leaves in one write. Other packets, and more packets than a slice or than this turn of the loop has
  time for (`turns.py`), are handled by the connection's task.
- PUBACK, PUBREC and PUBCOMP leave in the order of the packets that they answer (MQTT-4.6.0). A bounded
  number of publishes is unanswered: in version 5 the receive maximum, and more end the connection with 0x93;
  in version 3.1.1 no more are read until some are answered.
- Packets of one turn of the event loop are written together.
- A protocol violation ends the connection, with a reason for version 5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

from tidings.errors import RefusedError, StoreFullError
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.answers import PLAIN_PUBACK, AnswerLine, PendingAnswers, ack
from tidings.gateway.mqtt.events import FILTER
from tidings.gateway.mqtt.handshake import (
    OLD_CODES,
    check_connect,
    origin_of,
    reason_of,
    stated,
)
from tidings.gateway.mqtt.keep_alive import KeepAlive
from tidings.gateway.mqtt.packets import V5, V31, Malformed, Packet, PacketKind, Reason
from tidings.gateway.mqtt.pushes import PushChannel
from tidings.gateway.mqtt.reading import ANY, PacketReader, UnhandledPackets
from tidings.gateway.mqtt.session import MOST_AHEAD, MqttSession
from tidings.gateway.mqtt.sessions_file import SessionKey, key_of
from tidings.gateway.mqtt.stream import ByteStream
from tidings.gateway.mqtt.topic_aliases import ALIASES, TopicAliases
from tidings.gateway.mqtt.turns import SHORT_READ, BatchSize
from tidings.gateway.mqtt.wills import delay_of
from tidings.gateway.mqtt.writing import write
from tidings.runtime.admission import AdmittedConnection
from tidings.runtime.local_clients import DEAREST, SLICE, charge, inbox_of, note_connection

if TYPE_CHECKING:
    from tidings.gateway.mqtt.listener import MqttListener

log = logging.getLogger("tidings.gateway")

HANDSHAKE_SECONDS = 10.0
CAUGHT_UP_SECONDS = 1.0  # for packets that came before a takeover; less passes over more of them
LARGEST = 2**20  # bytes of a packet
ACK_SIZE = 5  # bytes
AHEAD = 100  # publishes of QoS 1 and 2 that are accepted before they are answered: our receive maximum
BUFFER = 256 * 1024  # bytes that may wait for a slow client before its delivery pauses
MOST_WAITING = 8 * 2**20  # bytes of QoS 0 that wait for a slow client
_PONG = mq.PingPacket(True)
USER_PROPERTIES = {
    PacketKind.PUBLISH: ANY,
    PacketKind.SUBSCRIBE: FILTER,
}  # those of other packets are not kept


class MqttConnection:
    """One connection."""

    def __init__(
        self,
        listener: MqttListener,
        stream: ByteStream,
        visit: AdmittedConnection,
    ) -> None:
        self._listener, self._visit = listener, visit
        self._stream, self._wire = stream, stream.wire
        self._turns, self._together = listener.turns, BatchSize(SLICE)
        self._read = PacketReader(
            LARGEST, topic_filters=listener.topic_filters, first=listener.first_bytes, user=USER_PROPERTIES
        )
        self._version = 4
        self._session: MqttSession | None = None
        self._answers = AnswerLine(AHEAD, self._send_answers)
        self._tasks: set[asyncio.Task[None]] = set()
        self._aliases = TopicAliases()
        self._largest = 0  # bytes of a packet that the client takes; 0: any
        self._will: mq.Will | None = None
        self._is_over = False
        self._lines: list[bytes] = []  # to be written in this turn of the loop
        self._line_bytes = 0
        self._written = 0  # bytes
        self._waiting = 0  # bytes that the transport had not sent when this turn of the loop began to write
        self._loop = asyncio.get_running_loop()
        self._is_taking = False  # are packets handled in the call that brought them?
        self._work: asyncio.Future[UnhandledPackets | None] | None = None  # for the task; None: bytes end
        self._read_at = 0.0  # when bytes came last
        self._unanswered = 0  # batches of publishes that the broker has not answered
        self._all_answered = asyncio.Event()
        self._is_idle = asyncio.Event()  # set when the packets that came are handled
        self.lost = 0
        self.over = asyncio.Event()  # set when all is done that the end of this connection brings

    # -- to the client -----------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        if self._is_over:
            return
        if self._aliases.most and isinstance(packet, mq.PublishPacket):
            packet = self._aliases.shorten(packet)
        data = write(packet, self._version)
        if self._largest and len(data) > self._largest:  # a client that cannot even take an answer
            self._close()
            return
        self._put(data)

    def _send_answers(self, data: bytes) -> None:
        if self._is_over:
            return
        if 0 < self._largest < ACK_SIZE:  # a client that cannot even take an answer
            self._close()
            return
        self._put(data)

    def _put(self, data: bytes) -> None:
        if not self._lines:
            self._waiting = self._wire.get_write_buffer_size()
            if not self._is_taking:
                if not (waiting := self._listener.writes.waiting):
                    self._loop.call_soon(self._listener.writes.flush_all)
                waiting += (self._flush,)
        self._lines.append(data)
        self._line_bytes += len(data)

    def send_bytes(self, data: bytes, count: int = 1) -> None:
        """Send packets of QoS 0: what a client that reads too slowly has no room for is lost to it, as the
        standard allows."""
        if self._is_over:
            return
        if self._waiting + self._line_bytes > MOST_WAITING:
            self.lost += count
            return
        self._put(data)

    async def _drained(self) -> None:
        """Wait until few bytes wait for the client; many may be woken at once, and the first may fill it
        again. One turn of the loop sends a bounded number of messages."""
        if self._turns.is_over():
            await self._turns.time()
        if self._line_bytes + self._wire.get_write_buffer_size() <= BUFFER:
            return
        self._flush()
        while self._wire.get_write_buffer_size() > BUFFER:
            with suppress(ConnectionError):
                await self._stream.drained()
            if self._is_over:  # no event is to blame: it stays as it is until the session is detached
                await self._loop.create_future()
            await asyncio.sleep(0)

    def _is_full(self) -> bool:
        return self._waiting + self._line_bytes > MOST_WAITING // 2

    def _flush(self) -> None:
        """Everything of one turn of the loop in one write."""
        lines = self._lines
        if lines:
            self._lines = []
            self._written += self._line_bytes
            self._line_bytes = 0
            if not self._is_over and not self._wire.is_closing():  # a write to a closed one raises
                if self._listener.write_ahead is not None:
                    self._listener.write_ahead()
                self._wire.write(lines[0] if len(lines) == 1 else b"".join(lines))

    def end(self, reason: Reason) -> None:
        """Leave the client, with a reason if it understands one."""
        if self._version == V5 and self._session is not None:
            self.send(mq.DisconnectPacket(reason))
        self._flush()
        self._close()

    def _close(self) -> None:
        self._is_over = True
        self._stream.end()

    # -- answers -----------------------------------------------------------------------------------

    def _do(self, work: Awaitable[None]) -> None:
        """Have it done beside the packets that come next."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- beginning and end -------------------------------------------------------------------------

    async def run(self) -> None:
        connect, rest = await self._first()
        if self._wire.is_closing():  # the peer is gone, and its address with it
            return
        try:
            origin = origin_of(self._wire)
            principal = await self._listener.proved(connect, origin)
            session, present = await self._listener.session(principal, connect, self)
        except (RefusedError, StoreFullError) as error:
            log.info("mqtt %s: %s", connect.client_id, error)
            self._refuse(reason_of(error, connect))
            return
        self._visit.serve()
        note_connection(session.bus, origin.peer)
        key = key_of(principal, connect.client_id)
        self._session, self._will = session, connect.will
        session.on_refused = lambda: self.end(Reason.NOT_AUTHORISED)
        self._largest = connect.properties.get("maximum_packet", 0)
        self._aliases.most = min(connect.properties.get("topic_alias_maximum", 0), ALIASES)
        try:
            self.send(
                mq.ConnackPacket(
                    0,
                    present and self._version != V31,
                    stated(connect, AHEAD, LARGEST, inbox_of(session.bus)),
                )
            )
            outlet = PushChannel(
                self.send, self.send_bytes, self._drained, self._is_full, version=self._version,
                largest=self._largest, aliases=self._aliases.most,
            )  # fmt: skip
            await session.attach(outlet, ahead=connect.properties.get("receive_maximum", 0xFFFF))
            await self._receive_all(rest, connect.keep_alive * 1.5)
        finally:
            await self._over(key, session)

    async def _over(self, key: SessionKey, session: MqttSession) -> None:
        self._is_over = True
        self._is_idle.set()
        self._answers.end()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._unanswered:
            self._all_answered.clear()
            await self._all_answered.wait()
        will, self._will = self._will, None
        if will is not None:
            delay = delay_of(will, session.expiry)
            if delay and session.durable:
                self._listener.wills.add(session.owner, key, will, self._listener.now() + delay)
            else:
                await session.will(will)
        await self._listener.left(key, session, self)

    async def caught_up(self) -> None:
        """Wait until the packets that came are handled, for a short time: a DISCONNECT may be among them. A
        client that does not read is not waited for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CAUGHT_UP_SECONDS):
                while not (self._is_over or self._stream.is_full or self._stream.sink is not None):
                    self._is_idle.clear()
                    await self._is_idle.wait()

    async def _first(self) -> tuple[mq.ConnectPacket, Iterator[Packet]]:
        """CONNECT, and the packets behind it, which nothing has read so far."""
        connect: Packet | None = None
        rest: Iterator[Packet] = iter(())
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                while connect is None:
                    data = await self._stream.read()
                    if not data:
                        raise ConnectionResetError("gone before CONNECT")
                    await self._turns.time()
                    rest = self._read.feed(data)
                    connect = next(rest, None)
            assert isinstance(connect, mq.ConnectPacket)
            self._version = connect.version
            check_connect(connect)
        except Malformed as error:
            # what is no CONNECT at all gets no answer, as 3.1.1 demands and 5 allows
            if connect or error.reason not in (Reason.MALFORMED, Reason.PROTOCOL):
                self._refuse(error.reason)
            raise ConnectionResetError(str(error)) from None
        return connect, rest

    def _refuse(self, reason: Reason) -> None:
        self._version = self._read.version or 4
        code = int(reason) if self._version == V5 else OLD_CODES.get(reason)
        if code is not None and not self._wire.is_closing():
            self._wire.write(write(mq.ConnackPacket(code), self._version))

    # -- from the client ---------------------------------------------------------------------------

    async def _receive_all(self, rest: Iterator[Packet], silence: float) -> None:
        session = self._session
        assert session is not None
        self._read_at = self._loop.time()
        alive = KeepAlive(self._stream, silence, lambda: self._read_at, lambda: self._written, self.end)
        try:
            await self._handle_work(session, UnhandledPackets(rest, SLICE, self._turns.is_over))
            while not self._is_over:
                work = await self._next_work()
                if work is None:
                    return
                await self._handle_work(session, work)
                await self._stream.drained()  # a client that does not read its answers is not read from
        except Malformed as error:
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(error.reason)
        finally:
            self._stream.sink = None
            alive.stop()

    async def _next_work(self) -> UnhandledPackets | None:
        """Let bytes be handled as they come, until some packets need this task. None: no more bytes come."""
        if data := self._stream.take():
            return self._read_packets(data)
        if self._stream.is_over:
            return None
        self._work = self._loop.create_future()
        self._stream.sink = self._take
        self._is_idle.set()
        try:
            return await self._work
        finally:
            self._stream.sink = None

    def _hand_work(self, work: UnhandledPackets | None) -> None:
        self._stream.sink = None
        if self._work is not None and not self._work.done():
            self._work.set_result(work)

    def _read_packets(self, data: bytes) -> UnhandledPackets:
        """The packets that these bytes complete; no slice of them is read yet."""
        assert self._session is not None
        self._read_at = self._loop.time()
        pause = charge(self._session.bus, len(data))
        return UnhandledPackets(self._read.feed(data), SLICE, self._turns.is_over, pause)

    def _take(self, data: bytes) -> None:
        """Handle the packets that came, as far as they need no waiting; the task handles the rest."""
        session = self._session
        if not data or session is None or self._is_over:
            self._hand_work(None)
            return
        work = self._read_packets(data)
        if not work.pause and (len(data) <= SHORT_READ or not self._turns.is_over()):
            self._is_taking = True
            work.read_slice()
            try:
                self._handle_at_once(session, work)
            except Malformed as error:
                work.packets, work.violation, work.is_done = [], error, True
            finally:
                self._is_taking = False
                self._flush()
        if work.packets or not work.is_done or work.violation is not None or self._is_over:
            self._hand_work(work)

    def _handle_at_once(self, session: MqttSession, work: UnhandledPackets) -> None:
        """Handle the first packets of a slice, up to one that may have to wait. Raises `Malformed`."""
        packets = work.packets
        position, count = 0, len(packets)
        while position < count and not self._is_over and not (position and self._turns.is_over()):
            packet, begin = packets[position], position
            kind = type(packet)
            if kind is mq.PublishPacket:
                qos = packet.qos  # type: ignore[attr-defined]
                if qos > 1:
                    break
                end = begin + self._together.count
                if end > count:
                    end = count
                while position < end and type(packets[position]) is mq.PublishPacket:
                    if packets[position].qos != qos:  # type: ignore[attr-defined]
                        break
                    position += 1
                batch = packets[begin:position]
                if qos and self._answers.count + len(batch) > AHEAD:
                    position = begin
                    break
                self._publish_now(session, batch)  # type: ignore[arg-type]
            elif kind is mq.AckPacket and packet.kind is not PacketKind.PUBREL:  # type: ignore[attr-defined]
                session.acknowledged(packet)  # type: ignore[arg-type]
                position += 1
            elif kind is mq.PingPacket and not packet.is_answer:  # type: ignore[attr-defined]
                self.send(_PONG)
                position += 1
            else:
                break
        work.packets = packets[position:]

    async def _handle_work(self, session: MqttSession, work: UnhandledPackets) -> None:
        """Handle packets a slice in each turn of the loop, and charge the time to the principal. A malformed
        packet counts after those before it were handled."""
        if work.pause:  # by the quota of the principal
            await asyncio.sleep(work.pause)
        while True:
            await self._turns.time()
            if not work.packets:
                work.read_slice()
            began = perf_counter()
            await self._handle_all(session, work.packets)
            if work.violation is not None:
                raise work.violation
            if work.is_done or self._is_over:
                return
            work.packets = []
            await asyncio.sleep(charge(session.bus, 0, min(perf_counter() - began, SLICE * DEAREST)))

    async def _handle_all(self, session: MqttSession, packets: Sequence[Packet]) -> None:
        for is_publish, batch in groupby(packets, lambda packet: type(packet) is mq.PublishPacket):
            if self._is_over:
                return
            if is_publish:
                await self._publish_all(session, list(batch))  # type: ignore[arg-type]
            else:
                for packet in batch:
                    await self._turns.time()
                    await self._handle(session, packet)

    async def _handle(self, session: MqttSession, packet: Packet) -> None:
        if self._is_over:
            return
        match packet:
            case mq.AckPacket(kind=PacketKind.PUBREL):
                await self._answers.room()
                self._do(self._release(session, packet.packet_id, self._answers.reserve()))
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
        reasons = await session.subscribe(packet, self._listener.is_written)
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
        self._close()

    # -- publishes ---------------------------------------------------------------------------------

    async def _publish_all(self, session: MqttSession, packets: list[mq.PublishPacket]) -> None:
        """Publish packets that came one after the other: those of QoS 0 and of QoS 1 in batches."""
        for qos, run in groupby(packets, lambda packet: packet.qos):
            batch = list(run)
            while batch and not self._is_over:
                await self._turns.time()
                room = self._together.count if qos < 2 else 1
                if qos == 1 and self._version != V5:
                    await self._answers.room()
                    room = min(room, AHEAD - self._answers.count)
                part, batch = batch[:room], batch[room:]
                if qos < 2:
                    self._publish_now(session, part)
                else:
                    self._check_publishes(session, part)
                    await self._publish_once(session, part[0])

    def _publish_now(self, session: MqttSession, packets: list[mq.PublishPacket]) -> None:
        """Publish packets of QoS 0, or of QoS 1 that have room among the answers, as one batch. Those before
        a violation count. Raises `Malformed`."""
        violation = None
        try:
            self._check_publishes(session, packets)
        except Malformed as error:
            violation = error
        if packets:
            if packets[1:]:
                with self._together:
                    self._hand_in(session, packets)
            else:
                self._hand_in(session, packets)
        if violation is not None:
            raise violation

    def _hand_in(self, session: MqttSession, packets: list[mq.PublishPacket]) -> None:
        if packets[0].qos == 0:
            session.publisher.publish_soon(packets)
        else:
            answers = self._answers.reserve(len(packets), is_puback=True)
            self._unanswered += 1
            acknowledge = partial(self._acknowledge_all, session, packets, answers)
            session.publisher.publish_all(packets, acknowledge)

    def _check_publishes(self, session: MqttSession, packets: list[mq.PublishPacket]) -> None:
        """Set the topics of packets, and count those that wait for an answer. Raises `Malformed` after
        those from the violation on were removed."""
        unanswered = self._answers.pubacks + session.publisher.open_exchanges if self._version == V5 else 0
        for position, packet in enumerate(packets):
            try:
                if packet.properties or not packet.topic:
                    if "subscription_id" in packet.properties:
                        raise Malformed("a subscription id from a client", Reason.PROTOCOL)
                    packet.topic = self._aliases.topic_of(packet)
                unanswered += self._version == V5 and packet.qos > 0 and not packet.dup
                if unanswered > AHEAD:  # MQTT-3.3.4-9
                    raise Malformed(f"more than {AHEAD} unanswered publishes", Reason.RECEIVE_MAXIMUM)
            except Malformed:
                del packets[position:]
                raise

    def _acknowledge_all(
        self,
        session: MqttSession,
        packets: list[mq.PublishPacket],
        answers: PendingAnswers,
        reasons: list[int | None],
    ) -> None:
        """Acknowledge packets of QoS 1 when the broker has, in one write."""
        self._unanswered -= 1
        if not self._unanswered:
            self._all_answered.set()
        known: list[bytes] = []
        for packet, reason in zip(packets, reasons, strict=True):
            if reason == 0:
                known.append(PLAIN_PUBACK + packet.packet_id.to_bytes(2, "big"))
            elif self._is_answerable(session, packet, reason):
                known.append(ack(PacketKind.PUBACK, packet.packet_id, reason or 0, self._version))
            else:
                break
        self._answers.answer(answers, b"".join(known))
        if len(known) < len(packets):
            last = reasons[len(known)]
            self.end(Reason.BUSY if last is None else Reason(last))

    async def _publish_once(self, session: MqttSession, packet: mq.PublishPacket) -> None:
        """Publish a packet of QoS 2."""
        await self._answers.room()
        answer, packet_id = self._answers.reserve(), packet.packet_id
        if not session.publisher.is_new(packet_id, AHEAD if self._version == V5 else MOST_AHEAD):
            self._answers.answer(answer, ack(PacketKind.PUBREC, packet_id, Reason.SUCCESS, self._version))
            return

        async def publish() -> None:
            reason = await session.publisher.publish(packet)
            if self._is_answerable(session, packet, reason):
                self._answers.answer(answer, ack(PacketKind.PUBREC, packet_id, reason or 0, self._version))
            else:
                self.end(Reason.BUSY if reason is None else Reason(reason))

        self._do(publish())

    def _is_answerable(self, session: MqttSession, packet: mq.PublishPacket, reason: int | None) -> bool:
        """Can the client be told? Else the connection ends: no packet says that an outcome is unknown, and
        before version 5 none says that a message was refused."""
        if reason is None:
            session.publisher.unsure(packet.packet_id)
            return False
        if reason >= 0x80:
            session.publisher.refused(packet.packet_id)
            return self._version == V5
        return True

    async def _release(self, session: MqttSession, packet_id: int, answer: PendingAnswers) -> None:
        try:
            reason = await session.publisher.released(packet_id)
        except StoreFullError as error:  # without an answer the client asks again
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(Reason.QUOTA)
            return
        self._answers.answer(answer, ack(PacketKind.PUBCOMP, packet_id, reason, self._version))
