"""What this version writes to disk, kept for later versions to read: `python -m tests.golden._make`.

A file that is there is never written again: that is what it is for. When a format changes on purpose, its
version grows, a new file is made beside the old one, and both have to be read.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import tidings
from tidings.history.files import write_history
from tidings.model.event import FOREVER
from tidings.simulation.experiment import Experiment, run_experiment
from tidings.simulation.workloads import Plan
from tidings.store.audit import FORMAT

FOLDER = Path(__file__).parent
STORE = FOLDER / "store" / f"v{FORMAT}.tar.gz"
HISTORIES = FOLDER / "history"

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
