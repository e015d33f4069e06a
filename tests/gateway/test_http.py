"""The HTTP gateway by a client that is not ours (httpx): every mode, every verb, every refusal."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from tests.gateway._sinks import listening
from tests.gateway.conftest import broker

import tidings
from tidings.gateway import problems
from tidings.gateway.webhooks import signature
from tidings.runtime.local_clients import charge

EVENT = {"specversion": "1.0", "id": "1", "source": "/quotes", "type": "quote", "subject": "quotes/ibm"}


def event(id: str, **data: Any) -> dict[str, Any]:
    return {**EVENT, "id": id, "data": data}


@asynccontextmanager
async def at(folder: Path | None = None, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    async with broker(folder, http="127.0.0.1:0", **options) as service:
        assert service.gateways is not None
        address = service.gateways.addresses["http"]
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=120) as http:
            yield http, service


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


def ce(body: Any) -> dict[str, Any]:
    kind = "application/cloudevents-batch+json" if isinstance(body, list) else "application/cloudevents+json"
    return {"content": json.dumps(body), "headers": {"content-type": kind}}


# -- publishing ------------------------------------------------------------------------------------


def test_every_mode_of_publishing_reaches_a_subscriber_once() -> None:
    async def test() -> None:
        async with at() as (http, service):
            async with (
                tidings.connect(service.server.address, name="ann") as bus,
                bus.subscribe("change < 0") as news,
            ):
                structured = await http.post("/events", **ce(event("1", change=-1)))
                batch = await http.post("/events", **ce([event("2", change=-2), event("3", change=5)]))
                binary = await http.post(
                    "/events",
                    content=b'{"change": -4}',
                    headers={
                        "ce-specversion": "1.0", "ce-id": "4", "ce-source": "/quotes", "ce-type": "quote",
                        "content-type": "application/json",
                    },
                )  # fmt: skip
                plain = await http.post(
                    "/events",
                    json={"change": -5},
                    params={"topic": "quotes/ibm", "id": "5", "source": "me"},
                )
                again = await http.post("/events", **ce(event("1", change=-1)))
                received = [await news.get(10) for _ in range(4)]
                assert [each.id for each in received] == ["1", "2", "4", "5"]
                with pytest.raises(TimeoutError):
                    await news.get(0.05)
            answers = [structured, batch, binary, plain, again]
            assert [answer.status_code for answer in answers] == [200] * 5
            assert [one["id"] for one in batch.json()["events"]] == ["2", "3"]

    run(test)


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "no JSON"),
        ({"content": b"[1]", "headers": {"content-type": "application/json"}}, 400, "no JSON object"),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "text/plain"),
        (ce({"id": "1"}), 400, "1.0"),
        (ce([event("1"), {"id": "2"}]), 400, "event 1 of the batch"),
        ({"json": {"a": 1}, "params": {"topik": "x"}}, 400, "unknown 'topik'"),
        ({"json": {"a": 1}, "params": {"lifetime": "soon"}}, 400, "lifetime"),
        ({"content": b"[" * 5000, "headers": {"content-type": "application/json"}}, 400, "no JSON"),
        (
            {"content": b"[" * 5000, "headers": {"content-type": "application/cloudevents+json"}},
            400,
            "no JSON",
        ),
        ({"content": b"x" * (4 * 2**20 + 1), "headers": {"content-type": "application/json"}}, 413, "bytes"),
    ],
    ids=[
        "torn",
        "list",
        "media",
        "version",
        "batch",
        "option",
        "seconds",
        "deep",
        "deep-event",
        "long",
    ],
)
def test_bad_events_are_refused_with_a_reason(request_: dict[str, Any], status: int, words: str) -> None:
    async def test() -> None:
        async with at() as (http, _):
            answer = await http.post("/events", **request_)
            assert answer.status_code == status
            assert words in answer.json()["detail"]

    run(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/nonsense", 404, "no /nonsense"),
        ("GET", "/trace/a%0Ab", 404, "no /trace/a"),
        ("PUT", "/events", 405, "takes no PUT"),
    ],
)
def test_what_is_not_there_is_told_as_everything_else(
    method: str, path: str, status: int, words: str
) -> None:
    async def test() -> None:
        async with at() as (http, _):
            answer = await http.request(method, path)
            assert (answer.status_code, answer.headers["content-type"]) == (
                status,
                "application/problem+json",
            )
            assert words in answer.json()["detail"]

    run(test)


# -- hearing ---------------------------------------------------------------------------------------


async def lines_of(stream: httpx.Response, count: int) -> list[tuple[str, dict[str, Any]]]:
    found, id = [], ""
    async for line in stream.aiter_lines():
        if line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data: "):
            found.append((id, json.loads(line[6:])))
            if len(found) == count:
                return found
    return found


def test_a_stream_goes_on_where_it_was_broken(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, _):
            for number in range(4):
                await http.post("/events", json={"n": number}, params={"lifetime": "forever", "topic": "t"})
            async with http.stream("GET", "/events", params={"filter": "n >= 0"}) as stream:
                first = await lines_of(stream, 2)
            last = {"last-event-id": first[-1][0]}
            async with http.stream("GET", "/events", params={"filter": "n >= 0"}, headers=last) as stream:
                rest = await lines_of(stream, 2)
            assert [fields["data"]["n"] for _, fields in first + rest] == [0, 1, 2, 3]

    run(test)


def test_a_bad_stream_is_refused() -> None:
    async def test() -> None:
        async with at() as (http, service):
            for query, words in (
                ({"filter": "a <"}, "the filter ends"),
                ({"nam": "x"}, "nam"),
                ({"since": "x"}, "position"),
                ({"queue": "1" * 5000}, "queue is"),
                ({"queue": "²"}, "queue is"),
            ):
                answer = await http.get("/events", params=query)
                assert answer.status_code == 400
                assert words in answer.text
            assert service.server.figures()["local clients"] <= 1  # none was left behind

    run(test)


def test_a_socket_publishes_and_hears() -> None:
    async def test() -> None:
        async with at() as (http, _):
            where = str(http.base_url).rstrip("/").replace("http", "ws") + "/events/socket"
            async with websockets.connect(where) as socket:

                async def ask(fields: dict[str, Any]) -> Any:
                    await socket.send(json.dumps(fields))
                    return json.loads(await socket.recv())

                fields = {"op": "subscribe", "ref": "a", "filter": "change < 0", "ack": "manual"}
                assert (await ask(fields))["op"] == "subscribed"
                await socket.send(json.dumps({"op": "publish", "call": 7, "event": event("1", change=-1)}))
                received = [json.loads(await socket.recv()) for _ in range(2)]
                assert {one["op"] for one in received} == {"published", "event"}
                assert (await ask({"op": "nonsense"}))["op"] == "error"
                for asked in ({}, {"event": None}, {"event": [1]}, {"event": {}}):
                    answer = await ask({"op": "publish", "call": 8, **asked})
                    assert (answer["op"], answer["call"]) == ("error", 8)
                await socket.send("[" * 5000)  # more than a decoder's stack holds
                assert json.loads(await socket.recv())["op"] == "error"
                assert (await ask({"op": "ack", "ref": "b"}))["detail"].startswith("no subscription")
                await socket.send(json.dumps({"op": "ack", "ref": "a"}))
                assert (await ask({"op": "unsubscribe", "ref": "a"}))["op"] == "unsubscribed"

    run(test)


def test_a_socket_whose_subscription_another_connection_has_is_told_and_closed(tmp_path: Path) -> None:
    """It waited for events that only the other one received."""

    async def test() -> None:
        async with at(tmp_path) as (http, _):
            events = str(http.base_url).rstrip("/").replace("http", "ws") + "/events"
            wish = {"op": "subscribe", "filter": "change < 0", "name": "n", "durable": True}
            async with (
                websockets.connect(events + "/socket") as first,
                websockets.connect(events + "/socket") as second,
            ):

                async def ask(socket: Any, fields: dict[str, Any]) -> Any:
                    await socket.send(json.dumps(fields))
                    return json.loads(await socket.recv())

                assert (await ask(first, wish | {"ref": "a"}))["op"] == "subscribed"
                assert (await ask(first, wish | {"ref": "b"}))["detail"].endswith("another `ref`")
                assert (await ask(second, wish | {"ref": "c"}))["op"] == "subscribed"
                assert "another connection" in json.loads(await first.recv())["detail"]
                with pytest.raises(websockets.ConnectionClosedError, match="another connection"):
                    await first.recv()
                query = {"filter": "change < 0", "name": "n", "durable": "true"}
                async with http.stream("GET", "/events", params=query):
                    assert "another connection" in json.loads(await second.recv())["detail"]
            async with websockets.connect(events + "/socket") as third:
                assert (await ask(third, wish | {"ref": "d"}))["op"] == "subscribed"
                assert (await ask(third, {"op": "unsubscribe", "ref": "d"}))["op"] == "unsubscribed"
                assert (await ask(third, wish | {"ref": "d"}))["op"] == "subscribed"

    run(test)


@pytest.mark.parametrize(
    ("query", "words"),
    [("topic=%ff", "UTF-8"), ("key=a%ff", "UTF-8")]
    + [(f"lifetime={text}", "lifetime is") for text in ("1e9", "nan", "inf", "-1", "1_0", "", "9" * 400)],
)
def test_a_query_that_cannot_be_read_as_it_stands_is_refused(query: str, words: str) -> None:
    async def test() -> None:
        async with at() as (http, _):
            answer = await http.post(f"/events?{query}", json={})
            assert answer.status_code == 400
            assert words in answer.json()["detail"]

    run(test)


def test_a_body_with_a_content_encoding_is_refused() -> None:
    async def test() -> None:
        async with at() as (http, _):
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            answer = await http.post("/events", content=gzip.compress(b"{}"), headers=headers)
            assert answer.status_code == 415
            assert answer.headers["accept-encoding"] == "identity"
            assert (await http.post("/events", json={}, headers={"content-encoding": "identity"})).is_success

    run(test)


@pytest.mark.parametrize("path", ["/events", "/subscriptions", "/explain"])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error_of_ours(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    whole_body = problems.whole_body

    async def watched(request: Any, most: int) -> bytes:
        try:
            return await whole_body(request, most)
        finally:
            ended.set()

    monkeypatch.setattr("tidings.gateway.http.whole_body", watched)

    async def test() -> None:
        async with at() as (http, _):
            _, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            await writer.drain()
            assert (await http.get("/openapi.json")).is_success
            writer.transport.abort()
            await ended.wait()
            assert (await http.get("/openapi.json")).is_success

    with caplog.at_level(logging.ERROR):
        run(test)
    assert not [record for record in caplog.records if record.exc_info]


# -- the Subscriptions API ---------------------------------------------------------------------------


class Receiver:
    """A sink: answers as it is told, and remembers."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            headers = {name.lower(): value for name, value in headers.items()}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            status = self.answers.pop(0) if self.answers else 204
            self.received.append((headers, body))
            self.changed.set()
            writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()

    async def until(self, count: int) -> None:
        while len(self.received) < count:
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def sink() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    async with listening(receiver.serve) as port:
        yield receiver, f"http://127.0.0.1:{port}/hook"


