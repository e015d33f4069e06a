"""Listener for MQTT: connections, and the sessions that outlive them.

Rules
- A name and a password are checked as everywhere; a password without a name (version 5), or with the name
  `token`, is a signed token.
- A session belongs to a tenant, a user's name and a client id (`SessionKey`), regardless of the user's
  mechanism and present groups. A connection under a key that is connected takes the session over.
- Sessions that outlive their connection are written down (a JSON file in the store's directory), and end
  when their expiry has passed. A session that cannot be ended now is tried again until it has ended.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.errors import RefusedError, StoreFullError, TidingsError
from tidings.gateway.authentication import ConnectionOrigin, GatewayAuthenticator
from tidings.gateway.http_sessions import client_name
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.connection import BUFFER, MqttConnection
from tidings.gateway.mqtt.exchanges import ExchangeJournal, Exchanges
from tidings.gateway.mqtt.handshake import NEVER, ClientIdTooLong, expiry_of
from tidings.gateway.mqtt.packets import Reason
from tidings.gateway.mqtt.publishing import SessionPublisher, message_of
from tidings.gateway.mqtt.pushes import PacketCache
from tidings.gateway.mqtt.session import MqttSession
from tidings.gateway.mqtt.session_sums import FILE
from tidings.gateway.mqtt.sessions_file import (
    SessionKey,
    SessionsFile,
    StoredSession,
    first_start,
    key_of,
)
from tidings.gateway.mqtt.shares import SharedSubscriptions, is_shared
from tidings.gateway.mqtt.stream import ByteStream, TurnWrites, streams
from tidings.gateway.mqtt.turns import LoopTurns
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.gateway.mqtt.wills import PendingWills, StoredWill, delay_of
from tidings.gateway.serving import bind
from tidings.protocol.limits import DEFAULT_LIMITS, ClientLimits
from tidings.runtime.admission import AdmittedConnection, SocketListener
from tidings.runtime.local_clients import LocalClientHost, LocalClients, peer_of

log = logging.getLogger("tidings.gateway")

MOST_RETRY_SECONDS = 60.0  # between two tries to end an expired session


class MqttListener:
    def __init__(
        self, host: LocalClientHost, prover: GatewayAuthenticator, scope: Callable[[Any, str], str],
        listen: str, folder: Path | None,
        tls: ssl.SSLContext | None, bounds: ClientLimits = DEFAULT_LIMITS.client,
    ) -> None:  # fmt: skip
        self.topic_filters, self._session_bytes = bounds.topic_filters, bounds.session_bytes
        self._longest_name = bounds.name
        self._host = host
        self._prover = prover
        self._listen = listen
        self._tls = tls
        self._folder, self._legacy_before = folder, 0.0
        self._file = SessionsFile(None if folder is None else folder / FILE)
        self._journal = None if folder is None else ExchangeJournal(folder)
        self.write_ahead = None if self._journal is None else self._journal.flush
        self._server: SocketListener | None = None
        self._sessions: dict[SessionKey, MqttSession] = {}
        self._known = self._file.known
        self._links: dict[SessionKey, MqttConnection] = {}
        self._served: dict[asyncio.Task[Any], ByteStream] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._shares = SharedSubscriptions(scope)
        self._packets = PacketCache()
        self.writes = TurnWrites()
        self.turns = LoopTurns()
        self.first_bytes = host.network.handshake_frame_bytes  # of a CONNECT
        self._undecided = UnconfirmedPublishes(host.resources.remembered_events)
        self.wills = PendingWills(self.now, self._publish_will)
        self._expiring: dict[SessionKey, asyncio.Event] = {}  # sessions that are being ended
        self._retries: dict[
            SessionKey, tuple[float, float]
        ] = {}  # sessions to be ended: when, and the next pause
        self.address = ""

    async def start(self) -> None:
        self._legacy_before = first_start(self._folder, self.now())
        self._file.load(self.now(), [id.name for id in self._host.node.subscriptions()])
        if self._journal is not None:
            await asyncio.to_thread(self._journal.load, {each.session for each in self._known.values()})
            for key, written in self._known.items():
                exchanges = self._journal.of(written.session) if written.session else Exchanges("", None)
                self._shares.found(written.owner, key, written.subscriptions, exchanges)
        for key, written in self._known.items():
            if written.will is not None:
                will, due = written.will.will(), written.will.at
                if due is None:  # its client was connected when the broker was killed
                    due = self.now() + delay_of(will, written.expiry)
                    written.will.at = due
                self.wills.add(written.owner, key, will, due)
        self._sweeping = asyncio.create_task(self._sweep())
        if not self._listen:
            return  # connections come by WebSocket alone
        bound = bind(self._listen, "gateway.mqtt")
        host, port = bound.getsockname()[:2]
        self._server = SocketListener(bound, streams(self.serve, BUFFER), self._host.admission, tls=self._tls)
        self.address = f"{'mqtt' if self._tls is None else 'mqtts'}://{host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for link in list(self._links.values()):
            link.end(Reason.SHUTTING_DOWN)
        for stream in self._served.values():  # one that has no session yet
            stream.end()
        await asyncio.gather(*self._served, return_exceptions=True)
        await self.is_written()
        await self.wills.close()
        for session in list(self._sessions.values()):
            await session.close()
        if self._journal is not None:
            await self._journal.close()

    def now(self) -> float:
        return self._host.clock.now()

    # -- connections -------------------------------------------------------------------------------

    async def serve(self, stream: ByteStream, visit: AdmittedConnection) -> None:
        """One connection, from beginning to end."""
        task = asyncio.current_task()
        assert task is not None
        self._served[task] = stream
        link = MqttConnection(self, stream, visit)
        try:
            await link.run()
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            log.debug("mqtt: a connection ended: %s", error)
        finally:
            self._served.pop(task)
            link.over.set()
            stream.end()

    async def proved(self, connect: mq.ConnectPacket, where: ConnectionOrigin) -> Any:
        if connect.password is None:
            return await self._prover.anonymous(connect.user or connect.client_id or "anonymous", where)
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
        if (length := len(client_name(principal, connect.client_id))) > self._longest_name:
            raise ClientIdTooLong(f"the client's name has {length} characters; at most {self._longest_name}")
        key = key_of(principal, connect.client_id)
        if key in self._expiring:
            await self._expiring[key].wait()
        while (other := self._links.get(key)) is not None:
            await other.caught_up()
            other.end(Reason.TAKEN_OVER)
            await other.over.wait()
        self._links[key] = link
        try:
            return await self._carried_on(principal, connect, key)
        except BaseException:
            del self._links[key]
            raise

    async def _carried_on(
        self, principal: Any, connect: mq.ConnectPacket, key: SessionKey
    ) -> tuple[MqttSession, bool]:
        """The session of this key, which no other connection carries."""
        ended = self._known.get(key)
        if ended is not None and not ended.expiry:  # it ended with its connection, when the broker was killed
            await self._expire(key, ended)
        if connect.clean:
            await self.wills.session_ended(key)
        else:
            self.wills.cancel(key)
        before, known = self._sessions.pop(key, None), self._known.get(key)
        if before is not None and (before.owner != principal or before.bus.state != "up"):
            await before.close()  # its rights are those of the principal that it was opened for
            before = None
        if connect.clean:
            if before is None and known is not None:
                before = await self._open(principal, connect.client_id, known)
            if before is not None:
                await before.end()
                self._end_shares_later(before)
            self._known.pop(key, None)
            before = known = None
        expiry = expiry_of(connect)
        if before is not None and before.durable:
            session = before
        else:
            session = await self._open(
                principal, connect.client_id, known, durable=expiry > 0 or known is not None
            )
        session.expiry, session.left_at = expiry, None
        self._sessions[key] = session
        will = None if connect.will is None else StoredWill.of(connect.will)
        if session.durable or will is not None:
            kept, name = (session.kept, session.exchanges.session) if session.durable else ({}, "")
            self._known[key] = StoredSession(principal, connect.client_id, expiry, None, kept, name, will)
            is_written = await self.is_written()
            if session.durable and not is_written and known is None:  # one of the file can go on as it is
                del self._known[key], self._sessions[key]
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
            exchanges=exchanges, most_bytes=self._session_bytes, now=self.now,
            legacy_before=self._legacy_before, packets=self._packets,
        )  # fmt: skip

    async def left(self, key: SessionKey, session: MqttSession, link: MqttConnection) -> None:
        """The connection of a session is gone. Until all is done that its end brings, a connection that
        returns waits: it would go on with a session that is being ended."""
        try:
            await self._left(key, session)
        finally:
            if self._links.get(key) is link:
                del self._links[key]

    async def _left(self, key: SessionKey, session: MqttSession) -> None:
        await session.detach()
        peer_of(session.bus).leave()
        if self._sessions.get(key) is not session:
            return
        session.left_at = self._host.clock.now()
        if not session.expiry or not session.durable:
            del self._sessions[key]
            self._known.pop(key, None)
            await session.end()
            self._end_shares_later(session)
        elif key in self._known:
            known = self._known[key]
            known.expiry, known.left_at, known.subscriptions = session.expiry, session.left_at, session.kept
            known.will = self.wills.stored(key)
        await self.is_written()

    async def _publish_will(self, owner: Any, key: tuple[str, str, str], will: mq.Will) -> None:
        """Publish a will whose delay is over, with the rights of its principal; the next life does not."""
        session, known = self._sessions.get(SessionKey(*key)), self._known.get(SessionKey(*key))
        if session is not None and session.bus.state == "up":
            await session.will(will)
        else:
            await self._publish_for(owner, key, will)
        if known is not None:
            known.will = None
            await self.is_written()

    async def _publish_for(self, owner: Any, key: tuple[str, str, str], will: mq.Will) -> None:
        bus = LocalClients(self._host, owner).bus(client_name(owner, f"{key[2]}/will"))
        try:
            await bus.open()
            exchanges = Exchanges("", None)
            await SessionPublisher(bus, key[2], key, self._undecided, exchanges).publish(message_of(will))
        except TidingsError as error:
            log.warning("mqtt %s: the will cannot be published: %s", key[2], error)
        finally:
            await bus.close()

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
            now = self.now()
            for key, written in list(self._known.items()):
                if written.left_at is None or written.expiry == NEVER or key in self._links:
                    continue
                if written.left_at + written.expiry <= now and self._retries.get(key, (now,))[0] <= now:
                    await self._expire(key, written)

    async def _expire(self, key: SessionKey, written: StoredSession) -> None:
        """End an expired session; when a subscription of it cannot be ended now, it is tried again later."""
        await self.wills.session_ended(key)
        self._expiring[key] = asyncio.Event()
        try:
            session = self._sessions.pop(key, None) or await self._open(written.owner, key.client_id, written)
            has_ended = await session.end()
        except TidingsError as error:
            log.info("mqtt %s: the expired session cannot be ended now: %s", key.client_id, error)
            has_ended = False
        finally:
            self._expiring.pop(key).set()
        if has_ended:
            self._retries.pop(key, None)
            self._known.pop(key, None)
            self._shares.forget(key)
            await self.is_written()
        else:
            pause = self._retries.get(key, (0.0, 1.0))[1]
            self._retries[key] = (self.now() + pause, min(2 * pause, MOST_RETRY_SECONDS))

    def _end_shares_later(self, session: MqttSession) -> None:
        """Have the sweep end the shared subscriptions that an ended session could not end."""
        left = {name: kept for name, kept in session.kept.items() if is_shared(name)}
        if left:
            key = key_of(session.owner, "")
            other = self._known.get(key)
            subscriptions = left if other is None else {**other.subscriptions, **left}
            self._known[key] = StoredSession(session.owner, "", 0, 0.0, subscriptions)
