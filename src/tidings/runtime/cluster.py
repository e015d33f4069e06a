"""Brokers on this machine as a tree of processes, for development: what `tidings cluster up` runs.

async with Cluster(3) as cluster:
    async with tidings.connect(cluster.address) as bus: ...
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tidings.errors import SettingsError, StoreError, TidingsError, UnreachableError

START_SECONDS = 60.0  # a loaded machine takes its time to start Python
STOP_SECONDS = 12.0  # a broker drains within 10
RESTART_SECONDS = 5.0  # before a broker that ended by itself is started again: time to see what is missing
SLOWEST_RESTART = 60.0  # seconds; the pause doubles while it does not start
HOST = "127.0.0.1"


class ClusterMember(NamedTuple):
    """A broker that runs."""

    name: str
    address: str
    http: str | None
    process: asyncio.subprocess.Process
    joined: str | None  # the name of the broker that it was told to join
    gateways: dict[str, str]  # by protocol


class Cluster:
    """Starts brokers one after another; each joins its parent in a tree with two children each.

    `async with` ends them all, however the block is left.
    """

    def __init__(
        self,
        count: int,
        *,
        port: int = 0,
        store: Path | None = None,
        http: bool = False,
        log: str = "warning",
        program: str = "tidings.runtime.development",
        gateways: Mapping[str, str] | None = None,
        first: Mapping[str, Any] | None = None,
        archive: Path | None = None,
        fields: dict[str, Any] | None = None,
    ) -> None:
        if count < 1:
            raise SettingsError(f"a cluster of {count} brokers", hint="1 or more")
        self._count = count
        self._port = port
        self._store = store
        self._http = http
        self._log = log
        self._program = program  # the module that runs one broker
        own = {f"gateway.{name}": where for name, where in (gateways or {}).items()}
        self._first = {**own, **(first or {})}  # settings of the first broker alone
        self._archive = archive
        self._said = fields or {}  # settings of every broker
        self.members: list[ClusterMember] = []

    async def __aenter__(self) -> Cluster:
        try:
            for number in range(self._count):
                await self.start(number)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """Addresses of all brokers, for a client that may use any."""
        return "tidings://" + ",".join(member.address.partition("://")[2] for member in self.members)

    async def start(self, number: int, *, listen: str | None = None) -> ClusterMember:
        """Start a broker, or start it again where it was."""
        parent = self.members[(number - 1) // 2] if number else None
        port = self._port + number if self._port else 0
        name = f"b{number + 1}"
        if listen is None:
            check_free(name, port)
        fields = {
            "name": name,
            "listen": listen or f"{HOST}:{port}",
            "join": [parent.address] if parent is not None else [],
            "store": str(self._store / name) if self._store is not None else "",
            "http": f"{HOST}:0" if self._http else "",
            "log.level": self._log,
            "archive": str(self._archive) if self._archive is not None else "",
            **self._said,
            **({} if number else self._first),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self._program, json.dumps(fields),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        ready = await self._ready(process, name)
        member = ClusterMember(
            name, ready["address"], ready["http"], process, parent.name if parent else None, ready["gateways"]
        )
        self.members[number : number + 1] = [member]
        return member

    async def _ready(self, process: asyncio.subprocess.Process, name: str) -> dict[str, Any]:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        except asyncio.CancelledError:
            process.kill()
            raise
        if not line:
            if process.returncode is None:
                process.kill()
            await process.wait()
            raise StoreError(f"broker {name} did not start", hint="what it said is above")
        fields: dict[str, Any] = json.loads(line)
        return fields

    async def kill(self, number: int) -> None:
        """Without warning, as a power cut."""
        process = self.members[number].process
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    async def restart(self, number: int) -> ClusterMember:
        """On its disk, at its address."""
        return await self.start(number, listen=self.members[number].address.partition("://")[2])

    async def keep_running(self, say: Callable[[str], None], seconds: float = RESTART_SECONDS) -> None:
        """Start every broker again that ends by itself, after so many seconds, until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(len(self.members)):
                group.create_task(self._keep_running(number, say, seconds))

    async def _keep_running(self, number: int, say: Callable[[str], None], seconds: float) -> None:
        while True:
            member = self.members[number]
            pause, problem = seconds, _ending(await member.process.wait())
            while problem:
                say(f"broker {member.name} {problem}; it is started again in {pause:g} s, the others go on")
                await asyncio.sleep(pause)
                pause, problem = min(2 * pause, SLOWEST_RESTART), ""
                try:
                    member = await self.restart(number)
                except TidingsError as error:
                    problem = f"could not be started: {error}"
            say(f"broker {member.name} is back at {member.address}, as process {member.process.pid}")

    async def stop(self) -> None:
        """Let all drain; kill those that do not."""
        running = [member.process for member in self.members if member.process.returncode is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def check_free(name: str, port: int) -> None:
    """Refuse a port that is taken, before a broker is started there: what the broker would say of its own
    options is no help to the user of a cluster."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker's own socket does
        try:
            trial.bind((HOST, port))
        except OSError as error:
            raise UnreachableError(
                f"broker {name} cannot listen at {HOST}:{port}: {error.strerror or error}",
                hint="end what listens there, or choose other ports (--port, port=; 0: free ones)",
            ) from None


def _ending(code: int) -> str:
    """Text for a process's exit code."""
    return (
        f"was ended by {signal.Signals(-code).name}"
        if code < 0
        else f"ended by itself, with exit code {code}"
    )