def test_a_webhook_is_tried_until_it_is_taken_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with sink() as (receiver, address):
            wanted = {
                "sink": address,
                "filters": [{"prefix": {"source": "/quo"}}, {"not": {"exact": {"level": "9"}}}],
                "protocolsettings": {"secret": "s3cret"},
            }
            receiver.answers = [503]
            async with at(tmp_path, webhooks=("127.0.0.1",)) as (http, _):
                made = await http.post("/subscriptions", json=wanted)
                assert made.status_code == 201
                id = made.json()["id"]
                assert made.headers["location"] == f"/subscriptions/{id}"
                assert "secret" not in made.text
                assert (await http.get(f"/subscriptions/{id}")).json()["filters"] == wanted["filters"]
                for number, level in (("1", 1), ("2", 9), ("3", 2)):
                    await http.post("/events", **ce(event(number, level=level)))
                await receiver.until(3)
            ids = [headers["ce-id"] for headers, _ in receiver.received]
            assert ids == ["1", "1", "3"]
            headers, body = receiver.received[-1]
            moment, _, signed = headers["tidings-signature"].partition(",v1=")
            assert signed == signature("s3cret", int(moment.removeprefix("t=")), body)
            async with at(tmp_path, webhooks=("127.0.0.1",)) as (http, _):
                assert [one["id"] for one in (await http.get("/subscriptions")).json()] == [id]
                await http.post("/events", **ce(event("4", level=1)))
                await receiver.until(4)
                assert receiver.received[-1][0]["ce-id"] == "4"
                assert (await http.delete(f"/subscriptions/{id}")).status_code == 204
                assert (await http.get(f"/subscriptions/{id}")).status_code == 404
                assert (await http.delete(f"/subscriptions/{id}")).status_code == 404

    run(test)


