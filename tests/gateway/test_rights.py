"""Principals without rights, and of another tenant, over every operation of every listener: nothing is
revealed, and nothing changes for the one that owns it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import msgspec
import pytest
import websockets

import tidings
from tidings.console.listeners import ConsoleGateways
from tidings.errors import TidingsError
from tidings.model.event import FOREVER, make_event
from tidings.runtime.service import Service
from tidings.runtime.settings import (
    BrokerSettings,
    ConsoleSettings,
    GatewaySettings,
    SecuritySettings,
    TraceSettings,
)
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

KEY = make_key("p", iterations=4096)
USERS = f"""
[users.owner]
password = "{KEY}"
tenant = "acme"
[users.nothing]
password = "{KEY}"
[users.evil]
password = "{KEY}"
tenant = "evil"
[users.public]
password = "{KEY}"
[[allow]]
who = ["owner", "evil"]
action = ["publish", "subscribe", "observe"]
[[allow]]
who = "public"
action = ["publish", "subscribe", "observe"]
filter = "public = TRUE"
"""
SECRETS = ("hush-value", "hush_word", "payslips", "hush-3")  # the owner's, in no question of the attacker
MINE = "hushed = 'hush-value' AND hush_word IS NULL"  # the owner's filter
FILTER = "EXISTS hushed"  # an attacker may guess the name of an attribute
Op = Callable[["Attacker"], Awaitable[Any]]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Service]:
    (folder / "users.toml").write_text(USERS)
    settings = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        store=str(folder / "store"),
        archive=str(folder / "archive"),
        security=SecuritySettings(users=str(folder / "users.toml")),
        gateway=GatewaySettings(http="127.0.0.1:0", mqtt="127.0.0.1:0", webhooks=("127.0.0.1",)),
        console=ConsoleSettings(listen="127.0.0.1:0", refresh_seconds=0.1),
        trace=TraceSettings(history_seconds=60.0),
    )
    async with Service(settings, gateways=ConsoleGateways) as service:
        yield service


class Attacker:
    """A principal with a client on every listener."""

    def __init__(self, service: Service, name: str) -> None:
        assert service.gateways is not None
        self.name, self.service = name, service
        self.addresses = service.gateways.addresses
        token = "Basic " + b64encode(f"{name}:p".encode()).decode()
        self.headers = {"Authorization": token, "x-tidings-console": "1"}
        self._client = httpx.AsyncClient(trust_env=False, verify=False, timeout=20)

    async def __aenter__(self) -> Attacker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[tidings.Bus]:
        shown = PasswordCredentials(self.name, "p")
        async with tidings.connect(self.service.server.address, name=self.name, credentials=shown) as bus:
            yield bus

    async def http(self, method: str, path: str, gateway: str = "http", **more: Any) -> Any:
        answer = await self._client.request(
            method, self.addresses[gateway] + path, headers=self.headers, **more
        )
        return answer.status_code, answer.text

    async def stream(self, path: str, gateway: str = "http") -> list[str]:
        """What a stream gives in a while."""
        lines: list[str] = []
        requested = self._client.stream("GET", self.addresses[gateway] + path, headers=self.headers)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.25), requested as stream:
                async for line in stream.aiter_lines():
                    lines.append(line)  # noqa: PERF401 - what came before the timeout counts
        return lines

    async def socket(self, *stated: dict[str, Any]) -> list[Any]:
        url = self.addresses["http"].replace("http", "ws") + "/events/socket"
        received: list[Any] = []
        async with websockets.connect(url, additional_headers=self.headers, proxy=None) as socket:
            for one in stated:
                await socket.send(json.dumps(one))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.25):
                    async for text in socket:
                        received.append(text)  # noqa: PERF401 - what came before the timeout counts
        return received

    async def mqtt(self, *filters: str, client: str = "c") -> list[Any]:
        port = int(self.addresses["mqtt"].rpartition(":")[2])
        received: list[Any] = []
        async with aiomqtt.Client(
            "127.0.0.1", port, username=self.name, password="p", identifier=client, clean_session=False
        ) as connected:
            received += [await connected.subscribe(filter, qos=1) for filter in filters]
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    async for message in connected.messages:
                        received.append((str(message.topic), bytes(message.payload)))
        return received


def bus(ask: Callable[[tidings.Bus], Awaitable[Any]]) -> Op:
    async def op(attacker: Attacker) -> Any:
        async with attacker.bus() as connected:
            return await ask(connected)

    return op


def hearing(*wanted: Any, **options: Any) -> Op:
    """Subscribe, listen for a while, end the subscription."""

    async def ask(connected: tidings.Bus) -> Any:
        listener = await connected.subscribe(*wanted, **options)
        received = [listener.resumed]
        with suppress(TimeoutError):
            while True:
                received.append(await listener.get(timeout=0.05))
        await listener.unsubscribe()
        return received

    return bus(ask)


def http(method: str, path: str, gateway: str = "http", **more: Any) -> Op:
    return lambda attacker: attacker.http(method, path, gateway, **more)


EVENT = make_event({"n": 1}, source="evil", id="x")
OPERATIONS: dict[str, Op] = {
    "subscribe": hearing(),
    "subscribe to what the owner hears": hearing(FILTER),
    "subscribe durably under its name": hearing(name="mine", durable=True),
    "subscribe from the archive": hearing(since="forever"),
    "join its group": hearing(group="workers", durable=True, name="w"),
    "join its group by its whole name": hearing(group="acme:owner:workers"),
    "its dead letters": hearing(dead_letters_of="workers"),
    "dead letters of its subscription": hearing(dead_letters_of="mine"),
    "read the log": bus(lambda b: b.read_log(limit=100)),
    "read the log by filter": bus(lambda b: b.read_log(FILTER)),
    "hold the log": bus(lambda b: b.hold_log("h", seconds=5)),
    "end its hold": bus(lambda b: b.end_hold("h")),
    "stage": bus(lambda b: b.stage("q", 1, 0, [EVENT])),
    "commit its batch": bus(lambda b: b.commit_staged("q", 1, 1)),
    "commit its parts": bus(lambda b: b.commit_parts("q", 1, [0])),
    "ask for its batch": bus(lambda b: b.committed("q")),
    "publish in its name": bus(lambda b: b.publish({"n": 1}, source="owner")),
    "publish in its tenant": bus(lambda b: b.publish({"n": 1, "tenant": "acme"})),
    "supersede its key": bus(lambda b: b.publish({"n": 1}, key="hush-key", lifetime=FOREVER)),
    "advertise": bus(lambda b: b.advertise("a", FILTER)),
    "connect in its name": lambda attacker: _as_owner(attacker),
    **{
        f"inquire {what} {about}": bus(lambda b, what=what, about=about: b.inquire(what, **about))  # type: ignore[misc]
        for what, about in (
            ("figures", {}),
            ("subscriptions", {}),
            ("activity", {"events": 50}),
            ("trace", {"id": "hush-1"}),
            ("trace", {"id": "x", "subscription": "owner/mine"}),
            ("trace", {"id": "x", "subscription": "*/acme:owner:workers"}),
            ("history", {}),
            ("log", {"after": 0, "upto": 100}),
            ("archive", {}),
            ("archive", {"filter": "TRUE"}),
        )
    },
    "HTTP log": http("GET", "/log?limit=100"),
    "HTTP log by filter": http("GET", "/log", params={"filter": FILTER}),
    "HTTP figures": http("GET", "/figures"),
    "HTTP trace": http("GET", "/trace/hush-1"),
    "HTTP trace of a subscription": http("GET", "/trace/x?subscription=owner/mine"),
    "HTTP subscriptions": http("GET", "/subscriptions"),
    "HTTP subscription": lambda a: a.http("GET", f"/subscriptions/{a.service.made}"),  # type: ignore[attr-defined]
    "HTTP change": lambda a: a.http(
        "PUT", f"/subscriptions/{a.service.made}", json={"sink": "http://127.0.0.1:1/"}
    ),  # type: ignore[attr-defined]
    "HTTP delete": lambda a: a.http("DELETE", f"/subscriptions/{a.service.made}"),  # type: ignore[attr-defined]
    "HTTP publish in its name": http("POST", "/events?source=owner", json={"n": 1}),
    "HTTP publish in its tenant": http("POST", "/events", json={"n": 1, "tenant": "acme"}),
    "SSE": lambda a: a.stream("/events"),
    "SSE under its name": lambda a: a.stream("/events?name=mine&durable=true"),
    "WebSocket": lambda a: a.socket(
        {"op": "subscribe", "ref": "a"},
        {"op": "subscribe", "ref": "b", "name": "mine", "durable": True},
        {
            "op": "publish",
            "call": 1,
            "event": {"specversion": "1.0", "id": "1", "source": "owner", "type": "t"},
        },
    ),
    "MQTT": lambda a: a.mqtt("#", "pay/#"),
    "MQTT shared": lambda a: a.mqtt("$share/workers/#", "$share/workers/+/#", client="d"),
    "MQTT session": lambda a: a.mqtt("#", client="owners"),
    **{
        f"console {path}": http("GET", path, "console")
        for path in (
            "/api/subscriptions",
            "/api/words",
            "/api/trace?id=hush-1",
            "/api/trace?id=x&subscription=owner/mine",
            "/api/log",
            "/api/verdict",
            "/api/flows",
            "/api/studies",
            "/api/quality",
        )
    },
    "console live": lambda a: a.stream("/api/live", "console"),
    "console publish": http("POST", "/api/publish", "console", json={"attributes": {"tenant": "acme"}}),
}


async def _as_owner(attacker: Attacker) -> Any:
    shown = PasswordCredentials(attacker.name, "p")
    return await tidings.connect(attacker.service.server.address, name="owner", credentials=shown)


async def prepare(owner: Attacker) -> None:
    """Something of every kind that can be had, all of it the owner's."""
    async with owner.bus() as bus:
        async with (
            bus.subscribe(MINE, name="mine", durable=True, max_deliveries=1) as mine,
            bus.subscribe(MINE, group="workers", durable=True, name="w", max_deliveries=1) as group,
        ):
            await bus.publish(
                {"hushed": "hush-value"}, id="hush-1", topic="payslips", key="hush-key", lifetime=FOREVER
            )
            for listener in (mine, group):
                await listener.get(timeout=120)
                await listener.nack()
        await bus.hold_log("h", seconds=600)
        await bus.stage("q", 1, 0, [make_event({"hushed": "hush-value"}, source="owner", id="hush-2")])
        await bus.publish({"hushed": "hush-value"}, id="hush-3", topic="payslips")
    status, text = await owner.http("POST", "/subscriptions", json={"sink": "http://127.0.0.1:1/"})
    assert status == 201
    owner.service.made = json.loads(text)["id"]  # type: ignore[attr-defined]
    await owner.mqtt("payslips/#", client="owners")


