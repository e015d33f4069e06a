"""`tidings broker --processes`: one address, homes of clients, restarts without loss, one page of metrics,
one drain."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from pathlib import Path
from random import Random

import pytest
from conftest import Figures
from tests.chaos._proxy import lasts
from tests.chaos._rig import QUICK
from tests.chaos._unit import Unit

import tidings
from tidings.errors import RefusedError
from tidings.runtime import tls
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.unit import home_of
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

USERS = f"""
[users.ann]
password = "{make_key("secret", iterations=4096)}"
[[allow]]
who = "ann"
action = ["publish", "subscribe"]
"""


def at_home(number: int, count: int, prefix: str = "c") -> str:
    """A client's name whose home is this process."""
    return next(name for n in range(1000) if home_of(name := f"{prefix}{n}", count) == number)


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())


async def publish(bus: tidings.Bus, who: int, numbers: range, acked: list[tuple[int, int]]) -> None:
    for number in numbers:
        await bus.publish({"who": who, "number": number}, mode="kept")
        acked.append((who, number))


async def run_unit(folder: Path, count: int, events: int, kills: int, seed: int) -> int:
    """Publish at every process to a subscriber at every process while processes are killed; lost 0, doubled
    0."""
    rng = Random(seed)
    acked: list[tuple[int, int]] = []
    received: dict[int, list[tuple[int, int]]] = {number: [] for number in range(count)}
    async with Unit(folder, count, "--dev") as unit:
        options = {"network": QUICK, "timeout": 60, "call_timeout": None}

        async def listen(number: int, ready: asyncio.Event) -> None:
            name = at_home(number, count, "s")
            async with (
                tidings.connect(unit.address, name=name, **options) as bus,
                bus.subscribe("EXISTS number", name="all", durable=True) as news,
            ):
                assert bus.figures()["connected to"] == [f"u-{number + 1}"]
                ready.set()
                while True:
                    event = await news.get()
                    received[number].append((event["who"], event["number"]))

        readies = [asyncio.Event() for _ in range(count)]
        subscription = [asyncio.create_task(listen(n, ready)) for n, ready in enumerate(readies)]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 120)
        buses = [
            await tidings.connect(unit.address, name=at_home(n, count, "p"), **options).open()
            for n in range(count)
        ]
        publishing = [
            asyncio.create_task(publish(bus, n, range(events), acked)) for n, bus in enumerate(buses)
        ]
        for _ in range(kills):
            before = len(acked)
            while len(acked) < min(before + events // (2 * kills), count * events - 1):
                await lasts(0.01)
            unit.kill(rng.randrange(count))
            await settled(unit)
        await asyncio.gather(*publishing)
        async with asyncio.timeout(180):
            while any(len(set(rows)) < count * events for rows in received.values()):
                await lasts(0.02)
        metrics = page(f"{unit.said['http']}/metrics")
        assert f"tidings_unit_restarts_total {kills}.0" in metrics
        assert all(f'tidings_events_published_total{{broker="u-{n + 1}"}}' in metrics for n in range(count))
        assert metrics.count("# TYPE tidings_events_published_total") == 1
        for task in subscription:
            task.cancel()
        await asyncio.gather(*subscription, return_exceptions=True)
        for bus in buses:
            await bus.close()
        assert await unit.end() == 0, unit.errors()
    for number, rows in received.items():
        assert sorted(rows) == sorted(acked), f"process {number + 1}: lost or doubled"
        for who in range(count):
            own = [n for each, n in rows if each == who]
            assert own == sorted(own)
    return len(acked)


async def settled(unit: Unit) -> None:
    """Wait until every process answers again, and learn their ids anew."""
    async with asyncio.timeout(120):
        while True:
            try:
                answer = json.loads(await asyncio.to_thread(page, f"{unit.said['http']}/readyz"))
            except OSError:
                answer = {"ok": False}
            if answer["ok"]:
                break
            await lasts(0.05)
    for row in unit.said["processes"]:
        back = [line for line in unit.errors().splitlines() if f"process {row['broker']} is back as" in line]
        if back:
            row["process"] = int(back[-1].rpartition(" ")[2])


def test_a_killed_process_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    asyncio.run(run_unit(tmp_path, count=2, events=60, kills=1, seed=1))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_processes_are_killed_many_times(tmp_path: Path, figures: Figures) -> None:
    acknowledged = asyncio.run(run_unit(tmp_path, count=3, events=10_000, kills=30, seed=2))
    figures(acknowledged=acknowledged, kills=30, lost=0, doubled=0)


async def with_tls(folder: Path) -> None:
    make_authority(folder)
    issue(folder, "u", hosts=("127.0.0.1",), broker=True)
    (folder / "users.toml").write_text(USERS)
    context: ssl.SSLContext = tls.dialling(authority=str(folder / "authority.pem"))
    async with Unit(folder, 2, "--certs", str(folder), "--users", str(folder / "users.toml")) as unit:
        assert unit.address.startswith("tidings+tls://")

        def client(name: str, password: str = "secret") -> tidings.Bus:
            credentials = PasswordCredentials("ann", password)
            return tidings.connect(unit.address, name=name, credentials=credentials, tls=context, timeout=60)

        names = [f"ann/{at_home(number, 2)}" for number in (0, 1)]
        assert len({home_of(name, 2) for name in names}) == 1  # the part before the slash decides
        big = bytes(2_000_000)
        async with (
            client("ann") as bus,
            bus.subscribe("x > 0") as news,
        ):  # relayed or not, by chance of accept
            for number in range(1, 9):
                async with client("ann") as other:
                    await other.publish({"x": number}, payload=big)
                assert (await news.get(timeout=60)).payload == big
        with pytest.raises(RefusedError):
            await client("ann", "guess").open()
        metrics = page(f"{unit.said['http']}/metrics")
        handed = [
            line for line in metrics.splitlines() if line.startswith("tidings_connections_taken_over_total{")
        ]
        assert len(handed) == 2
        assert await unit.end() == 0, unit.errors()


def test_tls_clients_are_relayed_to_their_home_which_authenticates_them(tmp_path: Path) -> None:
    asyncio.run(with_tls(tmp_path))


async def groups(folder: Path) -> None:
    async with Unit(folder, 2, "--dev") as unit:
        home = home_of("workers", 2)
        away = at_home(1 - home, 2)
        async with tidings.connect(unit.address, name=away, timeout=60) as bus:
            with pytest.raises(RefusedError, match="workers/1"):
                await bus.subscribe("x > 0", group="workers").open()
        async with (
            tidings.connect(unit.address, name="workers/1", timeout=60) as one,
            tidings.connect(unit.address, name="workers/2", timeout=60) as two,
            tidings.connect(unit.address, name=away, timeout=60) as publisher,
            one.subscribe("x > 0", group="workers") as first,
            two.subscribe("x > 0", group="workers") as second,
        ):
            await publisher.publish({"x": 1})
            await publisher.publish({"x": 2})
            got = await asyncio.gather(first.get(timeout=60), second.get(timeout=60))
            assert sorted(event["x"] for event in got) == [1, 2]


def test_consumers_of_a_group_meet_at_its_home(tmp_path: Path) -> None:
    asyncio.run(groups(tmp_path))
