"""A principal that changes, or whose proof ends, loses every session on every listener, and over restarts."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest
import websockets
from tests.gateway._sinks import listening

import tidings
from tidings.console.listeners import ConsoleGateways
from tidings.errors import RefusedError, TidingsError
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, ConsoleSettings, GatewaySettings, SecuritySettings
from tidings.security.credentials import PasswordCredentials, TokenCredentials
from tidings.security.principal import Principal, ProofMethod
from tidings.security.scram import make_key
from tidings.security.tokens import sign

SECRET = b"0123456789abcdef0123456789abcdef"
KEY, OTHER = make_key("p", iterations=4096), make_key("q", iterations=4096)
EVE = f'[users.eve]\npassword = "{KEY}"\ngroups = ["secret"]\n'
USERS = f"""
[users.good]
password = "{KEY}"
{EVE}
[groups.secret]
[[allow]]
who = "good"
action = ["publish", "subscribe", "observe"]
[[allow]]
who = ["group:secret", "zed"]
action = ["publish", "subscribe", "observe"]
[[issuers]]
issuer = "i"
audience = "a"
key_file = "secret.txt"
"""
CHANGES = {
    "disabled": (EVE, EVE + "disabled = true\n"),
    "deleted": (EVE, ""),
    "another password": (str(KEY) + '"\ngroups', str(OTHER) + '"\ngroups'),
    "out of its group": ('groups = ["secret"]', "groups = []"),
    "a filter for the group": ("[groups.secret]", '[groups.secret]\nfilter = "public = TRUE"'),
}


class Sink:
    """A webhook's sink."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            length = 0
            while line.strip():
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
                line = await reader.readline()
            self.bodies.append(json.loads(await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


@asynccontextmanager
async def running(folder: Path, users: str = USERS) -> AsyncIterator[Service]:
    (folder / "users.toml").write_text(users)
    (folder / "secret.txt").write_bytes(SECRET)
    settings = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        store=str(folder / "store"),
        security=SecuritySettings(users=str(folder / "users.toml")),
        gateway=GatewaySettings(http="127.0.0.1:0", mqtt="127.0.0.1:0", webhooks=("127.0.0.1",)),
        console=ConsoleSettings(listen="127.0.0.1:0", refresh_seconds=0.1),
    )
    async with Service(settings, gateways=ConsoleGateways) as service:
        yield service


def addresses(service: Service) -> dict[str, str]:
    assert service.gateways is not None
    return service.gateways.addresses


class Attacker:
    """One principal on every listener; `ended` holds the names of those that were ended."""

    NAMES = ("tcp", "sse", "websocket", "mqtt", "console")

    def __init__(self, service: Service, stack: AsyncExitStack, name: str = "eve", token: str = "") -> None:
        self._service, self._stack = service, stack
        self.name, self._token = name, token
        basic = "Basic " + b64encode(f"{name}:p".encode()).decode()
        self.headers = {"Authorization": f"Bearer {token}" if token else basic}
        self.received: dict[str, list[int]] = {name: [] for name in self.NAMES}
        self.ended: set[str] = set()
        self._ready = dict.fromkeys(self.NAMES, False)

    async def open(self) -> None:
        for name in self.NAMES:
            task = asyncio.create_task(self._run(name))
            self._stack.push_async_callback(_cancelled, task)
        while not all(self._ready.values()):
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        with suppress(TidingsError, httpx.HTTPError, websockets.WebSocketException, aiomqtt.MqttError):
            await getattr(self, "_" + name)()
        self.ended.add(name)

    async def _tcp(self) -> None:
        shown: Any = PasswordCredentials(self.name, "p")
        if self._token:
            shown = TokenCredentials(lambda: self._token)
        at = self._service.server.address
        async with tidings.connect(at, name=self.name, credentials=shown) as bus, bus.subscribe() as news:
            self._ready["tcp"] = True
            while True:
                self.received["tcp"].append((await news.get())["n"])

    async def _sse(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=None) as http:
            url = addresses(self._service)["http"] + "/events"
            async with http.stream("GET", url, headers=self.headers) as stream:
                async for line in stream.aiter_lines():
                    self._ready["sse"] = True
                    if line.startswith("data: "):
                        self.received["sse"].append(json.loads(line[6:])["data"]["n"])

    async def _websocket(self) -> None:
        url = addresses(self._service)["http"].replace("http", "ws") + "/events/socket"
        async with websockets.connect(url, additional_headers=self.headers, proxy=None) as socket:
            await socket.send(json.dumps({"op": "subscribe", "ref": "a"}))
            async for text in socket:
                stated = json.loads(text)
                self._ready["websocket"] = True
                if stated["op"] == "event":
                    self.received["websocket"].append(stated["event"]["data"]["n"])

    async def _mqtt(self) -> None:
        port = int(addresses(self._service)["mqtt"].rpartition(":")[2])
        name, password = ("token", self._token) if self._token else (self.name, "p")
        async with aiomqtt.Client("127.0.0.1", port, username=name, password=password) as client:
            await client.subscribe("#", qos=1)
            self._ready["mqtt"] = True
            async for message in client.messages:
                self.received["mqtt"].append(json.loads(bytes(message.payload))["n"])

    async def _console(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=None) as http:
            url = addresses(self._service)["console"] + "/api/live"
            async with http.stream("GET", url, headers=self.headers) as stream:
                async for line in stream.aiter_lines():
                    self._ready["console"] = True
                    del line

    async def wait_for_the_end(self) -> None:
        while self.ended != set(self.NAMES):
            await asyncio.sleep(0)


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(bounded())


async def publish(service: Service, *numbers: int) -> None:
    shown = PasswordCredentials("good", "p")
    async with tidings.connect(service.server.address, name="good", credentials=shown) as good:
        for n in numbers:
            await good.publish({"n": n}, topic="t")


def token(seconds: float, service: Service) -> str:
    claims = {"sub": "zed", "iss": "i", "aud": "a", "exp": service.server.clock.now() + seconds}
    return sign(claims, SECRET, "HS256")


@pytest.mark.parametrize("change", CHANGES)
def test_a_principal_that_changes_loses_every_session_at_the_reload(tmp_path: Path, change: str) -> None:
    async def story() -> None:
        async with running(tmp_path) as service, AsyncExitStack() as stack:
            eve = Attacker(service, stack)
            await eve.open()
            shown = PasswordCredentials("good", "p")
            good = await stack.enter_async_context(
                tidings.connect(service.server.address, name="good", credentials=shown)
            )
            states: list[str] = []
            good.watch(states.append)
            await publish(service, 1)
            while not all(eve.received[name] for name in ("tcp", "sse", "websocket", "mqtt")):
                await asyncio.sleep(0)
            before, after = CHANGES[change]
            assert before in USERS
            (tmp_path / "users.toml").write_text(USERS.replace(before, after))
            assert service.reload()
            if change == "a filter for the group":
                eve.ended.add("tcp")  # it comes back by itself, with what it may hear now
            await eve.wait_for_the_end()
            await publish(service, 2)
            assert all(2 not in received for received in eve.received.values())
            assert states == [], "others go on"

    run(story)


@pytest.mark.parametrize("kind", ["stream", "socket"])
def test_a_client_that_does_not_read_loses_its_session_too(tmp_path: Path, kind: str) -> None:
    """More waits for it than its socket and the broker's buffers hold."""

    async def story() -> None:
        async with running(tmp_path) as service, AsyncExitStack() as stack:
            host, _, port = addresses(service)["http"].removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=2**12)
            stack.callback(writer.close)
            basic = b64encode(b"eve:p").decode()
            upgrade = (
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            )
            path, more = ("/events", "") if kind == "stream" else ("/events/socket", upgrade)
            head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Basic {basic}\r\n{more}\r\n"
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200" if kind == "stream" else b"HTTP/1.1 101")
            if kind == "socket":
                text = json.dumps({"op": "subscribe", "ref": "a"}).encode()
                writer.write(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
            assert await reader.read(200)
            admission = service.server.admission
            assert len(admission) == 1
            shown = PasswordCredentials("good", "p")
            async with tidings.connect(service.server.address, name="good", credentials=shown) as good:
                for n in range(40):
                    await good.publish({"n": n, "text": "x" * 500_000}, topic="t")
            (tmp_path / "users.toml").write_text(USERS.replace(*CHANGES["disabled"]))
            assert service.reload()
            while len(admission):
                await asyncio.sleep(0)

    run(story)


def test_a_token_s_end_is_the_end_of_its_sessions(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as service, AsyncExitStack() as stack:
            short = token(1.5, service)
            zed = Attacker(service, stack, "zed", short)
            await zed.open()
            await publish(service, 1)
            await zed.wait_for_the_end()
            await publish(service, 2)
            assert all(2 not in received for received in zed.received.values())
            with pytest.raises(RefusedError, match="it has ended"):
                await tidings.connect(
                    service.server.address, name="zed", credentials=TokenCredentials(lambda: short)
                )

    run(story)


async def webhook(service: Service, sink: int, headers: dict[str, str]) -> str:
    async with httpx.AsyncClient(base_url=addresses(service)["http"], trust_env=False) as http:
        requested = {"sink": f"http://127.0.0.1:{sink}/x"}
        made = await http.post("/subscriptions", json=requested, headers=headers)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])


