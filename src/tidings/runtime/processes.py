"""Supervisor of a unit: several broker processes on one machine behind one public address (`tidings broker
--processes`).

    unit = ProcessUnit(settings, program=["python", "-m", "tidings.cli._unit_process"], said={...},
    config=None)
    await unit.run(ready, say)

Rules
- Process k of unit NAME is the broker `NAME-k` with the store `STORE/NAME-k`. The processes form a tree on
  loopback with `FAN_OUT` children each: one log and one matching table each, no shared memory (decision 34).
- The supervisor binds the public address and every process inherits the socket, so connections survive a
  restart of the process that would have accepted them. `unit.py` brings each client to its home.
- A process that dies is started again on its store and at its loopback port, with a pause that doubles.
- One set of metrics: `/metrics` joins the pages of all processes, each series with its broker's name.
  `/readyz` is well when all processes are. Gateways and the console are at the first process.
- One drain: SIGTERM reaches all. SIGHUP reaches all, too.
- The number of processes is part of the store: homes of durable subscriptions depend on it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from tidings.errors import SettingsError, UnreachableError
from tidings.runtime.dialling import parse_addresses
from tidings.runtime.http import OperatorHttp, OperatorPage
from tidings.runtime.metrics import CONTENT_TYPE
from tidings.runtime.notify import Watchdog, notify
from tidings.runtime.settings import BrokerSettings
from tidings.runtime.unit import member_name, public_sockets

log = logging.getLogger("tidings.unit")

FAN_OUT = (
    8  # children of a process in the tree; more leaves less work between siblings and more at the parent
)
START_SECONDS = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds before a process is started again
STOP_SECONDS = 12.0  # a broker drains within 10
FETCH_SECONDS = 5.0
MARK = "unit.json"  # in the folder of the stores
LOOPBACK = "127.0.0.1:0"
FIRST_ONLY = ("gateway.http", "gateway.mqtt", "gateway.mqtt_websocket", "console.listen", "advertise")


class UnitProcess(NamedTuple):
    """A process that runs."""

    name: str
    address: str  # on loopback
    http: str
    gateways: dict[str, str]
    process: asyncio.subprocess.Process


class ProcessUnit:
    """N brokers as one unit. `program` runs one of them; it reads its task as a line of JSON from standard
    input."""

    def __init__(
        self, settings: BrokerSettings, name: str, program: Sequence[str], task: Mapping[str, Any]
    ) -> None:
        check_unit(settings)
        self.name, self._settings = name, settings
        self._program, self._task = list(program), task  # the task: config and what the command line said
        self.processes: dict[int, UnitProcess] = {}
        self._ports: dict[int, str] = {}  # loopback addresses, the same in every life
        self._sockets: list[socket.socket] = []
        self._folder = ""
        self._secret = secrets.token_bytes(32)
        self._stopping = asyncio.Event()
        self.http: OperatorHttp | None = None
        self.restarts = 0
        self.address = ""

    async def run(self, ready: Callable[[ProcessUnit], None], say: Callable[[str], None]) -> bool:
        """Serve until a signal comes, then drain. True: every process answered every request."""
        self._bind()
        self._folder = tempfile.mkdtemp(prefix="tidings-")
        keeping: list[asyncio.Task[None]] = []
        watchdog = Watchdog()
        try:
            for number in range(self._settings.processes):
                await self._start(number)
            await self._serve_http()
            self._on_signals()
            ready(self)
            notify("READY=1")
            watchdog.start()
            keeping = [asyncio.create_task(self._keep(number, say)) for number in self.processes]
            await self._stopping.wait()
        finally:
            notify("STOPPING=1")
            watchdog.stop()
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            codes = await self._end()
            if self.http is not None:
                await self.http.close()
            for one in self._sockets:
                one.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        return not any(codes)

    def stop(self) -> None:
        self._stopping.set()

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._signal(signal.SIGHUP))

    def _bind(self) -> None:
        positions = [(one.host, one.port) for one in parse_addresses(self._settings.listen)]
        try:
            self._sockets = public_sockets(positions, self._settings.resources.listen_backlog)
        except OSError as error:
            raise UnreachableError(
                f"this unit cannot listen at {self._settings.listen}: {error.strerror or error}",
                hint="end what listens there, or choose another address (--listen)",
            ) from None
        host, port = self._sockets[0].getsockname()[:2]
        scheme = "tidings+tls" if self._settings.tls.certificate else "tidings"
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    # -- processes -------------------------------------------------------------------------------

    def _said(self, number: int) -> dict[str, Any]:
        """The settings in which this process differs from the unit."""
        settings, name = self._settings, member_name(self.name, number)
        first = number == 0
        fields: dict[str, Any] = {
            "name": name, "processes": 1, "http": LOOPBACK, "listen": self._ports.get(number, LOOPBACK),
            "store": store_of(settings.store, name),
        }  # fmt: skip
        if first:
            fields["advertise"] = settings.advertise or self.address.partition("://")[2]
        else:
            fields |= dict.fromkeys(FIRST_ONLY, "") | {"join": []}
        if settings.security.audit and not first:
            fields["security.audit"] = f"{settings.security.audit}.{number + 1}"
        return fields

    async def _start(self, number: int) -> None:
        descriptors = tuple(one.fileno() for one in self._sockets)
        unit = {
            "unit": self.name, "number": number, "count": self._settings.processes, "folder": self._folder,
            "secret": base64.b64encode(self._secret).decode(), "sockets": descriptors,
            "parent": self.processes[(number - 1) // FAN_OUT].address if number else "",
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *self._program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            pass_fds=descriptors, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        task = {**self._task, "unit": unit, "said": {**self._task["said"], **self._said(number)}}
        line = b""
        try:
            async with asyncio.timeout(START_SECONDS):
                process.stdin.write(json.dumps(task).encode() + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except (TimeoutError, ConnectionError) as error:
            log.error("process %d did not start: %s", number + 1, error)
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if not line:
            if process.returncode is None:
                process.kill()
            await process.wait()
            name = member_name(self.name, number)
            raise UnreachableError(f"process {name} did not start", hint="its log, above, says why")
        stated = json.loads(line)
        self._ports[number] = stated["address"].partition("://")[2]
        self.processes[number] = UnitProcess(
            stated["broker"], stated["address"], stated["http"] or "", stated["gateways"], process
        )

    async def _keep(self, number: int, say: Callable[[str], None]) -> None:
        """Start this process again whenever it ends."""
        while True:
            running = self.processes[number]
            code = await running.process.wait()
            pause, problem = FIRST_PAUSE, f"ended with {_ending(code)}"
            while problem:
                say(f"process {running.name} {problem}; it is started again, the others go on")
                await asyncio.sleep(pause)
                pause, problem = min(2 * pause, LONGEST_PAUSE), ""
                try:
                    await self._start(number)
                except UnreachableError as error:
                    problem = str(error)
            self.restarts += 1
            say(f"process {running.name} is back as process {self.processes[number].process.pid}")

    def _signal(self, number: int) -> None:
        for running in self.processes.values():
            with suppress(ProcessLookupError):
                running.process.send_signal(number)

    async def _end(self) -> list[int]:
        """Let all drain; kill those that do not. Their exit codes."""
        self._signal(signal.SIGTERM)
        codes = []
        for running in self.processes.values():
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    codes.append(await running.process.wait())
            except TimeoutError:
                running.process.kill()
                codes.append(await running.process.wait())
        return codes

    # -- one set of metrics, one health --------------------------------------------------------------

    async def _serve_http(self) -> None:
        if not self._settings.http:
            return
        host, _, port = self._settings.http.rpartition(":")
        self.http = OperatorHttp(
            {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz}
        )
        try:
            await self.http.start(host.strip("[]") or "127.0.0.1", int(port))
        except OSError as error:
            raise UnreachableError(
                f"metrics cannot be served at {self._settings.http}: {error.strerror or error}",
                hint="choose another address for http",
            ) from None

    async def _metrics(self) -> OperatorPage:
        found = await self._pages("/metrics")
        up = {name: page is not None for name, page in found.items()}
        own = [
            "# HELP tidings_unit_process_up 1: this process of the unit answers.",
            "# TYPE tidings_unit_process_up gauge",
            *(f'tidings_unit_process_up{{broker="{name}"}} {float(is_up)}' for name, is_up in up.items()),
            "# HELP tidings_unit_restarts_total Processes of the unit that were started again.",
            "# TYPE tidings_unit_restarts_total counter",
            f"tidings_unit_restarts_total {float(self.restarts)}",
        ]
        pages = {name: page.decode() for name, page in found.items() if page is not None}
        return OperatorPage((merged_metrics(pages) + "\n".join(own) + "\n").encode(), CONTENT_TYPE)

    async def _healthz(self) -> OperatorPage:
        """Alive: no process that answers has a disk that failed for good; others are being started again."""
        found = await self._pages("/healthz")
        return _page({name: json.loads(page) for name, page in found.items() if page is not None})

    async def _readyz(self) -> OperatorPage:
        silent = {"ok": False, "problems": ["this process does not answer; it is being started again"]}
        found = await self._pages("/readyz")
        return _page({name: json.loads(page) if page is not None else silent for name, page in found.items()})

    async def _pages(self, path: str) -> dict[str, bytes | None]:
        """This page of every process, by its broker's name."""
        running = [self.processes[number] for number in sorted(self.processes)]
        pages = await asyncio.gather(*(_fetch(each.http, path) for each in running))
        return {each.name: page for each, page in zip(running, pages, strict=True)}


