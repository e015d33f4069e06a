"""A peer: a node of a system without brokers, on UDP, with a bus for its application.

    async with peer(listen="127.0.0.1:0", join=["127.0.0.1:7200"]) as bus:
        async with bus.subscribe(topic="a/b/#") as news:    # joins the group of a/b
            await bus.publish({"x": 1}, topic="a/b")

Rules
- A peer's name is the address at which others reach it, `host:port`, so that peers need no book of addresses.
- A datagram counts only when it comes from the address that its sender is named by: a weak proof. Peers trust
  one another; keep them on a network of their own, or on loopback, where they listen unless told otherwise.
- A peer that closes its bus says so to those it knows (`Parted` with its own name). - No event is kept: a
  missed event stays missed, and durable subscriptions end with the process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Unpack

from tidings.errors import SettingsError, UnreachableError
from tidings.history.recorder import Recorder
from tidings.model.subscription import Policy
from tidings.model.topic import check_topic
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import Parted, Started
from tidings.protocol.messages import BROKER_MESSAGES, CLIENT_MESSAGES
from tidings.protocol.node import Node
from tidings.runtime.broker import EmbeddedBroker, recorder_of
from tidings.runtime.bus import Bus
from tidings.runtime.clock import RuntimeClock
from tidings.runtime.datagrams import Datagrams, Place
from tidings.runtime.dialling import parse_addresses, port_of
from tidings.runtime.driver import Driver
from tidings.runtime.options import PeerOptions
from tidings.store.memory import MemoryStore
from tidings.systems import PEERS, Site, find_system
from tidings.wire.codec import Codec

LISTEN = "127.0.0.1:0"


@lru_cache(maxsize=16_384)
def _place(name: str) -> Place | None:
    """Address of a peer. Names come from strangers: one that is no IP address and port has none, and is not
    looked up."""
    host, _, text = name.rpartition(":")
    port = port_of(text)
    try:
        return (host, port) if port and ip_address(host) else None
    except ValueError:
        return None


class PeerDatagrams(Datagrams):
    """Datagrams of peers, whose names are their addresses."""

    def place_of(self, name: str) -> Place | None:
        return _place(name)

    @property
    def port(self) -> int:
        assert self._transport is not None
        return int(self._transport.get_extra_info("sockname")[1])

    def speak_on(self, interface: str) -> None:
        """Send multicasts by this interface, and receive them on this machine too."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)

    def rename(self, name: str) -> None:
        self._head = bytes((len(name.encode()),)) + name.encode()


class PeerBroker(EmbeddedBroker):
    """Broker interface of a bus: the peer's node in this process."""

    policy = Policy.DROP_NEWEST

    def __init__(
        self,
        *,
        listen: str = LISTEN,
        join: Iterable[str] = (),
        topics: Iterable[str] = (),
        system: str = "damulticast",
        advertise: str = "",
        options: dict[str, Any] | None = None,
        record: Recorder | str | None = None,
        seed: int | None = None,
        clock: RuntimeClock | None = None,
    ) -> None:
        super().__init__(None, record=record, seed=seed, clock=clock, settings=DeliverySettings())
        self._system = find_system(system)
        if self._system.graph != PEERS:
            raise SettingsError(
                f"{system} is a system of brokers", hint="tidings broker runs one; a peer is of damulticast"
            )
        self._listen = parse_addresses(listen)[0]
        self._join = [parse_addresses(text)[0] for text in join]
        self._topics = tuple(check_topic(topic) for topic in topics)
        self._advertise = parse_addresses(advertise)[0] if advertise else None
        self._options = options or {}
        self.name = ""  # known when it has started
        self.datagrams: PeerDatagrams | None = None

    async def _start(self) -> None:
        contacts = tuple([await _numeric(host, port) for host, port, _ in self._join])
        own = frozenset(CLIENT_MESSAGES) | frozenset(BROKER_MESSAGES)
        site = Site(name="", options=self._options)
        slots = self._system.strategies(site)
        allowed = frozenset(m for slot in slots.values() for m in slot.messages) - own
        datagrams = self.datagrams = PeerDatagrams(
            "", Codec(tuple(allowed)), allowed, self._receive, dict, self._limits
        )
        try:
            await datagrams.open(self._listen.host, self._listen.port)
        except OSError as error:
            raise UnreachableError(
                f"cannot listen at {self._listen.host}:{self._listen.port}: {error.strerror}",
                hint="choose another port; 0 takes any that is free",
            ) from None
        host, port, _ = self._advertise or (self._listen.host, datagrams.port, False)
        try:
            self.name = await _numeric(host, port)
        except UnreachableError:
            datagrams.close()
            raise
        datagrams.rename(self.name)
        node = self._node = self._build(contacts)
        record: Callable[[Any], None] = _nothing if self._recorder is None else self._recorder.record
        driver = self._driver = Driver(self.name, node, self._clock, record=record)
        store = MemoryStore()
        driver.use_store(store, threaded=False)
        driver.datagram = datagrams.send
        driver.start(Started(store.load()))

    def _build(self, contacts: tuple[str, ...]) -> Node:
        self._recorder = recorder_of(self._record)
        options = {**self._options, "join": contacts, "topics": {self.name: self._topics}}
        site = Site(
            name=self.name,
            options=options,
            recording=self._recorder is not None,
            stable=False,
            limits=self._limits,
        )
        return self._system.build(site, self._rng)

    def _receive(self, sender: str, messages: list[Any]) -> None:
        if self._driver is not None:
            self._driver.receive(sender, messages)

    def _stop(self, driver: Driver) -> None:
        driver.hand(driver.name, Parted(driver.name))
        if self.datagrams is not None:
            self.datagrams.close()

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        found = super().figures()
        assert self._node is not None
        slots: Any = self._node.slots
        assert self.datagrams is not None
        routing, membership = slots["routing"], slots["membership"]
        groups = {topic: membership.size(topic) for topic in membership.topics}
        return {
            **found, **self.datagrams.figures, "peers known": len(membership.known), "groups": groups,
            "contacts above": {scope: list(table.names) for scope, table in membership.supers.items()},
            "events received": routing.received, "parasites": routing.parasites, "late": routing.late,
        }  # fmt: skip


async def _numeric(host: str, port: int) -> str:
    """`host:port` with the host as a number: that is what peers are named by."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM
        )
    except OSError:
        raise UnreachableError(
            f"no address is known of {host!r}", hint="is the name right? a number works as well"
        ) from None
    return f"{found[0][4][0]}:{port}"


def _nothing(row: Any) -> None:
    """No recorder is set."""


def peer(*, name: str = "local", **options: Unpack[PeerOptions]) -> Bus:
    """A bus beside a peer of its own; options are those of `PeerBroker`."""
    return Bus(PeerBroker(**options), name)
