"""Events that a frame no longer holds, on sockets: nothing is cut by them, and they are kept as dead letters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server

LARGE = b"x" * 300_000
SMALL_FRAMES = NetworkSettings(max_frame=256 << 10)


async def until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0)


def test_an_event_that_no_frame_holds_becomes_a_dead_letter_and_cuts_no_subscriber(tmp_path: Path) -> None:
    """The broker accepted it with larger frames: its limit was lowered since."""

    async def run() -> None:
        server = Server("b", path=tmp_path)
        await server.start()
        async with tidings.connect(server.address, name="s") as bus:
            async with bus.subscribe("n >= 0", name="mine", durable=True):
                pass
            async with tidings.connect(server.address, name="p") as other:
                for number, payload in enumerate((b"", LARGE, b"")):
                    await other.publish({"n": number}, payload=payload)
        await server.close()
        server = Server("b", path=tmp_path, network=SMALL_FRAMES)
        await server.start()
        async with tidings.connect(server.address, name="s") as bus:
            async with bus.subscribe("n >= 0", name="mine", durable=True) as subscription:
                assert [(await subscription.get(timeout=120))["n"] for _ in range(2)] == [0, 2]
            assert bus.state == "up"
            assert server.figures()["dead letters"] == 1
            assert server.figures()["messages too large"] == 1
        await server.close()

    asyncio.run(run())


def test_an_event_that_no_frame_holds_cuts_no_link(tmp_path: Path) -> None:
    async def run() -> None:
        alone = Server("b0", path=tmp_path / "0")
        await alone.start()
        async with tidings.connect(alone.address, name="p") as bus:
            await bus.publish({"n": 0}, payload=LARGE, lifetime=tidings.FOREVER)
            await bus.publish({"n": 1}, lifetime=tidings.FOREVER)
        await alone.close()
        near = Server("b0", path=tmp_path / "0", network=SMALL_FRAMES)
        await near.start()
        far = Server("b1", path=tmp_path / "1", join=[near.address], network=SMALL_FRAMES)
        await far.start()
        await until(lambda: near.links and far.links)
        async with (
            tidings.connect(far.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True) as subscription,
        ):
            assert (await subscription.get(timeout=120))["n"] == 1
        assert near.figures()["dead letters"] == 1
        assert (near.links, far.links) == (["b1"], ["b0"])
        await far.close()
        await near.close()

    asyncio.run(run())


def test_a_durable_subscriber_behind_a_restarted_broker_hears_large_events_on_sockets(tmp_path: Path) -> None:
    """Together they are four times a frame, and more than a connection's buffer."""
    count, network = 40, NetworkSettings(max_frame=1 << 20, client_buffer=1 << 20)

    async def run() -> None:
        near = Server("b0", path=tmp_path / "0", network=network)
        await near.start()
        far = Server("b1", path=tmp_path / "1", join=[near.address], network=network)
        await far.start()
        await until(lambda: near.links and far.links)
        async with (
            tidings.connect(far.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True),
        ):
            pass
        await until(lambda: not far.node.figures()["links untold"])
        await far.close()
        async with tidings.connect(near.address, name="p") as bus:
            for number in range(count):
                await bus.publish({"n": number}, payload=b"x" * 100_000)
        far = Server("b1", path=tmp_path / "1", join=[near.address], network=network)
        await far.start()
        async with (
            tidings.connect(far.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True) as subscription,
        ):
            assert [(await subscription.get(timeout=120))["n"] for _ in range(count)] == list(range(count))
        await far.close()
        await near.close()

    asyncio.run(run())


def test_two_diallers_of_one_broker_do_not_end_one_another(tmp_path: Path) -> None:
    """A member of a group was told to join another one, and hears of it from a third: its link stays."""

    async def run() -> None:
        quick = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.05)
        far = Server("b1", network=quick)
        await far.start()
        near = Server("b0", join=[far.address], network=quick)
        await near.start()
        near._neighbours._call("b1", far.address)
        admitted: list[str] = []
        enough = asyncio.Event()
        admit = far._neighbours.admit

        def count(connection: Any, open: Any, farewell: bytes) -> None:
            admitted.append(open.name)
            if len(admitted) > 3:  # each of the two, and one that comes back once
                enough.set()
            admit(connection, open, farewell)

        far._neighbours.admit = count  # type: ignore[method-assign]
        await until(lambda: near.links and far.links)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(enough.wait(), 0.9)
        assert near.links == ["b1"]
        await near.close()
        await far.close()

    asyncio.run(run())
