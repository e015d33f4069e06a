"""Out of band, straight to any broker, perhaps lost: `Channel.DATAGRAM` over UDP.

A datagram is `length of the sender's name (1 byte) | name | one frame`. Rules
- Addresses of brokers are those that neighbours gave in their handshake, and those that were told
  (`known`). A datagram to a broker without a known address is dropped and counted.
- A datagram counts only when it comes from the address of the broker that it names: a weak proof, so no
  safety property may depend on one. It is opened only for compositions that ask for it.
- A datagram that is oversized, damaged, or not from a broker is dropped and counted; so is one that the node
  fails at.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

from tidings.errors import WireError
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Message
from tidings.runtime.dialling import parse_addresses
from tidings.wire.codec import Codec

log = logging.getLogger("tidings.broker")

RECEIVE_BYTES = 1 << 22  # that may wait to be read, if the system allows it; beyond it datagrams are lost

Place = tuple[str, int]


class Datagrams(asyncio.DatagramProtocol):
    def __init__(
        self,
        name: str,
        codec: Codec,
        allowed: frozenset[type[Message]],
        receive: Callable[[str, list[Message]], None],
        reached: Callable[[], dict[str, str]],
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        self.known: dict[str, Place] = {}  # addresses that were told
        self.figures: Counter[str] = Counter()
        self._head = bytes((len(name.encode()),)) + name.encode()
        self._codec = codec
        self._limits = limits
        self._allowed = allowed
        self._receive = receive
        self._reached = reached  # by neighbour: where it says that it can be reached
        self._last: tuple[dict[str, str], dict[str, Place]] = (
            {},
            {},
        )  # what was reached, and the places then
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen beside the listener of that address."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        subscription = transport.get_extra_info("socket")
        if subscription is not None:
            subscription.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _places(self) -> dict[str, Place]:
        reached = self._reached()
        if reached != self._last[0] or not self._last[1]:
            addresses: dict[str, Place] = {}
            for name, text in reached.items():
                if text:
                    address = parse_addresses(text)[0]
                    addresses[name] = (address.host, address.port)
            self._last = (reached, addresses | self.known)
        return self._last[1]

    def tell(self, peers: Mapping[str, Place]) -> None:
        """Add addresses of brokers."""
        self.known.update(peers)
        self._last = ({}, {})

    def place_of(self, name: str) -> Place | None:
        """Address to send to for this name, and to accept datagrams from."""
        return self._places().get(name)

    def send(self, to: str, message: Message) -> None:
        address = self.place_of(to)
        datagram = self._head + self._codec.encode(message)
        if address is None or self._transport is None or len(datagram) > self._limits.datagram_bytes:
            self.figures["datagrams not sent"] += 1
            return
        self.figures["datagrams sent"] += 1
        self._transport.sendto(datagram, address)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            size = data[0]
            sender = data[1 : 1 + size].decode()
            message = self._codec.decode(data[1 + size :])
        except (IndexError, UnicodeDecodeError, WireError):
            self.figures["datagrams dropped"] += 1
            return
        if self.place_of(sender) != addr[:2] or type(message) not in self._allowed:
            self.figures["datagrams dropped"] += 1
            return
        self.figures["datagrams received"] += 1
        try:
            self._receive(sender, [message])
        except Exception:  # its words were words, but made no sense: the others go on
            self.figures["datagrams failed at"] += 1
            log.exception("the node failed at a datagram of %s", sender)

    def error_received(self, exc: Exception) -> None:
        self.figures["datagrams not sent"] += 1
