"""Clients that a gateway brings into a broker's own process: a bus for each, and the same gate as for all.

A guest connects by another protocol and authenticates there; from here on it is a client like any other. Its
machine lives here, its messages pass the gate of its principal (checks, permissions, quotas), and the node's
messages to it pass the gate on the way back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from random import Random, SystemRandom
from time import perf_counter
from typing import Any, Protocol, TypeVar

from tidings.errors import RefusedError, TidingsError, UnknownOutcomeError
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy, Position, SubscriptionId
from tidings.protocol.client import Client
from tidings.protocol.inputs import IN_PROCESS_FEATURES, Input
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import AckMode, Message, Publish
from tidings.protocol.node import Node
from tidings.runtime.admission import LOCAL, Admission
from tidings.runtime.broker import ConnectionState, Full, Watch
from tidings.runtime.bus import Bus
from tidings.runtime.client_connection import owner_of
from tidings.runtime.client_ingress import ClientIngress
from tidings.runtime.client_peer import ClientPeer
from tidings.runtime.clock import RuntimeClock
from tidings.runtime.connection import NetworkSettings, WriteCoalescer
from tidings.runtime.driver import Driver, EffectHandler
from tidings.runtime.fairness import Fairness, ReadingShares, TimeShare
from tidings.runtime.listener import Listener
from tidings.runtime.local_channel import Answered, LocalChannel, TakeEvents
from tidings.runtime.sessions import PrincipalSession, PrincipalSessions
from tidings.security.interfaces import Guard

T = TypeVar("T")

SLICE = 64  # things of a guest that a gateway handles in one turn of the loop
DEAREST = 1e-4  # seconds that one of them counts for at most, beside what the broker does for it
FEW = 16  # publishes of one connection that wait for the end of the turn
FEW_BYTES = 1024  # of a guest that are charged later; more charge small messages less often
AHEAD = 64  # notifications on their way to a guest at most: his queue is the broker's


class TurnMember(Protocol):
    """A client whose publishes may wait for the end of the turn."""

    address: str
    share: TimeShare


class PublishTurn:
    """Publishes of several clients that wait for the end of this turn of the loop: one batch for the broker,
    so that many clients with one publish each cost nearly as little as one client with many (decision 14).

    They are handed in earlier when one of the clients sends another message or leaves: the order of each
    client holds. The time of a batch is charged by the number of publishes. No batch has more than the queue
    of a local client that takes events at once holds beside its window: such a client would have taken some
    of them between two inputs, and loses nothing by the batch. Others read in later turns, or after the one
    commit of the turn, so they see no difference.
    """

    def __init__(
        self, driver: Driver, coalescer: WriteCoalescer, limits: ResourceLimits, fairness: Fairness
    ) -> None:
        self.driver = driver
        self._coalescer = coalescer
        self._fairness = fairness
        self._most = min(limits.publishes_together, AHEAD + DeliveryOptions().queue)  # publishes of a batch
        self.waiting: list[tuple[TurnMember, list[Message]]] = []
        self._count = 0

    def is_added(self, client: TurnMember, publishes: list[Message]) -> bool:
        """Hand in these at the end of the turn. False: no other input is ready in this turn, as far as can be
        seen, and waiting gains no batch."""
        coalescer = self._coalescer
        if not self.waiting:
            if coalescer.is_alone:
                return False
            coalescer.soon(self.flush)
        elif self._count + len(publishes) > self._most:
            self.flush()
            coalescer.soon(self.flush)
        self.waiting.append((client, publishes))
        self._count += len(publishes)
        return True

    def receive(self, client: TurnMember, messages: list[Message]) -> None:
        """Hand in what a connection brought: a few publishes at the end of the turn, others now. Many gain
        nothing by waiting for those of others."""
        is_few = 0 < len(messages) <= FEW and type(messages[0]) is Publish
        if not (is_few and {Publish}.issuperset(map(type, messages)) and self.is_added(client, messages)):
            self.flush()
            self.driver.receive(client.address, messages)

    def flush(self) -> None:
        """Hand in what waits."""
        waiting, count = self.waiting, self._count
        if not waiting:
            return
        self.waiting, self._count = [], 0
        began = perf_counter()
        self.driver.receive_publishes([(client.address, publishes) for client, publishes in waiting])
        each = (perf_counter() - began) / count
        used: dict[TimeShare, float] = {}
        for client, publishes in waiting:
            used[client.share] = used.get(client.share, 0.0) + each * len(publishes)
        self._fairness.charge_all(used)


class LocalClient:
    """The broker's end of a guest's link. `sent_away` is called when the guest has to come in anew."""

    def __init__(
        self,
        address: str,
        session: PrincipalSession,
        turn: PublishTurn,
        guard: Guard[Any] | None,
        reading: ReadingShares,
        sent_away: Callable[[], None],
        ended: Callable[[str], None],
    ) -> None:
        self.address = address
        self.sent_away = sent_away
        self._ended = ended
        self.session = session
        self._principal = session.principal
        self.peer = ClientPeer()
        self._turn, self._driver = turn, turn.driver
        self._guard = guard
        self._reading = reading
        self._fairness = reading.fairness
        self.share = self._fairness.join(owner_of(self._principal, LOCAL))
        reading.add(address, self.share)
        self._uncharged_bytes = 0
        self._ingress: ClientIngress | None = None
        self._all: set[LocalClient] = set()

    def open(self, ingress: ClientIngress, all: set[LocalClient]) -> None:
        """Use this gate from now on; `all` are the guests that are here."""
        self._ingress, self._all = ingress, all
        all.add(self)
        self._driver.link_up(self.address, ingress.outlet(lambda: None))

    @property
    def inbox(self) -> str:
        """The topic below which replies go to this guest's principal alone."""
        return "" if self._ingress is None else self._ingress.inbox

    def receive(self, message: Message) -> None:
        """Take a message of the guest."""
        self.receive_all([message])

    def receive_all(self, messages: list[Message]) -> None:
        """Take messages of the guest that belong together."""
        if self._ingress is None:
            return
        began = perf_counter()
        allowed = self._ingress.inward(messages)
        checked = perf_counter() - began  # parsing of filters among it
        turn = self._turn
        few = allowed and not allowed[FEW:]
        if few and type(allowed[0]) is Publish and type(allowed[-1]) is Publish:
            if turn.is_added(self, allowed):
                return
        elif turn.waiting:
            turn.flush()
        began = perf_counter()
        self._driver.receive(self.address, allowed)
        self._fairness.charge(self.share, checked + perf_counter() - began)

    def charge(self, received_bytes: int, seconds: float = 0.0) -> float:
        """Charge the guest bytes and reading time; the seconds for which it is not to be read from. Few bytes
        are charged with those that follow, or when the guest leaves."""
        share, pause = self.share, 0.0
        if seconds:
            self._fairness.charge(share, seconds)
        self._uncharged_bytes += received_bytes
        if self._uncharged_bytes >= FEW_BYTES:
            pause = self._charge_bytes()
        return max(pause, self._fairness.wait(share)) if share.is_paused else pause

    def _charge_bytes(self) -> float:
        count, self._uncharged_bytes = self._uncharged_bytes, 0
        return 0.0 if self._guard is None else self._guard.charge(self._principal, count)

    def end(self, reason: str) -> None:
        """The session of the principal has ended."""
        self.close()
        self._ended(reason)

    def close(self) -> None:
        """The guest is gone."""
        ingress, self._ingress = self._ingress, None
        if ingress is None:
            return
        self._turn.flush()
        self._all.discard(self)
        self.session.close()
        self._reading.remove(self.address)
        self._fairness.leave(self.share)
        self._charge_bytes()
        ingress.close()
        if self._guard is not None:
            self._guard.disconnected(self._principal)
        self._driver.link_down(self.address)


