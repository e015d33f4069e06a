"""The file of the audit: lines of many threads, a disk that takes a part of a line, opening again, and an
audit that fails."""

from __future__ import annotations

import errno
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tidings.runtime.audit_file import MOST_WAITING, AuditFile
from tidings.runtime.secured import Secured
from tidings.runtime.settings import SecuritySettings
from tidings.security.audit import OK, AuditEntry

THREADS, EACH = 6, 400


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Small:
    """A file that takes `most` bytes of a write, and of all writes together `room`."""

    def __init__(self, file: Any, most: int = 1 << 20, room: int = 1 << 30) -> None:
        self._file, self.most, self.room = file, most, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written: int = self._file.write(data[: min(self.most, self.room)])
        self.room -= written
        return written

    def fileno(self) -> int:
        return int(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def entry(subject: str) -> AuditEntry:
    return AuditEntry("2026-11-19T00:00:00.000Z", "connect", OK, "ann", subject=subject)


def subjects(path: Path) -> list[str]:
    return [json.loads(line)["subject"] for line in path.read_text().splitlines()]


def in_threads(do: Callable[[int, int], None]) -> None:
    """Call it with the number of each thread, and `EACH` times with 0, 1, 2…"""
    failures: list[Exception] = []

    def repeat(thread: int) -> None:
        try:
            for number in range(EACH):
                do(thread, number)
        except Exception as error:
            failures.append(error)

    threads = [Thread(target=repeat, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def each_once_in_order(path: Path) -> None:
    found = [tuple(map(int, subject.split())) for subject in subjects(path)]
    assert len(found) == THREADS * EACH
    for thread in range(THREADS):
        assert [number for one, number in found if one == thread] == list(range(EACH))


SIZES = pytest.mark.parametrize("most", [1 << 20, 100], ids=["whole writes", "partial writes"])


@pytest.mark.usefixtures("restless")
@SIZES
def test_lines_of_many_threads_are_written_exactly_once_and_in_the_order_of_each(
    tmp_path: Path, most: int
) -> None:
    path = tmp_path / "audit.jsonl"
    secured = Secured(SecuritySettings(audit=str(path)), lambda: 0.0)
    secured._file._file = Small(secured._file._file, most)  # type: ignore[assignment]

    def note(thread: int, number: int) -> None:
        secured.audit.note("publish", OK, "ann", subject=f"{thread} {number}", bounded=False)
        secured.audit.check()

    in_threads(note)
    secured.close()
    each_once_in_order(path)
    assert secured.figures()["audit lost"] == 0


@pytest.mark.usefixtures("restless")
@SIZES
def test_the_file_itself_may_be_written_and_looked_at_by_many_threads(tmp_path: Path, most: int) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path))
    file._file = Small(file._file, most)  # type: ignore[assignment]

    def write(thread: int, number: int) -> None:
        file.write(entry(f"{thread} {number}"))
        file.flush()

    in_threads(write)
    file.close()
    each_once_in_order(path)


@pytest.mark.usefixtures("restless")
def test_entries_that_are_only_counted_are_counted_exactly_by_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    moments = [0.0]
    secured = Secured(SecuritySettings(audit=str(path)), lambda: moments[0])
    in_threads(lambda thread, number: secured.audit.note("connect", OK, "ann"))
    moments[0] = 100.0
    secured.audit.note("connect", OK, "ann")
    secured.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(1 + line.get("suppressed", 0) for line in lines) == THREADS * EACH + 1


def test_a_line_that_a_full_disk_took_in_part_is_completed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path))
    file._file = small = Small(file._file, room=30)  # type: ignore[assignment]
    file.write(entry("a"))
    file.write(entry("b"))
    problem = file.flush()
    assert problem is not None
    assert "No space left on device" in problem
    assert [one.message for one in caplog.records] == [problem]  # once, not for each entry
    small.room = 1 << 20
    assert file.flush() is None
    file.close()
    assert subjects(path) == ["a", "b"]


@pytest.mark.parametrize("is_renamed", [True, False])
def test_opening_again_completes_or_repeats_the_line_that_was_begun(tmp_path: Path, is_renamed: bool) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path))
    file._file = Small(file._file, room=30)  # type: ignore[assignment]
    file.write(entry("a"))
    file.write(entry("b"))
    if is_renamed:
        path.rename(tmp_path / "audit.jsonl.1")
    file.reopen(str(path))
    assert file.flush() is None
    file.close()
    assert subjects(path) == ["a", "b"]


def test_entries_beyond_the_bound_and_after_the_end_are_counted_and_the_end_says_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = AuditFile(str(tmp_path / "audit.jsonl"))
    file._file = Small(file._file, room=0)  # type: ignore[assignment]
    size = 0
    while size <= MOST_WAITING:
        file.write(entry("x" * 100_000))
        size += 100_000
    assert file.lost == 1
    file.close()
    assert "10 entries of the audit are lost: " in caplog.text
    file.write(entry("late"))
    assert file.lost == 2


def test_without_a_file_entries_go_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tidings.audit")
    file = AuditFile("")
    file.write(entry("a"))
    assert json.loads(caplog.records[0].message)["subject"] == "a"
    path = tmp_path / "audit.jsonl"
    file.reopen(str(path))
    file.write(entry("b"))
    file.close()
    assert subjects(path) == ["b"]


def test_an_audit_that_fails_ends_no_clients_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured = Secured(SecuritySettings(audit=str(tmp_path / "audit.jsonl")), lambda: 0.0)

    def fails(entry: AuditEntry) -> None:
        raise BufferError("Existing exports of data: object cannot be re-sized")

    with monkeypatch.context() as broken:
        broken.setattr(secured._file, "write", fails)
        secured.audit.note("connect", OK, "ann")
    assert secured.figures()["audit lost"] == 1
    assert "an entry of the audit is lost: connect of 'ann'" in caplog.text
    secured.audit.note("connect", OK, "half a \ud800 pair")
    secured.close()
    assert "half a ? pair" in (tmp_path / "audit.jsonl").read_text()
