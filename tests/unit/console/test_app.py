"""The console's server: what it refuses, what it forbids the browser, and how it answers nonsense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import USERS

from tidings.console import pages
from tidings.console.listeners import ConsoleGateways
from tidings.console.sessions import MOST_OF_ONE
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, ConsoleSettings, SecuritySettings, TraceSettings
from tidings.security.scram import make_key

OURS = {"x-tidings-console": "1"}
POSTS = ("/api/filter", "/api/explain", "/api/publish", "/api/session")
GETS = ("/api/trace", "/api/log", "/api/subscriptions", "/api/words", "/api/pictures/x", "/api/verdict")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["filter", "dialect", "attributes", "topic", "type", "id", "lifetime", "name", "token", "x"]
)


@asynccontextmanager
async def console(
    folder: Path | None = None, rules: str = "", **more: Any
) -> AsyncIterator[httpx.AsyncClient]:
    security = SecuritySettings(anonymous=True)
    if folder is not None:
        allow = '\n[[allow]]\nwho = "market"\naction = "observe"\n'
        (folder / "users.toml").write_text(USERS + allow + rules)
        security = SecuritySettings(users=str(folder / "users.toml"))
    made = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        security=security,
        console=ConsoleSettings(listen="127.0.0.1:0", refresh_seconds=0.1),
        trace=TraceSettings(history_seconds=60.0),
        **more,
    )
    async with Service(made, gateways=ConsoleGateways) as service:
        assert service.gateways is not None
        url = service.gateways.addresses["console"]
        async with httpx.AsyncClient(base_url=url, headers=OURS, trust_env=False) as client:
            yield client


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*words: Any, **named: Any) -> None:
        asyncio.run(test(*words, **named))

    return run


@played
async def test_pages_forbid_everything_from_elsewhere() -> None:
    async with console() as client:
        answer = await client.get("/")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = await client.get("/", headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
        session = await client.get("/api/session")
        assert session.headers["cache-control"] == "no-store"
        assert session.headers["content-security-policy"] == policy


def test_no_file_names_another_host() -> None:
    """Works offline: addresses stand nowhere but in names of markup."""
    for path, file in pages.table().items():
        text = file.content.decode()
        for word in ("http://", "https://", "//cdn", "@import"):
            positions = [line for line in text.splitlines() if word in line]
            assert all("www.w3.org" in line or "127.0.0.1" in line for line in positions), (path, positions)


def test_no_script_makes_markup_from_text() -> None:
    for path, file in pages.table().items():
        for word in (
            b"innerHTML",
            b"outerHTML",
            b"insertAdjacent",
            b"document.write",
            b"eval(",
            b"new Function",
        ):
            assert word not in file.content, (path, word)


@played
async def test_only_our_own_files_are_served() -> None:
    async with console() as client:
        for path in (
            "/../app.py",
            "/%2e%2e/app.py",
            "/js/../../app.py",
            "/static/index.html",
            "/js",
            "//etc/passwd",
        ):
            answer = await client.get(path)
            assert answer.status_code == 404, path
        assert (await client.get("/js/app.js")).headers["content-type"].startswith("text/javascript")
        assert (await client.get("/api/pictures/../../x.svg")).status_code == 404


@played
async def test_a_page_elsewhere_can_ask_for_nothing() -> None:
    async with console() as client:
        strange = await client.get("/api/session", headers={"host": "evil.example"})
        assert strange.status_code == 403
        bare = {"x-tidings-console": "0"}
        refused = await client.post("/api/publish", json={"attributes": {"x": 1}}, headers=bare)
        assert refused.status_code == 403
        assert "not from a page of the console" in refused.json()["detail"]


@played
async def test_the_stream_tells_of_the_broker() -> None:
    async with console() as client, client.stream("GET", "/api/live") as stream:
        lines = stream.aiter_lines()
        names = []
        async for line in lines:
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            elif line.startswith("data: ") and names[-1] == "tick":
                tick = json.loads(line.removeprefix("data: "))
                break
        assert names[0] == "past"
        assert [one["name"] for one in tick["brokers"]] == ["b1"]
        assert tick["total"]["brokers"] == 1


@played
async def test_a_broker_that_stops_does_not_wait_for_browsers() -> None:
    """The browser's connection stays open until after the broker has gone."""
    async with AsyncExitStack() as outer, AsyncExitStack() as inner:
        first = await inner.enter_async_context(console())
        browser = await outer.enter_async_context(httpx.AsyncClient(base_url=first.base_url, trust_env=False))
        stream = await browser.send(browser.build_request("GET", "/api/live"), stream=True)
        parts = stream.aiter_bytes()
        await anext(parts)
        await inner.aclose()
        async for _ in parts:  # ends as it should; cut off at the end of the grace it would be an error
            continue
        await stream.aclose()


