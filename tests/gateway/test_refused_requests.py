"""Requests that were taken silently, or refused in words that help nobody, over HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets
from tests.gateway.test_http import EVENT, at, run

CLOUD = "application/cloudevents+json"


async def raw(service: Any, request: bytes) -> tuple[bytes, bytes]:
    """The head and the body of the answer to a request that no library would send."""
    host, _, port = service.gateways.addresses["http"].removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.lower(), body


@pytest.mark.parametrize(
    "request_text",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_request_that_cannot_be_read_gets_a_problem_object(request_text: bytes) -> None:
    async def test() -> None:
        async with at() as (_, service):
            head, body = await raw(service, request_text)
            assert head.startswith(b"http/1.1 400 ")
            assert b"content-type: application/problem+json" in head
            assert b"x-content-type-options: nosniff" in head
            assert json.loads(body)["status"] == 400

    run(test)


def test_every_answer_forbids_to_guess_its_type() -> None:
    async def test() -> None:
        async with at() as (http, _):
            for path in ("/openapi.json", "/log", "/nowhere", "/events?filter=%28", "/trace/%ff"):
                answer = await http.get(path)
                assert answer.headers["x-content-type-options"] == "nosniff", path
            foreign = await http.get("/log", headers={"host": "evil.example"})
            assert (foreign.status_code, foreign.headers["x-content-type-options"]) == (403, "nosniff")

    run(test)


def test_a_parameter_that_stands_twice_is_refused() -> None:
    async def test() -> None:
        async with at() as (http, _):
            for method, path in (
                ("POST", "/events?topic=a&topic=b"),
                ("POST", "/events?id=1&topic=a&id=1"),
                ("GET", "/events?filter=a%20%3D%201&filter=TRUE"),
                ("GET", "/log?limit=1&limit=2"),
            ):
                answer = await http.request(method, path, json={"a": 1} if method == "POST" else None)
                assert answer.status_code == 400, path
                assert "more than once" in answer.json()["detail"]

    run(test)


def test_json_in_another_charset_is_refused() -> None:
    async def test() -> None:
        async with at() as (http, _):
            for kind, body in ((CLOUD, EVENT), ("application/json", {"a": 1})):
                for charset, status in (
                    ("latin-1", 415), ('"UTF-16"', 415), ("", 415), ("utf-8", 200), ('"UTF-8"', 200),
                ):  # fmt: skip
                    headers = {"content-type": f"{kind}; x=1; charset={charset}"}
                    answer = await http.post("/events", content=json.dumps(body), headers=headers)
                    assert answer.status_code == status, headers

    run(test)


def test_a_socket_that_subscribes_with_another_value_than_a_text_is_told_so() -> None:
    async def test() -> None:
        async with at() as (http, _):
            where = str(http.base_url).replace("http://", "ws://").rstrip("/") + "/events/socket"
            async with websockets.connect(where, proxy=None) as socket:
                for name in ("name", "topic", "type", "dialect", "filter", "since"):
                    for value in (["x"], {"x": 1}, 5, True):
                        await socket.send(json.dumps({"op": "subscribe", "ref": "a", name: value}))
                        answer = json.loads(await socket.recv())
                        assert (answer["op"], answer["hint"]) == ("error", "a text"), (name, value)
                        assert answer["detail"].startswith(f"{name} is ")

    run(test)
