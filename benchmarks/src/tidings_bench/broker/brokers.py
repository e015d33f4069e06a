"""Brokers as processes of the benchmark: ours and the peers', each on a free port of loopback.

Rules
- Each is started for one work and ended by its own process id afterwards, also after an error.
- A peer that is not installed is left out, and a row says so.
- Durable peers are told to be as durable as they can: `sync_interval: always`, `appendfsync always`, and an
  autosave at every change (which is as far as mosquitto goes: it acknowledges before it writes).
"""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tidings.errors import MissingDependencyError, UnreachableError

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 15.0
WHERE = (
    str(Path(sys.executable).parent),
    "/usr/sbin",
    "/usr/local/sbin",
)  # before PATH: newer than the system's


class RunningBroker(NamedTuple):
    """A broker that takes connections."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


def program(name: str) -> str | None:
    positions = (shutil.which(name, path=folder) for folder in WHERE)
    return next((found for found in positions if found), None) or shutil.which(name)


@contextmanager
def ours(
    folder: Path, *, name: str = "b1", store: bool = False, join: str = "", tls: tuple[str, ...] = ()
) -> Iterator[RunningBroker]:
    """A broker of ours; with a store, in a folder of its own."""
    words = [str(folder), name, str(folder / name) if store else "", join, *tls]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tidings_bench.broker.serving", *words], stdout=subprocess.PIPE
    )
    with ending(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise UnreachableError(f"broker {name} did not start", hint="what it said is above")
        address: str = json.loads(line)["address"]
        yield RunningBroker(int(address.rpartition(":")[2]), process)


@contextmanager
def peer(
    name: str, folder: Path, *, durable: bool = False, tls: tuple[str, str] | None = None
) -> Iterator[RunningBroker]:
    """A peer, with no event kept or with every event kept; mosquitto also behind a certificate and its
    key."""
    where = program(PROGRAMS.get(name, name))
    if where is None:
        raise MissingDependencyError(f"{name} is not installed")
    port = _free_port()
    words = PEERS[name](where, port, folder, durable)
    if tls is not None:
        with Path(words[-1]).open("a", encoding="utf-8") as settings:
            settings.write(f"certfile {tls[0]}\nkeyfile {tls[1]}\n")
    with (folder / f"{name}.log").open("wb") as stated:
        process = subprocess.Popen(words, stdout=stated, stderr=stated)  # noqa: S603
    with ending(process):
        _wait(name, port, process)
        yield RunningBroker(port, process)


def _mosquitto(program: str, port: int, folder: Path, durable: bool) -> list[str]:
    # Started by root it would become a user that may not write to our folder, and say so in its log alone.
    text = f"listener {port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\nuser {getpass.getuser()}\n"
    text += "max_queued_messages 0\nmax_inflight_messages 0\nmax_connections -1\n"
    if durable:
        text += f"persistence true\npersistence_location {folder}/\n"
        text += "autosave_interval 1\nautosave_on_changes true\n"
    return [program, "-c", _written(folder / "mosquitto.conf", text)]


def _nats(program: str, port: int, folder: Path, durable: bool) -> list[str]:
    text = f'host: "{HOST}"\nport: {port}\nmax_pending: 1GB\n'
    if durable:
        synced = ", sync_interval: always" if is_synced_jetstream() else ""
        text += f'jetstream {{ store_dir: "{folder}/js"{synced} }}\n'
    return [program, "-c", _written(folder / "nats.conf", text)]


def _redis(program: str, port: int, folder: Path, durable: bool) -> list[str]:
    kept = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
    bounds = ["--maxclients", "15000", "--client-output-buffer-limit", "pubsub 0 0 0"]
    return [program, "--port", str(port), "--bind", HOST, "--save", "", "--dir", str(folder), *kept, *bounds]


def _amqtt(program: str, port: int, folder: Path, durable: bool) -> list[str]:
    del durable  # it keeps no event
    text = f"""listeners:
  default: {{type: tcp, bind: '{HOST}:{port}', max_connections: 15000}}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin: {{allow_anonymous: true}}
"""
    return [program, "-c", _written(folder / "amqtt.yaml", text)]


AEDES = """
const net = require("net"), {Aedes} = require("aedes");
(async () => {
  const broker = Aedes.createBroker ? await Aedes.createBroker() : new Aedes();
  net.createServer({noDelay: true}, broker.handle).listen({port: PORT, host: "HOST", backlog: 1024});
})();
"""


def _aedes(program: str, port: int, folder: Path, durable: bool) -> list[str]:
    """The package of npm, where Node.js finds it (`NODE_PATH`)."""
    del durable  # it keeps events in memory
    text = AEDES.replace("PORT", str(port)).replace("HOST", HOST)
    return [program, _written(folder / "aedes.cjs", text)]


PEERS: dict[str, Callable[[str, int, Path, bool], list[str]]] = {
    "mosquitto": _mosquitto,
    "nats-server": _nats,
    "redis-server": _redis,
    "amqtt": _amqtt,
    "aedes": _aedes,
}
PROGRAMS = {"aedes": "node"}  # of peers whose program has another name
PROTOCOLS = {"mosquitto": "mqtt", "nats-server": "nats", "redis-server": "redis", "amqtt": "mqtt"}


@cache
def is_synced_jetstream() -> bool:
    """Does the installed NATS server know `sync_interval: always`? One before 2.10 does not: it
    acknowledges what is not on the disk yet."""
    where = program("nats-server")
    if where is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        text = f'jetstream {{ store_dir: "{folder}", sync_interval: always }}\n'
        words = [where, "-t", "-c", _written(Path(folder) / "nats.conf", text)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0  # noqa: S603


def _written(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    return str(file)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(name: str, port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection((HOST, port), 1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise UnreachableError(f"{name} did not start")


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
