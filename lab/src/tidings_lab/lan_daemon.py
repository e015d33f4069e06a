"""A TIB/RV daemon on real sockets: broadcast on the local network by UDP multicast, UDP between routers.

    async with daemon(group=GROUP) as router, daemon(group=GROUP, router=router_name) as bus:
        async with bus.subscribe(topic="quotes/+") as news: ...

Rules
- A daemon's name is the address at which others reach it, as a peer's is. The first daemon of a network is
  its router and names no other; routers name one another (`routers`).
- A multicast comes from the sender's own address too, so the weak proof of `Datagrams` holds for it.
- Multicast stays on the interface that is given (loopback, unless told otherwise) and on the local network.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable
from typing import Any

from tidings.errors import UnreachableError
from tidings.protocol.node import Node
from tidings.runtime.broker import recorder_of
from tidings.runtime.bus import Bus
from tidings.runtime.dialling import parse_addresses
from tidings.runtime.peer import PeerBroker, PeerDatagrams
from tidings.systems import Site
from tidings_lab.lans import Lan

GROUP = "239.255.42.42:7600"
INTERFACE = "127.0.0.1"


class _LanListener(asyncio.DatagramProtocol):
    """Hears the multicast group, and hands on what others said there."""

    def __init__(self, datagrams: PeerDatagrams, name: str) -> None:
        self._datagrams, self._name = datagrams, name

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if f"{addr[0]}:{addr[1]}" != self._name:
            self._datagrams.datagram_received(data, addr)


class LanBroker(PeerBroker):
    """Broker interface of a bus: a daemon's node in this process."""

    def __init__(
        self,
        *,
        group: str = GROUP,
        interface: str = INTERFACE,
        router: str | None = None,
        routers: Iterable[str] = (),
        cache: int = 0,
        **others: Any,
    ) -> None:
        host, port, _ = parse_addresses(group)[0]
        self._group, self._group_port, self._interface = host, port, interface
        self._router, self._routers = router, tuple(routers)
        placeholder = Lan(f"{host}:{port}", "", ())
        super().__init__(system="tib-rv", options={"lan": placeholder, "cache": cache}, **others)
        self._receiving: asyncio.DatagramTransport | None = None

    def _build(self, contacts: tuple[str, ...]) -> Node:
        self._recorder = recorder_of(self._record)
        router = self._router or self.name
        lan = Lan(f"{self._group}:{self._group_port}", router, tuple(dict.fromkeys((router, *self._routers))))
        site = Site(
            name=self.name,
            options={**self._options, "lan": lan},
            recording=self._recorder is not None,
            stable=False,
        )
        return self._system.build(site, self._rng)

    async def _start(self) -> None:
        try:
            subscription = _joined(self._group, self._group_port, self._interface)
        except OSError as error:
            raise UnreachableError(
                f"cannot hear the multicast group {self._group}:{self._group_port}: {error.strerror}",
                hint="does this machine allow multicast on that interface?",
            ) from None
        try:
            await super()._start()
        except BaseException:
            subscription.close()
            raise
        assert self.datagrams is not None
        datagrams, name = self.datagrams, self.name
        datagrams.speak_on(self._interface)
        loop = asyncio.get_running_loop()
        self._receiving, _ = await loop.create_datagram_endpoint(
            lambda: _LanListener(datagrams, name), sock=subscription
        )

    def _stop(self, driver: Any) -> None:
        if self._receiving is not None:
            self._receiving.close()
        super()._stop(driver)

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        assert self.datagrams is not None
        return {**super(PeerBroker, self).figures(), **self.datagrams.figures}


def _joined(group: str, port: int, interface: str) -> socket.socket:
    """A socket that hears what is sent to a group on an interface."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind((group, port))  # the group's address: other groups on this port are not heard
        requested = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(interface))
        found.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, requested)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def daemon(*, name: str = "local", **options: Any) -> Bus:
    """A bus beside a daemon of its own; options are those of `LanBroker`."""
    return Bus(LanBroker(**options), name)