async def shown(service: Service, headers: dict[str, str], id: str) -> Any:
    async with httpx.AsyncClient(base_url=addresses(service)["http"], trust_env=False) as http:
        return (await http.get(f"/subscriptions/{id}", headers=headers)).json()


def test_a_webhook_rests_while_its_user_is_disabled_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        sink = Sink()
        headers = {"Authorization": "Basic " + b64encode(b"eve:p").decode()}
        disabled = USERS.replace(*CHANGES["disabled"])
        async with listening(sink.serve) as port:
            async with running(tmp_path) as service:
                id = await webhook(service, port, headers)
                await publish(service, 1)
                while (await shown(service, headers, id))["status"]["sent"] != 1:
                    await asyncio.sleep(0)
                (tmp_path / "users.toml").write_text(disabled)
                assert service.reload()
                await publish(service, 2)
            async with running(tmp_path, disabled) as service:
                await publish(service, 3)
            async with running(tmp_path, USERS.replace(*CHANGES["deleted"])) as service:
                await publish(service, 4)
                assert sink.bodies == [{"n": 1}], "not over restarts either"
            async with running(tmp_path):
                while len(sink.bodies) < 4:
                    await asyncio.sleep(0)
                assert [body["n"] for body in sink.bodies] == [1, 2, 3, 4], "nothing that it is owed is lost"

    run(story)


