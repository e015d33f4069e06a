"""Bytes of web connections are parsed in slices, in turns with others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import websockets
from tests.gateway.conftest import broker

from tidings.gateway import paced
from tidings.gateway.paced import FIRST_SLICE, LARGEST_SLICE, PacedReading
from tidings.runtime.fairness import Fairness


class Transport:
    def __init__(self) -> None:
        self.is_read = True
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Parser:
    """Takes so many seconds for a byte, by a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 100.0
        self.slices: list[tuple[str, bytes]] = []

    def clock(self) -> float:
        return self.now

    def reading(self, fairness: Fairness, name: str = "a", address: str = "10.0.0.1") -> Any:
        def parse(data: bytes) -> None:
            self.slices.append((name, data))
            self.now += self.seconds * len(data)

        transport: Any = Transport()
        made = PacedReading(fairness, address, transport, parse, lambda: True)
        return made, transport

    @property
    def taken(self) -> bytes:
        return b"".join(data for _, data in self.slices)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def test_costly_bytes_are_parsed_a_quantum_in_a_turn() -> None:
    async def test() -> None:
        parser = Parser(10e-6)  # 41 ms for the first slice
        reading, transport = parser.reading(Fairness(clock=parser.clock))
        came = bytes(range(256)) * 64
        reading.feed(came)
        assert parser.taken == came[:FIRST_SLICE]
        assert not transport.is_read
        while parser.taken != came:
            before = len(parser.taken)
            await asyncio.sleep(0)
            assert (len(parser.taken) - before) * parser.seconds < 0.02
        assert transport.is_read

    run(test)


def test_cheap_bytes_are_parsed_at_once_in_larger_slices() -> None:
    async def test() -> None:
        parser = Parser(1e-9)
        reading, transport = parser.reading(Fairness(clock=parser.clock))
        reading.feed(b"x" * 2**18)
        assert len(parser.taken) == 2**18
        assert transport.is_read
        assert max(len(data) for _, data in parser.slices) == LARGEST_SLICE

    run(test)


def test_connections_of_one_address_share_its_turns() -> None:
    async def test() -> None:
        parser = Parser(10e-6)
        fairness = Fairness(clock=parser.clock)
        connections = [parser.reading(fairness, name)[0] for name in "abc"]
        for connection in connections:
            connection.feed(b"x" * 20_000)
        assert [name for name, _ in parser.slices] == ["a"]
        while len(parser.slices) < 6:
            await asyncio.sleep(0)
        assert {name for name, _ in parser.slices[:6]} == {"a", "b", "c"}

    run(test)


def test_an_address_that_overdrew_waits_while_others_are_active() -> None:
    async def test() -> None:
        parser = Parser(10e-6)
        waiting: list[tuple[float, Callable[[], None]]] = []
        fairness = Fairness(clock=parser.clock, later=lambda seconds, call: waiting.append((seconds, call)))
        fairness.charge(fairness.join("ann"), 0.001)
        reading, transport = parser.reading(fairness)
        reading.feed(b"x" * 20_000)
        assert len(parser.taken) == FIRST_SLICE
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(parser.taken) == FIRST_SLICE
        assert not transport.is_read
        (_, end_turn) = waiting.pop()
        end_turn()
        ((seconds, release),) = waiting
        assert seconds == pytest.approx(FIRST_SLICE * parser.seconds - 0.01)
        parser.now += seconds
        release()
        waiting.pop()[1]()
        assert len(parser.taken) > FIRST_SLICE

    run(test)


def test_what_waits_of_a_connection_that_is_gone_is_not_parsed() -> None:
    async def test() -> None:
        parser = Parser(10e-6)
        reading, _ = parser.reading(Fairness(clock=parser.clock))
        reading.feed(b"x" * 20_000)
        reading.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(parser.taken) == FIRST_SLICE

    run(test)


def test_a_parser_that_raises_ends_its_connection_alone() -> None:
    async def test() -> None:
        parser = Parser(10e-6)
        fairness = Fairness(clock=parser.clock)
        (bad, transport), (good, _) = (parser.reading(fairness, name) for name in "ab")

        def fail(data: bytes) -> None:
            raise ValueError(data)

        parser.now += 1.0
        good.feed(b"x" * 20_000)
        bad.parse = fail
        bad.feed(b"x" * 20_000)
        while len(parser.taken) < 20_000:
            await asyncio.sleep(0)
        assert transport.is_aborted

    run(test)


def test_requests_and_sockets_come_through_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every web listener parses so: the HTTP gateway, its WebSocket, and MQTT over WebSocket."""
    monkeypatch.setattr(paced, "FIRST_SLICE", 5)
    monkeypatch.setattr(paced, "LARGEST_SLICE", 5)
    fed: list[bytes] = []
    feed = PacedReading.feed

    def seen(reading: PacedReading, data: bytes) -> None:
        fed.append(data)
        feed(reading, data)

    monkeypatch.setattr(PacedReading, "feed", seen)

    async def test() -> None:
        async with broker(http="127.0.0.1:0", mqtt_websocket="127.0.0.1:0") as made:
            assert made.gateways is not None
            addresses = made.gateways.addresses
            async with httpx.AsyncClient(base_url=addresses["http"]) as http:
                answer = await http.post("/events", json={"n": 1}, params={"topic": "x"})
                assert answer.status_code == 200
            assert b'{"n":1}' in b"".join(fed)
            fed.clear()
            async with websockets.connect(
                f"{addresses['http'].replace('http', 'ws')}/events/socket"
            ) as socket:
                fed.clear()
                await socket.send(json.dumps({"op": "publish", "call": 1, "event": {"n": 2}}))
                assert "op" in json.loads(await socket.recv())
                assert sum(map(len, fed)) > 40
            at = addresses["mqtt over websocket"]
            async with websockets.connect(at, subprotocols=["mqtt"]) as socket:  # type: ignore[list-item]
                fed.clear()
                await socket.send(b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02me")
                assert await socket.recv() == b"\x20\x02\x00\x00"
                assert sum(map(len, fed)) > 16

    run(test)
