"""A console over TLS: every broker is asked in the visitor's own name, and one that is away hides nobody."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.runtime import test_service as whole
from tests.unit.runtime.test_service import SECRET, USERS, play, settings

from tidings.console import watch
from tidings.console.listeners import ConsoleGateways
from tidings.runtime import tls
from tidings.runtime.service import Service
from tidings.security.scram import make_key
from tidings.security.tokens import sign

certs, home = whole.certs, whole.home

OPS = f"""
[users.ops]
password = "{make_key("o", iterations=4096)}"
[[allow]]
who = "ops"
action = ["observe", "admin"]
"""


async def asked(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], **query: str
) -> dict[str, Any]:
    """The answer in which every broker had time to speak; a refusal is no matter of time."""
    while True:
        answer = await client.get(path, headers=headers, params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        if not any("no answer within" in problem for problem in found["problems"].values()):
            return found


async def tick(client: httpx.AsyncClient, wanted: Any) -> dict[str, Any]:
    """The first picture of the network for which this holds."""
    async with asyncio.timeout(120), client.stream("GET", "/api/live") as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if line.startswith('data: {"time"'):
                reported: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if wanted({one["name"]: one for one in reported["brokers"]}):
                    return reported
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def joined(one: Service, home: Path, certs: Path) -> AsyncIterator[str]:
    """The console of a broker while a second one is in its network."""
    async with Service(settings(home, certs, name="b2", join=[one.server.address])) as two:
        while not (one.server.links and two.server.links):
            await asyncio.sleep(0)
        assert one.gateways is not None
        yield one.gateways.addresses["console"]


def test_both_brokers_are_asked_with_the_visitors_own_proof(certs: Path, home: Path) -> None:
    (home / "users.toml").write_text(USERS + OPS)
    more = {"console.listen": "127.0.0.1:0", "console.refresh_seconds": 0.1}

    async def story() -> None:
        async with Service(settings(home, certs, **more), gateways=ConsoleGateways) as one:
            async with joined(one, home, certs) as url:
                assert url.startswith("https://")
                trust = tls.dialling(authority=str(certs / "authority.pem"))
                ours = {"x-tidings-console": "1"}
                claims = {"sub": "token-user", "exp": time.time() + 600, "iss": "i", "aud": "a"}
                stated = ({"name": "ops", "password": "o"}, {"token": sign(claims, SECRET, "HS256")})
                for secret in stated:
                    async with httpx.AsyncClient(
                        base_url=url, verify=trust, headers=ours, trust_env=False
                    ) as client:
                        entered = await client.post("/api/session", json=secret)
                        assert entered.status_code == 200, entered.text
                        assert "Secure" in entered.headers["set-cookie"]
                        reported = await tick(client, lambda brokers: len(brokers) == 2)
                        assert not [one for one in reported["brokers"] if "problem" in one]
            async with httpx.AsyncClient(base_url=url, verify=trust, headers=ours, trust_env=False) as client:
                await client.post("/api/session", json=stated[0])
                await tick(client, lambda brokers: "problem" in brokers.get("b2", {}) or "b2" not in brokers)
                spy = await client.post("/api/session", json={"name": "spy", "password": "s"})
                assert spy.json()["may"]["observe"] is False
                assert (await client.get("/api/live")).status_code == 403

    play(story())


def test_scripts_reach_every_broker_by_the_credentials_of_their_request(
    certs: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other brokers said "this broker asks who you are", and those behind them were not even named."""
    (home / "users.toml").write_text(USERS + OPS)
    more = {"console.listen": "127.0.0.1:0"}

    async def story() -> None:
        async with (
            Service(settings(home, certs, **more), gateways=ConsoleGateways) as one,
            joined(one, home, certs) as url,
        ):
            trust = tls.dialling(authority=str(certs / "authority.pem"))
            claims = {"sub": "token-user", "exp": time.time() + 600, "iss": "i", "aud": "a"}
            token = {"authorization": f"Bearer {sign(claims, SECRET, 'HS256')}"}
            basic = {"authorization": f"Basic {b64encode(b'ops:o').decode()}"}
            async with httpx.AsyncClient(base_url=url, verify=trust, trust_env=False) as client:
                for proof in (basic, token):
                    past = await asked(client, "/api/past", proof)
                    assert (set(past["brokers"]), past["problems"]) == ({"b1", "b2"}, {})
                listed = await asked(client, "/api/admin", basic, do="list", kind="session")
                assert (set(listed["brokers"]), listed["problems"]) == ({"b1", "b2"}, {})
                names = {(row["broker"], row["principal"]) for row in listed["rows"]}
                assert names >= {("b2", "ops"), ("b2", "token-user")}, "each in its own name"
                joining = settings(home, certs, name="b3", join=[one.server.address])
                monkeypatch.setattr(watch, "KNOWN_SECONDS", 0.0)
                async with Service(joining) as three:
                    while not (three.server.links and len(one.server.links) == 2):
                        await asyncio.sleep(0)
                    listed = await asked(client, "/api/admin", basic, do="list", kind="session")
                    assert set(listed["brokers"]) == {"b1", "b2", "b3"}, "one that joined later"
                wrong = {"authorization": f"Basic {b64encode(b'ops:wrong').decode()}"}
                assert (await client.get("/api/past", headers=wrong)).status_code == 401

    play(story())
