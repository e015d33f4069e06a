"""A remote broker: the client machine here, a connection that reconnects by itself.

Rules
- The machine lives as long as its bus, whichever broker it is connected to; connections come and go beneath
  it. On a new one it opens its subscriptions again, and sends unacknowledged publishes again.
- A broken connection is tried again at the same broker first, for `patience` seconds, because what was
  published there can be made sure of only there. Then the other addresses have their turn.
- A broker that says no to who we are is not asked again: every call fails with its reason. So it is with
  a certificate that is not trusted while no broker was connected yet; later it is tried again, because
  certificates are renewed.
- The state and the reason of a failure are observable: `Bus.state`, `Bus.watch`, and the log of
  `tidings.client`, once for each new reason.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from tidings.errors import ClosedError, RefusedError, TidingsError, TlsError, UnreachableError
from tidings.history.recorder import Recorder
from tidings.history.schema import Row, ntfy_row
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy, Position, SubscriptionId
from tidings.protocol.client import Client
from tidings.protocol.inputs import ALL_FEATURES, ClientPublishAll, Feature, Input
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import Ack, Message, Publish, Welcome
from tidings.protocol.publishing import in_parts
from tidings.runtime.broker import ConnectionState, Full, Watch, recorder_of
from tidings.runtime.clock import RealClock, RuntimeClock
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.dialling import Address, OpenedConnection, RetryDelays, dial
from tidings.runtime.driver import Driver, EffectHandler
from tidings.runtime.failures import error_of
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
)
from tidings.security.interfaces import CLIENT, Credentials, NoCredentials
from tidings.wire.codec import PUBLISHES, Codec, PublishAll

log = logging.getLogger("tidings.client")

_BESIDE = frozenset(
    (Keepalive, KeepaliveAck, SessionClose, InquiryReply, InquiryRefused)
)  # that are not for the machine
ACKS = 64  # acknowledgements of one subscription that wait for one another
TOGETHER = 2 * PUBLISHES  # publishes of one call that leave before the next ones are made
ACK_SECONDS = 0.005  # that they wait at most; longer saves messages, and a killed client hears more again
GROUP_SYSTEM = "tidings-group"
GROUP_KEEPALIVE, GROUP_DEAD = 2.0, 6.0  # seconds: a member of a group that is silent is left for another one

LASTING = 10  # times the first pause: a connection that was up for so long did not fail at once


class RemoteState(StrEnum):
    """State of a connection."""

    CONNECTING = "connecting"  # no broker has answered yet
    UP = "up"  # usable; a broken connection ends it
    DOWN = "down"  # broken; calls wait until it is up again
    REFUSED = "refused"  # the broker said no for good: every call fails
    CLOSED = "closed"


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a client's connection."""

    timeout: float = 10.0  # seconds for the first connection; afterwards it is tried for ever
    call_timeout: float | None = 30.0  # seconds for an answer to a call that names no timeout; None: no limit
    patience: float = 2.0  # seconds for the same broker to come back, before another address is tried
    tenant: str = ""