def check_unit(settings: BrokerSettings) -> None:
    """Refuse settings that several processes cannot share. Raises `SettingsError`."""
    without = {
        "group.name": settings.group.name,
        "heal_seconds": settings.heal_seconds,
        "datagrams": settings.datagrams,
        "system": settings.system != "tidings",
    }
    for name, value in without.items():
        if value:
            raise SettingsError(
                f"{name} does not go with processes = {settings.processes}",
                hint="run one process, or several brokers with settings of their own",
            )
    _mark_store(settings)


def _mark_store(settings: BrokerSettings) -> None:
    """The number of processes stands beside the stores: another number would have other homes."""
    if not settings.store or "://" in settings.store:
        return
    folder = Path(settings.store)
    before = processes_of(folder) or _restored(folder)
    if before and before != settings.processes:
        raise SettingsError(
            f"store {folder} is that of {before} processes, and this unit has {settings.processes}",
            hint=f"start it with --processes {before}; durable subscriptions live in the process that "
            "their client's name chooses among so many",
        )
    if not before and _entries(folder):
        raise SettingsError(
            f"store {folder} is not that of a unit",
            hint="give --processes an empty folder; one is made for each",
        )
    if not (folder / MARK).exists():
        mark_unit(folder, settings.processes)


def mark_unit(folder: Path, processes: int) -> None:
    """Write down how many processes a folder is for."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{MARK}.new"
    new.write_text(json.dumps({"processes": processes}))
    new.replace(folder / MARK)


def processes_of(folder: Path) -> int:
    """How many processes the folder of a unit is for; 0: it is not marked as one."""
    try:
        return int(json.loads((folder / MARK).read_text())["processes"])
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (ValueError, KeyError, TypeError):
        raise SettingsError(
            f"{folder / MARK} does not say a number of processes",
            hint='it holds {"processes": N}: as many as there are folders NAME-1 to NAME-N beside it',
        ) from None


def _entries(folder: Path) -> list[str]:
    """Names in a folder, but that of a new disk's own directory."""
    return [each.name for each in folder.iterdir() if each.name != "lost+found"] if folder.is_dir() else []


