"""SIGHUP: certificates are renewed and files opened again; sessions that stay allowed stay open."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidings
from tidings.runtime import tls
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

KEY = make_key("secret", iterations=4096)
USERS = f'[users.ann]\npassword = "{KEY}"\n[[allow]]\nwho = "ann"\naction = ["publish", "subscribe"]\n'


def play(coroutine: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await coroutine

    asyncio.run(run())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "users.toml").write_text(USERS)
    make_authority(tmp_path)
    issue(tmp_path, "b1", hosts=("127.0.0.1",), broker=True)
    return tmp_path


def service(home: Path) -> Service:
    fields = {
        "name": "b1", "listen": "127.0.0.1:0", "security.users": str(home / "users.toml"),
        "security.audit": str(home / "audit.jsonl"),
        "log.file": str(home / "log.jsonl"), "log.format": "json",
        "tls.certificate": str(home / "b1.pem"), "tls.key": str(home / "b1.key"),
        "tls.authority": str(home / "authority.pem"),
    }  # fmt: skip
    return Service(read_settings(fields=fields), again=lambda: read_settings(fields=fields))


def ann(running: Service, home: Path) -> tidings.Bus:
    return tidings.connect(
        running.server.address, name="ann", credentials=PasswordCredentials("ann", "secret"),
        tls=tls.dialling(authority=str(home / "authority.pem")), timeout=30,
    )  # fmt: skip


async def certificate(running: Service, home: Path) -> int:
    """Serial number that a new connection is shown."""
    address = running.server.addresses[0]
    context = tls.dialling(authority=str(home / "authority.pem"))
    _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    return int(shown["serialNumber"], 16)


def test_a_renewed_certificate_is_shown_and_open_sessions_stay(home: Path) -> None:
    async def story() -> None:
        async with service(home) as running, ann(running, home) as bus, bus.subscribe("n > 0") as news:
            before = await certificate(running, home)
            for old in ("b1.pem", "b1.key"):
                (home / old).unlink()
            issue(home, "b1", hosts=("127.0.0.1",), broker=True)
            assert running.reload()
            assert await certificate(running, home) != before
            await bus.publish({"n": 1})
            assert (await news.get(timeout=60))["n"] == 1
            assert len(running.server.sessions) == 1
            assert bus.state == "up"
            (home / "b1.key").write_text("no key")
            renewed = await certificate(running, home)
            assert not running.reload(), "a wrong file has no effect"
            assert await certificate(running, home) == renewed
            async with ann(running, home) as other:
                await other.publish({"n": 2})

    play(story())


def test_the_audit_and_the_log_are_opened_again(home: Path) -> None:
    async def story() -> None:
        async with service(home) as running:
            async with ann(running, home):
                pass
            for name in ("audit.jsonl", "log.jsonl"):
                (home / name).rename(home / f"{name}.1")
            assert running.reload()
            async with ann(running, home):
                pass
        old = [json.loads(line) for line in (home / "audit.jsonl.1").read_text().splitlines()]
        new = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
        assert [entry["action"] for entry in old] == ["connect"]
        assert [entry["action"] for entry in new] == ["reload", "connect"]
        lines = [json.loads(line) for line in (home / "log.jsonl").read_text().splitlines()]
        assert lines[0]["message"].startswith("reloaded")
        assert {"time", "level", "broker", "logger", "message"} <= lines[0].keys()

    play(story())


def test_a_setting_that_was_changed_back_needs_no_restart(home: Path) -> None:
    async def story() -> None:
        async with service(home) as running:
            begun, said = running.settings, []
            for drain in (3.0, begun.drain_seconds):
                new = msgspec.structs.replace(begun, drain_seconds=drain)
                running._again = lambda new=new: new
                assert running.reload()
                said.append((home / "log.jsonl").read_text().count("need a restart to take effect"))
            assert said == [1, 1]

    play(story())
