"""The offset at which a restored log goes on: no two lives of a log give the same one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidings.errors import CorruptionError
from tidings.store.restored import FILE, STRIDE, claim

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
MICROSECONDS = int(NOON.timestamp()) * 1_000_000


def test_a_restored_log_goes_on_at_the_clock_in_microseconds(tmp_path: Path) -> None:
    """Uncapped: restores of one backup that is days old lie as far apart as their times."""
    assert claim(tmp_path, 6, NOON) == (MICROSECONDS, True)
    later = NOON + timedelta(days=30)
    assert claim(tmp_path, 6, later) == (MICROSECONDS + 30 * 86_400_000_000, True)


@pytest.mark.parametrize("back", [timedelta(0), timedelta(hours=1), timedelta(days=9_000)])
def test_a_clock_that_was_set_back_gives_no_offset_again(tmp_path: Path, back: timedelta) -> None:
    first, _ = claim(tmp_path, 6, NOON)
    second, _ = claim(tmp_path, 6, NOON - back)
    assert second == first + STRIDE
    assert claim(tmp_path, 6, NOON - back)[0] == second + STRIDE
    assert claim(tmp_path, second + 2 * STRIDE, NOON)[0] == second + 3 * STRIDE, "a backup knows more"


def test_a_damaged_mark_is_named_and_an_unwritable_one_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(tmp_path, 6, NOON)
    sound = (tmp_path / FILE).read_bytes()
    for damaged in (sound.replace(b"1", b"2", 1), b"", sound[:9]):
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(CorruptionError, match=r"restored\.json is damaged"):
            claim(tmp_path, 6, NOON)
    (tmp_path / FILE).unlink()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr("tidings.store.restored.os.fsync", refuse)
    assert claim(tmp_path, 6, NOON) == (MICROSECONDS, False)