def test_an_event_that_a_sink_refuses_is_given_back_a_few_times_only() -> None:
    async def test() -> None:
        async with sink() as (receiver, address), at(webhooks=("127.0.0.1",)) as (http, _):
            receiver.answers = [422, 422]
            wanted = {"sink": address, "protocolsettings": {"max_deliveries": 2, "mode": "structured"}}
            await http.post("/subscriptions", json=wanted)
            await http.post("/events", **ce(event("1")))
            await http.post("/events", **ce(event("2")))
            await receiver.until(3)
            assert [json.loads(body)["id"] for _, body in receiver.received] == ["1", "1", "2"]

    run(test)


def test_a_subscription_names_its_dialect_and_warns_of_fractions() -> None:
    """`sql` is CloudEvents SQL, which orders no fractions; `tidings` is the language of GET /events."""

    async def test() -> None:
        async with sink() as (receiver, address), at(webhooks=("127.0.0.1",)) as (http, _):

            async def made(*filters: dict[str, Any]) -> dict[str, Any]:
                answer = await http.post("/subscriptions", json={"sink": address, "filters": list(filters)})
                assert answer.status_code == 201, answer.text
                found: dict[str, Any] = answer.json()
                return found

            plain = await made({"sql": "EXISTS never AND change < -3"})
            assert plain["dialect"] == "cesql"
            assert "compares whole numbers" in plain["warnings"][0]
            assert '{"tidings": ' in plain["warnings"][0]
            for text in ("type = 'quote'", "subject < 'm'"):
                assert "warnings" not in await made({"sql": f"EXISTS never AND {text}"})
            ours = await made({"tidings": "change < -3"}, {"not": {"tidings": "change < -9"}})
            assert ours["dialect"] == "tidings"
            assert "warnings" not in ours
            for number, change in enumerate((-4.5, -9.5, -3, -3.25)):
                await http.post("/events", **ce(event(str(number), change=change)))
            await receiver.until(2)
            assert [headers["ce-id"] for headers, _ in receiver.received] == ["0", "3"]
            mixed = {"sink": address, "filters": [{"tidings": "a > 1"}, {"sql": "b > 1"}]}
            refused = await http.post("/subscriptions", json=mixed)
            assert refused.status_code == 400
            assert "in one subscription" in refused.text

    run(test)


