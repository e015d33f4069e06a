"""Brokers and clients of two versions in one network: processes that are stopped and started with the other
version.

Every event is numbered by its publisher. A publisher reports each number that was acknowledged as kept, a
durable subscriber each number that it received; `judge` compares: nothing lost, nothing doubled, in order.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

from tests.chaos._proxy import lasts
from tests.upgrade._release import Release

CLIENT = Path(__file__).with_name("_client.py")
PATIENCE = 120.0  # seconds without anything new
STEP = 0.02  # seconds between two looks


class Broker:
    """One broker; it keeps its name, port and store over versions."""

    def __init__(self, name: str, folder: Path, joins: list[Broker], stated: tuple[str, ...] = ()) -> None:
        self.name, self._folder, self._joins, self._said = name, folder, joins, stated
        self.port = 0
        self.version = ""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, release: Release) -> None:
        arguments = ["--name", self.name, "--listen", f"127.0.0.1:{self.port}"]
        arguments += ["--store", str(self._folder / self.name), *self._said]
        for other in self._joins:
            arguments += ["--join", f"127.0.0.1:{other.port}"]
        with (self._folder / f"{self.name}.err").open("a") as errors:
            self._process = await asyncio.create_subprocess_exec(
                release.python, "-m", "tidings.runtime.process", *arguments,
                stdout=asyncio.subprocess.PIPE, stderr=errors, env=release.environment(), cwd=self._folder,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        assert line, f"{self.name} did not start with {release.version}: {self.errors()}"
        self.port = int(json.loads(line)["address"].rpartition(":")[2])
        self.version = release.version

    def errors(self) -> str:
        return (self._folder / f"{self.name}.err").read_text()[-2000:]

    async def end(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        await asyncio.wait_for(self._process.wait(), PATIENCE)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None


class Rig:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.brokers: dict[str, Broker] = {}
        self.kept: dict[str, set[int]] = defaultdict(set)  # by publisher
        self.unknown: Counter[str] = Counter()
        self.received: dict[str, list[tuple[str, int]]] = {}  # by subscriber
        self._clients: dict[str, asyncio.subprocess.Process] = {}
        self._reading: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Rig:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            if client.returncode is None:
                client.kill()
            await client.wait()
        await asyncio.gather(*self._reading, return_exceptions=True)
        for broker in self.brokers.values():
            if broker.is_running:
                await broker.end(signal.SIGKILL)

    async def tree(self, links: dict[str, list[str]], releases: dict[str, Release]) -> None:
        """Brokers by name, each joined to those of its list, which come first."""
        for name, joins in links.items():
            self.brokers[name] = Broker(name, self._folder, [self.brokers[other] for other in joins])
            await self.brokers[name].start(releases[name])

    async def group(self, names: list[str], release: Release) -> None:
        """Members of one group with one log."""
        options = json.dumps({"group": "news", "members": names})
        stated = ("--system", "tidings-group", "--options", options)
        for position, name in enumerate(names):
            joins = [self.brokers[other] for other in names[:position]]
            self.brokers[name] = Broker(name, self._folder, joins, stated)
            await self.brokers[name].start(release)

    # -- clients -------------------------------------------------------------------------------

    async def publisher(self, name: str, release: Release, *brokers: str) -> None:
        await self._client("publish", name, release, brokers)

    async def subscriber(self, name: str, release: Release, *brokers: str) -> None:
        self.received[name] = []
        await self._client("listen", name, release, brokers)

    async def _client(self, what: str, name: str, release: Release, brokers: tuple[str, ...]) -> None:
        positions = ",".join(f"127.0.0.1:{self.brokers[broker].port}" for broker in brokers)
        with (self._folder / f"{name}.err").open("a") as errors:
            client = self._clients[name] = await asyncio.create_subprocess_exec(
                release.python, str(CLIENT), what, name, f"tidings://{positions}", env=release.environment(),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
                cwd=self._folder,
            )  # fmt: skip
        ready = asyncio.Event()
        self._reading.append(asyncio.create_task(self._read(name, client, ready)))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((waiting, self._reading[-1]), timeout=PATIENCE, return_when="FIRST_COMPLETED")
        waiting.cancel()
        assert ready.is_set(), f"{name}: {(self._folder / f'{name}.err').read_text()[-2000:]}"

    async def _read(self, name: str, client: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
        assert client.stdout is not None
        async for line in client.stdout:
            match line.decode().split():
                case ["ready"]:
                    ready.set()
                case ["kept", number]:
                    self.kept[name].add(int(number))
                case ["unknown", number]:
                    self.unknown[name] += 1
                case ["received", who, number]:
                    self.received[name].append((who, int(number)))

    async def stop(self, name: str) -> None:
        """End a client as it would end by itself: it drains."""
        client = self._clients[name]
        assert client.stdin is not None
        client.stdin.close()
        code = await asyncio.wait_for(client.wait(), PATIENCE)
        assert code == 0, (self._folder / f"{name}.err").read_text()[-2000:]

    # -- changing versions -----------------------------------------------------------------------

    async def replace(self, name: str, release: Release, number: int = signal.SIGTERM) -> None:
        """Stop this broker and start it with that version, while all others serve."""
        await self.brokers[name].end(number)
        await self.brokers[name].start(release)

    async def flow(self, events: int) -> None:
        """Wait until each publisher had so many more acknowledged, and each subscriber received from each."""
        publishers = [name for name in self._clients if name not in self.received]
        kept = {name: len(self.kept[name]) + events for name in publishers}
        before = {name: Counter(who for who, _ in rows) for name, rows in self.received.items()}

        def flows() -> bool:
            return all(len(self.kept[name]) >= most for name, most in kept.items()) and all(
                Counter(who for who, _ in rows)[who] > before[name][who]
                for name, rows in self.received.items()
                for who in publishers
            )

        await self._until(flows)

    async def arrive(self) -> None:
        """Wait until every subscriber has all acknowledged events."""
        await self._until(lambda: not any(self.missing(name) for name in self.received))

    async def _until(self, condition: object) -> None:
        """Patience is counted in steps, not by the clock: the run may be suspended as a whole."""
        assert callable(condition)
        seen, steps = self._progress(), 0
        while not condition():
            now = self._progress()
            steps, seen = (steps + 1, seen) if now == seen else (0, now)
            assert steps < PATIENCE / STEP, f"nothing new for {PATIENCE:g} s: {self.figures()}"
            await lasts(STEP)

    def _progress(self) -> tuple[int, ...]:
        return (*map(len, self.kept.values()), *map(len, self.received.values()))

    # -- judging -------------------------------------------------------------------------------

    def missing(self, name: str) -> set[tuple[str, int]]:
        kept = {(who, number) for who, numbers in self.kept.items() for number in numbers}
        return kept - set(self.received[name])

    def judge(self) -> None:
        for name, received in self.received.items():
            assert not self.missing(name), f"{name} lost {sorted(self.missing(name))[:5]}: {self.figures()}"
            doubled = [each for each, times in Counter(received).items() if times > 1]
            assert not doubled, f"{name} received twice: {doubled[:5]}: {self.figures()}"
            for who in self.kept:
                numbers = [number for source, number in received if source == who]
                assert numbers == sorted(numbers), f"{name} received {who} out of order"

    def figures(self) -> dict[str, object]:
        return {
            "kept": {name: len(numbers) for name, numbers in self.kept.items()},
            "unknown": dict(self.unknown),
            "received": {name: len(rows) for name, rows in self.received.items()},
            "missing": {name: len(self.missing(name)) for name in self.received},
            "versions": {name: broker.version for name, broker in self.brokers.items()},
        }
