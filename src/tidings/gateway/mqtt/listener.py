"""Listener for MQTT: connections, handshakes, keep-alive, and owners of sessions.

Rules
- The first packet is CONNECT, within ten seconds. A name and a password are checked as everywhere; a password
  without a name (version 5), or with the name `token`, is a signed token.
- A session belongs to a tenant, a user's name and a client id (`SessionKey`), regardless of the user's
  mechanism and present groups. A connection under a key that is connected takes the session over.
- A protocol violation ends the connection, with a reason for version 5.
- Sessions that outlive their connection are written down (a JSON file in the store's directory), and end
  when their expiry has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import RefusedError, StoreFullError, TidingsError
from tidings.gateway.authentication import ConnectionOrigin, GatewayAuthenticator
from tidings.gateway.http_sessions import client_name
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import FILTER
from tidings.gateway.mqtt.exchanges import ExchangeJournal, Exchanges
from tidings.gateway.mqtt.packets import V5, V31, Malformed, Packet, PacketKind, Reason
from tidings.gateway.mqtt.pushes import PushChannel
from tidings.gateway.mqtt.reading import ANY, PacketReader
from tidings.gateway.mqtt.session import MOST_AHEAD, NEVER, MqttSession
from tidings.gateway.mqtt.sessions_file import SessionKey, SessionsFile, StoredSession, key_of
from tidings.gateway.mqtt.shares import SharedSubscriptions
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.gateway.mqtt.writing import write
from tidings.gateway.serving import bind
from tidings.protocol.limits import DEFAULT_LIMITS, ClientLimits
from tidings.runtime.admission import AdmittedConnection, SocketListener, streamed
from tidings.runtime.local_clients import LocalClientHost, LocalClients, charge, in_slices
from tidings.security.attempts import TooManyAttempts

log = logging.getLogger("tidings.gateway")

FILE = "mqtt-sessions.json"
LARGEST = 2**20  # bytes of a packet
HANDSHAKE_SECONDS = 10.0
AHEAD = 100  # publishes of QoS 1 and 2 that we take before we answer: our receive maximum
ALIASES = 32
BUFFER = 256 * 1024  # bytes that may wait for a slow client before its delivery pauses
MOST_WAITING = 8 * 2**20  # bytes of QoS 0 that wait for a slow client
USER_PROPERTIES = {
    PacketKind.PUBLISH: ANY,
    PacketKind.SUBSCRIBE: FILTER,
}  # those of other packets are not kept
_OLD_CODES = {
    Reason.VERSION: 1, Reason.CLIENT_ID: 2, Reason.UNAVAILABLE: 3, Reason.PASSWORD: 4,
    Reason.NOT_AUTHORISED: 5,
}  # fmt: skip


def _reason_of(error: TidingsError, connect: mq.ConnectPacket) -> Reason:
    if isinstance(error, TooManyAttempts | StoreFullError):
        return Reason.UNAVAILABLE
    return Reason.NOT_AUTHORISED if connect.password is None else Reason.PASSWORD


class MqttListener:
    def __init__(
        self, host: LocalClientHost, prover: GatewayAuthenticator, scope: Callable[[Any, str], str],
        listen: str, folder: Path | None,
        tls: ssl.SSLContext | None, bounds: ClientLimits = DEFAULT_LIMITS.client,
    ) -> None:  # fmt: skip
        self.topic_filters, self._session_bytes = bounds.topic_filters, bounds.session_bytes
        self._host = host
        self._prover = prover
        self._listen = listen
        self._tls = tls
        self._file = SessionsFile(None if folder is None else folder / FILE)
        self._journal = None if folder is None else ExchangeJournal(folder)
        self._server: SocketListener | None = None
        self._sessions: dict[SessionKey, MqttSession] = {}
        self._known = self._file.known
        self._links: dict[SessionKey, MqttConnection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._shares = SharedSubscriptions(scope)
        self._undecided = UnconfirmedPublishes(host.resources.remembered_events)
        self.address = ""

    async def start(self) -> None:
        self._file.load(self._host.clock.now())
        if self._journal is not None:
            await asyncio.to_thread(self._journal.load, {each.session for each in self._known.values()})
            for key, written in self._known.items():
                exchanges = self._journal.of(written.session) if written.session else Exchanges("", None)
                self._shares.found(written.owner, key, written.subscriptions, exchanges)
        self._sweeping = asyncio.create_task(self._sweep())
        if not self._listen:
            return  # connections come by WebSocket alone
        bound = bind(self._listen, "gateway.mqtt")
        host, port = bound.getsockname()[:2]
        self._server = SocketListener(bound, streamed(self.serve, 2**16), self._host.admission, tls=self._tls)
        self.address = f"{'mqtt' if self._tls is None else 'mqtts'}://{host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for link in list(self._links.values()):
            link.end(Reason.SHUTTING_DOWN)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in list(self._sessions.values()):
            await session.close()
        await self.is_written()
        if self._journal is not None:
            await self._journal.close()

    # -- connections -------------------------------------------------------------------------------

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: AdmittedConnection
    ) -> None:
        """One connection, from beginning to end."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await MqttConnection(self, reader, writer, visit).run()
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            log.debug("mqtt: a connection ended: %s", error)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def proved(self, connect: mq.ConnectPacket, where: ConnectionOrigin) -> Any:
        if connect.password is None:
            return await self._prover.nobody(connect.user or connect.client_id or "anonymous", where)
        try:
            password = connect.password.decode()
        except UnicodeDecodeError:
            raise RefusedError("the name or the password is wrong") from None
        if connect.user in (None, "", "token"):
            return await self._prover.token(password, where)
        return await self._prover.password(connect.user, password, where)

    async def session(
        self, principal: Any, connect: mq.ConnectPacket, link: MqttConnection
    ) -> tuple[MqttSession, bool]:
        """The session that this connection carries on, or a new one; was there one?"""
        key = key_of(principal, connect.client_id)
        other = self._links.get(key)
        if other is not None:
            other.end(Reason.TAKEN_OVER)
            await other.over.wait()
        self._links[key] = link
        before, known = self._sessions.pop(key, None), self._known.get(key)
        if before is not None and (before.owner != principal or before.bus.state != "up"):
            await before.close()  # its rights are those of the principal that it was opened for
            before = None
        if connect.clean:
            if before is None and known is not None:
                before = await self._open(principal, connect.client_id, known)
            if before is not None:
                await before.end()
            self._known.pop(key, None)
            before = known = None
        expiry = link.expiry(connect)
        if before is not None and before.durable:
            session = before
        else:
            session = await self._open(principal, connect.client_id, known, durable=expiry > 0)
        session.expiry, session.left_at = expiry, None
        self._sessions[key] = session
        if session.durable:
            name = session.exchanges.session
            self._known[key] = StoredSession(principal, connect.client_id, expiry, None, session.kept, name)
            if not await self.is_written() and known is None:  # one that the file holds can go on as it is
                del self._known[key], self._sessions[key], self._links[key]
                await session.end()
                raise StoreFullError("this session cannot be kept at the moment")
        return session, known is not None

    async def _open(
        self, principal: Any, client_id: str, known: StoredSession | None, *, durable: bool = True
    ) -> MqttSession:
        bus = LocalClients(self._host, principal).bus(client_name(principal, client_id))
        await bus.open()
        kept = None if known is None else known.subscriptions
        exchanges = None
        if durable and self._journal is not None:
            exchanges = self._journal.of((known and known.session) or secrets.token_hex(8))
        return MqttSession(
            client_id, bus, self._undecided, self._shares, owner=principal, durable=durable, kept=kept,
            exchanges=exchanges,
            most_bytes=self._session_bytes,
        )  # fmt: skip

    async def left(self, key: SessionKey, session: MqttSession, link: MqttConnection) -> None:
        """The connection of a session is gone."""
        if self._links.get(key) is link:
            del self._links[key]
        await session.detach()
        if self._sessions.get(key) is not session:
            return
        session.left_at = self._host.clock.now()
        if not session.expiry or not session.durable:
            del self._sessions[key]
            self._known.pop(key, None)
            await session.end()
        elif key in self._known:
            known = self._known[key]
            known.expiry, known.left_at, known.subscriptions = session.expiry, session.left_at, session.kept
        await self.is_written()

    def later(self, seconds: float, say: Callable[[], Awaitable[Any]]) -> None:
        """A will with a delay."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            await say()

        task = asyncio.create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_connected(self, key: SessionKey) -> bool:
        return key in self._links

    # -- sessions that stay ------------------------------------------------------------------------

    async def is_written(self) -> bool:
        """Write the sessions down; False: they could not be."""
        return await self._file.is_written(self._shares)

    async def _sweep(self) -> None:
        """End the sessions that have expired."""
        while True:
            await asyncio.sleep(1.0)
            now = self._host.clock.now()
            for key, written in list(self._known.items()):
                if written.left_at is None or written.expiry == NEVER or key in self._links:
                    continue
                if written.left_at + written.expiry <= now:
                    with contextlib.suppress(TidingsError):
                        session = self._sessions.pop(key, None) or await self._open(
                            written.owner, key.client_id, written
                        )
                        await session.end()
                    self._known.pop(key, None)
                    self._shares.forget(key)
                    await self.is_written()


class MqttConnection:
    """One connection."""

    def __init__(
        self,
        door: MqttListener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        visit: AdmittedConnection,
    ) -> None:
        self._door, self._visit = door, visit
        self._reader, self._writer = reader, writer
        self._read = PacketReader(LARGEST, topic_filters=door.topic_filters, user=USER_PROPERTIES)
        self._version = 4
        self._session: MqttSession | None = None
        self._answers: deque[asyncio.Task[None]] = deque()
        self._aliases: dict[int, str] = {}  # the client's
        self._told: dict[str, int] = {}  # ours, as many as the client allows
        self._most_told = 0
        self._largest = 0  # bytes of a packet that the client takes; 0: any
        self._will: mq.Will | None = None
        self._is_over = False
        self._lines: list[bytes] = []  # to be written in this turn of the loop
        self._line_bytes = 0
        self.lost = 0
        self.over = asyncio.Event()
        writer.transport.set_write_buffer_limits(high=BUFFER)

    def send(self, packet: Packet) -> None:
        if not self._is_over:
            self._flush()
            if self._most_told and isinstance(packet, mq.PublishPacket):
                packet = self._aliased(packet)
            data = write(packet, self._version)
            if self._largest and len(data) > self._largest:  # a client that cannot even take an answer
                self._is_over = True
                self._writer.close()
                return
            self._writer.write(data)

    def _aliased(self, packet: mq.PublishPacket) -> mq.PublishPacket:
        """With a number for its topic, of the first topics that there are numbers for; known ones by that
        alone."""
        alias = self._told.get(packet.topic)
        if alias is not None:
            return msgspec.structs.replace(
                packet, topic="", properties=packet.properties | {"topic_alias": alias}
            )
        if len(self._told) >= self._most_told:
            return packet
        alias = self._told[packet.topic] = len(self._told) + 1
        return msgspec.structs.replace(packet, properties=packet.properties | {"topic_alias": alias})

    def send_bytes(self, data: bytes) -> None:
        """Of QoS 0: what a client that reads too slowly has no room for is lost to it, as the standard
        allows."""
        if self._is_over:
            return
        if self._writer.transport.get_write_buffer_size() > MOST_WAITING:
            self.lost += 1
            return
        self._lines.append(data)
        self._line_bytes += len(data)
        if len(self._lines) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    async def _drained(self) -> None:
        """Wait until few bytes wait for the client; many may be woken at once, and the first may fill it
        again."""
        self._flush()
        while not self._is_over and self._writer.transport.get_write_buffer_size() > BUFFER:
            await self._writer.drain()
            await asyncio.sleep(0)

    def _is_full(self) -> bool:
        waiting = self._writer.transport.get_write_buffer_size() + self._line_bytes
        return waiting > MOST_WAITING // 2

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
        self._is_over = True
        self._writer.close()

    def expiry(self, connect: mq.ConnectPacket) -> int:
        """Seconds for which the session outlives the connection."""
        if connect.version == V5:
            return int(connect.properties.get("session_expiry", 0))
        return 0 if connect.clean else NEVER

    async def run(self) -> None:
        connect, rest = await self._first()
        try:
            principal = await self._door.proved(connect, self._where())
            session, present = await self._door.session(principal, connect, self)
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
        self._most_told = min(connect.properties.get("topic_alias_maximum", 0), ALIASES)
        try:
            self.send(mq.ConnackPacket(0, present and self._version != V31, self._said(connect)))
            outlet = PushChannel(
                self.send, self.send_bytes, self._drained, self._is_full, version=self._version,
                largest=self._largest, aliases=self._most_told,
            )  # fmt: skip
            await session.attach(outlet, ahead=connect.properties.get("receive_maximum", 0xFFFF))
            await self._hear_all(rest, connect.keep_alive * 1.5 or None)
        finally:
            await self._over(key, session)

    async def _over(self, key: SessionKey, session: MqttSession) -> None:
        self._is_over = True
        await asyncio.gather(*self._answers, return_exceptions=True)
        will, self._will = self._will, None
        if will is not None:
            delay = min(will.properties.get("will_delay", 0), session.expiry)
            if delay and session.durable:
                self._door.later(delay, lambda: self._say_late(key, session, will))
            else:
                await session.will(will)
        await self._door.left(key, session, self)
        self.over.set()

    async def _say_late(self, key: SessionKey, session: MqttSession, will: mq.Will) -> None:
        if not self._door.is_connected(key) and session.bus.state == "up":
            await session.will(will)

    async def _first(self) -> tuple[mq.ConnectPacket, list[Packet]]:
        """CONNECT, and what came behind it."""
        found: list[Packet] = []
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                while not found:
                    data = await self._reader.read(2**16)
                    if not data:
                        raise ConnectionResetError("gone before CONNECT")
                    found = list(self._read.feed(data))
            connect = found[0]
            assert isinstance(connect, mq.ConnectPacket)
            self._version = connect.version
            if "authentication_method" in connect.properties:
                raise Malformed("no such method", Reason.AUTHENTICATION)
            if not connect.client_id:
                if connect.version == V31 or (connect.version != V5 and not connect.clean):
                    raise Malformed("a session without a client id", Reason.CLIENT_ID)
                connect.client_id = f"auto-{secrets.token_hex(8)}"
                connect.properties["assigned"] = connect.client_id
        except Malformed as error:
            # what is no CONNECT at all gets no answer, as 3.1.1 demands and 5 allows
            if error.reason not in (Reason.MALFORMED, Reason.PROTOCOL):
                self._refuse(error.reason)
            raise ConnectionResetError(str(error)) from None
        return connect, found[1:]

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
        said: mq.Properties = {
            "receive_maximum": AHEAD,
            "maximum_packet": LARGEST,
            "topic_alias_maximum": ALIASES,
            "subscription_ids_available": 1,
            "shared_available": 1,
        }
        if "assigned" in connect.properties:
            said["assigned_client_id"] = connect.properties["assigned"]
        return said

    # -- what it says ------------------------------------------------------------------------------

    async def _hear_all(self, rest: list[Packet], silence: float | None) -> None:
        session = self._session
        assert session is not None
        try:
            for packet in rest:
                await self._hear(packet)
            while not self._is_over:
                try:
                    async with asyncio.timeout(silence):
                        data = await self._reader.read(2**16)
                except TimeoutError:
                    self.end(Reason.KEEP_ALIVE)
                    return
                if not data:
                    return
                await asyncio.sleep(charge(session.bus, len(data)))  # by the quota of the principal
                await in_slices(session.bus, self._read.feed(data), self._hear)
                await self._writer.drain()  # a client that does not read its answers is not read from
        except Malformed as error:
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(error.reason)

    async def _hear(self, packet: Packet) -> None:
        session = self._session
        assert session is not None
        if self._is_over:
            return
        match packet:
            case mq.PublishPacket():
                await self._publish(session, packet)
            case mq.AckPacket(kind=PacketKind.PUBREL):
                await self._answered(self._release(session, packet.packet_id))
            case mq.AckPacket():
                session.acknowledged(packet)
            case mq.SubscribePacket():
                await self._subscribe(session, packet)
            case mq.UnsubscribePacket():
                self.send(mq.UnsubackPacket(packet.packet_id, await session.unsubscribe(packet.filters)))
                await self._door.is_written()
            case mq.PingPacket(is_answer=False):
                self.send(mq.PingPacket(True))
            case mq.DisconnectPacket():
                self._leave(session, packet)
            case _:
                raise Malformed(f"{type(packet).__name__} from a client", Reason.PROTOCOL)

    async def _subscribe(self, session: MqttSession, packet: mq.SubscribePacket) -> None:
        """The answer first, then what is retained."""
        reasons = await session.subscribe(packet)
        if not await self._door.is_written() and session.durable:
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
        if packet.reason != Reason.WITH_WILL:
            self._will = None
        self._is_over = True
        self._writer.close()

    async def _publish(self, session: MqttSession, packet: mq.PublishPacket) -> None:
        packet.topic = self._named(packet)
        if packet.qos == 0:
            session.publish_soon(packet)
            return
        if packet.qos == 2 and not session.is_new(
            packet.packet_id, AHEAD if self._version == V5 else MOST_AHEAD
        ):
            self.send(mq.AckPacket(PacketKind.PUBREC, packet.packet_id))
            return
        await self._answered(self._answer(session, packet))

    async def _answered(self, answer: Coroutine[Any, Any, None]) -> None:
        """Have it answered beside what comes next, of which there is a bounded number."""
        while self._answers and self._answers[0].done():
            self._answers.popleft()
        if len(self._answers) >= AHEAD:
            await self._answers[0]
        self._answers.append(asyncio.create_task(answer))

    async def _release(self, session: MqttSession, packet_id: int) -> None:
        try:
            reason = await session.released(packet_id)
        except StoreFullError as error:  # without an answer the client asks again
            log.info("mqtt %s: %s", session.client_id, error)
            self.end(Reason.QUOTA)
            return
        self.send(mq.AckPacket(PacketKind.PUBCOMP, packet_id, reason))

    async def _answer(self, session: MqttSession, packet: mq.PublishPacket) -> None:
        """Acknowledge when the broker has."""
        reason = await session.publish(packet)
        if reason is None:
            session.unsure(packet.packet_id)
            self.end(Reason.BUSY)
            return
        if reason >= 0x80:
            session.refused(packet.packet_id)
            if self._version != V5:
                self.end(Reason(reason))
                return
        kind = PacketKind.PUBACK if packet.qos == 1 else PacketKind.PUBREC
        self.send(mq.AckPacket(kind, packet.packet_id, reason))

    def _named(self, packet: mq.PublishPacket) -> str:
        """The topic, by its alias if it has one."""
        alias = packet.properties.pop("topic_alias", None)
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
