"""A broker process whose disk, or that of its audit, is full: refusals with a reason, readiness, figures,
recovery."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.errors import RefusedError, StoreFullError, UnknownOutcomeError
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.store.rocks import RocksEngine
from tidings.testing.network import until


def settings(home: Path) -> BrokerSettings:
    fields = {"name": "b1", "listen": "127.0.0.1:0", "store": str(home / "b1"), "security.anonymous": True}
    return read_settings(fields=fields | {"security.audit": str(home / "audit.jsonl")})


def readiness(service: Service) -> tuple[int, dict[str, Any]]:
    page = service._readyz()
    return page.status, json.loads(page.body)


def run(story: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(bounded())


def test_a_full_disk_is_refused_shown_and_over_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with (
            Service(settings(tmp_path)) as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            await bus.publish({"n": 1}, lifetime=600)
            assert readiness(service)[0] == 200
            with monkeypatch.context() as full:
                full.setattr(RocksEngine, "room", lambda engine: 1000)
                with pytest.raises(UnknownOutcomeError):
                    await bus.publish({"n": 2}, lifetime=600)
                with pytest.raises(StoreFullError, match="1000 bytes are free, fewer than the reserve"):
                    await bus.publish({"n": 3}, lifetime=600)
                status, text = readiness(service)
                assert status == 503
                assert "1000 bytes are free" in text["problems"][0]
                figures = service.figures()
                assert (figures["disk full"], figures["refused for room"]) == (1, 1)
                async with bus.subscribe("n > 0") as news:
                    assert (await news.get(timeout=60))["n"] == 1
            await until(lambda: service.server.node.disk_full is None)
            assert readiness(service)[0] == 200
            await bus.publish({"n": 4}, lifetime=600)
            async with bus.subscribe("n > 0") as news:
                assert [(await news.get(timeout=60))["n"] for _ in range(3)] == [1, 2, 4]

    run(story())
    text = capfd.readouterr().err
    assert "the disk is full, publishes that need it are refused" in text
    assert "there is room on the disk again" in text


class Full:
    """A file on a disk without room."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self.room = file, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written: int = self._file.write(bytes(data[: self.room]))
        self.room -= written
        return written

    def close(self) -> None:
        self._file.close()


def test_a_full_audit_lets_nobody_in_says_why_and_loses_no_entry(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            Service(settings(tmp_path)) as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            audit = service.secured._file
            full = Full(audit._file, room=10)
            audit._file = full  # type: ignore[assignment]
            await bus.subscribe("n > 0", name="first")  # its entry waits, a part of it is written
            with pytest.raises(RefusedError, match=r"audit cannot be written .* No space left on device"):
                await bus.subscribe("n > 0", name="second")
            with pytest.raises(RefusedError, match="audit cannot be written"):
                await tidings.connect(service.server.address, name="other", timeout=5)
            await bus.publish({"n": 1})  # what was let in before goes on
            status, fields = readiness(service)
            assert status == 503
            assert "No space left" in fields["problems"][0]
            full.room = 1 << 20
            assert readiness(service)[0] == 200
            await bus.subscribe("n > 0", name="third")

    run(story())
    entries = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    subjects = [(entry["subject"], entry["outcome"]) for entry in entries if entry["action"] == "subscribe"]
    assert subjects == [("first", "ok"), ("second", "refused"), ("third", "ok")]