async def check(owner: Attacker) -> None:
    """All of it is there, and as it was."""
    async with owner.bus() as bus:
        for options in ({"name": "mine"}, {"name": "w", "group": "workers"}):
            async with bus.subscribe(MINE, durable=True, max_deliveries=1, **options) as listener:
                assert listener.resumed, options
                assert (await listener.get(timeout=120)).id == "hush-3"
        for name in ("mine", "workers"):
            async with bus.subscribe(dead_letters_of=name) as dead:
                assert (await dead.get(timeout=120)).id == "hush-1"
        assert not (await bus.hold_log("h", seconds=600)).is_new
        assert await bus.committed("q") == -1
        assert await bus.commit_staged("q", 1, 1)
        await bus.publish({"n": 4}, id="hush-4", topic="payslips")
        page = await bus.read_log(MINE, limit=100)
        assert [entry.event.id for entry in page.entries] == ["hush-1", "hush-3", "hush-2"]
    status, text = await owner.http("GET", "/subscriptions")
    assert (status, len(json.loads(text))) == (200, 1)
    assert json.loads(text)[0]["sink"] == "http://127.0.0.1:1/"
    assert (await owner.http("GET", "/trace/hush-3"))[0] == 200
    received = await owner.mqtt(client="owners")
    assert [topic for topic, _ in received] == ["payslips"] * len(received)
    assert received, "the session kept what came meanwhile"


