"""Pages of other origins, and names that point at this machine: refused at every web listener."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import websockets
from tests.gateway.conftest import broker

from tidings.gateway.origins import OTHER_SITE, Addresses, addressed

EVIL = "https://evil.example"


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"host": "127.0.0.1:80"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:7"}, True),
        ({"host": "rebound.evil.example"}, False),
        ({"host": "127.evil.example"}, False),
        ({"host": "localhost.evil.example"}, False),
        ({"host": ""}, False),
        ({"host": "[bad"}, False),
        ({"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"}, True),
        ({"host": "127.0.0.1:80", "origin": "http://127.0.0.1:81"}, False),
        ({"host": "127.0.0.1:80", "origin": EVIL}, False),
        ({"host": "127.0.0.1:80", "origin": "null"}, False),
        ({"host": "127.0.0.1:80", "origin": ""}, False),
        ({"host": "127.0.0.1:80", "origin": "http://[bad"}, False),
    ],
)
def test_who_is_let_in_on_loopback(headers: dict[str, str], is_let_in: bool) -> None:
    assert (not Addresses("127.0.0.1:80").refusal(headers)) is is_let_in


@pytest.mark.parametrize(
    ("hosts", "host", "is_let_in"),
    [
        ((), "whatever.example", True),  # beyond this machine TLS, or the proxy in front, knows its names
        (("news.example",), "news.example:443", True),
        (("*.news.example",), "eu.news.example", True),
        (("news.example",), "evil.example", False),
    ],
)
def test_who_is_let_in_elsewhere(hosts: tuple[str, ...], host: str, is_let_in: bool) -> None:
    assert (not Addresses("0.0.0.0:80", hosts).refusal({"host": host})) is is_let_in


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


def test_the_http_gateway_refuses_pages_of_others() -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service, httpx.AsyncClient(trust_env=False) as http:
            assert service.gateways is not None
            at = service.gateways.addresses["http"]
            for method, path in (
                ("GET", "/log"),
                ("POST", "/events"),
                ("GET", "/figures"),
                ("GET", "/openapi.json"),
            ):
                for headers in ({"Origin": EVIL}, {"Host": "rebound.evil.example"}):
                    answer = await http.request(method, at + path, headers=headers, content=b"{}")
                    assert answer.status_code == 403, (path, headers)
                    assert "hint" in answer.json()
            own = {"Origin": at}
            assert (await http.get(at + "/log", headers=own)).status_code == 200
            assert (await http.get(at + "/log")).status_code == 200
            page = at.replace("http", "ws") + "/events/socket"
            for headers in ({"Origin": EVIL}, {"Origin": "null"}):
                with pytest.raises(websockets.InvalidStatus):
                    await websockets.connect(page, additional_headers=headers, proxy=None)
            async with websockets.connect(page, additional_headers=own, proxy=None) as socket:
                await socket.send(json.dumps({"op": "subscribe", "ref": "a"}))
                assert json.loads(await socket.recv())["op"] == "subscribed"

    run(test)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("dest", "console"), [("image", False), ("iframe", False), ("document", True)])
def test_what_another_page_loads_without_an_origin_is_refused(site: str, dest: str, console: bool) -> None:
    """A picture of any page committed the events of a durable stream: `GET` without `Origin`."""
    headers = {"host": "127.0.0.1:80", "sec-fetch-site": site, "sec-fetch-dest": dest}
    gateway = Addresses("127.0.0.1:80", origins=("https://app.example",))
    assert gateway.refusal(headers) == OTHER_SITE
    assert not gateway.refusal(headers | {"origin": "https://app.example"})
    for own in ("same-origin", "none"):
        assert not gateway.refusal(headers | {"sec-fetch-site": own})
    linked = Addresses("127.0.0.1:80", may_be_linked=True)
    assert linked.refusal(headers) == ("" if console else OTHER_SITE)


def test_a_picture_of_another_page_commits_nothing() -> None:
    async def test() -> None:
        async with (
            broker(http="127.0.0.1:0") as service,
            httpx.AsyncClient(trust_env=False, base_url=service.gateways.addresses["http"]) as http,  # type: ignore[union-attr]
        ):
            headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
            wanted = {"name": "alerts", "durable": "true", "ack": "auto"}
            answer = await http.get("/events", params=wanted, headers=headers)
            assert (answer.status_code, answer.json()["detail"]) == (403, OTHER_SITE)
            figures = (await http.get("/figures")).json()
            assert figures["subscriptions"] == 0

    run(test)


def test_pages_of_origins_that_are_allowed_may_read_the_answers() -> None:
    async def test() -> None:
        app = "https://app.example"
        async with (
            broker(http="127.0.0.1:0", origins=("https://*.example",)) as service,
            httpx.AsyncClient(trust_env=False) as http,
        ):
            assert service.gateways is not None
            at = service.gateways.addresses["http"]
            answer = await http.get(at + "/log", headers={"Origin": app})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, app)
            requested = {"Origin": app, "Access-Control-Request-Method": "PUT"}
            requested["Access-Control-Request-Headers"] = "authorization"
            assert (await http.options(at + "/subscriptions/x", headers=requested)).status_code == 200
            refused = await http.get(at + "/log", headers={"Origin": "https://evil.org"})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers

    run(test)


def test_mqtt_over_websocket_refuses_pages_of_others() -> None:
    async def test() -> None:
        async with broker(mqtt_websocket="127.0.0.1:0") as service:
            assert service.gateways is not None
            at = service.gateways.addresses["mqtt over websocket"]
            for headers in ({"Origin": EVIL}, {"Origin": "null"}):
                with pytest.raises(websockets.InvalidStatus):
                    await websockets.connect(
                        at, additional_headers=headers, subprotocols=["mqtt"], proxy=None
                    )  # type: ignore[list-item]
            async with websockets.connect(at, subprotocols=["mqtt"], proxy=None) as socket:  # type: ignore[list-item]
                assert socket.subprotocol == "mqtt"

    run(test)


@pytest.mark.parametrize(
    ("host", "status", "is_paused"),
    [
        ("127.0.0.1:80", 200, False),
        ("127.0.0.1:80", 404, False),
        ("127.0.0.1:80", 401, True),
        ("127.0.0.1:80", 429, True),
        ("rebound.evil.example", 200, True),
    ],
)
def test_a_refused_request_is_answered_after_a_pause(
    host: str, status: int, is_paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def pause(seconds: float) -> None:
        happened.append("pause")

    async def send(message: Any) -> None:
        happened.append(message["type"])

    monkeypatch.setattr("tidings.gateway.origins.asyncio.sleep", pause)
    scope = {"type": "http", "headers": [(b"host", host.encode())]}
    asyncio.run(addressed(application, Addresses("127.0.0.1:80"))(scope, None, send))
    assert happened[: is_paused + 1] == ["pause", "http.response.start"][not is_paused :]