def test_a_changed_subscription_hears_by_its_new_filter() -> None:
    async def test() -> None:
        async with sink() as (receiver, address), at(webhooks=("127.0.0.1",)) as (http, _):
            made = (await http.post("/subscriptions", json={"sink": address, "types": ["a"]})).json()
            changed = await http.put(
                f"/subscriptions/{made['id']}", json={"sink": address, "types": ["quote"]}
            )
            assert changed.status_code == 200
            await http.post("/events", **ce({**event("1"), "type": "a"}))
            await http.post("/events", **ce(event("2")))
            await receiver.until(1)
            assert receiver.received[0][0]["ce-id"] == "2"

    run(test)


def test_a_socket_takes_no_compressed_messages() -> None:
    async def test() -> None:
        async with at() as (http, _):
            where = str(http.base_url).rstrip("/").replace("http", "ws") + "/events/socket"
            async with websockets.connect(where, compression="deflate") as socket:
                assert socket.response is not None
                assert "Sec-WebSocket-Extensions" not in socket.response.headers

    run(test)


@pytest.mark.parametrize(
    ("wanted", "status", "words"),
    [
        ({}, 400, "sink"),
        ({"sink": "ftp://x/"}, 400, "ftp"),
        ({"sink": "http://127.0.0.1/", "filters": [{"exakt": {"a": "b"}}]}, 400, "exakt"),
        ({"sink": "http://127.0.0.1/", "filters": [{"sql": "a <"}]}, 400, "expected"),
        ({"sink": "http://127.0.0.1/", "filters": [{"all": []}]}, 400, "one at least"),
        ({"sink": "http://127.0.0.1/", "colour": 1}, 400, "colour"),
        ({"sink": "http://127.0.0.1/", "protocol": "NATS"}, 400, "NATS"),
        ({"sink": "http://127.0.0.1/", "protocolsettings": {"mode": "x"}}, 400, "mode"),
        ({"sink": "http://169.254.169.254/latest"}, 403, "169.254.169.254"),
    ],
    ids=["none", "scheme", "dialect", "sql", "empty", "member", "protocol", "mode", "host"],
)
def test_bad_subscriptions_are_refused_with_a_reason(wanted: dict[str, Any], status: int, words: str) -> None:
    async def test() -> None:
        async with at(webhooks=("127.0.0.1",)) as (http, _):
            answer = await http.post("/subscriptions", json=wanted)
            assert answer.status_code == status, answer.text
            assert words in answer.json()["detail"]
            assert (await http.get("/subscriptions")).json() == []

    run(test)