def _restored(folder: Path) -> int:
    """Of how many processes the stores in an unmarked folder are, when each was restored on its own."""
    found = _entries(folder)
    name = found[0].rpartition("-")[0] if found else ""
    wanted = {member_name(name, number) for number in range(len(found))}
    return (
        len(found) if set(found) == wanted and all((folder / each / "db").is_dir() for each in found) else 0
    )


def refuse_store_of_unit(settings: BrokerSettings) -> None:
    """Refuse to open the folder of a unit as the store of one broker. Raises `SettingsError`."""
    if not settings.store or "://" in settings.store:
        return
    folder = Path(settings.store)
    if processes_of(folder) or _restored(folder):
        raise SettingsError(
            f"store {folder} is that of a unit of processes", hint="start it with --processes"
        )


def store_of(store: str, name: str) -> str:
    """The store of one process."""
    if not store:
        return ""
    if "://" in store:
        position, mark, query = store.partition("?")
        return f"{position}-{name}{mark}{query}"
    return str(Path(store) / name)


def merged_metrics(pages: Mapping[str, str]) -> str:
    """Pages of several brokers as one: each family once, with the samples of all. Metrics of the process
    itself, which name no broker, get its name."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for broker, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif line:
                samples.setdefault(family, []).append(_labelled(line, broker))
    return "".join(
        "\n".join([*head, *samples.get(family, [])]) + "\n"
        for family, head in heads.items()
        if samples.get(family)
    )


def _labelled(sample: str, broker: str) -> str:
    name, _, rest = sample.partition("{") if "{" in sample else sample.partition(" ")
    if "{" not in sample:
        return f'{name}{{broker="{broker}"}} {rest}'
    return sample if 'broker="' in rest else f'{name}{{broker="{broker}",{rest}'


def _page(parts: dict[str, Any]) -> OperatorPage:
    ok = all(part["ok"] for part in parts.values()) and bool(parts)
    body = json.dumps({"ok": ok, "processes": parts}).encode() + b"\n"
    return OperatorPage(body, status=HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE)


async def _fetch(http: str, path: str) -> bytes | None:
    """The body of a process's page; None: it does not answer."""
    host, _, port = http.partition("://")[2].rpartition(":")
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        log.debug("%s%s does not answer: %s", http, path, error)
        return None
    return answer.partition(b"\r\n\r\n")[2] or None


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
