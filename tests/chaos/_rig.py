"""Broker processes, links that misbehave, clients that record what they saw, and faults by name.

    b0 - b1 - b2 - b3
               \\
                b4

Every link goes through a `Proxy`. Publishers publish without pause, kept, several at once, events of 2 kB in
the mean and one in a thousand at the limit; durable subscribers whose filters cover one another listen
elsewhere. Brokers are killed and stopped, links cut and rough, wall clocks set, and the disk of `b2` is
filled, and replaced once what was acknowledged there has arrived. Publishers wait while too much is on its
way. When the faults are over, everything that was acknowledged has to arrive; then `tidings check` judges the
history.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from tests.chaos._machines import MAX_FRAME, SmallDisk, command_of, draw_payload
from tests.chaos._proxy import Proxy, Roughness, lasts

import tidings
from tidings.errors import TidingsError, UnknownOutcomeError
from tidings.history.recorder import FileRecorder
from tidings.runtime.connection import NetworkSettings

LINKS = (("b1", "b0"), ("b2", "b1"), ("b3", "b2"), ("b4", "b2"))  # who joins whom
SOURCE = Path(tidings.__file__).parents[1]
SAY_SECONDS = 30.0  # between two words of a long run
AIMING = 20.0  # seconds at most, until a publish is on its way to the victim
QUICK = NetworkSettings(retry_seconds=0.05, slow_retry_seconds=0.5, max_frame_bytes=MAX_FRAME)
BACKLOG = 10_000  # deliveries that are on their way, at most; more would measure the queues
REPLACED = "b2"  # the broker whose disk is filled and replaced: no subscriber is there


class Broker:
    """One broker process; it keeps its port when it is started again."""

    def __init__(self, name: str, folder: Path, joins: list[Proxy], stated: tuple[str, ...] = ()) -> None:
        self.name = name
        self._said = stated  # further arguments
        self._folder = folder
        self._joins = joins
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.kills = 0
        self.clock = 0.0  # seconds by which its wall clock is wrong, from the next start on

    async def start(self) -> None:
        self.store.parent.mkdir(exist_ok=True)
        arguments = ["--name", self.name, "--listen", f"127.0.0.1:{self.port}"]
        arguments += ["--store", str(self.store), "--max-frame", str(MAX_FRAME)]
        for proxy in self._joins:
            arguments += ["--join", proxy.address]
        arguments += self._said
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        with (self._folder / f"{self.name}.err").open("a") as errors:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                [*command_of(self.clock), *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, f"{self.name} did not start: {(self._folder / f'{self.name}.err').read_text()[-2000:]}"
        self.port = int(json.loads(line)["address"].rpartition(":")[2])

    @property
    def store(self) -> Path:
        return self._folder / self.name / "store"

    def replace_disk(self) -> None:
        """Between two lives: the next one finds nothing."""
        shutil.rmtree(self.store)

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        assert self._process is not None
        self.kills += 1
        self._process.kill()
        await self._over()

    async def end(self) -> int:
        """SIGTERM: it drains. Its exit code."""
        self.send(signal.SIGTERM)
        return await self._over()

    async def _over(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        code = await asyncio.to_thread(self._process.wait, 20)
        self._process.stdout.close()
        return code

    @property
    def address(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"


class Rig:
    def __init__(self, folder: Path, seed: int, stated: tuple[str, ...] = ()) -> None:
        self.rng = Random(seed)
        self.said = stated  # to every broker
        self.folder = folder
        self.history = folder / "history.jsonl"
        self.brokers: dict[str, Broker] = {}
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.fired: Counter[str] = Counter()
        self.hits = 0  # kills while a publish at that broker was not acknowledged
        self.acknowledged = 0
        self.unknown = 0
        self.refused = 0  # publishes: a disk was full
        self._paused: set[str] = set()  # publishers
        self._disk: SmallDisk | None = None
        self.moves = 0  # connections of the subscriber that has two brokers
        self.received: dict[str, set[tuple[str, str]]] = {}  # by subscriber
        self.doubled: list[tuple[str, tuple[str, str]]] = []  # subscriber, event
        self.missing: dict[str, set[tuple[str, str]]] = {}  # by subscriber: acknowledged, and not heard yet
        self._in_flight: Counter[str] = Counter()  # by broker
        self._recorder = FileRecorder(self.history)
        self._is_publishing = True
        self._said_at = time.monotonic()

    # -- beginning and ending ------------------------------------------------------------------

    async def start(self) -> None:
        for number in range(5):
            name = f"b{number}"
            joins = []
            for one, other in LINKS:
                if one == name:
                    proxy = self.proxies[one, other] = Proxy(self._place_of(other), Random(self.rng.random()))
                    await proxy.start()
                    joins.append(proxy)
            self.brokers[name] = Broker(name, self.folder, joins, self.said)
        self._disk = SmallDisk(self.folder / REPLACED)
        for broker in self.brokers.values():
            await broker.start()

    def _place_of(self, name: str) -> Any:
        return lambda: ("127.0.0.1", self.brokers[name].port)

    async def close(self) -> None:
        for broker in self.brokers.values():
            broker.send(signal.SIGCONT)
        codes = await asyncio.gather(*(broker.end() for broker in self.brokers.values()))
        for proxy in self.proxies.values():
            await proxy.close()
        self._recorder.close()
        if self._disk is not None:
            self._disk.close()
        assert set(codes) == {0}, f"a broker did not drain: {codes}"

    def connect(self, name: str, *brokers: str) -> tidings.Bus:
        """A client of the first of these brokers; it goes to the others while that one is down."""
        positions = ",".join(f"127.0.0.1:{self.brokers[broker].port}" for broker in brokers)
        return tidings.connect(
            f"tidings://{positions}",
            name=name,
            record=_Shared(self._recorder),
            network=QUICK,
            timeout=30,
            call_timeout=None,  # brokers are down for as long as the faults say
            patience=0.3,
        )

    # -- clients -------------------------------------------------------------------------------

    async def publish(self, name: str, broker: str, at_once: int) -> None:
        """Publish without pause, several at once, until `quieten`."""
        async with self.connect(name, broker) as bus:
            lines = [asyncio.create_task(self._publish_line(bus, broker, n)) for n in range(at_once)]
            await asyncio.gather(*lines)

    async def _publish_line(self, bus: tidings.Bus, broker: str, number: int) -> None:
        rng = Random(f"{bus.name}/{number}")
        while self._is_publishing:
            if bus.name in self._paused or sum(map(len, self.missing.values())) > BACKLOG:
                await lasts(0.05)
                continue
            kind = rng.randrange(10)
            self._in_flight[broker] += 1
            try:
                receipt = await bus.publish({"kind": kind}, payload=draw_payload(rng), mode="kept")
            except UnknownOutcomeError:
                self.unknown += 1
                continue
            except TidingsError as error:
                if error.code != "full":
                    raise
                self.refused += 1
                await lasts(0.1)
                continue
            finally:
                self._in_flight[broker] -= 1
            self.acknowledged += 1
            for subscriber, most in self.bounds.items():
                if kind < most and (receipt.source, receipt.id) not in self.received[subscriber]:
                    self.missing[subscriber].add((receipt.source, receipt.id))
            await lasts(rng.uniform(0.0, 0.02))

    bounds: ClassVar = {"all": 10, "some": 5, "few": 2}  # by subscriber: the kinds below this are wanted

    async def listen(self, name: str, brokers: tuple[str, ...], ready: asyncio.Event) -> None:
        received = self.received[name] = set()
        missing = self.missing[name] = set()
        async with (
            self.connect(name, *brokers) as bus,
            bus.subscribe(f"kind < {self.bounds[name]}", name="mine", durable=True) as news,
        ):
            ready.set()
            while self._is_publishing or missing or any(self._in_flight.values()):
                try:
                    event = await news.get(timeout=0.2)
                except TimeoutError:
                    continue
                if event.identity in received:
                    self.doubled.append((name, event.identity))
                received.add(event.identity)
                missing.discard(event.identity)
            self.moves += bus.figures()["connections"] - 1 if len(brokers) > 1 else 0

    def quieten(self) -> None:
        self._is_publishing = False

    async def arrive(self, tasks: list[asyncio.Task[None]], patience: float) -> None:
        """Wait for these clients to end, as long as something goes on; they may have much to
        catch up with."""
        while True:
            before = self._progress()
            done, pending = await asyncio.wait(tasks, timeout=patience)
            for task in done:
                task.result()
            if not pending:
                return
            if self._progress() == before:
                missing = {name: len(some) for name, some in self.missing.items()}
                raise TimeoutError(f"{len(pending)} clients do not end; missing: {missing}")

    def _progress(self) -> tuple[int, ...]:
        return (self.acknowledged, self.unknown, *(len(some) for some in self.received.values()))

    # -- faults --------------------------------------------------------------------------------

    async def trouble(self, until: float, acknowledged: int = 0, faults: int = 0) -> None:
        """One fault after another, each by name: so many, until that time of the monotonic clock, and until
        so much was acknowledged."""
        kinds = [self._kill, self._roughen, self._cut, self._stop, self._set_clock, self._replace]
        if self._disk is not None and self._disk.is_mounted:
            kinds.append(self._fill)
        first = self.rng.sample([*kinds, self._kill], len(kinds) + 1)  # each at least once
        done = 0
        while first or done < faults or time.monotonic() < until or self.acknowledged < acknowledged:
            done += 1
            await (first.pop() if first else self.rng.choice([*kinds, self._kill]))()
            await lasts(self.rng.uniform(0.1, 0.6))
            self._say_sometimes()

    def _say_sometimes(self) -> None:
        """A long run says how far it is."""
        now = time.monotonic()
        if now > self._said_at + SAY_SECONDS:
            self._said_at = now
            print(json.dumps(self.figures()), flush=True)

    async def _kill(self) -> None:
        victims = self.rng.sample(list(self.brokers.values()), self.rng.choice([1, 1, 1, 2]))
        aimed_until = time.monotonic() + (AIMING if self.rng.random() < 0.7 else 0.0)
        while not self._in_flight[victims[0].name] and time.monotonic() < aimed_until:
            await asyncio.sleep(0)  # most kills wait for a publish that is on its way there
        for victim in victims:
            self.fired["kill"] += 1
            self.hits += self._in_flight[victim.name] > 0
        await asyncio.gather(*(victim.kill() for victim in victims))
        await lasts(self.rng.uniform(0.0, 0.8))
        await asyncio.gather(*(victim.start() for victim in victims))

    async def _set_clock(self) -> None:
        """A broker starts again an hour behind its earlier life, or ahead of it."""
        victim = self.rng.choice(list(self.brokers.values()))
        self.fired["clock jump"] += 1
        victim.clock += self.rng.uniform(-3600.0, 3600.0)
        await victim.kill()
        await victim.start()

    async def _fill(self) -> None:
        assert self._disk is not None
        self.fired["full disk"] += 1
        await asyncio.to_thread(self._disk.fill)
        await lasts(self.rng.uniform(0.3, 1.5))
        self._disk.free()

    async def _replace(self) -> None:
        """An empty disk, when everything that was acknowledged there has arrived; its clock may be wrong,
        too."""
        victim, publisher = self.brokers[REPLACED], f"p{REPLACED[1:]}"
        self._paused.add(publisher)
        async with asyncio.timeout(120):
            while self._in_flight[REPLACED] or self._is_missing(publisher):
                await lasts(0.05)
        self.fired["disk replaced"] += 1
        victim.clock = self.rng.choice((0.0, -3600.0, 3600.0))
        await victim.kill()
        victim.replace_disk()
        await victim.start()
        self._paused.discard(publisher)

    def _is_missing(self, publisher: str) -> bool:
        return any(source == publisher for missing in self.missing.values() for source, _ in missing)

    async def _stop(self) -> None:
        victim = self.rng.choice(list(self.brokers.values()))
        self.fired["stop"] += 1
        victim.send(signal.SIGSTOP)
        await lasts(self.rng.uniform(0.2, 1.0))
        victim.send(signal.SIGCONT)

    async def _cut(self) -> None:
        proxy = self.rng.choice(list(self.proxies.values()))
        self.fired["partition"] += 1
        proxy.partition()
        await lasts(self.rng.uniform(0.2, 1.0))
        proxy.heal(sever=self.rng.random() < 0.5)

    async def _roughen(self) -> None:
        self.fired["rough"] += 1
        for proxy in self.proxies.values():
            proxy.rough = Roughness(delay=0.2, duplicate=0.05, swap=0.1, corrupt=0.002)
        await lasts(self.rng.uniform(0.3, 1.0))
        for proxy in self.proxies.values():
            proxy.rough = Roughness()

    # -- judging -------------------------------------------------------------------------------

    def judge(self) -> dict[str, Any]:
        """The verdicts of `tidings check` on what the clients saw."""
        command = [sys.executable, "-m", "tidings", "check", str(self.history), "--json"]
        command += ["--t-sub", "30", "--t-diff", "120"]
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
        )
        assert done.stdout, done.stderr
        properties: dict[str, Any] = json.loads(done.stdout)["properties"]
        return properties

    async def settle(self) -> None:
        """Wait until every broker knows what is wanted, and every subscription is in the present."""
        for broker in self.brokers.values():
            async with asyncio.timeout(120), self.connect("judge", broker.name) as bus:
                while not _is_settled(await bus.inquire("figures"), await bus.inquire("subscriptions")):
                    await asyncio.sleep(0)

    async def describe(self) -> None:
        """What every broker says of itself, when something did not arrive."""
        for broker in self.brokers.values():
            async with tidings.connect(broker.address, name="judge") as bus:
                for what in ("figures", "subscriptions"):
                    print(broker.name, json.dumps(await bus.inquire(what)))

    def figures(self) -> dict[str, Any]:
        between: Counter[str] = Counter()
        for proxy in self.proxies.values():
            between.update(proxy.fired)
        kills = self.fired["kill"]
        return {
            "acknowledged": self.acknowledged,
            "unknown": self.unknown,
            "refused": self.refused,
            "moves": self.moves,
            "received": {name: len(some) for name, some in self.received.items()},
            "doubled": len(self.doubled),
            "faults": dict(self.fired),
            "frames": dict(between),
            "kills with publishes not acknowledged": f"{self.hits} of {kills}",
        }


def _is_settled(figures: dict[str, Any], subscriptions: list[dict[str, Any]]) -> bool:
    groups = [group for each in subscriptions for group in each["logs"].values()]
    known = figures["logs"] == 4 and all(len(each["logs"]) == 4 for each in subscriptions)
    return known and not figures["links syncing"] and all(group["phase"] == "live" for group in groups)


class _Shared:
    """One file for all clients; it is closed by the rig."""

    def __init__(self, recorder: FileRecorder) -> None:
        self.record = recorder.record

    def close(self) -> None:
        """Others still write."""
