"""Clients of brokers elsewhere: connections that come back, states that can be seen, nothing told twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.errors import RefusedError, SettingsError, UnknownOutcomeError, UnreachableError
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.dialling import Address, RetryDelays, parse_addresses
from tidings.runtime.server import Server
from tidings.security.interfaces import AuthenticationExchange, AuthenticationRequest, AuthenticationResult
from tidings.testing import collect
from tidings.testing.network import linked, played, serving, settled, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.1)


def connect(*servers: Server, **options: Any) -> tidings.Bus:
    positions = ",".join(f"{server.addresses[0].host}:{server.addresses[0].port}" for server in servers)
    return tidings.connect(f"tidings://{positions}", network=QUICK, patience=0.1, **options)


def numbers(events: list[tidings.Event]) -> list[Any]:
    return [event["n"] for event in events]


def test_addresses() -> None:
    assert parse_addresses("tidings://a:1,b:2") == [Address("a", 1), Address("b", 2)]
    assert parse_addresses("tidings+tls://[::1]:7/") == [Address("::1", 7, tls=True)]
    assert parse_addresses("localhost") == [Address("localhost", 7117)]
    assert [str(each) for each in parse_addresses("tidings://[::1]:7")] == ["tidings://[::1]:7"]
    for bad in ("mqtt://x", "tidings://", "a:b", "tidings://a:99999", "a:²", "a:" + "1" * 5000):
        with pytest.raises(SettingsError):
            parse_addresses(bad)


def test_pauses_grow_and_never_pass_the_longest() -> None:
    class Middle:
        def uniform(self, low: float, high: float) -> float:
            return high

    pauses = RetryDelays(NetworkSettings(retry_seconds=1, slow_retry_seconds=5), Middle())  # type: ignore[arg-type]
    assert [pauses.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    pauses.reset()
    assert pauses.next() == 1


@played
async def test_nobody_there_is_said_within_the_timeout() -> None:
    with pytest.raises(UnreachableError, match="no broker answered at"):
        await tidings.connect("tidings://127.0.0.1:1", timeout=0.3)


@played
async def test_options_of_a_broker_elsewhere_are_its_own() -> None:
    with pytest.raises(SettingsError, match="has its own store"):
        tidings.connect("tidings://h:1", path="x")
    with pytest.raises(SettingsError, match=r"did you mean timeout=\?"):
        tidings.connect("tidings://h:1", timout=1)


@played
async def test_a_connection_comes_back_and_its_states_are_seen() -> None:
    async with serving() as server:
        port = server.addresses[0].port
        async with connect(server, name="s") as bus:
            states: list[str] = []
            bus.watch(states.append)
            news = await bus.subscribe("n > 0", name="mine")
            await server.close()
            await until(lambda: bus.state == "down")
            publishing = asyncio.create_task(bus.publish({"n": 7}))
            async with serving("b1", listen=f"127.0.0.1:{port}"):
                await until(lambda: bus.state == "up")
                await publishing
                assert numbers(await collect(news, 1)) == [7]
                assert states == ["down", "up"]
                await news.close()
            await until(lambda: bus.state == "down")
        assert bus.state == "closed"


def test_what_was_not_acknowledged_is_published_again_at_the_same_broker_and_told_once(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with serving(path=tmp_path / "b1") as server:
            port = server.addresses[0].port
            async with (
                connect(server, name="p") as bus,
                bus.subscribe("n >= 0", name="all", durable=True) as news,
            ):
                for round in range(5):
                    tasks = [
                        asyncio.create_task(bus.publish({"n": 20 * round + n}, mode="kept"))
                        for n in range(20)
                    ]
                    await until(lambda: any(task.done() for task in tasks))  # noqa: B023
                    for client in list(server._clients.values()):
                        client.connection.end("a wire broke")
                    await asyncio.gather(*tasks)
                assert numbers(await collect(news, 100)) == list(range(100))
                assert bus.figures()["connections"] > 1
                assert port == server.addresses[0].port

    asyncio.run(play())


def test_a_durable_subscription_goes_on_at_another_broker_while_its_own_is_down(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            serving("b1", path=tmp_path / "b1") as one,
            serving("b2", path=tmp_path / "b2", join=[one.address]) as two,
        ):
            third = Server("b3", path=tmp_path / "b3", join=[two.address])
            await third.start()
            await linked(one, two, third)
            async with connect(one, name="p") as publisher, connect(third, two, name="s") as subscriber:
                news = await subscriber.subscribe("n > 0", name="mine", durable=True)
                await settled(third, two, one)
                for n in (1, 2, 3):
                    await publisher.publish({"n": n})
                received = numbers(await collect(news, 2))
                await news.ack()
                await third.close()
                await publisher.publish({"n": 4})
                await until(lambda: subscriber.figures()["connected to"] == ["b2"])
                await publisher.publish({"n": 5})
                received += numbers(await collect(news, 3))
                assert received == [1, 2, 3, 4, 5]
                assert subscriber.state == "up"
                with pytest.raises(TimeoutError):
                    await news.get(timeout=0.2)

    asyncio.run(play())


def test_a_publish_whose_answer_was_lost_is_unknown_at_another_broker(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving("b2", path=tmp_path / "b2") as two:
            one = Server("b1", store=Never())
            await one.start()
            async with connect(one, two, name="p") as bus:
                publishing = asyncio.create_task(bus.publish({"n": 1}, mode="kept"))
                await until(lambda: one.figures()["published"])
                for client in list(one._clients.values()):
                    client.connection.end("gone")
                for listener in one.listeners:
                    listener.close()
                with pytest.raises(UnknownOutcomeError, match="never twice"):
                    await publishing
                receipt = await bus.publish({"n": 2}, mode="kept")
                assert receipt.position is not None
                assert receipt.position.log.startswith("b2#")
            Never.may.set()
            await one.close()

    asyncio.run(play())


class Never:
    """A store whose commits of events take as long as the test."""

    import threading

    may = threading.Event()

    def __init__(self) -> None:
        from tidings.store.memory import MemoryStore

        self._store = MemoryStore()

    def commit(self, records: Any) -> None:
        if any(type(record).__name__ == "Append" for record in records):
            self.may.wait(30)
        self._store.commit(records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Moody:
    """Lets clients in as long as it likes them."""

    likes = True

    def begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        return self  # type: ignore[return-value]

    def step(self, data: bytes) -> AuthenticationResult:
        if not self.likes:
            raise RefusedError("not any more")
        return AuthenticationResult("x")


@played
async def test_a_broker_that_says_no_is_believed() -> None:
    moody = Moody()
    async with serving(authenticator=moody) as server:
        bus = connect(server, name="s")
        async with bus:
            await bus.subscribe("n > 0", name="mine")
            moody.likes = False
            for client in list(server._clients.values()):
                client.connection.end("out")
            await until(lambda: bus.state == "refused")
            with pytest.raises(RefusedError, match="not any more"):
                await bus.publish({"n": 1})
        with pytest.raises(RefusedError, match="not any more"):
            await connect(server, name="t")


@played
async def test_a_broker_that_drains_answers_what_it_took_and_sends_its_clients_on() -> None:
    async with serving("b2") as two:
        one = Server("b1")
        await one.start()
        async with connect(one, two, name="p") as bus:
            tasks = [asyncio.create_task(bus.publish({"n": n})) for n in range(50)]
            await asyncio.sleep(0)
            assert await one.drain(120)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(r, tidings.Receipt | UnknownOutcomeError) for r in results)
            await until(lambda: bus.figures()["connected to"] == ["b2"])


@played
async def test_the_blocking_bus_works_with_a_broker_elsewhere() -> None:
    async with serving() as server:

        def script() -> list[Any]:
            with tidings.open(server.address, name="b") as bus, bus.subscribe("n > 1") as news:
                assert bus.state == "up"
                for n in range(4):
                    bus.publish({"n": n})
                assert bus.inquire()["broker"] == "b1"
                return [news.get(timeout=120)["n"], news.get(timeout=120)["n"]]

        assert await asyncio.to_thread(script) == [2, 3]
