"""Organisations of the running example that serve in this process, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.event import Event
from tidings_quality.client import OrganisationClient
from tidings_quality.model import QualityChange
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.schema import Schema
from tidings_quality.service import OrganisationServer
from tidings_quality.settings import OrganisationSettings, PeerOrganisation

NAMES = ("INPS", "INAIL", "CoC")
PATIENCE = 60.0  # seconds, the longest that a service waits for one request


def with_capability(schema: Schema, **capability: int) -> Schema:
    organisations = [
        msgspec.structs.replace(one, capability=capability.get(one.name, one.capability))
        for one in schema.organisations
    ]
    return msgspec.structs.replace(schema, organisations=tuple(organisations))


def change(key: str, value: float = 0.3, version: str = "1", source: str = "CoC") -> QualityChange:
    return QualityChange(HOLDER, source, key, "Name", "accuracy", value, version, {"Name": f"N. {key}"})


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cooperation:
    """`start`, `stop` and ask organisations; their states are files of a folder."""

    def __init__(self, folder: Path, *, schema: Schema | None = None, **options: Any) -> None:
        self._folder = folder
        self._schema = schema or running_example()
        self._options = options
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.services: dict[str, OrganisationServer] = {}
        self.own: dict[str, dict[str, Any]] = {name: {} for name in NAMES}  # settings by organisation

    def settings(self, name: str) -> OrganisationSettings:
        peers = {
            other: PeerOrganisation(f"http://127.0.0.1:{port}", "-".join(sorted((name, other))))
            for other, port in self.ports.items()
            if other != name
        }
        given = {
            "schema": self._schema, "listen": f"127.0.0.1:{self.ports[name]}", "peers": peers,
            "state": str(self._folder / f"{name}.db"), **self._options, **self.own[name],
        }  # fmt: skip
        return OrganisationSettings(name=name, **given)

    async def start(self, *names: str) -> None:
        for name in names:
            self.services[name] = OrganisationServer(self.settings(name))
        await asyncio.gather(*(self.services[name].start() for name in names))

    async def stop(self, *names: str) -> None:
        await asyncio.gather(*(self.services.pop(name).close() for name in names))

    async def ask(self, name: str, do: Callable[[OrganisationClient], Any], token: str = "") -> Any:
        """Something that a local user asks its organisation."""

        def asked() -> Any:
            with OrganisationClient(f"http://127.0.0.1:{self.ports[name]}", token=token) as client:
                return do(client)

        return await asyncio.to_thread(asked)

    async def subscribe(self, name: str, words: str, user: str = "u", **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask(
            name, lambda client: client.subscribe(words, user=user, name="s", **options)
        )
        return found

    async def publish(self, *changes: QualityChange) -> int:
        taken: int = await self.ask(changes[0].source, lambda client: client.publish(changes))
        return taken

    async def received(self, name: str, user: str = "u", wait: float = 0.0) -> list[Event]:
        found = await self.ask(name, lambda client: client.notifications(f"{user}.s", wait=wait))
        return [event for _, event in found]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until it holds, looking a hundred times a second."""
        never = asyncio.Event()
        async with asyncio.timeout(PATIENCE):
            while not condition():
                with suppress(TimeoutError):
                    await asyncio.wait_for(never.wait(), 0.01)

    def waiting(self, name: str) -> int:
        """Notifications that wait for an organisation's users."""
        return self.services[name].organisation.state.figures()["notification"]

    def sendings(self, name: str) -> int:
        """Events that an organisation still has to send."""
        return self.services[name].organisation.state.figures()["sending"]


@asynccontextmanager
async def cooperation(folder: Path, *names: str, **options: Any) -> AsyncIterator[Cooperation]:
    made = Cooperation(folder, **options)
    try:
        await made.start(*(names or NAMES))
        yield made
    finally:
        await made.stop(*made.services)
