"""The store beside SQLite, in one run on one disk: synced commits, reading, and what a restart costs.

- commit: events a second, on stable storage before each commit returns, `size` events in each.
- read: events a second, decoded, in ascending order.
- open: log entries a second from a closed store to a loaded one. Ours reads and checks every record;
  SQLite has no checksums and reads offsets and bodies only.

Engines: `tidings` is `RocksStore` as brokers use it; `sqlite` is a table in WAL mode with synchronous=FULL,
one transaction for each commit, the same encoded events, no checksums; `rocksdb` is the database under our
store with none of our checks: not a peer, but the price of them. Slices alternate between the engines, and
the best slice counts: what else runs on the machine can only slow one down.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.availability.records import Append
from tidings.model.event import make_event
from tidings.store.rocks import RocksEngine, RocksStore

SIZES = (1, 8, 64, 512)
PEERS = ("sqlite",)
Row = dict[str, Any]


class StoreBench(Protocol):
    """An engine under test."""

    def commit(self, batch: Sequence[Append]) -> None: ...

    def read(self) -> int:
        """Read and decode everything; how many events there were."""
        ...

    def close(self) -> None: ...


class TidingsStore:
    def __init__(self, path: Path) -> None:
        self._store = RocksStore(path / "tidings")
        self._store.load()

    def commit(self, batch: Sequence[Append]) -> None:
        self._store.commit(batch)

    def read(self) -> int:
        start = count = 0
        while page := self._store.fetch(start, 1000, 1 << 24):
            count += len(page)
            start = page[-1].offset + 1
        return count

    def close(self) -> None:
        self._store.close()


class Rocksdb:
    """Without checksums of ours, account or watermark."""

    def __init__(self, path: Path) -> None:
        (path / "rocksdb").mkdir(exist_ok=True)
        self._engine = RocksEngine(path / "rocksdb")
        self._engine.open_for_writing(0)

    def commit(self, batch: Sequence[Append]) -> None:
        self._engine.write([(one.offset.to_bytes(8, "big"), _encode(one)) for one in batch])

    def read(self) -> int:
        return len([_decode(body) for _, body in self._engine.scan(b"", b"\xff" * 9)])

    def close(self) -> None:
        self._engine.close()


class Sqlite:
    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path / "sqlite.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL").fetchone()
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS log (offset INTEGER PRIMARY KEY, body BLOB)")
        self._database.execute("SELECT offset, body FROM log").fetchall()

    def commit(self, batch: Sequence[Append]) -> None:
        self._database.execute("BEGIN")
        rows = [(one.offset, _encode(one)) for one in batch]
        self._database.executemany("INSERT INTO log VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def read(self) -> int:
        rows = self._database.execute("SELECT body FROM log ORDER BY offset")
        return len([_decode(body) for (body,) in rows])

    def close(self) -> None:
        self._database.close()


ENGINES: dict[str, Callable[[Path], StoreBench]] = {
    "tidings": TidingsStore,
    "sqlite": Sqlite,
    "rocksdb": Rocksdb,
}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Append).decode


def run(*, quick: bool = False, seed: int = 1) -> Iterator[Row]:
    """Rows of figures; `quick` takes seconds."""
    rounds, seconds = (2, 0.05) if quick else (10, 0.15)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as directory:
        for size in SIZES:
            yield from _commits(Path(directory) / str(size), size, rounds, seconds, seed)
        yield from _restarts(Path(directory) / "restart", 5_000 if quick else 50_000, seed)


def _commits(path: Path, size: int, rounds: int, seconds: float, seed: int) -> Iterator[Row]:
    path.mkdir()
    engines = {name: engine(path) for name, engine in ENGINES.items()}
    figures: dict[str, list[float]] = {name: [] for name in engines}
    made = {name: _events(seed) for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            figures[name].append(_slice(engine, made[name], size, seconds))
    for engine in engines.values():
        engine.close()
    yield from _rows("commit", size, {name: max(of) for name, of in figures.items()})


def _slice(engine: StoreBench, made: Iterator[Append], size: int, seconds: float) -> float:
    """Events a second over a slice of time; making the events is not counted."""
    spent, count = 0.0, 0
    while spent < seconds:
        batch = [next(made) for _ in range(size)]
        began = time.perf_counter()
        engine.commit(batch)
        spent += time.perf_counter() - began
        count += size
    return count / spent


def _restarts(path: Path, entries: int, seed: int) -> Iterator[Row]:
    path.mkdir()
    reading: dict[str, float] = {}
    opening: dict[str, float] = {}
    for name, engine in ENGINES.items():
        if name == "rocksdb":
            continue  # it keeps no index of the log to load
        opened, made = engine(path), _events(seed)
        for _ in range(0, entries, 500):
            opened.commit([next(made) for _ in range(500)])
        opened.close()
        began = time.perf_counter()
        opened = engine(path)
        opening[name] = entries / (time.perf_counter() - began)
        began = time.perf_counter()
        reading[name] = opened.read() / (time.perf_counter() - began)
        opened.close()
    yield from _rows("open", entries, opening)
    yield from _rows("read", entries, reading)


def _rows(work: str, size: int, figures: dict[str, float]) -> Iterator[Row]:
    best = max(figures[name] for name in PEERS)
    for name, figure in figures.items():
        yield {
            "work": work,
            "size": size,
            "engine": name,
            "figure": round(figure),
            "unit": "events/s",
            "ratio_to_best_peer": round(figure / best, 2),
        }


def _events(seed: int) -> Iterator[Append]:
    """Stock quotes of some 150 bytes, numbered from 1."""
    rng = random.Random(seed)
    offset = 0
    while True:
        offset += 1
        attributes = {
            "StockName": rng.choice(("IBM", "MSFT", "ORCL", "SUNW")),
            "change": round(rng.gauss(0, 3), 2),
            "volume": rng.randrange(1_000_000),
        }
        event = make_event(
            attributes, source="exchange", id=f"q-{offset}", topic="stocks/quotes", lifetime=3600
        )
        yield Append(offset, event, 1000.0 + offset, sequence=offset)
