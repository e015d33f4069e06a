"""Durable subscriptions over HTTP: an event is committed when its client confirmed it, not when it was sent.

Each test cuts a connection behind a client that has read a part of what was written to its socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from tests.gateway.test_http import at, lines_of, run

import tidings
from tidings.gateway.tokens import StreamToken, position_text, read_token
from tidings.model.subscription import Position
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.local_clients import LocalClients
from tidings.security.principal import Principal, ProofMethod
from tidings.testing.network import linked, serving, settled

MINE = {"filter": "n >= 0", "name": "web", "durable": "true"}


async def publish(service: Any, numbers: range) -> None:
    async with tidings.connect(service.server.address, name="pub") as bus:
        for number in numbers:
            await bus.publish({"n": number})


async def read(http: httpx.AsyncClient, count: int, last: str = "", **query: str) -> tuple[list[int], str]:
    """Read so many events of a durable stream and cut the connection; the numbers, and the last id."""
    headers = {"last-event-id": last} if last else {}
    async with http.stream("GET", "/events", params={**MINE, **query}, headers=headers) as stream:
        found = await lines_of(stream, count)
    return [fields["data"]["n"] for _, fields in found], found[-1][0] if found else last


async def begin(http: httpx.AsyncClient, **query: str) -> None:
    async with http.stream("GET", "/events", params={**MINE, **query}) as stream:
        assert stream.status_code == 200


def test_a_durable_stream_loses_nothing_with_its_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            await begin(http)
            await publish(service, range(40))
            first, last = await read(http, 7)
            rest, last = await read(http, 33, last)
            assert first + rest == list(range(40))
            await publish(service, range(40, 43))
            assert (await read(http, 3, last))[0] == [40, 41, 42]  # and nothing of those before comes again

    run(test)


def test_a_head_opens_no_stream_and_commits_nothing(tmp_path: Path) -> None:
    """`curl -I` took the events of a durable stream with ack=auto, and made subscriptions."""

    async def test() -> None:
        async with at(tmp_path) as (http, service):
            await begin(http, ack="auto")
            await publish(service, range(10))
            answer = await http.head("/events", params={**MINE, "ack": "auto"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
            assert (await http.head("/events", params={**MINE, "name": "new"})).status_code == 405
            names = [row["subscription"] for row in service.server.node.describe(10)]
            assert names == ["anonymous/web/web"]
            assert (await read(http, 10, ack="auto"))[0] == list(range(10))
            assert (await http.head("/log")).status_code == 200  # reading has no effect

    run(test)


def test_a_durable_stream_goes_on_after_a_restart_of_its_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            await begin(http)
            await publish(service, range(20))
            first, last = await read(http, 7)
        async with at(tmp_path) as (http, service):
            assert first + (await read(http, 13, last))[0] == list(range(20))

    run(test)


def test_a_durable_stream_without_a_last_id_repeats_what_was_not_confirmed(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            await begin(http)
            await publish(service, range(10))
            _, last = await read(http, 4)
            assert (await read(http, 3, last))[0] == [4, 5, 6]
            assert (await read(http, 6))[0] == [4, 5, 6, 7, 8, 9]

    run(test)


@pytest.mark.parametrize("bound", ["unconfirmed_count", "delivery_bytes"])
def test_a_durable_stream_ends_in_time_for_its_client_to_confirm(tmp_path: Path, bound: str) -> None:
    async def test() -> None:
        async with at(tmp_path, resources=ResourceLimits(**{bound: 4})) as (http, service):
            await begin(http)
            await publish(service, range(10))
            received: list[int] = []
            last, ends = "", 0
            while len(received) < 10:
                found, last = await read(http, 10 - len(received), last)
                received, ends = received + found, ends + 1
            assert received == list(range(10))
            assert ends >= 3

    run(test)


def test_a_stream_of_many_logs_confirms_each_of_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            at(tmp_path) as (http, service),
            serving("b2", path=tmp_path / "b2", join=[service.server.address]) as two,
            tidings.connect(service.server.address, name="p1") as here,
            tidings.connect(two.address, name="p2") as there,
        ):
            await linked(service.server, two)
            await begin(http)
            await settled(service.server, two)
            await here.publish({"n": 0})
            await there.publish({"n": 1})
            first, last = await read(http, 2)
            assert sorted(first) == [0, 1]
            await here.publish({"n": 2})
            second, last = await read(http, 1, last)
            assert second == [2]  # the id confirmed both logs
            assert len(read_token(last)) == 2

    run(test)


def test_auto_acknowledgement_has_to_be_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            await begin(http, ack="auto")
            await publish(service, range(3))
            async with http.stream("GET", "/events", params={**MINE, "ack": "auto"}) as stream:
                await lines_of(stream, 3)
            await publish(service, range(3, 6))
            numbers, _ = await read(http, 3)
            # Events are committed together: whether the last ones were depends on when the cut was seen.
            assert numbers[0] <= 3
            assert numbers == list(range(numbers[0], numbers[0] + 3))
            answer = await http.get("/events", params={"filter": "n >= 0", "ack": "manual"})
            assert answer.status_code == 400
            assert "durable" in answer.text
            assert (await http.get("/events", params={**MINE, "ack": "perhaps"})).status_code == 400

    run(test)


# -- the socket ------------------------------------------------------------------------------------


class Socket:
    """One connection to /events/socket."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def say(self, **fields: Any) -> None:
        await self._connection.send(json.dumps(fields))

    async def send_bytes(self, data: bytes) -> None:
        await self._connection.send(data)

    async def receive(self) -> Any:
        return json.loads(await self._connection.recv())

    async def numbers(self, count: int) -> list[int]:
        return [(await self.receive())["event"]["data"]["n"] for _ in range(count)]

    def cut(self) -> None:
        self._connection.transport.abort()


