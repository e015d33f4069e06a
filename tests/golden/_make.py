"""What this version writes to disk, kept for later versions to read: `python -m tests.golden._make`.

A file that is there is never written again: that is what it is for. When a format changes on purpose, its
version grows, a new file is made beside the old one, and both have to be read.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
import tempfile
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import tidings
from tidings.history.files import write_history
from tidings.language import parse_filter
from tidings.model.event import FOREVER, make_event
from tidings.model.subscription import DeliveryOptions, Position
from tidings.protocol.messages import VERSION, Deliver, Message, Publish, Subscribe, tag_of
from tidings.simulation.experiment import Experiment, run_experiment
from tidings.simulation.workloads import Plan
from tidings.store.audit import FORMAT
from tidings.wire.codec import Codec

FOLDER = Path(__file__).parent
STORE = FOLDER / "store" / f"v{FORMAT}.tar.gz"
RICH_STORE = FOLDER / "store" / f"rich-v{FORMAT}.tar.gz"
RICH_FRAMES = FOLDER / "wire" / f"v{VERSION}" / "rich"
HISTORIES = FOLDER / "history"

RICH: dict[str, Any] = {
    "id": UUID(int=7), "tags": ["red", "λ", None], "price": Decimal("12.10"), "day": date(2026, 3, 1),
    "at": time(8, 30), "local": datetime(2026, 3, 1, 8, 30), "moment": datetime(2026, 3, 1, tzinfo=UTC),
    "wide": 2**70, "took": timedelta(seconds=1.5), "raw": b"\x00\xff", "none": None,
    "nested": {"deep": {"list": [[1], [2.5, True]]}, "time": "body"},
    "lines": [
        {"sku": "a", "price": Decimal("0.1"), "id": UUID(int=8)}, {"sku": None, "price": Decimal("1E+9")},
    ],
}  # fmt: skip
RICH_FILTER = "'red' IN tags AND ANY(lines.price > DECIMAL('0.05')) AND LENGTH(lines) = 2"

FILTER = "change < -3 AND StockName LIKE 'I%'"


def quotes() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Events of every kind of value and lifetime: attributes, and how they are published."""
    names = ("IBM", "INTC", "DEC")
    found: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"StockName": names[n % 3], "change": float(-n), "volume": 2**62 + n, "deep": {"er": "λ"}},
         {"topic": f"quotes/{names[n % 3]}", "lifetime": FOREVER, "mode": "kept"})
        for n in range(12)
    ]  # fmt: skip
    found.append(
        ({"StockName": "IBM", "change": -9.5}, {"payload": b"\x00\xff", "key": "ibm", "lifetime": FOREVER})
    )
    found.append(({"StockName": "IBM", "change": -8.5}, {"type": "Quote", "key": "ibm", "lifetime": FOREVER}))
    return found


async def fill(folder: Path) -> list[Any]:
    """A broker's store: what lives for ever, and a durable subscription that has heard a part of what it is
    owed."""
    received = []
    async with tidings.connect(path=folder, name="press") as bus:
        listener = await bus.subscribe(FILTER, durable=True, name="falls")
        for attributes, options in quotes():
            await bus.publish(attributes, **options)
        for _ in range(2):
            event = await listener.get()
            received.append(event["change"])
            await listener.ack()
    return received


def rich_messages() -> list[Message]:
    """An event of every kind of value, and a filter with every condition on lists."""
    event = make_event(RICH, source="press", id="i-7", time=datetime(2026, 1, 2, tzinfo=UTC))
    filter = parse_filter(f"{RICH_FILTER} AND ALL(nested.deep.list >= 1)")
    return [
        Publish(1, event, 2),
        Deliver(1, 2, event, Position("press@1", 3), 2, True),
        Subscribe(1, 2, "rich", filter, DeliveryOptions()),
    ]


async def fill_rich(folder: Path) -> None:
    """A broker's store with such an event, and a durable subscription that is owed it."""
    async with tidings.connect(path=folder, name="press") as bus:
        await bus.subscribe(RICH_FILTER, durable=True, name="red")
        await bus.publish(RICH, lifetime=FOREVER, mode="kept")


def _without_talk(file: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """RocksDB's own diary speaks of the machine, and nobody reads it."""
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return None if Path(file.name).name.startswith("LOG") else file


def main() -> None:
    for folder in (STORE.parent, HISTORIES):
        folder.mkdir(exist_ok=True)
    if not STORE.exists():
        with tempfile.TemporaryDirectory() as position:
            received = asyncio.run(fill(Path(position) / "store"))
            with tarfile.open(STORE, "w:gz") as archive:
                archive.add(Path(position) / "store", "store", filter=_without_talk)
        STORE.with_suffix("").with_suffix(".json").write_text(json.dumps({"heard": received}) + "\n")
    if not RICH_STORE.exists():
        with tempfile.TemporaryDirectory() as position:
            asyncio.run(fill_rich(Path(position) / "store"))
            with tarfile.open(RICH_STORE, "w:gz") as archive:
                archive.add(Path(position) / "store", "store", filter=_without_talk)
    RICH_FRAMES.mkdir(exist_ok=True)
    for message in rich_messages():
        file = RICH_FRAMES / f"{tag_of(type(message))}.bin"
        if not file.exists():
            file.write_bytes(Codec().encode(message))
    plan = Plan(
        subscriptions=5,
        events=20,
        rate=4.0,
        churn=0.2,
        publishers=2,
        durable=0.5,
        lifetimes=(0.0, 4.0, FOREVER),
    )
    rows = run_experiment(
        Experiment(system="tidings", seed=7, brokers=3, workload="stocks", plan=plan, check=True)
    ).rows
    for ending in ("jsonl", "parquet"):
        if not (HISTORIES / f"v1.{ending}").exists():
            write_history(HISTORIES / f"v1.{ending}", rows)


if __name__ == "__main__":
    main()
