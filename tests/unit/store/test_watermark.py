"""The watermark file: two slots, one of which may tear."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tidings.errors import CorruptionError, StoreError
from tidings.store.watermark import Watermark


def marked(path: Path, *commits: int) -> bytes:
    mark = Watermark(path, "test")
    mark.settle(0)
    for commit in commits:
        mark.mark(commit)
    mark.close()
    return path.read_bytes()


def test_the_last_mark_is_read_back(tmp_path: Path) -> None:
    marked(tmp_path / "w", 1, 2, 3)
    again = Watermark(tmp_path / "w", "test")
    assert (again.commit, again.is_new) == (3, False)


def test_reading_makes_no_file(tmp_path: Path) -> None:
    mark = Watermark(tmp_path / "w", "test")
    assert mark.is_new
    mark.close()
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(("slot", "left"), [(0, 3), (1, 2)])
def test_a_torn_slot_leaves_the_other(tmp_path: Path, slot: int, left: int) -> None:
    whole = bytearray(marked(tmp_path / "w", 1, 2, 3))
    whole[512 * slot + 10 : 512 * slot + 15] = b"\0\1\2\3\4"
    (tmp_path / "w").write_bytes(whole)
    assert Watermark(tmp_path / "w", "test").commit == left


def test_two_torn_slots_are_damage(tmp_path: Path) -> None:
    whole = bytearray(marked(tmp_path / "w", 1, 2))
    whole[3] ^= 1
    whole[515] ^= 1
    (tmp_path / "w").write_bytes(whole)
    with pytest.raises(CorruptionError, match="watermark"):
        Watermark(tmp_path / "w", "test")


def test_the_sync_follows_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = threading.Event()
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (sync(file), synced.set()))
    mark = Watermark(tmp_path / "w", "test", sync_seconds=0.001)
    mark.settle(0)
    mark.mark(1)
    assert synced.wait(10)
    mark.close()


def test_a_failed_sync_stops_marking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    mark = Watermark(tmp_path / "w", "test", sync_seconds=0.001)
    mark.settle(0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        mark.mark(1)
        assert mark._syncer is not None
        mark._syncer.join(10)
    with pytest.raises(StoreError, match="cannot be synced"):
        mark.mark(2)
    mark.close()
