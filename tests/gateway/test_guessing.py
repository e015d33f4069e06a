"""Guessing passwords at every listener: refused without a look after a few, and no harm to others."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest
from tests.gateway.conftest import USERS

import tidings
from tidings.console.listeners import ConsoleGateways
from tidings.errors import RefusedError
from tidings.gateway import authentication, origins
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, ConsoleSettings, GatewaySettings, SecuritySettings
from tidings.security import attempts
from tidings.security.attempts import ADDRESS, PAIR
from tidings.security.credentials import PasswordCredentials


@pytest.fixture(autouse=True)
def quick_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "REFUSAL_SECONDS", 0.0)
    monkeypatch.setattr(origins, "REFUSAL_PAUSE", 0.0)


def run(folder: Path, test: Any) -> None:
    (folder / "users.toml").write_text(USERS)
    settings = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        security=SecuritySettings(users=str(folder / "users.toml")),
        gateway=GatewaySettings(http="127.0.0.1:0", mqtt="127.0.0.1:0"),
        console=ConsoleSettings(listen="127.0.0.1:0"),
    )

    async def bounded() -> None:
        async with (
            asyncio.timeout(60),
            Service(settings, gateways=ConsoleGateways) as service,
            httpx.AsyncClient(trust_env=False) as http,
        ):
            await test(service, http)

    asyncio.run(bounded())


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def at(service: Service, gateway: str) -> str:
    assert service.gateways is not None
    return service.gateways.addresses[gateway]


async def by_http(service: Service, http: httpx.AsyncClient, name: str, password: str) -> int:
    return (await http.get(at(service, "http") + "/subscriptions", headers=basic(name, password))).status_code


async def by_console(service: Service, http: httpx.AsyncClient, name: str, password: str) -> int:
    fields = {"name": name, "password": password}
    ours = {"x-tidings-console": "1"}
    return (await http.post(at(service, "console") + "/api/session", json=fields, headers=ours)).status_code


async def by_mqtt(service: Service, http: httpx.AsyncClient, name: str, password: str) -> int:
    del http
    port = int(at(service, "mqtt").rpartition(":")[2])
    try:
        async with aiomqtt.Client("127.0.0.1", port, username=name, password=password):
            return 200
    except aiomqtt.MqttCodeError as error:
        return {"Server unavailable": 429}.get(str(error).partition("] ")[2], 401)


async def by_tcp(service: Service, http: httpx.AsyncClient, name: str, password: str) -> int:
    del http
    try:
        async with tidings.connect(
            service.server.address, name=name, credentials=PasswordCredentials(name, password)
        ):
            return 200
    except RefusedError as error:
        return 429 if "too many logins have failed" in str(error) else 401


@pytest.mark.parametrize("by", [by_http, by_console, by_mqtt, by_tcp])
def test_after_a_few_failures_no_password_is_looked_at(tmp_path: Path, by: Any) -> None:
    async def test(service: Service, http: httpx.AsyncClient) -> None:
        for number in range(PAIR.free):
            assert await by(service, http, "market", f"wrong{number}") == 401
        assert await by(service, http, "market", "wrong") == 429
        assert await by(service, http, "market", "m") == 429, "not the right one either"
        assert await by(service, http, "ann", "a") == 200, "others from there go on"
        nobody = [await by(service, http, "no such user", "x") for _ in range(PAIR.free + 1)]
        assert nobody == [401] * PAIR.free + [429], "an unknown name looks like a known one"

    run(tmp_path, test)


def test_guesses_of_made_up_names_lock_no_user_of_their_address_out(tmp_path: Path) -> None:
    """Found from outside: 150 made-up names from one address, and the right password of another got 429."""

    async def test(service: Service, http: httpx.AsyncClient) -> None:
        ghosts = [await by_http(service, http, f"ghost{number}", "x") for number in range(ADDRESS.free + 5)]
        assert ghosts == [401] * ADDRESS.free + [429] * 5
        assert await by_http(service, http, "market", "wrong") == 429, "as if it had not been looked at"
        assert await by_http(service, http, "ann", "a") == 200
        assert await by_http(service, http, "market", "m") == 200

    run(tmp_path, test)


def test_in_the_pause_of_an_address_few_tries_of_users_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "SPARED", attempts.AttemptRate(0.001, 2))

    async def test(service: Service, http: httpx.AsyncClient) -> None:
        for number in range(ADDRESS.free):
            await by_http(service, http, f"ghost{number}", "x")
        assert await by_http(service, http, "market", "wrong") == 429
        assert await by_http(service, http, "ann", "a") == 200
        assert await by_http(service, http, "market", "m") == 429, "two were looked at"
        assert await by_http(service, http, "ann", "a") == 200, "proved from here before"

    run(tmp_path, test)


def test_who_came_before_comes_in_while_others_guess_under_its_name(tmp_path: Path) -> None:
    async def test(service: Service, http: httpx.AsyncClient) -> None:
        assert await by_http(service, http, "market", "m") == 200
        (tmp_path / "users.toml").write_text(USERS + "\n# another rule, perhaps\n")
        assert service.reload()
        guesses = await asyncio.gather(*(by_http(service, http, "market", f"wrong{n}") for n in range(40)))
        assert set(guesses) == {401, 429}
        assert await by_http(service, http, "market", "m") == 200
        assert await by_tcp(service, http, "market", "m") == 200
        answer = await http.get(at(service, "http") + "/log", headers=basic("market", "wrong"))
        assert int(answer.headers["retry-after"]) >= 1

    run(tmp_path, test)


def test_a_password_that_changes_counts_no_longer_though_it_is_remembered(tmp_path: Path) -> None:
    async def test(service: Service, http: httpx.AsyncClient) -> None:
        assert await by_http(service, http, "market", "m") == 200
        key = str(service.secured.guard.users.keys["market"])
        other = str(service.secured.guard.users.keys["ann"])
        (tmp_path / "users.toml").write_text(USERS.replace(key, other))
        assert service.reload()
        assert await by_http(service, http, "market", "m") == 401
        assert await by_http(service, http, "market", "a") == 200

    run(tmp_path, test)


FORGED = {"X-Forwarded-For": "203.0.113.77", "X-Forwarded-Proto": "https", "Forwarded": "for=203.0.113.77"}


@pytest.mark.parametrize("gateway", ["http", "console"])
def test_no_header_forges_the_address_or_tls(tmp_path: Path, gateway: str) -> None:
    """A client of this machine named an address for the audit and for each try, and said that it had TLS."""
    paths = {"http": "/subscriptions", "console": "/api/subscriptions"}

    async def test(service: Service, http: httpx.AsyncClient) -> None:
        seen: list[Any] = []
        begin = service.secured.authenticator.begin

        def noting(request: Any) -> Any:
            seen.append((request.peer, request.is_tls))
            return begin(request)

        service.secured.authenticator.begin = noting  # type: ignore[method-assign]
        statuses = []
        for number in range(PAIR.free + 1):
            forged = FORGED | {"X-Forwarded-For": f"203.0.113.{number}"}
            headers = basic("market", "wrong") | forged
            answer = await http.get(at(service, gateway) + paths[gateway], headers=headers)
            statuses.append(answer.status_code)
        assert statuses == [401] * PAIR.free + [429]
        assert set(seen) == {("127.0.0.1", False)}

    run(tmp_path, test)