@played
async def test_what_is_published_is_found_again() -> None:
    async with console() as client:
        body = {"attributes": {"change": -4.5}, "topic": "quotes/eu", "lifetime": 60}
        receipt = (await client.post("/api/publish", json=body)).json()
        page = (await client.get("/api/log", params={"filter": "change < -3"})).json()
        assert [one["event"]["id"] for one in page["entries"]] == [receipt["id"]]
        assert page["entries"][0]["event"]["attributes"] == {"change": -4.5}
        assert (await client.get("/api/log", params={"filter": "change > 0"})).json()["entries"] == []
        delivered = (await client.get("/api/trace", params={"id": receipt["id"]})).json()
        assert delivered["brokers"][0]["steps"][0]["what"] == "published"
        requested = {"id": receipt["id"], "subscription": "nobody/none"}
        why = (await client.get("/api/trace", params=requested)).json()["verdict"]
        assert why == "no broker that was asked holds the subscription nobody/none"
        verdict = (await client.get("/api/verdict")).json()
        assert verdict["recorded"] == ["b1"]
        assert verdict["properties"]["legality"]["holds"] is True


@played
async def test_sessions_are_proved_and_ended(tmp_path: Path) -> None:
    async with console(tmp_path) as client:
        assert (await client.get("/api/session")).json()["is_known"] is False
        assert (await client.get("/api/subscriptions")).status_code == 401
        wrong = await client.post("/api/session", json={"name": "market", "password": "x"})
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
        right = await client.post("/api/session", json={"name": "market", "password": "m"})
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert right.json()["may"] == {"observe": True, "publish": True, "subscribe": True, "admin": False}
        assert (await client.get("/api/subscriptions")).status_code == 200
        await client.delete("/api/session")
        assert (await client.get("/api/subscriptions")).status_code == 401


@played
async def test_many_sessions_of_one_principal_end_its_own_alone(tmp_path: Path) -> None:
    """A principal without rights signed in 1,500 times, and another's session was gone."""
    async with console(tmp_path) as client:

        async def sign_in(name: str, password: str) -> dict[str, str]:
            client.cookies.clear()
            answer = await client.post("/api/session", json={"name": name, "password": password})
            assert answer.status_code == 200
            return dict(client.cookies)

        async def is_known(cookies: dict[str, str]) -> bool:
            client.cookies.clear()
            client.cookies.update(cookies)
            return bool((await client.get("/api/session")).json()["is_known"])

        market = await sign_in("market", "m")
        others = [await sign_in("ann", "a") for _ in range(MOST_OF_ONE + 2)]
        assert await is_known(market)
        assert [await is_known(each) for each in others] == [False] * 2 + [True] * MOST_OF_ONE


NARROW = """
[[allow]]
who = "ann"
action = "observe"
filter = "topic = 'quotes/#'"
[[allow]]
who = "slow"
action = "observe"
[users.tess]
password = "{key}"
tenant = "acme"
[[allow]]
who = "tess"
action = "observe"
"""


@played
async def test_the_verdict_needs_the_right_to_observe_everything(tmp_path: Path) -> None:
    """To a tenant, and to a right with a filter, an empty history was judged: everything holds."""
    async with console(tmp_path, NARROW.format(key=make_key("t", iterations=4096))) as client:
        for path in ("/api/verdict", "/api/past"):
            for name, password in (("ann", "a"), ("tess", "t")):
                answer = await client.get(path, auth=(name, password))
                assert answer.status_code == 403, (path, name)
                assert "holds" not in answer.text
            assert (await client.get(path, auth=("slow", "s"))).status_code == 200


async def opened(client: httpx.AsyncClient, cookies: dict[str, str], left: AsyncExitStack) -> Any:
    """The parts of a live stream of this session, after the first."""
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    own = await left.enter_async_context(httpx.AsyncClient(base_url=client.base_url, trust_env=False))
    request = own.build_request("GET", "/api/live", headers={"cookie": header})
    stream = await own.send(request, stream=True)
    left.push_async_callback(stream.aclose)
    assert stream.status_code == 200
    parts = stream.aiter_bytes()
    await anext(parts)
    return parts


async def ended(parts: Any) -> None:
    """Wait for the end of a stream, as its server makes it: an abort would be an error."""
    async with asyncio.timeout(60):
        async for _ in parts:
            continue


@played
async def test_streams_end_with_their_session(tmp_path: Path) -> None:
    async with console(tmp_path) as client, AsyncExitStack() as left:

        async def sign_in() -> dict[str, str]:
            client.cookies.clear()
            answer = await client.post("/api/session", json={"name": "market", "password": "m"})
            assert answer.status_code == 200
            return dict(client.cookies)

        signed_out, other = await sign_in(), await sign_in()
        tabs = [await opened(client, signed_out, left) for _ in range(2)]
        goes_on = await opened(client, other, left)
        client.cookies.clear()
        client.cookies.update(signed_out)
        await client.delete("/api/session")
        await asyncio.gather(*map(ended, tabs))
        await anext(goes_on)
        client.cookies.clear()
        client.cookies.update(other)
        assert (await client.head("/api/live")).status_code == 405
        assert (await client.get("/api/session")).json()["is_known"]


