"""A network that loses datagrams: a door for each peer, and chance behind it.

Peers are named by their doors. What comes to a door is dropped by chance, or leaves through the sender's own
door toward the peer behind the first, so that a datagram comes from the address that its sender is named by.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import cast

Place = tuple[str, int]


class Door(asyncio.DatagramProtocol):
    def __init__(self, network: LossyNetwork) -> None:
        self._network = network
        self.behind: Place | None = None  # the peer's own socket
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    @property
    def address(self) -> str:
        assert self.transport is not None
        host, port = self.transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: Place) -> None:
        self._network.passing(self, data, addr[:2])


class LossyNetwork:
    def __init__(self, loss: float, seed: int) -> None:
        self._loss = loss
        self._rng = Random(seed)
        self._doors: dict[Place, Door] = {}  # by the peer's own socket
        self._all: list[Door] = []
        self.lost = self.passed = 0

    async def door(self) -> Door:
        loop = asyncio.get_running_loop()
        _, listener = await loop.create_datagram_endpoint(lambda: Door(self), local_addr=("127.0.0.1", 0))
        self._all.append(listener)
        return listener

    def stands_behind(self, listener: Door, port: int) -> None:
        listener.behind = ("127.0.0.1", port)
        self._doors[listener.behind] = listener

    def passing(self, to: Door, data: bytes, came_from: Place) -> None:
        sender = self._doors.get(came_from)
        if sender is None or to.behind is None or self._rng.random() < self._loss:
            self.lost += 1
            return
        self.passed += 1
        assert sender.transport is not None
        sender.transport.sendto(data, to.behind)

    def close(self) -> None:
        for listener in self._all:
            assert listener.transport is not None
            listener.transport.close()