class _CoalescedCalls:
    """Sends what the machine says; publishes, and acknowledgements, that wait for one another leave together.

    Publishes leave at the end of the turn, or before any other message. An application that takes event by
    event commits each by itself: acknowledgements leave with the next message of another kind, when `ACKS` of
    a subscription wait, or after `ACK_SECONDS`. A client that is killed before that receives those events
    again, as one that is killed before it takes the next one.
    """

    def __init__(self, connection: Connection, features: int) -> None:
        self._connection = connection
        self._most = PUBLISHES if features & Feature.PUBLISH_ALL else 1  # publishes in one frame
        self._most_bytes = connection.limits.publish_frame_bytes
        self._publishes: list[Publish] = []
        self._bytes = 0  # of those
        self._tags: dict[int, list[int]] = {}  # by ref
        self._timer: asyncio.TimerHandle | None = None
        connection.before_flush = self._flush

    def send(self, message: Message) -> None:
        kind = type(message)
        if kind is Publish:
            if self._publishes and not self._joins(message):  # type: ignore[arg-type]
                self._send_publishes()
            if not self._publishes:
                self._connection.gather()
            self._publishes += (message,)  # type: ignore[arg-type]
        elif kind is not Ack:
            if self._tags or self._publishes:
                self._flush()
            self._connection.send(message)
        elif message.ref in self._tags:  # type: ignore[attr-defined]
            tags = self._tags[message.ref]  # type: ignore[attr-defined]
            tags += message.tags  # type: ignore[attr-defined]
            if len(tags) >= ACKS:
                self._connection.send_later()
        else:
            self._tags[message.ref] = list(message.tags)  # type: ignore[attr-defined]
            if self._timer is None:
                self._timer = self._connection.loop.call_later(ACK_SECONDS, self._due)

    def _joins(self, message: Publish) -> bool:
        """Can it leave in one frame with those that wait?"""
        first, count = self._publishes[0], len(self._publishes)
        if count == 1:
            self._bytes = first.event.size
        self._bytes += message.event.size
        return (
            count < self._most
            and message.call == first.call + count
            and message.sequence == first.sequence + count
            and message.mode is first.mode
            and self._bytes <= self._most_bytes
        )

    def _send_publishes(self) -> None:
        publishes, self._publishes = self._publishes, []
        self._connection.send(PublishAll.of(publishes) if publishes[1:] else publishes[0])

    def _due(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        if self._publishes:
            self._send_publishes()
        if self._tags:
            waiting, self._tags = self._tags, {}
            for ref, tags in waiting.items():
                self._connection.send(Ack(ref, tuple(tags)))


_coalescers: WeakValueDictionary[int, WriteCoalescer] = WeakValueDictionary()  # by id of their event loop


def _coalescer() -> WriteCoalescer:
    """The coalescer of all clients on this event loop: their messages leave together at its turn's end."""
    loop = asyncio.get_running_loop()
    found = _coalescers.get(id(loop))
    if found is None:
        found = _coalescers[id(loop)] = WriteCoalescer(loop)  # which keeps the loop, and so its id
    return found


class RemoteClient:
    """One client: its machine, and its connection of the moment."""

    def __init__(
        self,
        name: str,
        addresses: list[Address],
        *,
        on_effect: EffectHandler,
        watch: Watch,
        record: Callable[[Row], None] | None,
        clock: RuntimeClock,
        rng: Random,
        settings: RemoteSettings,
        network: NetworkSettings,
        credentials: Credentials,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.name = name
        self.state = RemoteState.CONNECTING
        self.broker = ""  # the one that we are connected to ...
        self.inbox = ""  # ... and the topic below which it delivers replies to us alone
        self.connections = 0
        self._addresses = addresses
        self._watch = watch
        self._settings = settings
        self._network = network
        self._credentials = credentials
        self._tls = tls
        self._up_at = 0.0  # when the broker welcomed this client
        self._limits = DEFAULT_LIMITS.fitted(network.max_frame_bytes)
        machine = Client(name, "", rng=rng, recording=record is not None, limits=self._limits)
        self._driver = Driver(
            name, machine, clock, record=record or _nothing, on_effect=on_effect, timed=False
        )
        self._codec = Codec((*HANDSHAKE, *BESIDE), max_frame_bytes=self._limits.frame_bytes)
        self._coalescer = _coalescer()
        self._pauses = RetryDelays(network, rng)
        self._connection: Connection | None = None
        self._calls: _CoalescedCalls | None = None  # of that connection
        self._lost = asyncio.Event()
        self._moves_on = False  # the broker said goodbye
        self._is_welcome = False  # this broker lets us in
        self._watched = network  # how closely the connection is watched
        self._changed: asyncio.Future[None] | None = None
        self._inquiries: dict[int, asyncio.Future[Any]] = {}
        self._last_inquiry = 0
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self.problem: TidingsError | None = None
        self._reported = ""  # the reason that was logged last

    # -- beginning and ending ----------------------------------------------------------------

    async def open(self) -> None:
        """Returns when a broker has said welcome. Raises `UnreachableError` or `RefusedError`."""
        self._task = asyncio.create_task(self._keep_connected(), name=f"tidings client {self.name}")
        try:
            async with asyncio.timeout(self._settings.timeout):
                while self.state is RemoteState.CONNECTING:
                    self._changed = asyncio.get_running_loop().create_future()
                    await self._changed
        except TimeoutError:
            await self.close()
            why = f": {self.problem}" if self.problem is not None else ""
            where = ", ".join(map(str, self._addresses))
            raise UnreachableError(
                f"no broker answered at {where} within {self._settings.timeout:g} s{why}",
                hint="is it running, and is this its address? `tidings broker --dev` starts one for "
                "development",
            ) from None
        except BaseException:
            await self.close()
            raise
        if self.state is RemoteState.REFUSED:
            assert self.problem is not None
            await self.close()
            raise self.problem

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish("the client leaves")
        for future in self._inquiries.values():
            if not future.done():
                future.set_exception(ClosedError("the bus is closed"))
        self._become(RemoteState.CLOSED)
        await self._driver.close()

    # -- the machine -------------------------------------------------------------------------

    def hand(self, input: Input) -> None:
        """Hand an input to the machine."""
        coalescer = self._coalescer
        coalescer.in_input = True
        try:
            if type(input) is ClientPublishAll and len(input.events) > TOGETHER:
                for part in in_parts(input, TOGETHER):
                    self._driver.hand(self.name, part)
                    coalescer.flush()
            else:
                self._driver.hand(self.name, input)
        finally:
            coalescer.settle()

    async def inquire(self, what: str, about: dict[str, Any]) -> Any:
        """Ask the broker about itself."""
        if self._connection is None or self._calls is None:
            raise UnreachableError("there is no connection to a broker now")
        self._last_inquiry += 1
        call = self._last_inquiry
        future = self._inquiries[call] = asyncio.get_running_loop().create_future()
        self._calls.send(InquiryRequest(call, what, about))
        try:
            return await future
        finally:
            self._inquiries.pop(call, None)

    # -- connecting --------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        position = 0
        while self.state is not RemoteState.REFUSED:
            dialled, position = await self._dial_round(position)
            if dialled is None:
                await asyncio.sleep(self._pauses.next())
                continue
            self._use(dialled)
            await self._lost.wait()
            await self._rest()
            if self._is_welcome and not self._moves_on:
                await self._dial_same(position)

    async def _rest(self) -> None:
        """Pause longer each time when connections are made and lost at once: by a broker that lets nobody in,
        such as one apart from the majority of its group, or that fails at what this client sends."""
        lasted = asyncio.get_running_loop().time() - self._up_at if self._is_welcome else 0.0
        if lasted >= LASTING * self._network.retry_seconds:
            self._pauses.reset()
        else:
            await asyncio.sleep(self._pauses.next())

    async def _dial_same(self, position: int) -> None:
        """Wait a little for the broker that we had."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.patience
        while loop.time() < until and len(self._addresses) > 1:
            dialled = await self._try(self._addresses[position])
            if dialled is not None:
                self._use(dialled)
                await self._lost.wait()
                await self._rest()
                until = loop.time() + self._settings.patience
            else:
                await asyncio.sleep(self._pauses.next())

    async def _dial_round(self, position: int) -> tuple[OpenedConnection | None, int]:
        """Each address once, beginning with one."""
        problems: list[TidingsError] = []
        count = len(self._addresses)
        first = position + 1 if self._moves_on else position
        for step in range(count):
            at = (first + step) % count
            dialled = await self._try(self._addresses[at])
            if dialled is not None:
                return dialled, at
            assert self.problem is not None
            problems.append(self.problem)
        final = RefusedError | TlsError if self.state is RemoteState.CONNECTING else RefusedError
        if all(isinstance(problem, final) for problem in problems):
            self._become(RemoteState.REFUSED)
        else:
            if count > 1:
                self.problem = UnreachableError("; ".join(map(str, problems)))
            self._report()
        return None, position

    def _report(self) -> None:
        """No broker is connected: put the reason into the state, and into the log when it is new."""
        reason = str(self.problem)
        if reason != self._reported:
            self._reported = reason
            log.warning("client %s has no broker and tries again: %s", self.name, reason)
            self._watch(ConnectionState(self.state, reason=reason), None)

    async def _try(self, address: Address) -> OpenedConnection | None:
        try:
            return await dial(
                address,
                self._open,
                self._codec,
                self._coalescer,
                self._network,
                credentials=self._credentials,
                lost=self._on_lost,
                most_bytes=self._network.broker_buffer_bytes,
                tls=self._tls,
            )
        except TidingsError as error:
            self.problem = error
            return None

    def _open(self) -> OpenSession:
        credentials = self._credentials
        return OpenSession(
            CLIENT, self.name, "", credentials.mechanism, credentials.first(), self._settings.tenant,
            takes=self._codec.max_frame_bytes, features=ALL_FEATURES,
        )  # fmt: skip

    def _use(self, dialled: OpenedConnection) -> None:
        connection, opened, early = dialled
        self._lost.clear()
        self._moves_on = self._is_welcome = False
        self._watched = _in_group(self._network) if opened.composition == GROUP_SYSTEM else self._network
        self._connection = connection
        self.broker, self.inbox = opened.name, opened.inbox
        self.connections += 1
        connection.receive = self._receive
        self._calls = _CoalescedCalls(connection, opened.features)
        self._driver.link_up(opened.name, self._calls.send, features=opened.features)
        if early:
            self._receive(connection, early)
        connection.release("early")
        if self._looking is None:
            self._look()

    def _receive(self, connection: Connection, messages: list[Message]) -> None:
        if not _BESIDE.isdisjoint(map(type, messages)):
            messages = [each for each in connection.answered(messages) if not self._is_beside(each)]
        self._driver.receive(self.broker, messages)
        if not self._is_welcome and any(type(message) is Welcome for message in messages):
            self._is_welcome = True
            self._up_at = asyncio.get_running_loop().time()
            self._become(RemoteState.UP)

    def _is_beside(self, message: Message) -> bool:
        if isinstance(message, SessionClose):
            self._moves_on = True
        elif isinstance(message, InquiryReply | InquiryRefused):
            future = self._inquiries.get(message.call)
            if future is not None and not future.done():
                if isinstance(message, InquiryReply):
                    future.set_result(message.value)
                else:
                    future.set_exception(error_of(message.code, message.reason))
        else:
            return False
        return True

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self.problem = UnreachableError(f"the connection to broker {self.broker} was lost: {reason}")
        for future in self._inquiries.values():
            if not future.done():
                future.set_exception(self.problem)
        self._driver.link_down(self.broker)
        if self._is_welcome:  # else we never had it
            self._become(RemoteState.DOWN)
            self._report()
        self._lost.set()

    def _become(self, state: RemoteState) -> None:
        if state is self.state:
            return
        self.state = state
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        if state is RemoteState.UP:
            if self.connections > 1:
                log.info("client %s is connected again, to broker %s", self.name, self.broker)
            self._reported = ""
            self._watch(ConnectionState(state, broker=self.broker), None)
        else:
            reason = "" if state is RemoteState.CLOSED or self.problem is None else str(self.problem)
            self._watch(
                ConnectionState(state, reason=reason), self.problem if state is RemoteState.REFUSED else None
            )

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._connection is not None:
            self._connection.look(loop.time(), self._watched)
        self._looking = loop.call_later(self._watched.keepalive_seconds / 2, self._look)


class RemoteBroker:
    """Remote brokers, as a bus sees them."""

    policy = Policy.DROP_OLDEST  # of a subscription that names none: no publisher waits for a slow subscriber
    warns = True

    def __init__(
        self,
        addresses: list[Address],
        *,
        record: Recorder | Path | str | None = None,
        seed: int | None = None,
        clock: RuntimeClock | None = None,
        settings: RemoteSettings | None = None,
        network: NetworkSettings | None = None,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        self._recorder = recorder_of(record)
        self._rng = Random(SystemRandom().getrandbits(64) if seed is None else seed)  # noqa: S311 - names and pauses
        self._clock = clock or RealClock()
        self._settings = settings or RemoteSettings()
        self.call_timeout = self._settings.call_timeout
        self._network = network or NetworkSettings()
        self._credentials = credentials or NoCredentials()
        self._tls = tls
        self._clients: dict[str, RemoteClient] = {}
        self._names = 0

    async def join(self, client: str, on_effect: EffectHandler, watch: Watch) -> str:
        self._names += 1
        address = f"{client}#{self._names}"
        remote = RemoteClient(
            client,
            self._addresses,
            on_effect=on_effect,
            watch=watch,
            record=None if self._recorder is None else self._recorder.record,
            clock=self._clock,
            rng=Random(self._rng.getrandbits(64)),  # noqa: S311 - names
            settings=self._settings,
            network=self._network,
            credentials=self._credentials,
            tls=self._tls,
        )
        await remote.open()
        self._clients[address] = remote
        return address

    async def part(self, address: str) -> None:
        await self._clients.pop(address).close()
        if not self._clients and self._recorder is not None:
            self._recorder.close()

    def inlet(self, address: str) -> Callable[[Input], None]:
        return self._clients[address].hand

    def inbox(self, address: str) -> str:
        return self._clients[address].inbox

    def window(self, options: DeliveryOptions) -> int:
        """Enough to fill the line, and few beside what the queue holds, since the queue's policy no longer
        sees them. Members of a group get what they take, so that a slow one holds no event back from the
        others."""
        most = DEFAULT_LIMITS.fitted(self._network.max_frame_bytes).notifications_ahead
        return 0 if options.group is not None else min(most, options.queue // 8)

    async def inquire(self, address: str, what: str, about: dict[str, Any]) -> Any:
        return await self._clients[address].inquire(what, about)

    def note(self, address: str, subscription: SubscriptionId, event: Event, position: Position) -> None:
        if self._recorder is not None:
            client = self._clients[address]
            row = ntfy_row(
                self._clock.now(), client.name, subscription, event, position=position, broker=client.broker
            )
            self._recorder.record(row)

    def full_queues(self) -> Full:
        return {}  # remote brokers have no policy `block`

    def figures(self) -> dict[str, Any]:
        """Figures known here: the broker that each client is connected to."""
        return {
            "clients": len(self._clients),
            "connected to": sorted(c.broker for c in self._clients.values() if c.state is RemoteState.UP),
            "connections": sum(client.connections for client in self._clients.values()),
        }


def _in_group(network: NetworkSettings) -> NetworkSettings:
    return msgspec.structs.replace(
        network,
        keepalive_seconds=min(network.keepalive_seconds, GROUP_KEEPALIVE),
        peer_timeout_seconds=min(network.peer_timeout_seconds, GROUP_DEAD),
    )


def _nothing(row: Row) -> None:
    """No recorder is set."""
