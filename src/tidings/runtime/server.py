"""A broker as a server: one node, its store, its listener, its neighbours and its clients.

    server = Server("b1", listen="127.0.0.1:0", join=["127.0.0.1:7117"], path="data")
    await server.start()
    print(server.address)
    await server.serve_forever()      # until `stop` is called
    await server.drain(10)

The server puts parts together and leaves decisions to the node (`protocol`) and to security
(`security/interfaces.py`). It binds to loopback unless told otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import msgspec

from tidings.errors import RefusedError, TidingsError, TooLargeError, UnreachableError, WireError
from tidings.history.recorder import Recorder
from tidings.language.limits import DEFAULT_LIMITS, Limits
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import CloseLink, Warn
from tidings.protocol.inputs import ALL_FEATURES, Input, MessageTooLarge, Started
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import BROKER_MESSAGES, CLIENT_MESSAGES, Message, Publish
from tidings.protocol.node import Node
from tidings.runtime.admission import Admission, SocketListener, admission_settings, listeners_at
from tidings.runtime.archives import ServedArchive
from tidings.runtime.broker import open_store, owner_of, recorder_of
from tidings.runtime.client_connection import ClientConnection
from tidings.runtime.client_ingress import ClientIngress
from tidings.runtime.clock import RealClock, RuntimeClock
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer, sendable
from tidings.runtime.datagrams import Datagrams
from tidings.runtime.dialling import Address, parse_addresses
from tidings.runtime.driver import Driver, Tap
from tidings.runtime.fairness import Fairness, ReadingShares
from tidings.runtime.faults import MessageFaults
from tidings.runtime.handshake import Handshake
from tidings.runtime.histogram import Histogram
from tidings.runtime.intake import Intake
from tidings.runtime.kernels import prepare_in_background
from tidings.runtime.local_clients import LocalClient, PublishTurn, connection_figures
from tidings.runtime.messages import (
    BESIDE,
    HANDSHAKE,
    InquiryRefused,
    InquiryReply,
    InquiryRequest,
    Keepalive,
    KeepaliveAck,
    OpenSession,
    SessionClose,
    SessionOpened,
)
from tidings.runtime.neighbours import NeighbourLinks
from tidings.runtime.observing import answers_of
from tidings.runtime.pages import LogPages
from tidings.runtime.sessions import PrincipalSession, PrincipalSessions
from tidings.runtime.unfinished import UnfinishedFrames
from tidings.security.interfaces import (
    BROKER,
    AuthenticationResult,
    Authenticator,
    Credentials,
    Guard,
    LoopbackOnly,
    NoCredentials,
)
from tidings.store.store import Store
from tidings.systems import Site, find_system
from tidings.wire.codec import Codec

log = logging.getLogger("tidings.broker")

LOOPBACK = "127.0.0.1:0"
Inquiry = Callable[[dict[str, Any], Any], Awaitable[Any] | Any]  # answers what a principal asks about
LOOKED_AT = 40  # connections in one step; more make others wait longer
PARTS = range(16, 257)  # steps of a round, few connections to many


class Server:
    """One broker process. Everything happens on the loop that it was started on."""

    _looking: asyncio.TimerHandle | None = None  # when connections are looked at again
    _parts = PARTS[0]  # steps in which all of them are looked at
    _share = 0  # of them in one step
    _is_draining = False

    def __init__(
        self,
        name: str,
        *,
        listen: str | Sequence[str] = LOOPBACK,
        join: Sequence[str] = (),
        path: str | os.PathLike[str] | None = None,
        store: Store | None = None,
        system: str = "tidings",
        network: NetworkSettings | None = None,
        delivery: DeliverySettings | None = None,
        authenticator: Authenticator | None = None,
        guard: Guard[Any] | None = None,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        join_tls: ssl.SSLContext | None = None,
        record: Recorder | Path | str | None = None,
        seed: int | None = None,
        clock: RuntimeClock | None = None,
        tap: Tap | None = None,
        limits: Limits = DEFAULT_LIMITS,  # of clients' filters
        resources: ResourceLimits | None = None,  # all other limits; those of frames are in `network`
        datagrams: bool = False,  # do events travel by datagram? (see `datagrams.py`)
        peers: Mapping[str, str] | None = None,  # by name: where brokers that are no neighbours are reached
        options: Mapping[str, Any] | None = None,  # knobs of the system
        advertise: str = "",  # where others reach it, when that is not where it listens
        is_revoked: Callable[[Any], bool] = lambda certificate: False,
        standing: Callable[[Any], Any] | None = None,  # of a principal (see `sessions.py`)
    ) -> None:
        if not name or "#" in name:
            raise RefusedError(f"{name!r} is no name for a broker", hint="use letters, digits and -")
        self.name = name
        self.network = network or NetworkSettings()
        self.resources = (resources or ResourceLimits()).fitted(self.network.max_frame_bytes)
        self.addresses: list[Address] = []  # where it listens, once it has started
        self.inquiries: dict[str, Inquiry] = answers_of(self, guard)
        self.own_checks = {"log", "archive"}  # inquiries that ask the guard, by the right to subscribe
        self._listen = [listen] if isinstance(listen, str) else list(listen)
        self._join = [address for text in join for address in parse_addresses(text)]
        self._path, self._store = path, store
        self._system = find_system(system)
        self._delivery, self._authenticator = delivery or DeliverySettings(), authenticator or LoopbackOnly()
        self._guard, self._credentials = guard, credentials or NoCredentials()
        self._tls, self._join_tls, self._record = tls, join_tls, record
        self._rng = Random(SystemRandom().getrandbits(64) if seed is None else seed)  # noqa: S311 - names and draws
        self._clock = clock or RealClock()
        self._tap, self._limits, self._wants_datagrams = tap, limits, datagrams
        self._peers = {name: parse_addresses(text)[0] for name, text in (peers or {}).items()}
        self._options = dict(options or {})
        self.datagrams: Datagrams | None = None
        self._advertise, self._is_revoked = advertise, is_revoked
        self.sessions = PrincipalSessions(standing, self._clock)
        self._begin()

    def _begin(self) -> None:
        """No client has connected yet."""
        self._coalescer = WriteCoalescer()
        self._clients: dict[Connection, ClientConnection] = {}
        self._local_clients, self._last_client = set[LocalClient](), 0
        self.check_group: Callable[[str], None] = lambda group: None  # see `unit.py`
        self.listeners: list[SocketListener] = []
        self.admission = Admission(admission_settings(self.network))  # of all listeners of this process
        self._unseen: list[Connection] = []  # still to be looked at in this round
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping, self._answer_seconds = asyncio.Event(), Histogram()
        self._unfinished = UnfinishedFrames(self.network.unfinished_bytes)
        self.reading = ReadingShares(Fairness(later=self._coalescer.later))  # of all listeners too

    # -- beginning ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, listen, and begin to join. `address` is known when this returns."""
        self._loop = asyncio.get_running_loop()
        store = self.store = self._store or await open_store(self._path, self.resources.store_bytes)
        state = await asyncio.to_thread(store.load)
        if (owner := owner_of(state)) not in ("", self.name):
            await asyncio.to_thread(store.close)
            raise RefusedError(
                f"store {self._path or ''} is that of broker {owner}, and this is {self.name}",
                hint=f"start it with --name {owner}, or give this one a directory of its own",
            )
        self._recorder = recorder_of(self._record)
        self._faults = MessageFaults()
        self.node = self._build()
        prepare_in_background(self.node)
        parts = (self._coalescer, self.resources, self.network, self.reading)
        self._intake = Intake(self.node.backlog, *parts)
        if self._guard is not None:
            self.node.count_kept(self._guard)
        record: Any = (lambda row: None) if self._recorder is None else self._recorder.record
        self._driver = Driver(
            self.name, self.node, self._clock, record=record, fault=self._on_fault, tap=self._tap
        )
        ask = (store, self._guard, lambda: self.node.log, self._driver.now, self._limits)
        self.inquiries["log"] = LogPages(*ask, self.resources, self.node.inspect).answer
        self._driver.use_store(store, threaded=self._is_stable)
        self._driver.meter = self.reading
        self._turn = PublishTurn(self._driver, self._coalescer, self.resources, self.reading.fairness)
        self._driver.breathe_by(self._coalescer.flush, self._coalescer.soon)
        declared = tuple(message for slot in self.node.slots.values() for message in slot.messages)
        self._codec = Codec((*declared, *HANDSHAKE, *BESIDE), max_frame_bytes=self.resources.frame_bytes)
        others = frozenset(declared).difference(CLIENT_MESSAGES, BROKER_MESSAGES)
        self._neighbours = NeighbourLinks(
            self.name, self._system.name, self._driver, self._codec.limited(self.resources.taken_bytes),
            self._coalescer, self.network,
            allowed=others, credentials=self._credentials, tls=self._join_tls,
            rng=self._rng, is_revoked=self._is_revoked,
        )  # fmt: skip
        self._driver.perform(CloseLink, self._disconnect)
        self._driver.perform(Warn, lambda effect: log.warning("%s: %s", self.name, effect.text))
        self.handshake = Handshake(
            self._system.name, self._authenticator, self.network, self._coalescer, self._admit
        )
        self._driver.start(Started(state))
        for text in self._listen:
            for address in parse_addresses(text):
                await self._listen_at(address)
        self._neighbours.listens = self._advertise or self.address
        self.node.reached_at(self._neighbours.listens)
        if self._wants_datagrams or self._system.datagrams:
            await self._open_datagrams(others)
        self._neighbours.join(self._join)
        self._look_later()

    @property
    def _is_stable(self) -> bool:
        return self._path is not None or self._store is not None

    def _build(self) -> Node:
        options = {
            "delivery": msgspec.structs.asdict(self._delivery),
            "datagrams": self._wants_datagrams,
            "joins": bool(self._join),
            **self._options,
        }
        known = {name: value for name, value in options.items() if name in self._system.options}
        site = Site(
            name=self.name,
            brokers=(self.name,),
            options=known,
            recording=self._recorder is not None,
            stable=self._is_stable,
            limits=self.resources,
        )
        return self._system.build(site, self._rng)

    async def _listen_at(self, address: Address) -> None:
        try:
            opened = await listeners_at(
                address.host, address.port, self.handshake.connection, self.admission, tls=self._tls,
                handshake_seconds=self.network.handshake_seconds, backlog=self.resources.listen_backlog,
            )  # fmt: skip
        except OSError as error:
            raise UnreachableError(
                f"this broker cannot listen at {address.host}:{address.port}: {_plain(error)}",
                hint="end what listens there, or choose another address (--listen; `listen` in the settings)",
            ) from None
        self.listeners += opened
        self.addresses += [Address(*each.name, self._tls is not None) for each in opened]

    async def _open_datagrams(self, allowed: frozenset[type[Message]]) -> None:
        where, addresses = self.addresses[0], self._neighbours.addresses
        receive, limits = self._driver.receive, self.resources
        self.datagrams = Datagrams(self.name, self._codec, allowed, receive, addresses, limits)
        self.datagrams.tell({name: (address.host, address.port) for name, address in self._peers.items()})
        await self.datagrams.open(where.host, where.port)
        self._driver.datagram = self.datagrams.send

    @property
    def address(self) -> str:
        """Address at which clients and brokers reach this one."""
        return str(self.addresses[0])

    def serve_archive(self, path: str | os.PathLike[str]) -> None:
        """Let late subscribers be caught up from the archive in this directory."""
        archive = ServedArchive(path, self._guard, self._limits, self.resources, lambda: self.node)
        self.inquiries["archive"] = archive.answer

    # -- letting in -----------------------------------------------------------------------------

    def _admit(self, connection: Connection, open: OpenSession, proved: AuthenticationResult) -> None:
        if self._is_draining:
            raise UnreachableError("this broker is about to stop", hint="connect to another one")
        if open.role == BROKER:
            self._neighbours.admit(connection, open, proved.server_final)
            return
        if len(self._clients) >= self.network.connections:
            raise UnreachableError(
                f"this broker has {len(self._clients)} clients already", hint="connect to another one"
            )
        session = self._opened(proved.principal, open.name, connection.finish)
        self._last_client += 1
        address = f"{open.name}#{self._last_client}"
        ingress = ClientIngress(
            open.name,
            proved.principal,
            self._guard,
            say=connection.send,
            hand_in=lambda message: self._driver.receive(address, [message]),
            beside=lambda message: self._receive_beside(client, message),
            registered=self.node.subscription,
            check_group=self.check_group,
            limits=self._limits,
            bounds=self.resources.client,
        )
        client = ClientConnection(address, connection, ingress, session, self.reading.fairness)
        self._clients[connection] = client
        connection.most_bytes, connection.limits = self.network.client_buffer_bytes, self.resources
        connection.receive, connection.lost = self._receive, self._lost
        connection.unsendable = partial(self._unsendable, client)
        own, system, takes = self._codec.max_frame_bytes, self._system.name, (ALL_FEATURES, ingress.inbox)
        connection.use_codec(self._codec)
        connection.count_in(self._unfinished.of(client.owner))
        connection.spent = partial(self.reading.fairness.charge, client.share)
        self.reading.add(address, client.share)
        connection.send_by(self._codec.limited(sendable(open.takes, own)).read_by(open.features))
        connection.send(SessionOpened(self.name, system, proved.server_final, self.address, own, *takes))
        self._driver.link_up(address, self._outlet(client))

    def _opened(self, principal: Any, name: str, end: Callable[[str], None]) -> PrincipalSession:
        """A session under a client's name. Raises `RefusedError`."""
        session = self.sessions.open(principal, end)
        try:
            if self._guard is not None:
                self._guard.connected(principal, name)
        except TidingsError:
            session.close()
            raise
        return session

    def _outlet(self, client: ClientConnection) -> Callable[[Message], None]:
        unanswered, connection, intake = client.ingress.unanswered, client.connection, self._intake

        def answered() -> None:
            if client.requested and client.requested not in unanswered:
                self._answer_seconds.observe(self._loop.time() - client.asked_at)
                client.requested = 0
            if len(unanswered) <= intake.unanswered // 2 and connection.is_reading_paused:
                connection.release("unanswered")

        return client.ingress.outlet(answered)

    def _disconnect(self, effect: CloseLink) -> None:
        """The node drops a peer: a client that another broker has to serve, or a neighbour."""
        self._neighbours.disconnect(effect)
        for connection in [each for each, client in self._clients.items() if client.address == effect.peer]:
            connection.send(SessionClose(effect.reason))
            connection.finish(effect.reason)
        for local in [each for each in self._local_clients if each.address == effect.peer]:
            local.close()
            local.sent_away()

    @property
    def clock(self) -> RuntimeClock:
        return self._clock

    def admit_local_client(
        self,
        name: str,
        principal: Any,
        say: Callable[[Message], None],
        sent_away: Callable[[], None],
        ended: Callable[[str], None],
    ) -> LocalClient:
        """Let in a client that a gateway brings (see `local_clients.py`)."""
        if self._is_draining:
            raise UnreachableError("this broker is about to stop", hint="connect to another one")
        session = self._opened(principal, name, lambda reason: each.end(reason))
        self._last_client += 1
        each = LocalClient(
            f"{name}#{self._last_client}", session, self._turn, self._guard, self.reading, sent_away, ended
        )
        ingress = ClientIngress(
            name,
            principal,
            self._guard,
            say=say,
            hand_in=lambda message: self._driver.receive(each.address, [message]),
            registered=self.node.subscription,
            limits=self._limits,
            bounds=self.resources.client,
        )
        each.open(ingress, self._local_clients)
        return each

    # -- clients --------------------------------------------------------------------------------

    def _receive(self, connection: Connection, messages: list[Message]) -> None:
        if (client := self._clients.get(connection)) is None:
            return
        try:
            allowed = client.ingress.inward(messages)
        except WireError as error:
            connection.end(str(error))
            return
        if not client.requested and allowed and type(allowed[-1]) is Publish:  # one of many, at a time
            client.requested, client.asked_at = allowed[-1].call, self._loop.time()
        if self._guard is not None:
            self._charge(client, self._guard)
        if len(client.ingress.unanswered) >= self._intake.unanswered:
            connection.hold("unanswered")
        self._turn.receive(client, allowed)
        if self._intake.backlog.waited > self._intake.most and allowed and type(allowed[-1]) is Publish:
            self._intake.hold(connection, len(allowed))

    def _charge(self, client: ClientConnection, guard: Guard[Any]) -> None:
        connection = client.connection
        pause = guard.charge(client.principal, connection.received_bytes)
        connection.received_bytes = 0
        if pause > 0:
            connection.hold("quota")
            asyncio.get_running_loop().call_later(pause, connection.release, "quota")

    def _lost(self, connection: Connection, reason: str) -> None:
        client = self._clients.pop(connection, None)
        if client is None:
            return
        log.debug("client %s disconnected: %s", client.address, reason)
        self._turn.flush()  # what it published before
        self._unfinished.end(client.owner)
        self.reading.remove(client.address)
        self.reading.fairness.leave(client.share, connection)
        client.session.close()
        client.ingress.close()
        if self._guard is not None:
            self._guard.disconnected(client.principal)
        self._driver.link_down(client.address)

    def _receive_beside(self, client: ClientConnection, message: Message) -> bool:
        """Handle a client's message beside the protocol; False: it is unknown."""
        if isinstance(message, InquiryRequest):
            task = asyncio.create_task(self._inform(client, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif isinstance(message, Keepalive):
            client.connection.send(KeepaliveAck())
        return isinstance(message, InquiryRequest | Keepalive | KeepaliveAck)

    async def _inform(self, client: ClientConnection, inquire: InquiryRequest) -> None:
        try:
            value = await self.informed(client.principal, inquire.what, inquire.about)
            client.connection.send(InquiryReply(inquire.call, value))
        except TidingsError as error:
            client.connection.send(InquiryRefused(inquire.call, error.code, str(error)))

    def _unsendable(self, client: ClientConnection, message: Message, reason: str) -> None:
        log.warning("not sent to %s: %s", client.address, reason)
        if isinstance(message, InquiryReply):
            client.connection.send(InquiryRefused(message.call, TooLargeError.code, reason))
        else:
            self._driver.hand(self.name, MessageTooLarge(client.address, message))

    async def informed(self, principal: Any, what: str, about: dict[str, Any]) -> Any:
        """Answer what a principal asks about this broker. Raises."""
        if (inquiry := self.inquiries.get(what)) is None:
            raise RefusedError(f"this broker knows nothing of {what!r}")
        if self._guard is not None and what not in self.own_checks:
            self._guard.observe(principal, what)
        value = inquiry(about, principal)
        return await value if isinstance(value, Awaitable) else value

    # -- looking after it -----------------------------------------------------------------------

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_at = loop.time() + self.network.keepalive_seconds / 2 / self._parts
        self._looking = loop.call_at(self._look_at, self._look)

    def _look(self) -> None:
        """At a part of the connections in each step: ten thousand pings at once would stop all else."""
        now = asyncio.get_running_loop().time()
        late = now - self._look_at
        if late > self.network.keepalive_seconds:  # the loop was blocked, so no peer could be heard
            for connection in [*self._clients, *self._neighbours.connections]:
                connection.last_received = min(now, connection.last_received + late)
        if not self._unseen:
            self._unseen = [*self._clients, *self._neighbours.connections]
            self._parts = min(max(len(self._unseen) // LOOKED_AT, PARTS[0]), PARTS[-1])
            self._share = -(-len(self._unseen) // self._parts)
        some, self._unseen = self._unseen[: self._share], self._unseen[self._share :]
        for connection in (each for each in some if not each.is_over):
            connection.look(now, self.network)
        self._look_later()

    def _on_fault(self, sender: str, messages: list[Message], error: Exception) -> None:
        """The node failed at a peer's message: that peer is left, the others go on."""
        self._faults.note(sender, error)
        for client in list(self._clients.values()):
            if client.address == sender:
                self._faults.answer(messages, error, client.connection.send)
                client.connection.finish("its message could not be handled")
        if sender in self._neighbours.up:
            self._neighbours.leave(sender, "its message could not be handled")

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        return {
            **self.node.figures(),
            **self.handshake.figures,
            **self.admission.figures,
            **self.reading.fairness.figures,
            **self._intake.figures,
            **({} if self.datagrams is None else self.datagrams.figures),
            "broker": self.name,
            "address": self.address,
            "connections": len(self._clients),
            **connection_figures(self._local_clients),
            "handshakes": len(self.handshake),
            "unfinished bytes": self._unfinished.bytes,
            **self._neighbours.figures(self.node.neighbours),
            "faults": self._faults.count,
            "seconds to acknowledge": self._answer_seconds.figures(),
        }

    @property
    def links(self) -> list[str]:
        """The neighbours that are linked now."""
        return self._neighbours.up

    def links_at(self) -> dict[str, str]:
        """The neighbours that are linked now, and where each can be reached."""
        return self._neighbours.addresses()

    @property
    def is_open(self) -> bool:
        """Are clients let in?"""
        return bool(self.addresses) and not self._is_draining

    @property
    def disk_problem(self) -> str | None:
        return self.node.disk_problem

    def hand(self, input: Input) -> None:
        self._driver.hand(self.name, input)

    def review(self) -> None:
        """The rules, or the revoked certificates, may be others: end the sessions and links that they end."""
        self.sessions.review()
        for name in self._neighbours.up:
            if self._is_revoked(self._neighbours.certificate(name)):
                self._neighbours.leave(name, "its certificate was revoked")

    def part(self, neighbour: str) -> None:
        """A neighbour is gone for good: keep no event for it any more."""
        self._neighbours.part(neighbour)

    # -- ending ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let `serve_forever` return."""
        self._stopping.set()

    def stop_soon(self) -> None:
        """`stop`, from another thread."""
        self._loop.call_soon_threadsafe(self.stop)

    async def serve_forever(self) -> None:
        await self._stopping.wait()

    async def drain(self, timeout: float = 10.0) -> bool:
        """Accept no more requests, answer the accepted ones, and stop. True: every request was answered."""
        self._is_draining = True
        for listener in self.listeners:
            listener.close()
        self.handshake.close()
        for client in self._clients.values():
            client.connection.hold("draining")
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while any(c.ingress.unanswered or c.connection.unsent for c in self._clients.values()):
                    await asyncio.sleep(0.005)
        is_clean = not any(c.ingress.unanswered or c.connection.unsent for c in self._clients.values())
        await self.close()
        return is_clean

    async def close(self) -> None:
        """Stop at once; what was acknowledged is kept."""
        if self._looking is not None:
            self._looking.cancel()
        self.sessions.close()
        for listener in self.listeners:
            listener.close()
        self.handshake.close()
        for connection in list(self._clients):
            connection.send(SessionClose("the broker stops"))
            connection.finish("the broker stops")
        await self._neighbours.close()
        if self.datagrams is not None:
            self.datagrams.close()
        await asyncio.sleep(0)
        await self._driver.close()
        for connection in list(self._clients):
            connection.end("the broker has stopped")
        if self._recorder is not None:
            self._recorder.close()


def _plain(error: OSError) -> str:
    """The reason alone: asyncio puts the address before it, and we have."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)