@played
async def test_a_page_that_streams_is_not_idle_and_the_stream_of_a_session_that_goes_ends(
    tmp_path: Path,
) -> None:
    async with console(tmp_path) as client, AsyncExitStack() as left:

        async def sign_in() -> dict[str, str]:
            client.cookies.clear()
            answer = await client.post("/api/session", json={"name": "market", "password": "m"})
            assert answer.status_code == 200
            return dict(client.cookies)

        async def is_known(cookies: dict[str, str]) -> bool:
            client.cookies.clear()
            client.cookies.update(cookies)
            return bool((await client.get("/api/session")).json()["is_known"])

        streams = [await sign_in()]
        first = await opened(client, streams[0], left)
        idle = [await sign_in() for _ in range(MOST_OF_ONE)]
        assert await is_known(streams[0])
        assert not await is_known(idle[0])
        await anext(first)
        rest = [await opened(client, each, left) for each in idle[1:]]
        await sign_in()  # every one streams: that of the oldest request goes, with its stream
        known = [await is_known(each) for each in [*streams, *idle[1:]]]
        assert known.count(False) == 1
        await ended([first, *rest][known.index(False)])


@played
async def test_a_header_that_proves_goes_before_a_cookie(tmp_path: Path) -> None:
    async with console(tmp_path) as client:
        await client.post("/api/session", json={"name": "market", "password": "m"})
        assert (await client.get("/api/session")).json()["name"] == "market"
        assert (await client.get("/api/session", auth=("ann", "a"))).json()["name"] == "ann"
        wrong = await client.get("/api/subscriptions", auth=("ann", "wrong"))
        assert wrong.status_code == 401


@played
async def test_scripts_may_prove_themselves_by_a_header(tmp_path: Path) -> None:
    async with console(tmp_path) as client:
        answer = await client.get("/api/subscriptions", auth=("market", "m"))
        assert answer.status_code == 200
        ann = await client.get("/api/subscriptions", auth=("ann", "a"))
        assert ann.status_code == 403
        async with client.stream("GET", "/api/live", auth=("market", "m")) as live:
            assert live.status_code == 200, "a stream of a request without a session"


@played
async def test_a_verdict_over_no_rows_is_none() -> None:
    """Eight properties held over a history without rows."""
    async with console() as client:
        verdict = (await client.get("/api/verdict")).json()
        assert verdict["rows"] == 0
        assert {one["holds"] for one in verdict["properties"].values()} == {None}
        assert all("nothing to judge" in one["reason"] for one in verdict["properties"].values())


@played
async def test_nonsense_is_refused_and_never_a_defect() -> None:
    """Generated beside one server that goes on."""
    async with console() as client:
        loop = asyncio.get_running_loop()

        def ask(method: str, path: str, **more: Any) -> httpx.Response:
            work = client.request(method, path, **more)
            return asyncio.run_coroutine_threadsafe(work, loop).result(20)

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(POSTS), st.binary(max_size=40) | st.dictionaries(NAMES, JSON).map(_encoded))
        def posts(path: str, body: bytes) -> None:
            assert ask("POST", path, content=body).status_code in (200, 400, 401, 403), (path, body)

        @settings(max_examples=40, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(GETS), st.dictionaries(NAMES | st.just("subscription"), st.text(max_size=20)))
        def gets(path: str, query: dict[str, str]) -> None:
            encodable = {name: text.encode(errors="replace").decode() for name, text in query.items()}
            status = ask("GET", path, params=encodable).status_code
            assert status in (200, 400, 404), (path, query, status)

        await asyncio.to_thread(posts)
        await asyncio.to_thread(gets)
        large = await client.post("/api/filter", content=b"x" * (2 << 20))
        assert large.status_code == 413
        assert (await client.get("/api/session")).json()["is_known"] is True


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode(errors="replace")


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
def test_text_can_be_read_on_every_ground(theme: str) -> None:
    """WCAG 2.1, 1.4.3: a contrast of 4.5 at least."""
    css = pages.table()["/css/base.css"].content.decode()
    block = css.split(theme, 1)[1].split("}", 1)[0]
    colours = dict(
        part.strip().removeprefix("--").split(": ")
        for part in block.split(";")
        if part.strip().startswith("--")
    )
    for ground in ("bg", "surface", "sunken"):
        for ink in ("ink", "ink-2", "ink-3", "accent", "bad", "good", "warn"):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for name in ("good", "warn", "bad", "accent"):
        assert _contrast(colours[name], colours[f"{name}-soft"]) >= 4.5, name
    assert _contrast(colours["accent-ink"], colours["accent"]) >= 4.5


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[position : position + 2], 16) / 255 for position in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
