"""A store behind which three real nats-server processes stand: one is killed, the broker moves, nothing is
lost.

`sync_interval: always` is set where the server knows it (2.10 and later); the figure of what a power cut of
all three may take is the server's own before that (docs/distributors.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos._nats import SERVER, Cluster

import tidings
from tidings.availability.records import Append, Delete, Forget, Put
from tidings.errors import SettingsError, StoreError
from tidings.model.event import make_event
from tidings.runtime.server import Server
from tidings.store import jetstream
from tidings.store.jetstream import JetStreamStore

pytestmark = [pytest.mark.skipif(not SERVER, reason="nats-server is not installed")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("nats"))
    yield running
    running.close()


def event(number: int) -> Append:
    return Append(number, make_event({"x": number}, source="s", id=str(number), lifetime=60.0), 1.0)


def test_what_was_committed_is_there_when_it_is_opened_again(cluster: Cluster) -> None:
    store = JetStreamStore(f"{cluster.address}/again")
    store.commit([event(1), Put("t", "k", b"v")])
    store.commit([event(2), event(3), Forget(1)])
    store.close()
    store = JetStreamStore(f"{cluster.address}/again")
    loaded = store.load()
    assert [entry.offset for entry in loaded.entries] == [2, 3]
    assert loaded.tables["t"] == {"k": b"v"}
    assert [append.offset for append in store.fetch(1, 10, 1 << 20)] == [2, 3]
    assert store.verify() > 0
    store.close()


def test_an_earlier_owner_is_refused(cluster: Cluster) -> None:
    """A broker that stood still, while another took its store over, writes nothing any more."""
    first = JetStreamStore(f"{cluster.address}/owned")
    first.commit([event(1)])
    second = JetStreamStore(f"{cluster.address}/owned")
    with pytest.raises(StoreError, match="owner no more"):
        first.commit([event(2)])
    second.commit([event(2)])
    first.close()
    second.close()


def test_a_message_that_comes_between_reading_and_owning_is_read_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen after a power cut: the last commit of the killed broker appeared after the new one had read."""
    first = JetStreamStore(f"{cluster.address}/between")
    first.commit([event(1), Put("t", "k", b"v")])
    opened = jetstream.StreamJournal.open
    late = iter([2, 3])

    def open_then_late(journal: jetstream.StreamJournal) -> list[jetstream._JournalPart]:
        parts = opened(journal)
        first.commit([event(next(late)), event(next(late)), Delete("t", "k")])
        return parts

    monkeypatch.setattr(jetstream.StreamJournal, "open", open_then_late)
    second = JetStreamStore(f"{cluster.address}/between")
    loaded = second.load()
    assert [entry.offset for entry in loaded.entries] == [1, 2, 3]
    assert not loaded.tables.get("t")
    with pytest.raises(StoreError, match="owner no more"):
        first.commit([event(4)])
    second.commit([event(4)])
    first.close()
    second.close()


def test_a_large_commit_is_whole_and_the_journal_is_written_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "PART_BYTES", 2000)
    monkeypatch.setattr(jetstream, "LEAST_BYTES", 20_000)
    store = JetStreamStore(f"{cluster.address}/large")
    store.commit([event(number) for number in range(1, 60)])  # several messages
    for number in range(60):
        store.commit([Put("t", "k", bytes(1000) + str(number).encode())])
    info = store._engine._journal.bytes  # type: ignore[attr-defined]
    assert info < 60_000, "what is over was purged"
    store.close()
    store = JetStreamStore(f"{cluster.address}/large")
    loaded = store.load()
    assert len(loaded.entries) == 59
    assert loaded.tables["t"]["k"].endswith(b"59")
    store.close()


def test_one_server_of_three_is_killed_and_the_broker_moves(cluster: Cluster) -> None:
    """The broker has no disk: its log is the stream's. Another broker opens it and goes on where it was."""
    asyncio.run(_move(cluster))


async def _move(cluster: Cluster) -> None:
    where = f"{cluster.address}/moved"
    first = Server("b", path=where)
    await first.start()
    async with tidings.connect(first.address, name="p", timeout=30) as bus:
        async with bus.subscribe("EXISTS x", name="all", durable=True):
            pass
        for number in range(20):
            if number == 10:
                cluster.kill(0)
            await bus.publish({"x": number}, mode="kept")
    await first.drain(10)
    second = Server("b", path=where)
    await second.start()
    async with (
        tidings.connect(second.address, name="p", timeout=30) as bus,
        bus.subscribe("EXISTS x", name="all", durable=True) as news,
    ):
        received = [(await news.get(timeout=120)).attributes["x"] for _ in range(20)]
    await second.drain(10)
    assert received == list(range(20))
    cluster.start(0)


def test_one_replica_works_and_says_what_it_is_worth(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alone = Cluster(tmp_path, size=1)
    try:
        with caplog.at_level("WARNING", logger="tidings.store"):
            store = JetStreamStore(f"{alone.address}/one?replicas=1")
        assert "lost with the disk" in caplog.text
        store.commit([event(1)])
        store.close()
        with pytest.raises(StoreError, match=r"1 replicas, and 3"):
            JetStreamStore(f"{alone.address}/one", patience=1.0)
        with pytest.raises(SettingsError, match="replicas=1, 3 or 5"):
            JetStreamStore(f"{alone.address}/one?replicas=2")
    finally:
        alone.close()


def test_a_value_larger_than_a_message_is_kept_whole(cluster: Cluster) -> None:
    large = make_event({"x": 1}, payload=bytes(4_000_000), source="s", id="large", lifetime=60.0)
    store = JetStreamStore(f"{cluster.address}/value")
    store.commit([event(1), Append(2, large, 1.0), event(3)])
    store.close()
    store = JetStreamStore(f"{cluster.address}/value")
    kept = store.fetch(1, 10, 1 << 30)
    assert [append.offset for append in kept] == [1, 2, 3]
    assert kept[1].event == large
    store.close()