def test_a_webhook_made_with_a_token_rests_after_its_end_until_another_token_renews_it(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        sink = Sink()
        async with listening(sink.serve) as port, running(tmp_path) as service:
            id = await webhook(service, port, {"Authorization": f"Bearer {token(1.0, service)}"})
            fresh = {"Authorization": f"Bearer {token(60, service)}"}
            while "problem" not in (await shown(service, fresh, id))["status"]:
                await asyncio.sleep(0)
            await publish(service, 1)
            assert sink.bodies == []
            async with httpx.AsyncClient(base_url=addresses(service)["http"], trust_env=False) as http:
                requested = {"sink": f"http://127.0.0.1:{port}/x"}
                assert (
                    await http.put(f"/subscriptions/{id}", json=requested, headers=fresh)
                ).status_code == 200
            while sink.bodies != [{"n": 1}]:
                await asyncio.sleep(0)

    run(story)


def test_a_proof_that_was_made_before_a_reload_opens_no_session_after_it(tmp_path: Path) -> None:
    """The hash of a password is computed in a thread, and a reload may come meanwhile."""

    async def story() -> None:
        async with running(tmp_path) as service:
            stale = service.secured.guard.users.complete(Principal("eve", ProofMethod.SCRAM))
            for change in CHANGES:
                (tmp_path / "users.toml").write_text(USERS)
                assert service.reload()
                service.server.sessions.open(stale, lambda reason: None).close()
                (tmp_path / "users.toml").write_text(USERS.replace(*CHANGES[change]))
                assert service.reload()
                if change in ("another password", "a filter for the group"):
                    continue  # the same principal; a session gets the rights of now
                with pytest.raises(RefusedError):
                    service.server.sessions.open(stale, lambda reason: None)

    run(story)


def client(service: Service, name: str) -> tidings.Bus:
    return tidings.connect(service.server.address, name=name, credentials=PasswordCredentials(name, "p"))


async def held(service: Service, name: str) -> bool:
    """Hold the log and stage a part; was the hold there?"""
    async with client(service, name) as bus:
        is_new = (await bus.hold_log("h", "n > 0", seconds=600)).is_new
        await bus.stage("q", 1, 0, [])
        return not is_new


def ends(service: Service, name: str) -> bool:
    return f"{name}\x1fh" not in service.server.node.log_holds()


@pytest.mark.parametrize("change", ["disabled", "deleted", "out of its group"])
def test_holds_and_staged_events_end_with_their_principal(tmp_path: Path, change: str) -> None:
    async def story() -> None:
        async with running(tmp_path) as service, AsyncExitStack() as stack:
            await held(service, "eve")
            await held(service, "good")
            await stack.enter_async_context(client(service, "eve"))
            (tmp_path / "users.toml").write_text(USERS.replace(*CHANGES[change]))
            assert service.reload()
            while not ends(service, "eve"):
                await asyncio.sleep(0)
            assert not ends(service, "good")
            (tmp_path / "users.toml").write_text(USERS)
            assert service.reload()
            async with client(service, "eve") as bus:
                with pytest.raises(RefusedError, match="is not staged"):
                    await bus.commit_staged("q", 1, 1)
            assert await held(service, "good"), "others keep theirs"

    run(story)


def test_a_hold_of_a_principal_that_may_still_read_it_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as service, AsyncExitStack() as stack:
            await held(service, "eve")
            bus = await stack.enter_async_context(client(service, "eve"))
            states: list[str] = []
            bus.watch(states.append)
            rule = '[[allow]]\nwho = "eve"\naction = "release"\n'
            (tmp_path / "users.toml").write_text(USERS + rule)
            assert service.reload()
            while "up" not in states:
                await asyncio.sleep(0)
            assert await held(service, "eve")

    run(story)


def test_holds_of_users_that_went_while_the_broker_was_down_end_at_its_start(tmp_path: Path) -> None:
    async def story() -> None:
        for users in (USERS.replace(*CHANGES["disabled"]), USERS.replace(*CHANGES["out of its group"])):
            async with running(tmp_path) as service:
                await held(service, "eve")
                await held(service, "good")
            async with running(tmp_path, users) as service:
                assert ends(service, "eve")
                assert not ends(service, "good")

    run(story)