class LocalClientHost(Protocol):
    """Interface of a broker, as guests use it; `Server` is one."""

    name: str
    network: NetworkSettings
    admission: Admission  # of the connections of all listeners
    reading: ReadingShares  # shares of the loop's time, of all owners
    resources: ResourceLimits
    node: Node

    @property
    def clock(self) -> RuntimeClock: ...

    @property
    def sessions(self) -> PrincipalSessions: ...

    def admit_local_client(
        self,
        name: str,
        principal: Any,
        say: Callable[[Message], None],
        sent_away: Callable[[], None],
        ended: Callable[[str], None],
    ) -> LocalClient:
        """Let a guest in under a client's name. Raises `RefusedError` when it is not his to use. `ended` is
        called with the reason when the session of the principal ends for good."""

    async def informed(self, principal: Any, what: str, about: dict[str, Any]) -> Any:
        """Answer what a principal asks about the broker. Raises."""

    def figures(self) -> dict[str, Any]: ...


class LocalClients:
    """A broker as the guests of one principal see it (`runtime.broker.BrokerInterface`)."""

    policy = Policy.DROP_OLDEST  # as for remote clients: no publisher waits for a slow subscriber
    warns = False  # the log is the broker's, and a guest's reader is remote
    call_timeout: float | None = None
    checks_schemas = False  # the broker does, after it asked about rights

    def __init__(self, host: LocalClientHost, principal: Any) -> None:
        self._host = host
        self._principal = principal
        self._local_clients: dict[str, tuple[Driver, LocalClient, LocalChannel]] = {}
        self._names = 0
        self._rng = Random(SystemRandom().getrandbits(64))  # noqa: S311 - seeds of clients

    @property
    def limits(self) -> ResourceLimits:
        return self._host.resources

    def now(self) -> float:
        return self._host.clock.now()

    def bus(self, name: str) -> Bus:
        """A client of this principal; open it to begin."""
        return Bus(self, name)

    async def join(self, client: str, on_effect: EffectHandler, watch: Watch) -> str:
        self._names += 1
        address = f"{client}#{self._names}"
        machine = Client(client, "", rng=Random(self._rng.getrandbits(64)), remembers=0)  # noqa: S311 - names
        driver = Driver(client, machine, self._host.clock, record=_nothing, on_effect=on_effect, timed=False)
        channel, peer = LocalChannel(machine), ClientPeer()
        passes_by = channel.receive

        def come_in() -> None:
            local_client = self._host.admit_local_client(client, self._principal, say, again, ended)
            local_client.peer = peer
            self._local_clients[address] = (driver, local_client, channel)
            channel.send = local_client.receive_all
            driver.link_up(self._host.name, local_client.receive, features=IN_PROCESS_FEATURES)

        def say(message: Message) -> None:
            if not passes_by(message):
                driver.receive(self._host.name, [message])

        def again() -> None:
            driver.link_down(self._host.name)
            try:
                come_in()
                channel.resume()
            except TidingsError as error:
                channel.fail(error.code, str(error))
                watch(ConnectionState("refused", reason=str(error)), error)

        def ended(reason: str) -> None:
            driver.link_down(self._host.name)
            channel.fail(RefusedError.code, reason)
            watch(ConnectionState("refused", reason=reason), RefusedError(reason, hint="connect again"))

        come_in()
        watch(ConnectionState("up", broker=self._host.name), None)
        return address

    async def part(self, address: str) -> None:
        found = self._local_clients.pop(address, None)
        if found is None:
            return  # its stream ends, and its listener closes all streams at the same time
        driver, client, channel = found
        client.close()
        channel.fail(UnknownOutcomeError.code, "the client was closed before the broker answered")
        await driver.close()

    def local_client(self, address: str) -> LocalClient | None:
        """The broker's end of this guest's link; None: the guest is gone."""
        known = self._local_clients.get(address)
        return None if known is None else known[1]

    def channel(self, address: str) -> LocalChannel | None:
        """The channel of this guest, which passes its client machine by; None: the guest is gone."""
        known = self._local_clients.get(address)
        return None if known is None else known[2]

    def inlet(self, address: str) -> Callable[[Input], None]:
        driver, _, _ = self._local_clients[address]
        return partial(driver.hand, driver.name)

    def inbox(self, address: str) -> str:
        known = self._local_clients.get(address)
        return "" if known is None else known[1].inbox

    def window(self, options: DeliveryOptions) -> int:
        return min(AHEAD, max(1, options.queue // 8)) if options.group is None else 0

    async def inquire(self, address: str, what: str, about: dict[str, Any]) -> Any:
        del address
        return await self._host.informed(self._principal, what, about)

    def note(self, address: str, subscription: SubscriptionId, event: Event, position: Position) -> None:
        """No recorder is set."""

    def full_queues(self) -> Full:
        return {}  # brokers with gateways have no policy `block`

    def figures(self) -> dict[str, Any]:
        return self._host.figures()


def charge(bus: Bus, received_bytes: int, seconds: float = 0.0) -> float:
    """Charge the guest of this bus bytes, by any protocol, and the seconds that a gateway worked on them; the
    seconds for which it is not to be read from."""
    local_clients = bus._broker
    assert isinstance(local_clients, LocalClients), "this bus belongs to no local client"
    client = local_clients.local_client(bus._address)
    return 0.0 if client is None else client.charge(received_bytes, seconds)


def peer_of(bus: Bus) -> ClientPeer:
    """The connection behind the guest of this bus, for its gateway to keep up to date."""
    local_clients = bus._broker
    assert isinstance(local_clients, LocalClients), "this bus belongs to no local client"
    client = local_clients.local_client(bus._address)
    return ClientPeer() if client is None else client.peer


def note_connection(bus: Bus, address: str) -> None:
    """A connection from this address carries the guest of this bus from now on."""
    local_clients = bus._broker
    assert isinstance(local_clients, LocalClients), "this bus belongs to no local client"
    peer_of(bus).connect(address, local_clients.now())


def absent(clients: Iterable[LocalClient]) -> frozenset[str]:
    """The addresses of those that no connection carries now, though one did."""
    return frozenset(each.address for each in clients if each.peer.is_connected is False)


def connection_figures(clients: Collection[LocalClient]) -> dict[str, int]:
    """Counters for people: all clients, and the connections that gateways have for them."""
    connected = sum(each.peer.is_connected is True and not each.peer.is_pooled for each in clients)
    return {"local clients": len(clients), "gateway connections": connected}


def inbox_of(bus: Bus) -> str:
    """The topic below which replies go to the principal of this bus alone; empty without principals."""
    return bus._broker.inbox(bus._address)


def take_directly(listener: Listener[Event], take: TakeEvents | None) -> None:
    """Have a function called with the live events of a subscription of `subscribe_callback`, those of one
    message together; None ends it. Events of the log go on to that call's own function."""
    bus, ref = listener._bus, listener._ref
    assert isinstance(bus._broker, LocalClients), "this bus belongs to no local client"
    channel = bus._broker.channel(bus._address)
    if ref is not None and channel is not None:
        channel.take_by(ref, take)


def publish_batch(
    bus: Bus, events: Sequence[Event], numbered: Sequence[bool], mode: AckMode, answered: Answered | None
) -> None:
    """Publish checked events of a gateway, which it alone holds, in this order and as one batch. `answered`
    is called with a `CallFailed` for each that was refused and None for the others, maybe at once. Raises
    when the bus is closed."""
    if bus._state != "open" or bus._over is not None:
        bus._refuse_call()
    call = bus._last_call + 1
    bus._last_call += len(events)
    assert isinstance(bus._broker, LocalClients), "this bus belongs to no local client"
    channel = bus._broker.channel(bus._address)
    assert channel is not None, "an open bus has a channel"
    channel.publish(call, events, numbered, mode, answered)


async def in_slices(bus: Bus, items: Iterable[T], handle: Callable[[T], Awaitable[None]]) -> None:
    """Handle what came together from the guest of this bus, a slice in each turn of the loop, and charge the
    time to its principal. Waiting inside `handle` is free: a slice counts for no more than `DEAREST` an item.
    """
    began = perf_counter()
    for number, item in enumerate(items, 1):
        await handle(item)
        if not number % SLICE:
            await asyncio.sleep(charge(bus, 0, min(perf_counter() - began, SLICE * DEAREST)))
            began = perf_counter()


def _nothing(row: Any) -> None:
    """No recorder is set: a guest's history is the broker's."""
