"""What bad peers can do to a broker on a network: hurt themselves, and nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.msgpack import Ext

import tidings
from tidings.model.event import make_event
from tidings.model.filter import Conjunction, Filter
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.messages import AuthResponse, Keepalive, KeepaliveAck, OpenSession, SessionDenied
from tidings.runtime.server import Server
from tidings.testing import collect
from tidings.testing.network import CODEC, RawClient, played, serving, until

SMALL = NetworkSettings(
    handshake_seconds=0.2, handshakes=8, max_frame_bytes=1 << 20, client_buffer_bytes=1 << 16
)


async def still_serves(server: Server) -> None:
    async with tidings.connect(server.address, name="good") as bus, bus.subscribe("n = 1") as news:
        await bus.publish({"n": 1})
        assert len(await collect(news, 1)) == 1


BAD_BYTES = {
    "noise": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
    "oversized": b"\xff\xff\xff\xff" + b"x" * 100,
    "too short": b"\x00\x00\x00\x01\x01",
    "damaged": CODEC.encode(OpenSession("client", "x"))[:-1] + b"\x01",
    "another version": b"\x00\x00\x00\x06\x63" + b"\x00" * 5,
    "no message": (lambda good: good[:9] + b"\xc1" * (len(good) - 9))(CODEC.encode(Keepalive())),
    "a message that has no place": CODEC.encode(msg.Hello("x", "i")),
    "a proof of nothing": CODEC.encode(AuthResponse(b"x")),
    "two frames": CODEC.encode(OpenSession("client", "x")) * 2,
    "no role": CODEC.encode(OpenSession("emperor", "x")),
    "no name": CODEC.encode(OpenSession("client", "")),
    "a name that does not print": CODEC.encode(OpenSession("client", "a\nb")),
    "a name without end": CODEC.encode(OpenSession("client", "x" * 5000)),
    "a broker with a hash": CODEC.encode(OpenSession("broker", "b#2", "tidings")),
    "another composition": CODEC.encode(OpenSession("broker", "b2", "siena")),
    "our own name": CODEC.encode(OpenSession("broker", "b1", "tidings")),
    "a large handshake": CODEC.encode(OpenSession("client", "x", proof=b"x" * 100_000)),
}


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_before_the_handshake_end_the_connection_and_nothing_else(name: str) -> None:
    async def play() -> None:
        async with serving(network=SMALL) as server:
            raw = await RawClient.to(server)
            raw.writer.write(BAD_BYTES[name])
            assert await raw.is_closed()
            assert server.figures()["connections"] == server.figures()["handshakes"] == 0
            await still_serves(server)
            assert server.figures()["faults"] == 0

    asyncio.run(play())


def event(**fields: Any) -> Any:
    return make_event({"n": 1}, source="raw", id="1", **fields)


BAD_MESSAGES: dict[str, bytes] = {
    "noise": b"\x00\x00\x00\x20" + b"x" * 32,
    "oversized": b"\x7f\xff\xff\xff",
    "what a broker says": CODEC.encode(msg.Published(1)),
    "hello as another": CODEC.encode(msg.Hello("somebody", "i")),
    "a second handshake": CODEC.encode(OpenSession("client", "x")),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_bad_messages_after_the_handshake_end_the_connection_and_nothing_else(name: str) -> None:
    async def play() -> None:
        async with serving(network=SMALL) as server:
            raw = await RawClient.greeted(server)
            raw.writer.write(BAD_MESSAGES[name])
            assert await raw.is_closed()
            await until(lambda: server.figures()["connections"] == 0)
            await still_serves(server)
            assert server.figures()["faults"] == 0

    asyncio.run(play())


def nested(depth: int) -> dict[str, Any]:
    return {"x": nested(depth - 1)} if depth else {"x": 1}


NEVER_CHECKED = Filter("n > 1 AND", (Conjunction(),))  # its text does not parse; its normal form takes all
REFUSED_REQUESTS: dict[str, msg.Message] = {
    "a filter that does not parse": msg.Subscribe(1, 1, "s", NEVER_CHECKED, DeliveryOptions()),
    "a filter without end": msg.Subscribe(
        1, 1, "s", Filter("n = 1" + " OR n = 1" * 20_000, ()), DeliveryOptions()
    ),
    "a filter that nests": msg.Subscribe(1, 1, "s", Filter("(" * 5000, ()), DeliveryOptions()),
    "a decimal that is none": msg.Publish(1, tidings.Event("s", "1", {"x": Ext(1, b"?")}), 1),
    "a list without end": msg.Publish(1, tidings.Event("s", "1", {"x": [0] * 70_000}), 1),
    "a topic that is a pattern": msg.Publish(1, tidings.Event("s", "1", topic="a/#"), 1),
    "a topic without end": msg.Publish(1, tidings.Event("s", "1", topic="a" + "/a" * 1000), 1),
    "no source": msg.Publish(1, tidings.Event("", "1"), 1),
    "a lifetime before its beginning": msg.Publish(1, tidings.Event("s", "1", lifetime=-1.0), 1),
    "an id without end": msg.Publish(1, tidings.Event("s", "1" * 10_000), 1),
    "attributes that nest": msg.Publish(1, tidings.Event("s", "1", nested(100)), 1),
    "a subscription that blocks": msg.Subscribe(
        1, 1, "s", tidings.parse_filter("n > 1"), DeliveryOptions(policy=Policy.BLOCK)
    ),
    "a staged event that is none": msg.StageEvents(1, "q", 0, 0, (tidings.Event("s", "1", {"id": 1}),)),
}


@pytest.mark.parametrize("name", REFUSED_REQUESTS)
def test_a_bad_request_is_refused_with_a_reason_and_the_connection_stays(name: str) -> None:
    async def play() -> None:
        async with serving() as server:
            raw = await RawClient.greeted(server)
            raw.send(REFUSED_REQUESTS[name])
            answer = await raw.receive()
            assert isinstance(answer, msg.Refused), answer
            assert answer.reason
            raw.send(Keepalive())
            assert await raw.receive() == KeepaliveAck()
            assert server.figures()["faults"] == 0
            raw.close()

    asyncio.run(play())


@played
async def test_half_open_connections_are_left_after_a_while() -> None:
    async with serving(network=SMALL) as server:
        silent = [await RawClient.to(server) for _ in range(3)]
        silent[0].writer.write(CODEC.encode(OpenSession("client", "x"))[:7])
        await until(lambda: server.figures()["handshakes too slow"] == 3)
        for raw in silent:
            assert await raw.is_closed()
        assert server.figures()["handshakes"] == 0


@played
async def test_too_many_half_open_connections_crowd_out_the_oldest() -> None:
    settings = NetworkSettings(handshakes=8, handshake_seconds=60)
    async with serving(network=settings) as server:
        silent = [await RawClient.to(server) for _ in range(20)]
        await until(lambda: server.figures()["handshakes evicted"] == 12)
        assert server.figures()["handshakes"] == 8
        await still_serves(server)
        for raw in silent:
            raw.close()


@played
async def test_one_client_too_many_is_told_to_go_elsewhere() -> None:
    async with serving(network=NetworkSettings(connections=1)) as server:
        first = await RawClient.greeted(server, "first")
        second = await RawClient.to(server)
        second.send(OpenSession("client", "second", mechanism="anonymous"))
        denied = await second.receive()
        assert isinstance(denied, SessionDenied)
        assert denied.code == "unreachable"
        second.close()
        first.close()
        await until(lambda: not server.figures()["connections"])
        third = await RawClient.greeted(server, "third")
        third.close()


@played
async def test_a_client_that_does_not_read_is_left_and_others_hear_all() -> None:
    # the system takes some megabytes for a socket: more than a subscription may have unacknowledged by
    # default
    limits = ResourceLimits(delivery_bytes=1 << 30)
    async with serving(network=SMALL, resources=limits) as server:
        raw = await RawClient.greeted(server, "slow")
        everything = tidings.parse_filter("n >= 0")
        options = DeliveryOptions(policy=Policy.DROP_NEWEST, queue=1_000_000)
        raw.send(msg.Subscribe(1, 1, "s", everything, options, credit=1_000_000))
        assert isinstance(await raw.receive(), msg.Subscribed)
        raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with tidings.connect(server.address, name="good") as bus, bus.subscribe("n >= 0") as news:
            received: list[Any] = []
            while server.figures()["connections"] > 1:
                await bus.publish({"n": len(received)}, payload=b"x" * 20_000)
                received += await collect(news, 1)
                assert len(received) < 5000, "the broker holds whatever it is given"
            assert [event["n"] for event in received] == list(range(len(received)))
        raw.close()


@played
async def test_who_publishes_faster_than_the_disk_is_read_from_less() -> None:
    store = SlowStore()
    async with serving(store=store, network=NetworkSettings(unanswered=10)) as server:
        raw = await RawClient.greeted(server)
        events = [tidings.Event("raw", str(n), {"n": n}) for n in range(200)]
        for number, each in enumerate(events, 1):
            raw.send(msg.Publish(number, each, number, msg.AckMode.KEPT))
        await raw.writer.drain()
        client = next(iter(server._clients.values()))
        await until(lambda: len(client.ingress.unanswered) >= 10)
        taken_in = len(client.ingress.unanswered)
        store.go_on()
        answers = [await raw.receive() for _ in events]
        assert [a.call for a in answers if isinstance(a, msg.Published)] == list(range(1, 201))
        assert taken_in <= 200
        raw.close()


@played
async def test_the_silent_are_asked_and_the_dead_are_left() -> None:
    settings = NetworkSettings(keepalive_seconds=0.1, peer_timeout_seconds=0.5)
    async with serving(network=settings) as server:
        raw = await RawClient.greeted(server)
        assert await raw.receive() == Keepalive()
        assert await raw.is_closed()
        assert server.figures()["connections"] == 0


class SlowStore:
    """A store in memory whose commits wait for `go_on`."""

    def __init__(self) -> None:
        import threading

        from tidings.store.memory import MemoryStore

        self._store = MemoryStore()
        self._may = threading.Event()

    def go_on(self) -> None:
        self._may.set()

    def commit(self, records: Any) -> None:
        if any(type(record).__name__ == "Append" for record in records):
            self._may.wait(30)
        self._store.commit(records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
