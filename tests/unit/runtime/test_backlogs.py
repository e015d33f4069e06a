"""Figures of what waits for durable subscriptions, also after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tidings
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings


def settings(folder: Path) -> BrokerSettings:
    fields = {"name": "b1", "listen": "127.0.0.1:0", "security.anonymous": True, "store": str(folder / "b1")}
    return read_settings(fields=fields)


def waiting(service: Service) -> tuple[int, list[int]]:
    return service.figures()["waiting"], [row["waiting"] for row in service.server.node.describe(10)]


def test_what_is_owed_is_counted_beyond_the_queue_and_after_a_restart(tmp_path: Path) -> None:
    """Half of the events are for the subscription; some were acknowledged, and its queue holds ten."""

    async def story() -> None:
        async with Service(settings(tmp_path)) as service:
            async with (
                tidings.connect(service.server.address, name="s") as bus,
                bus.subscribe("n >= 0", name="all", durable=True, queue=10) as news,
            ):
                await bus.publish({"n": 0}, mode="kept")
                await news.get(timeout=60)
            async with tidings.connect(service.server.address, name="p") as bus:
                await bus.publish_many([{"n": n if n % 2 else -n} for n in range(1, 101)], mode="kept")
            assert waiting(service) == (50, [50])
        async with Service(settings(tmp_path)) as service:
            await service.backlogs.done()
            assert waiting(service) == (50, [50])
            async with tidings.connect(service.server.address, name="p") as bus:
                await bus.publish_many([{"n": 1}] * 5, mode="kept")
            assert waiting(service) == (55, [55])
            async with (
                tidings.connect(service.server.address, name="s") as bus,
                bus.subscribe("n >= 0", name="all", durable=True, queue=10) as news,
            ):
                for _ in range(55):
                    await news.get(timeout=60)
                await news.ack()
                while waiting(service)[0]:
                    await asyncio.sleep(0)

    async def run() -> None:
        async with asyncio.timeout(120):
            await story()

    asyncio.run(run())
