"""The journal of QoS 2 exchanges: what it brings back, and what a crash in the middle of a line costs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import StoreFullError
from tidings.gateway.mqtt import exchanges
from tidings.gateway.mqtt.exchanges import ExchangeJournal, Exchanges
from tidings.model.subscription import Position

AT = Position("b1#1", 7)


def opened(folder: Path, *sessions: str) -> ExchangeJournal:
    journal = ExchangeJournal(folder)
    journal.load(set(sessions))
    return journal


def run(story: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(bounded())


async def kept(future: asyncio.Future[None] | None) -> None:
    assert future is not None
    await future


def test_a_message_that_comes_again_has_the_same_identity_until_it_is_released(tmp_path: Path) -> None:
    async def story() -> None:
        first = await opened(tmp_path, "s").of("s").begin(7)
        again = opened(tmp_path, "s").of("s")
        assert not again.is_kept(7)
        assert await again.begin(7) == first
        again.published(7)
        await again.begin(8)  # whatever is noted is written with the next line
        third = opened(tmp_path, "s").of("s")
        assert third.is_kept(7)
        await third.release(7)
        last = opened(tmp_path, "s").of("s")
        assert not last.is_open(7)
        assert await last.begin(7) != first

    run(story())


def test_a_message_on_its_way_keeps_its_packet_id_and_one_that_is_received_does_not_come_again(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        await kept(opened(tmp_path, "s").of("s").send(3, "t/#", AT))
        again = opened(tmp_path, "s").of("s")
        assert again.resume() == []
        assert again.packet_id("t/#", AT) == 3
        assert not again.is_handled("t/#", AT)
        await kept(again.received(3))
        third = opened(tmp_path, "s").of("s")
        assert third.resume() == [3]
        assert third.is_handled("t/#", AT)
        third.done(3)
        await third.begin(1)
        for _ in range(2):  # written anew, and read again
            last = opened(tmp_path, "s").of("s")
            assert last.resume() == []
            assert last.is_handled("t/#", AT)
        last.left("t/#")
        assert not last.is_handled("t/#", AT)

    run(story())


def test_a_torn_line_and_sessions_that_are_gone_are_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        journal = opened(tmp_path, "s", "gone")
        event = await journal.of("s").begin(1)
        await journal.of("gone").begin(2)
        await journal.close()
        with (tmp_path / exchanges.FILE).open("ab") as file:
            file.write(b'["s","in",9,"mqt')
        again = opened(tmp_path, "s")
        assert await again.of("s").begin(1) == event
        assert not again.of("s").is_open(9)
        assert b"gone" not in (tmp_path / exchanges.FILE).read_bytes()
        again.of("s").end()
        assert not again.of("s").is_open(1)

    run(story())


def test_a_file_that_has_grown_too_large_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "LARGEST", 2000)

    async def story() -> None:
        session = opened(tmp_path, "s").of("s")
        event = await session.begin(1)
        for _ in range(100):
            await session.begin(2)
            await session.release(2)
        assert (tmp_path / exchanges.FILE).stat().st_size <= 2000
        assert await opened(tmp_path, "s").of("s").begin(1) == event

    run(story())


def test_a_line_that_comes_while_the_file_closes_is_written(tmp_path: Path) -> None:
    async def story() -> None:
        journal, late = opened(tmp_path, "s"), []
        first = journal.append("s", ("left", "early"))
        first.add_done_callback(lambda _: late.append(journal.append("s", ("left", "late"))))
        await journal.close()
        assert [line.done() for line in late] == [True]
        assert b"late" in (tmp_path / exchanges.FILE).read_bytes()

    run(story())


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    async def story() -> None:
        session = opened(tmp_path, "s").of("s")
        with monkeypatch.context() as disk:
            disk.setattr(os, "write", full)
            with pytest.raises(StoreFullError, match="No space left"):
                await session.begin(1)
        await session.release(1)
        await session.begin(1)

    run(story())


def test_without_a_file_it_lives_in_memory() -> None:
    async def story() -> None:
        session = Exchanges("", None)
        event = await session.begin(1)
        assert await session.begin(1) == event
        assert session.send(3, "t", AT) is None
        assert session.received(3) is None
        assert session.is_handled("t", AT)

    run(story())
