"""One broker process: SIGTERM under load, kill -9, no descriptors left, a disk that is full."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.chaos._process import BrokerProcess

import tidings
from tidings.errors import StoreFullError, UnknownOutcomeError
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.connection import NetworkSettings
from tidings.store.memory import MemoryStore
from tidings.testing import collect
from tidings.testing.network import serving, until

QUICK = NetworkSettings(retry_seconds=0.02, slow_retry_seconds=0.3)


def numbers(events: list[tidings.Event]) -> list[Any]:
    return [event["n"] for event in events]


def test_sigterm_under_load_drains_and_ends_well(tmp_path: Path) -> None:
    async def play() -> None:
        broker = BrokerProcess(tmp_path)
        acknowledged: list[int] = []
        async with tidings.connect(broker.address, name="p", network=QUICK) as bus:
            await bus.subscribe("n >= 0", name="all", durable=True)

            async def publish(line: int) -> None:
                for n in range(line, 1_000_000, 16):
                    await bus.publish({"n": n}, mode="kept")
                    acknowledged.append(n)

            lines = [asyncio.create_task(publish(line)) for line in range(16)]
            await until(lambda: len(acknowledged) > 200)
            broker.terminate()
            code = await asyncio.to_thread(broker.wait)
            assert code == 0, broker.errors()
            for line in lines:
                line.cancel()
            await asyncio.gather(*lines, return_exceptions=True)
        again = BrokerProcess(tmp_path)
        async with (
            tidings.connect(again.address, name="p") as bus,
            bus.subscribe("n >= 0", name="all", durable=True) as news,
        ):
            received: list[int] = []
            while not set(acknowledged) <= set(received):
                received += numbers(await collect(news, 1, timeout=120))
            assert len(received) == len(set(received))
        again.terminate()
        assert again.wait() == 0

    asyncio.run(play())


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    async def play() -> None:
        broker = BrokerProcess(tmp_path)
        address = broker.address
        async with (
            tidings.connect(address, name="p", network=QUICK) as publisher,
            tidings.connect(address, name="s", network=QUICK) as subscriber,
            subscriber.subscribe("n >= 0", name="mine", durable=True) as news,
        ):
            received: list[Any] = []
            hit = 0
            for life in range(3):

                def publish(numbers: range) -> list[asyncio.Task[Any]]:
                    return [asyncio.create_task(publisher.publish({"n": n}, mode="kept")) for n in numbers]

                tasks = publish(range(60 * life, 60 * life + 30))
                await until(lambda: sum(task.done() for task in tasks) > 5)  # noqa: B023
                tasks += publish(range(60 * life + 30, 60 * life + 60))
                await asyncio.sleep(0)  # they are on their way, and nobody has answered
                hit += sum(not task.done() for task in tasks)
                broker.kill()
                broker = await asyncio.to_thread(BrokerProcess, tmp_path, port=broker.port)
                await asyncio.gather(*tasks)
                received += numbers(await collect(news, 60, timeout=120))
            assert received == list(range(180))
            assert hit, "no kill hit a publish that was not acknowledged"
        broker.terminate()
        assert broker.wait() == 0

    asyncio.run(play())


def test_a_broker_without_descriptors_goes_on_and_recovers(tmp_path: Path) -> None:
    async def play() -> None:
        broker = BrokerProcess(tmp_path, files=96)
        async with (
            tidings.connect(broker.address, name="p", network=QUICK) as bus,
            bus.subscribe("n >= 0") as news,
        ):
            crowd: list[socket.socket] = []
            for _ in range(150):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", broker.port))
                crowd.append(one)
            for n in range(20):
                await bus.publish({"n": n})
            assert numbers(await collect(news, 20)) == list(range(20))
            for one in crowd:
                one.close()
            async with tidings.connect(broker.address, name="q", network=QUICK, timeout=30) as late:
                await late.publish({"n": 20})
            assert numbers(await collect(news, 1)) == [20]
        broker.terminate()
        assert broker.wait() == 0, broker.errors()

    asyncio.run(play())


class SmallDisk(MemoryStore):
    """A store that has no room while `is_full`."""

    is_full = False

    def commit(self, records: Any) -> None:
        if self.is_full and any(type(record).__name__ == "Append" for record in records):
            raise StoreFullError("no room is left")
        super().commit(records)


def test_a_full_disk_refuses_publishers_and_lets_consumers_run() -> None:
    async def play() -> None:
        disk = SmallDisk()
        async with (
            serving(store=disk) as server,
            tidings.connect(server.address, name="p") as publisher,
            tidings.connect(server.address, name="q") as other,
            tidings.connect(server.address, name="s") as subscriber,
            subscriber.subscribe("n >= 0", name="mine", durable=True) as news,
        ):
            for n in range(50):
                await publisher.publish({"n": n})
            disk.is_full = True
            with pytest.raises(UnknownOutcomeError, match="no room is left"):
                await publisher.publish({"n": 50})  # it was on its way to the disk
            for client in (publisher, other):
                with pytest.raises(StoreFullError, match="no room is left"):
                    await client.publish({"n": 51})
            with pytest.raises(StoreFullError):
                await other.subscribe("n >= 0", name="another", durable=True)
            await other.publish({"m": 1})  # it needs no disk
            assert server.node.disk_full == "no room is left"
            assert server.figures()["refused for room"] == 2
            assert numbers(await collect(news, 50)) == list(range(50))
            disk.is_full = False
            await until(lambda: server.node.disk_full is None)
            await publisher.publish({"n": 52})
            assert numbers(await collect(news, 2)) == [50, 52]

    asyncio.run(play())


def test_a_durable_subscription_goes_on_while_the_disk_is_full() -> None:
    async def play() -> None:
        disk = SmallDisk()
        async with serving(store=disk) as server, tidings.connect(server.address, name="p") as publisher:
            async with tidings.connect(server.address, name="s") as subscriber:
                await subscriber.subscribe("n >= 0", name="mine", durable=True)
            for n in range(5):
                await publisher.publish({"n": n})
            disk.is_full = True
            with pytest.raises(UnknownOutcomeError):
                await publisher.publish({"n": 5})
            async with (
                tidings.connect(server.address, name="s") as subscriber,
                subscriber.subscribe("n >= 0", name="mine", durable=True) as news,
            ):
                assert numbers(await collect(news, 5)) == list(range(5))
                disk.is_full = False
                assert numbers(await collect(news, 1)) == [5]

    asyncio.run(play())


def test_a_store_at_its_limit_refuses_publishes_and_drops_nothing_that_is_owed(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            serving(path=tmp_path / "b1", resources=ResourceLimits(store_bytes=400_000)) as server,
            tidings.connect(server.address, name="p") as publisher,
            tidings.connect(server.address, name="s") as subscriber,
        ):
            news = await subscriber.subscribe("n >= 0", name="mine", durable=True)
            kept: list[int] = []

            async def publish_all() -> None:
                for n in range(100):
                    await publisher.publish({"n": n, "pad": Random(n).randbytes(10_000).hex()})
                    kept.append(n)

            with pytest.raises(UnknownOutcomeError, match="limit of 400000 bytes"):
                await publish_all()
            with pytest.raises(StoreFullError, match="limit of 400000 bytes"):
                await publish_all()
            assert 5 < len(kept) < 90
            assert numbers(await collect(news, len(kept))) == kept

    asyncio.run(play())


def test_expired_events_are_collected_while_it_serves(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving(path=tmp_path / "b1") as server, tidings.connect(server.address, name="p") as bus:
            for n in range(100):
                await bus.publish({"n": n}, lifetime=0.05)
            await bus.publish({"n": 100}, lifetime=60)
            await until(lambda: server.figures()["entries"] == 1)
            async with bus.subscribe("n >= 0") as news:
                assert numbers(await collect(news, 1)) == [100]

    asyncio.run(play())


@pytest.mark.soak
def test_five_thousand_half_open_connections_cost_little_and_stop_nobody(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(12_000, hard), hard))

    async def play() -> None:
        broker = BrokerProcess(tmp_path)
        before = _resident(broker.process.pid)
        crowd: list[socket.socket] = []
        try:
            async with (
                tidings.connect(broker.address, name="p", network=QUICK, timeout=30) as bus,
                bus.subscribe("n >= 0") as news,
            ):
                for _ in range(5_000):
                    one = socket.socket()
                    one.setblocking(False)
                    one.connect_ex(("127.0.0.1", broker.port))
                    crowd.append(one)
                for n in range(200):
                    await bus.publish({"n": n})
                assert numbers(await collect(news, 200)) == list(range(200))
                figures = await bus.inquire("figures")
                assert figures["handshakes"] <= NetworkSettings().handshakes
                async with tidings.connect(broker.address, name="q", network=QUICK, timeout=60) as late:
                    await late.publish({"n": 200})
            assert _resident(broker.process.pid) - before < 100 << 20
        finally:
            for one in crowd:
                one.close()
        broker.terminate()
        assert broker.wait() == 0, broker.errors()

    try:
        asyncio.run(play())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
