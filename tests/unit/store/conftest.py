"""Every store of the house behind one fixture: opened again, it must hold what it held."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store._faulty import FaultyDisk
from tests.unit.store._kit import Opener

from tidings.store.memory import MemoryDisk, MemoryStore
from tidings.store.rocks import RocksStore
from tidings.store.store import Store


@pytest.fixture(params=["memory", "faulty", "rocks"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens one and the same store, as often as it is called (close it in between)."""
    if request.param == "rocks":
        return lambda: RocksStore(tmp_path / "store", reserve_bytes=0)
    disk = MemoryDisk() if request.param == "memory" else FaultyDisk()

    def again() -> Store:
        disk.restart()
        return MemoryStore(disk)

    return again
