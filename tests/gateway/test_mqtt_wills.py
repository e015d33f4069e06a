"""Wills with and without a delay (OASIS MQTT 5.0, 3.1.3.2.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.gateway._peer import KEPT, Peer, at, port_of, run
from tests.gateway.conftest import broker

from tidings.gateway.mqtt import packets as mq


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


# -- wills -------------------------------------------------------------------------------------------


def will(delay: int = 0, payload: bytes = b"will") -> mq.Will:
    return mq.Will("w", payload, 1, False, {"will_delay": delay} if delay else {})


@asynccontextmanager
async def watched(port: int) -> AsyncIterator[Peer]:
    watcher = Peer(port)
    await watcher.connect("watcher")
    await watcher.subscribe("w", 1)
    yield watcher
    watcher.close()


def test_a_reconnect_cancels_a_will_that_waits_also_when_it_leaves_again() -> None:
    async def test() -> None:
        async with at() as port, watched(port) as watcher:
            client = Peer(port)
            await client.connect("c", will=will(1), session_expiry=KEPT)
            client.drop()
            assert await client.kept("c")
            client.disconnect()
            other = Peer(port)  # its delay is longer: once it is here, the first would have been
            await other.connect("d", will=will(2, b"other"), session_expiry=KEPT)
            other.drop()
            assert await watcher.payloads(1) == [b"other"]

    run(test)


@pytest.mark.parametrize("drops", [True, False], ids=["after a drop", "by a takeover"])
def test_a_clean_start_ends_the_session_and_publishes_its_will(drops: bool) -> None:
    async def test() -> None:
        async with at() as port, watched(port) as watcher:
            client, again = Peer(port), Peer(port)
            await client.connect("c", will=will(300), session_expiry=KEPT)
            if drops:
                client.drop()
            await again.connect("c", clean=True)
            assert await watcher.payloads(1) == [b"will"]
            client.close()

    run(test)


def test_the_end_of_a_session_publishes_its_will_before_the_delay_is_over() -> None:
    async def test() -> None:
        async with at() as port, watched(port) as watcher:
            client = Peer(port)
            await client.connect("c", will=will(300), session_expiry=1)
            client.drop()
            assert await watcher.payloads(1) == [b"will"]

    run(test)


@pytest.mark.parametrize(("reason", "count"), [(0x00, 0), (0x04, 1), (0x80, 1), (0x93, 1)])
def test_a_disconnect_with_any_reason_but_success_publishes_the_will(reason: int, count: int) -> None:
    async def test() -> None:
        async with at() as port, watched(port) as watcher:
            client, last = Peer(port), Peer(port)
            await client.connect("c", will=will())
            client.disconnect(reason)
            await client.connect("c")  # the broker has seen the end of the first connection
            await last.connect("l")
            await last.publish("w", b"last")
            found = [await watcher.message()]
            while found[-1].payload != b"last":
                found.append(await watcher.message())
            assert len(found) == count + 1

    run(test)


def test_a_will_that_waits_holds_no_stop_and_outlives_it(tmp_path: Path) -> None:
    async def test() -> None:
        client = Peer(0)
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            client.port = port_of(service)
            properties = {"will_delay": 2, "user": [("a", "b")], "correlation_data": b"\xff"}
            late = mq.Will("w", b"will", 1, False, properties)
            await client.connect("c", will=late, session_expiry=KEPT)
            client.drop()
            listener = next(listener for name, listener in service.gateways._open if name == "mqtt")
            await until(lambda: listener.wills.stored(("", "c", "c")) is not None)
        async with at(tmp_path) as port, watched(port) as watcher:
            found = await watcher.message()
            assert (found.payload, found.properties) == (
                b"will",
                {"user": [("a", "b")], "correlation_data": b"\xff"},
            )

    run(test)
