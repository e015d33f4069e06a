"""`tidings sub` says on standard error what it may have lost."""

from __future__ import annotations

import asyncio

import pytest

from tidings.cli import remote
from tidings.runtime.server import Server
from tidings.testing.network import until


def test_a_full_queue_and_a_failover_are_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def play() -> None:
        servers = [Server("b1"), Server("b2")]
        for server in servers:
            await server.start()
        where = ",".join(f"tidings://127.0.0.1:{server.addresses[0].port}" for server in servers)
        async with remote.bus(where, "ann") as bus, bus.subscribe("n >= 0", name="numbers", queue=8) as news:
            for n in range(40):
                await bus.publish({"n": n})
            await until(lambda: "drop oldest" in news.counters)
            await servers[0].close()
            await until(lambda: bus.state.broker == "b2")
        await servers[1].close()

    remote.run(asyncio.wait_for(play(), 120))
    text = capsys.readouterr().err
    assert "subscription ann/numbers lost 1 event so far (drop oldest: 1)" in text
    assert "ann/numbers may have missed events without a lifetime meanwhile" in text
    assert "--durable --as NAME" in text
