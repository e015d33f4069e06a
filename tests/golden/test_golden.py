"""What an earlier version wrote to disk is read today: stores and histories (frames: tests/unit/wire)."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path

import pytest
from tests.golden._make import (
    FILTER,
    HISTORIES,
    RICH,
    RICH_FILTER,
    RICH_FRAMES,
    RICH_STORE,
    STORE,
    quotes,
    rich_messages,
)

import tidings
from tidings.history.check import check
from tidings.history.files import read_history
from tidings.history.schema import NTFY, PUB
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.protocol.messages import Deliver, Message, Publish, tag_of
from tidings.wire.codec import Codec


def tag_of_message(message: Message) -> str:
    return tag_of(type(message))


STORES = sorted(STORE.parent.glob("v*.tar.gz"))


@pytest.mark.parametrize("file", STORES, ids=[file.name for file in STORES])
def test_a_store_of_then_serves_a_broker_of_now(file: Path, tmp_path: Path) -> None:
    """What lives for ever is told to a newcomer, and a durable subscription goes on where it was."""
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    before = json.loads(file.with_suffix("").with_suffix(".json").read_text())["heard"]
    kept = [each for each in quotes() if each[1].get("key") is None] + quotes()[
        -1:
    ]  # one supersedes the other

    async def test() -> None:
        async with asyncio.timeout(120), tidings.connect(path=tmp_path / "store", name="press") as bus:
            newcomer = await bus.subscribe("EXISTS change", name="all")
            received = [await newcomer.get() for _ in kept]
            assert [dict(event.attributes) for event in received] == [attributes for attributes, _ in kept]
            wanted = [event["change"] for event in received if accepts(parse_filter(FILTER), event)]
            falls = await bus.subscribe(FILTER, durable=True, name="falls")
            assert before + [(await falls.get())["change"] for _ in wanted[len(before) :]] == wanted

    asyncio.run(test())


@pytest.mark.parametrize("message", rich_messages(), ids=tag_of_message)
def test_frames_of_rich_events_and_filters_are_read_and_written_as_ever(message: Message) -> None:
    frame = (RICH_FRAMES / f"{tag_of(type(message))}.bin").read_bytes()
    read = Codec().decode(frame)
    assert read == message
    assert Codec().encode(message) == frame
    if isinstance(read, Publish | Deliver):
        assert read.event.attributes == RICH
        assert [type(value) for value in read.event.attributes.values()] == list(map(type, RICH.values()))


def test_a_store_with_a_rich_event_serves_a_broker_of_now(tmp_path: Path) -> None:
    with tarfile.open(RICH_STORE) as archive:
        archive.extractall(tmp_path, filter="data")

    async def test() -> None:
        async with asyncio.timeout(120), tidings.connect(path=tmp_path / "store", name="press") as bus:
            newcomer = await bus.subscribe("EXISTS lines", name="all")
            assert (await newcomer.get()).attributes == RICH
            owed = await bus.subscribe(RICH_FILTER, durable=True, name="red")
            assert (await owed.get()).attributes == RICH

    asyncio.run(test())


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_history_of_then_is_judged_now(ending: str) -> None:
    files = sorted(HISTORIES.glob(f"v*.{ending}"))
    assert HISTORIES / f"v1.{ending}" in files
    for file in files:
        rows = list(read_history(file))
        assert sum(row.op == PUB for row in rows) == 20
        assert check(file, t_sub=5.0, t_diff=5.0).holds
        spoilt = [row for row in rows if row.op != NTFY]
        assert not check(spoilt, t_sub=5.0, t_diff=5.0).holds, "it is really judged"


def test_both_forms_of_a_history_say_the_same() -> None:
    assert list(read_history(HISTORIES / "v1.jsonl")) == list(read_history(HISTORIES / "v1.parquet"))
