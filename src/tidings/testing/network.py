"""Brokers in this process, on real sockets, and clients that speak bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tidings.protocol import messages as msg
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession, SessionOpened
from tidings.runtime.server import Server
from tidings.wire.codec import LENGTH, Codec

CODEC = Codec((*HANDSHAKE, *BESIDE))
PATIENCE = 120.0  # seconds to wait for a required condition, on a busy machine


@asynccontextmanager
async def serving(name: str = "b1", **options: Any) -> AsyncIterator[Server]:
    server = Server(name, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def until(condition: Callable[[], Any], *, seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0)


async def linked(*servers: Server) -> None:
    """Wait until each has as many links as the tree says, and all of them have agreed."""
    await until(lambda: sum(len(server.links) for server in servers) == 2 * (len(servers) - 1))


async def settled(*servers: Server) -> None:
    """Wait until each broker, in this order, has propagated all its interests to its neighbours."""
    for server in servers:
        await until(lambda: not server.node.figures()["links syncing"])  # noqa: B023


class RawClient:
    """A connection that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, server: Server) -> RawClient:
        where = server.addresses[0]
        return cls(*await asyncio.open_connection(where.host, where.port))

    @classmethod
    async def greeted(cls, server: Server, name: str = "raw") -> RawClient:
        """Past the handshake and the hello."""
        raw = await cls.to(server)
        raw.send(OpenSession("client", name, mechanism="anonymous"))
        await raw._expect(SessionOpened)
        raw.send(msg.Hello(name, "i"))
        await raw._expect(msg.Welcome)
        return raw

    async def _expect(self, kind: type[msg.Message]) -> None:
        answer = await self.receive()
        if not isinstance(answer, kind):  # no assert: the answer has to be read with `python -O` too
            raise AssertionError(f"a {kind.__name__} was expected, not {answer!r}")

    def send(self, *messages: msg.Message) -> None:
        self.writer.write(b"".join(CODEC.encode(message) for message in messages))

    async def receive(self) -> msg.Message:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readexactly(LENGTH.size)
            return CODEC.decode(head + await self.reader.readexactly(LENGTH.unpack(head)[0]))

    async def is_closed(self) -> bool:
        """Wait until the broker has closed it."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                return True
            finally:
                self.close()
        return True

    def close(self) -> None:
        self.writer.transport.abort()


def played(play: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that awaits."""

    def test() -> None:
        async def run() -> None:
            async with asyncio.timeout(120):
                await play()

        asyncio.run(run())

    test.__name__ = play.__name__
    test.__doc__ = play.__doc__
    return test
