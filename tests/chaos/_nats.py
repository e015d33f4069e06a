"""NATS servers with JetStream for a test: the one of the environment's package, else that of the system."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nats
import nats.errors
import nats.js.errors

_BESIDE = Path(sys.executable).with_name("nats-server")
SERVER = str(_BESIDE) if _BESIDE.exists() else shutil.which("nats-server") or ""
SYNCS_SINCE = (2, 10)


def server_version() -> tuple[int, int]:
    text = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v(\d+)\.(\d+)", text)
    assert found is not None
    return int(found[1]), int(found[2])


class Cluster:
    """Servers that know one another: three, or one alone."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        self._folder = folder
        self.size = size
        self._ports = free_ports(2 * size)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for position in range(size):
            self.start(position)

    @property
    def address(self) -> str:
        return "nats://" + ",".join(f"127.0.0.1:{port}" for port in self._ports[: self.size])

    def start(self, position: int) -> None:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._ports[self.size :])
        syncs = "sync_interval: always" if server_version() >= SYNCS_SINCE else ""
        settings = f"""
            server_name: n{position}
            listen: 127.0.0.1:{self._ports[position]}
            jetstream {{ store_dir: "{self._folder}/n{position}", {syncs} }}
        """
        if self.size > 1:
            own = self._ports[self.size + position]
            settings += f"cluster {{ name: c, listen: 127.0.0.1:{own}, routes: [{routes}] }}"
        file = self._folder / f"n{position}.conf"
        file.write_text(settings)
        with (self._folder / f"n{position}.log").open("a") as log:
            self.processes[position] = subprocess.Popen([SERVER, "-c", str(file)], stdout=log, stderr=log)

    def kill(self, position: int) -> None:
        process = self.processes.pop(position)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def power_cut(self) -> None:
        """All at once; then all start again."""
        running = list(self.processes)
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
        for position in running:
            self.processes.pop(position).wait()
        for position in running:
            self.start(position)

    async def leader(self, stream: str) -> int:
        """The server that leads this stream."""
        connection = await nats.connect(self.address.split(","), connect_timeout=2)
        try:
            async with asyncio.timeout(60):
                while True:
                    with suppress(nats.errors.Error, nats.js.errors.Error):
                        found = (await connection.jetstream(timeout=2).stream_info(stream)).cluster
                        if found is not None and found.leader:
                            return int(found.leader[1:])
                    await asyncio.sleep(0)
        finally:
            await connection.close()

    def close(self) -> None:
        for position in list(self.processes):
            self.kill(position)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