@asynccontextmanager
async def socket(http: httpx.AsyncClient, **options: Any) -> AsyncIterator[Socket]:
    """A socket with the durable subscription `a`."""
    where = str(http.base_url).rstrip("/").replace("http", "ws") + "/events/socket"
    async with websockets.connect(where) as connection:
        found = Socket(connection)
        wanted = {"filter": "n >= 0", "name": "sock", "durable": True, **options}
        await found.say(op="subscribe", ref="a", **wanted)
        assert (await found.receive())["op"] == "subscribed"
        yield found
        found.cut()


@pytest.mark.parametrize("acks", [0, 1, 5])
def test_a_durable_socket_loses_nothing_with_its_connection(tmp_path: Path, acks: int) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            async with socket(http):
                pass
            await publish(service, range(30))
            async with socket(http) as first:
                assert await first.numbers(20) == list(range(20))
                for _ in range(acks):
                    await first.say(op="ack", ref="a")
                await first.say(op="nonsense")  # its answer shows that the acks were heard
                while (await first.receive())["op"] != "error":
                    pass
            async with socket(http) as second:
                assert await second.numbers(30 - acks) == list(range(acks, 30))

    run(test)


def test_a_binary_message_is_answered_and_ends_no_socket(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service), socket(http) as found:
            await found.send_bytes(b"\xff\xfe")
            assert "binary" in (await found.receive())["detail"]
            await publish(service, range(1))
            assert await found.numbers(1) == [0]

    run(test)


def test_a_socket_has_as_many_events_as_its_credit(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, service):
            async with socket(http):
                pass
            await publish(service, range(9))
            async with socket(http, credit=3) as found:
                delivered = [await found.receive() for _ in range(3)]
                await found.say(op="nonsense")
                assert (await found.receive())["op"] == "error"  # no fourth event came before it
                await found.say(op="ack", ref="a", position=delivered[1]["position"])
                assert await found.numbers(2) == [3, 4]
                await found.say(op="ack", ref="a", position="b1:999")
                assert "waits for an ack" in (await found.receive())["detail"]
            async with socket(http, ack="auto") as found:
                assert await found.numbers(7) == [2, 3, 4, 5, 6, 7, 8]
                await found.say(op="subscribe", ref="b", ack="perhaps")
                assert "ack is" in (await found.receive())["detail"]

    run(test)


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_is_read_as_it_was_written() -> None:
    token = StreamToken({}, 8)
    for number, log in enumerate(("b1", "a,b%:1", "ü\n", "b1"), 1):
        text = token.after(Position(log, number))
    assert read_token(text) == {"a,b%:1": 2, "ü\n": 3, "b1": 4}
    assert "\n" not in text
    assert read_token(position_text(Position("b1~x/y", 7))) == {"b1~x/y": 7}


def test_a_token_is_bounded() -> None:
    token = StreamToken({"first": 1}, 3)
    texts = [token.after(Position(log, 1)) for log in ("b1", "b2", "b1", "b3")]
    assert texts[1] == "first:1,b1:1,b2:1"
    assert texts[3] == "b2:1,b1:1,b3:1"  # the log that was silent for longest went


def test_a_stream_whose_client_leaves_while_its_broker_stops_is_closed_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (_, service):
            clients = LocalClients(service.server, Principal("anonymous", ProofMethod.ANONYMOUS))
            bus = await clients.bus("anonymous/web").open()
            await bus.subscribe("n >= 0", name="web", durable=True)
            await asyncio.gather(bus.close(commit=False), bus.close(commit=False))
            assert bus.is_closed

    run(test)
