"""Events of brokers and clients with unequal frame limits, on sockets: nothing is cut by them, and nothing is
lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.errors import TooLargeError
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server

LARGE = b"x" * 300_000
SMALL_FRAMES = NetworkSettings(max_frame_bytes=256 << 10)


async def until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0)


async def numbers(subscription: Any, count: int) -> list[int]:
    found = []
    for _ in range(count):
        found.append((await subscription.get(timeout=120))["n"])
        await subscription.ack()
    return found


def test_a_subscriber_with_smaller_frames_is_not_cut_and_one_with_larger_frames_gets_the_rest(
    tmp_path: Path,
) -> None:
    """The event is a dead letter meanwhile, over a restart of the broker too."""

    async def run() -> None:
        server = Server("b", path=tmp_path)
        await server.start()
        async with tidings.connect(server.address, name="s", network=SMALL_FRAMES) as bus:
            async with bus.subscribe("n >= 0", name="mine", durable=True) as subscription:
                async with tidings.connect(server.address, name="p") as other:
                    for number, payload in enumerate((b"", LARGE, b"")):
                        await other.publish({"n": number}, payload=payload)
                assert await numbers(subscription, 2) == [0, 2]
            assert bus.state == "up"
            assert server.figures()["dead letters"] == 1
            assert server.figures()["messages too large"] == 1
            async with bus.subscribe("n >= 0", name="mine", durable=True):
                await until(lambda: server.figures()["messages too large"] == 2)
            assert server.figures()["dead letters"] == 1, "the same letter, and not one more"
        await server.close()
        server = Server("b", path=tmp_path)
        await server.start()
        async with (
            tidings.connect(server.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True) as subscription,
        ):
            assert await numbers(subscription, 1) == [1]
            await until(lambda: server.figures()["dead letters"] == 0)
        await server.close()

    asyncio.run(run())


def test_a_broker_with_a_lower_limit_delivers_what_it_accepted_before(tmp_path: Path) -> None:
    async def run() -> None:
        server = Server("b", path=tmp_path)
        await server.start()
        async with tidings.connect(server.address, name="s") as bus:
            async with bus.subscribe("n >= 0", name="mine", durable=True):
                pass
            for number, payload in enumerate((b"", LARGE, b"")):
                await bus.publish({"n": number}, payload=payload)
        await server.close()
        server = Server("b", path=tmp_path, network=SMALL_FRAMES)
        await server.start()
        async with tidings.connect(server.address, name="s") as bus:
            async with bus.subscribe("n >= 0", name="mine", durable=True) as subscription:
                assert await numbers(subscription, 3) == [0, 1, 2]
            with pytest.raises(TooLargeError):
                await bus.publish({"n": 3}, payload=LARGE)
        assert server.figures()["dead letters"] == 0
        await server.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_lowered", [False, True])
def test_brokers_with_unequal_limits_carry_what_one_of_them_accepted(
    tmp_path: Path, is_lowered: bool
) -> None:
    """The broker between has smaller frames than the publisher's one; `is_lowered`: by now that one has them
    too."""

    async def run() -> None:
        near = Server("b0", path=tmp_path / "0")
        await near.start()
        if is_lowered:
            async with tidings.connect(near.address, name="p") as bus:
                for number, payload in enumerate((b"", LARGE, b"")):
                    await bus.publish({"n": number}, payload=payload, lifetime=tidings.FOREVER)
            await near.close()
            near = Server("b0", path=tmp_path / "0", network=SMALL_FRAMES)
            await near.start()
        middle = Server("b1", path=tmp_path / "1", join=[near.address], network=SMALL_FRAMES)
        await middle.start()
        far = Server("b2", path=tmp_path / "2", join=[middle.address])
        await far.start()
        await until(lambda: near.links and far.links and len(middle.links) == 2)
        async with (
            tidings.connect(far.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True) as subscription,
        ):
            await until(lambda: not any(b.node.figures()["links syncing"] for b in (near, middle, far)))
            if not is_lowered:
                async with tidings.connect(near.address, name="p") as other:
                    for number, payload in enumerate((b"", LARGE, b"")):
                        await other.publish({"n": number}, payload=payload)
            assert await numbers(subscription, 3) == [0, 1, 2]
        assert [server.figures()["dead letters"] for server in (near, middle, far)] == [0, 0, 0]
        assert (near.links, middle.links, far.links) == (["b1"], ["b0", "b2"], ["b1"])
        for server in (far, middle, near):
            await server.close()

    asyncio.run(run())


def test_an_event_that_a_neighbour_does_not_take_cuts_no_link(tmp_path: Path) -> None:
    """A broker of an earlier version takes frames of its own limit only."""

    async def run() -> None:
        near = Server("b0", path=tmp_path / "0")
        await near.start()
        little = ResourceLimits(link_frame_bytes=1)
        far = Server("b1", path=tmp_path / "1", join=[near.address], network=SMALL_FRAMES, resources=little)
        await far.start()
        await until(lambda: near.links and far.links)
        async with (
            tidings.connect(far.address, name="s") as bus,
            bus.subscribe("n >= 0", name="mine", durable=True) as subscription,
        ):
            await until(lambda: not far.node.figures()["links syncing"])
            async with tidings.connect(near.address, name="p") as other:
                for number, payload in enumerate((b"", LARGE, b"")):
                    await other.publish({"n": number}, payload=payload)
            assert await numbers(subscription, 2) == [0, 2]
        assert near.figures()["dead letters"] == 1
        assert (near.links, far.links) == (["b1"], ["b0"])
        await far.close()
        await near.close()

    asyncio.run(run())


def test_a_durable_subscriber_behind_a_restarted_broker_hears_large_events_on_sockets(tmp_path: Path) -> None:
    """Together they are four times a frame, and more than a connection's buffer."""
    count, network = 40, NetworkSettings(max_frame_bytes=1 << 20, client_buffer_bytes=1 << 20)

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
        await until(lambda: not far.node.figures()["links syncing"])
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

        def count(connection: Any, open: Any, server_final: bytes) -> None:
            admitted.append(open.name)
            if len(admitted) > 3:  # each of the two, and one that comes back once
                enough.set()
            admit(connection, open, server_final)

        far._neighbours.admit = count  # type: ignore[method-assign]
        await until(lambda: near.links and far.links)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(enough.wait(), 0.9)
        assert near.links == ["b1"]
        await near.close()
        await far.close()

    asyncio.run(run())
