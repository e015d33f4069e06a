"""Streams, sockets and webhooks that are broken off, opened under one name at once, or changed: each request
is answered, and nothing that its client left counts against its principal any more."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from tests.gateway.test_http import at, ce, event, run, sink

import tidings
from tidings.errors import InputError

MINE = {"filter": "n >= 0", "name": "web", "durable": "true"}
TOOK_OVER = (
    "a newer link took over: another client called 'anonymous/web' listens to 'web'; give each client "
    "a name of its own (connect(name=...), --name), subscribe as a group or with takes_over=True"
)
DESK = 1  # the guest that a principal's requests share


async def until_left(service: Any, most: int = DESK) -> None:
    """Wait until no client but the shared desk is a guest."""
    while service.server.figures()["local clients"] > most:
        await asyncio.sleep(0)


@pytest.mark.parametrize("query", [MINE, MINE | {"ack": "auto"}, {"filter": "n >= 0"}], ids=str)
def test_a_stream_that_its_client_breaks_off_leaves_no_connection(
    tmp_path: Path, query: dict[str, str]
) -> None:
    async def story() -> None:
        async with at(tmp_path) as (http, service):
            for _ in range(3):
                async with http.stream("GET", "/events", params=query) as stream:
                    assert stream.status_code == 200
                    await anext(stream.aiter_bytes())
            await until_left(service)

    run(story)


def test_a_stream_that_is_left_before_its_first_byte_leaves_no_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with at(tmp_path) as (http, service):
            for _ in range(3):
                _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
                writer.write(b"GET /events?name=web&durable=true HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                await writer.drain()
                while (
                    service.server.figures()["local clients"] <= DESK
                ):  # its bus is open, and nothing is answered
                    await asyncio.sleep(0)
                writer.transport.abort()
                await until_left(service)

    run(story)


def test_of_streams_that_open_under_one_name_at_once_each_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with at(tmp_path) as (http, service):
            reasons: list[str] = []
            received = asyncio.Event()

            async def listen() -> int:
                async with http.stream("GET", "/events", params=MINE) as stream:
                    if stream.status_code == 200:
                        async for line in stream.aiter_lines():
                            if line.startswith("data: "):
                                received.set()
                                break
                    else:
                        reasons.append(json.loads(await stream.aread())["detail"])
                    return stream.status_code

            streams = [asyncio.create_task(listen()) for _ in range(4)]
            while sum(stream.done() for stream in streams) < 3:
                await asyncio.sleep(0)
            await http.post("/events", json={"n": 1})
            await received.wait()
            statuses = await asyncio.gather(*streams)
            assert set(statuses) <= {200, 503}
            assert reasons == [TOOK_OVER] * statuses.count(503)
            await until_left(service)

    run(story)


def test_of_sockets_that_subscribe_under_one_name_at_once_each_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with at(tmp_path) as (http, service):
            url = str(http.base_url).replace("http", "ws") + "/events/socket"
            sockets = [await websockets.connect(url, proxy=None) for _ in range(4)]
            requested = json.dumps({"op": "subscribe", "ref": "a", "name": "web", "durable": True})
            await asyncio.gather(*(socket.send(requested) for socket in sockets))
            answers = [json.loads(await socket.recv()) for socket in sockets]
            delivered = Counter(answer["op"] for answer in answers)
            assert delivered["subscribed"] >= 1
            assert delivered["subscribed"] + delivered["error"] == 4
            reasons = {answer["detail"] for answer in answers if answer["op"] == "error"}
            assert reasons <= {TOOK_OVER}
            for socket in sockets:
                socket.transport.abort()
            await until_left(service)

    run(story)


def webhook(address: str, filter: str = "n >= 0") -> dict[str, Any]:
    return {"sink": address, "filters": [{"tidings": filter}]}


async def made(http: httpx.AsyncClient, wanted: dict[str, Any]) -> str:
    answer = await http.post("/subscriptions", json=wanted)
    assert answer.status_code == 201, answer.text
    return f"/subscriptions/{answer.json()['id']}"


def test_of_puts_of_one_webhook_at_once_each_is_answered_and_the_last_one_stands(tmp_path: Path) -> None:
    async def story() -> None:
        async with sink() as (receiver, address), at(tmp_path, webhooks=("127.0.0.1",)) as (http, service):
            path = await made(http, webhook(address))
            puts = (http.put(path, json=webhook(f"{address}/{number}")) for number in range(4))
            answers = await asyncio.gather(*puts)
            assert [answer.status_code for answer in answers] == [200] * 4
            stands = (await http.get(path)).json()["sink"]
            assert stands in {answer.json()["sink"] for answer in answers}
            await until_left(service, DESK + 1)
            await http.post("/events", **ce(event("1", n=1)))
            await receiver.until(1)
            answers = await asyncio.gather(http.delete(path), http.put(path, json=webhook(address)))
            assert answers[0].status_code == 204
            assert answers[1].status_code in (200, 404)
            await until_left(service)
            assert (await http.get("/subscriptions")).json() == []

    run(story)


def test_an_operator_lists_and_ends_a_webhook(tmp_path: Path) -> None:
    async def story() -> None:
        async with sink() as (receiver, address), at(tmp_path, webhooks=("127.0.0.1",)) as (http, service):
            path = await made(http, webhook(address) | {"protocolsettings": {"secret": "s3cret"}})
            receiver.answers = [400]
            await http.post("/events", **ce(event("1", n=1)))
            await receiver.until(1)
            async with tidings.connect(service.server.address, name="root") as root:
                (row,) = (await root.inquire("admin", do="list", kind="webhook"))["rows"]
                while not row["status"]["given back"]:  # the broker has yet to read the sink's answer
                    (row,) = (await root.inquire("admin", do="list", kind="webhook"))["rows"]
                assert (row["sink"], row["owner"]) == (address, "anonymous")
                assert "s3cret" not in str(row)
                assert row["status"]["given back"] == 1
                await root.inquire("admin", do="end", kind="webhook", name=row["id"])
                with pytest.raises(InputError, match="has no webhook"):
                    await root.inquire("admin", do="end", kind="webhook", name=row["id"])
            assert (await http.get(path)).status_code == 404

    run(story)


def test_a_put_that_is_refused_leaves_its_webhook_sending(tmp_path: Path) -> None:
    async def story() -> None:
        async with sink() as (receiver, address), at(tmp_path, webhooks=("127.0.0.1",)) as (http, service):
            wanted = webhook(address)
            path = await made(http, wanted)
            refused = await http.put(path, json=webhook(f"{address}/other", "n > 5 AND n < 3"))
            assert refused.status_code == 400
            assert refused.json()["code"] == "impossible"
            await http.post("/events", **ce(event("1", n=1)))
            await receiver.until(1)
            shown = (await http.get(path)).json()
            assert (shown["sink"], shown["filters"]) == (address, wanted["filters"])
            await until_left(service, DESK + 1)
            assert (await http.put(path, json=webhook(address, "n > 1"))).status_code == 200
            for number in (1, 2):
                await http.post("/events", **ce(event(f"again {number}", n=number)))
            await receiver.until(2)
            assert [headers["ce-id"] for headers, _ in receiver.received] == ["1", "again%202"]

    run(story)