async def answer(op: Op, attacker: Attacker) -> str:
    """What an operation gives, or why it is refused, as text."""
    try:
        return msgspec.json.encode(await op(attacker), enc_hook=str).decode()
    except (TidingsError, websockets.WebSocketException, aiomqtt.MqttError) as error:
        return str(error)


@pytest.mark.parametrize("who", ["nothing", "evil", "public"])
def test_no_operation_of_any_listener_reveals_or_changes_what_is_another_s(tmp_path: Path, who: str) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(60),
            running(tmp_path) as service,
            Attacker(service, "owner") as owner,
            Attacker(service, who) as attacker,
        ):
            await prepare(owner)
            answers = await asyncio.gather(*(answer(op, attacker) for op in OPERATIONS.values()))
            for name, text in zip(OPERATIONS, answers, strict=True):
                for word in SECRETS:
                    found = text.find(word)
                    assert found < 0, (name, word, text[max(0, found - 200) : found + 200])
            await check(owner)

    asyncio.run(story())


def test_who_observes_everything_sees_it_all(tmp_path: Path) -> None:
    """The same questions have answers: the test above cannot pass because nothing is ever shown."""

    async def story() -> None:
        async with (
            asyncio.timeout(60),
            running(tmp_path) as service,
            Attacker(service, "owner") as owner,
        ):
            await prepare(owner)
            for name in (
                "inquire subscriptions {}",
                "inquire trace {'id': 'hush-1'}",
                "HTTP trace",
                "HTTP log",
            ):
                text = msgspec.json.encode(await OPERATIONS[name](owner), enc_hook=str).decode()
                assert "hush-value" in text, name
            _, figures = await owner.http("GET", "/figures")
            assert json.loads(figures)["subscriptions"] >= 2, "its own"
            assert "published" not in json.loads(figures), "and nothing of others"

    asyncio.run(story())