# -- who, and why ----------------------------------------------------------------------------------


def test_rules_hold_over_http_as_everywhere(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path, users=True) as (http, _):
            nobody = await http.post("/events", **ce(event("1")))
            assert (nobody.status_code, "www-authenticate" in nobody.headers) == (401, True)
            assert (await http.get("/log", auth=("ann", "wrong"))).status_code == 401
            assert (await http.get("/log", headers={"authorization": "Basic ???"})).status_code == 401
            assert (await http.get("/log", headers={"authorization": "Digest x"})).status_code == 401
            refused = await http.post("/events", **ce(event("1")), auth=("ann", "a"))
            assert refused.status_code == 403
            foreign = await http.post(
                "/events", **ce({**event("1"), "source": "other"}), auth=("market", "m")
            )
            assert foreign.status_code == 403
            subscription = {"params": {"filter": "level > 0"}, "auth": ("ann", "a")}
            async with http.stream("GET", "/events", **subscription) as stream:
                for id, level in (("1", 9), ("2", 3)):  # ann's mandatory filter hides the first
                    done = await http.post("/events", **ce(event(id, level=level)), auth=("market", "m"))
                    assert done.status_code == 200
                received = await lines_of(stream, 1)
            assert received[0][1]["id"] == "2"
            assert (await http.get("/figures", auth=("ann", "a"))).status_code == 403

    run(test)


def test_looking_back_and_asking_why(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as (http, _):
            for number in range(3):
                await http.post("/events", json={"n": number}, params={"lifetime": "forever"})
            page = (await http.get("/log", params={"filter": "n > 0", "limit": 1})).json()
            assert [entry["event"]["data"]["n"] for entry in page["entries"]] == [1]
            why = (await http.post("/explain", json={"filter": "a > 1 AND b = 2", "event": {"a": 5}})).json()
            assert why["accepted"] is False
            assert (await http.post("/explain", json={"filter": "a >", "event": {}})).status_code == 400
            assert (await http.get("/log", params={"limit": "x"})).status_code == 400
            assert (await http.get("/figures")).json()["broker"] == "b1"
            assert (await http.get("/nowhere")).status_code == 404
            assert (await http.get("/openapi.json")).json()["openapi"] == "3.1.0"
            assert (await http.get("/asyncapi.json")).json()["asyncapi"] == "3.0.0"

    run(test)


def test_bytes_that_come_by_http_count_for_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def charged(bus: Any, count: int) -> float:
        pauses.append(charge(bus, count))
        return 0.0

    monkeypatch.setattr("tidings.gateway.http.charge", charged)

    async def test() -> None:
        async with at(tmp_path, users=True) as (http, _):
            for who in ("slow", "slow", "market"):
                body = {"text": "x" * 20_000}
                done = await http.post("/events", json=body, params={"source": who}, auth=(who, who[0]))
                assert done.status_code == 200, done.text

    run(test)
    first, second, other = pauses
    assert first < second, "what he may send at once is used up"
    assert second > 0.5
    assert other == 0.0


def test_bytes_that_come_by_a_socket_count_for_the_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def charged(bus: Any, count: int) -> float:
        pauses.append(charge(bus, count))
        return 0.0

    monkeypatch.setattr("tidings.gateway.streams.charge", charged)

    async def test() -> None:
        async with at(tmp_path, users=True) as (http, _):
            where = str(http.base_url).rstrip("/").replace("http", "ws") + "/events/socket"
            proof = b64encode(b"slow:s").decode()
            async with websockets.connect(
                where, additional_headers={"Authorization": f"Basic {proof}"}
            ) as socket:
                for number in range(2):
                    sent = {**event(str(number), text="x" * 20_000), "source": "slow"}
                    await socket.send(json.dumps({"op": "publish", "call": number, "event": sent}))
                    assert json.loads(await socket.recv())["op"] == "published"

    run(test)
    first, second = pauses
    assert first < second, "what he may send at once is used up"
    assert second > 0.5
