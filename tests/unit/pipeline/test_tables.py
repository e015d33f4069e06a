"""Compiled tables as versions on disk, and what workers make of them; without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tidings.errors import CorruptionError, EventError, InputError  # noqa: E402
from tidings.pipeline.compiling import compile_rows  # noqa: E402
from tidings.pipeline.executing import (  # noqa: E402
    OPEN_MOST,
    Job,
    Nothing,
    OpenVersion,
    VersionFiles,
    _open,
    answers,
    opened,
)
from tidings.pipeline.tables import Table  # noqa: E402


def rows(*filters: str, **more: list[Any]) -> Any:
    return pa.table({"id": [f"s{n}" for n in range(len(filters))], "filter": list(filters), **more})


JOB = Job((("x", 0),), 1, 9, False, False, True, False, "string")


def test_versions_count_up_and_the_last_few_stay(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", kept=2)
    made = [table.publish(rows(f"x > {n}")).number for n in range(4)]
    assert made == [1, 2, 3, 4]
    assert table.numbers() == [3, 4]
    assert table.version().number == 4
    assert table.version(3).about.subscriptions == 1
    with pytest.raises(InputError, match="has no version 1; it has 3 to 4"):
        table.version(1)


def test_a_pinned_version_stays_while_newer_ones_are_published(tmp_path: Path) -> None:
    """Found by an attack from outside: a batch under way stopped with `No such file`."""
    table = Table(tmp_path / "table", kept=1)
    table.publish(rows("x > 0"))
    pinned = table.pin()
    for n in range(3):
        table.publish(rows(f"x > {n}", "x > 9"))
    assert table.numbers() == [4]
    assert (pinned.number, pinned.about.subscriptions, pinned.rejected()) == (1, 1, [])
    assert OpenVersion(VersionFiles(str(pinned.folder))).ids.to_pylist() == ["s0"]
    table.unpin(pinned)
    assert not pinned.folder.exists()
    table.unpin(table.version())  # not pinned: it stays
    assert table.numbers() == [4]


def test_a_version_that_is_removed_while_it_is_looked_up_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "table", kept=1)
    table.publish(rows("x > 0"))
    found = table.numbers()
    table.publish(rows("x > 1"))
    answers = [found]  # as it was when the look-up began
    numbers = Table.numbers
    monkeypatch.setattr(Table, "numbers", lambda self: answers.pop() if answers else numbers(self))
    assert table.pin().number == 2


def test_pins_of_processes_that_are_gone_go_with_the_next_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "table")
    table.publish(rows("x > 0"))
    mine = table.pin()
    with monkeypatch.context() as only:
        only.setattr(os, "getpid", lambda: 2**22 + 1)  # above every process id
        left = table.pin()
    table.publish(rows("x > 1"))
    assert (mine.folder.exists(), left.folder.exists()) == (True, False)


def test_a_version_is_itself_where_files_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "not permitted")

    table = Table(tmp_path / "table")
    made = table.publish(rows("x > 0"))
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert table.pin().folder == made.folder
    assert [path.name for path in table.folder.iterdir()] == ["v00000001"]


def test_a_version_that_is_gone_says_so(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", kept=1)
    gone = table.publish(rows("x > 0"))
    table.publish(rows("x > 1"))
    with pytest.raises(InputError, match="is gone: newer ones were published"):
        OpenVersion(VersionFiles(str(gone.folder)))


def test_a_folder_without_a_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no version"):
        Table(tmp_path / "nothing").version()


def test_who_is_second_takes_the_next_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "table")
    table.publish(rows("x > 1"))
    monkeypatch.setattr(Table, "numbers", lambda self: [])  # another writer was faster
    with monkeypatch.context() as only:
        only.setattr(Table, "_prune", lambda self: None)
        assert table.publish(rows("x > 2")).number == 2


def test_what_was_left_half_made_goes_when_it_fails(tmp_path: Path) -> None:
    table = Table(tmp_path / "table")
    compiled = compile_rows(rows("x > 1"))
    with pytest.raises(AttributeError):
        table.add(compiled._replace(matcher=None))
    assert list((tmp_path / "table").iterdir()) == []


def test_a_version_knows_what_it_holds(tmp_path: Path) -> None:
    texts = (
        "venue.city = 'Rome' AND price * 2 > x",
        "type IS A Cat",
        "topic = 'a/#'",
        "NAME = 'x'",
        "nonsense >",
    )
    table = rows(*texts, dialect=[None, None, None, "cesql", None], subscriber=["a", "b", "c", "d", "e"])
    about = Table(tmp_path / "table").publish(table, note="from a test").about
    assert about.attributes == ["price", "topic", "type.lineage", "venue.city", "x"]
    assert about.folded == ["name"]
    assert (about.subscriptions, about.rejected, about.subscribers, about.note) == (4, 1, True, "from a test")


def test_a_torn_about_is_told(tmp_path: Path) -> None:
    version = Table(tmp_path / "table").publish(rows("x > 1"))
    (version.folder / "about.json").write_bytes(b'{"version"')
    with pytest.raises(CorruptionError, match="no version of a subscription table"):
        Table(tmp_path / "table").version()


def test_torn_names_are_told(tmp_path: Path) -> None:
    version = Table(tmp_path / "table").publish(rows("x > 1"))
    names = version.folder / "names.arrow"
    names.write_bytes(names.read_bytes()[:40])
    with pytest.raises(CorruptionError, match="publish the table again"):
        OpenVersion(VersionFiles(str(version.folder)))


def test_a_worker_keeps_the_last_few_versions_open(tmp_path: Path) -> None:
    locations = [
        VersionFiles(str(Table(tmp_path / f"t{n}").publish(rows("x > 1")).folder))
        for n in range(OPEN_MOST + 1)
    ]
    _open.clear()
    stored = [opened(location) for location in locations]
    assert opened(locations[-1]) is stored[-1]
    assert locations[0] not in _open
    assert len(_open) == OPEN_MOST
    opened(locations[0], most=1)
    assert list(_open) == [locations[0]]


def test_answers_come_in_the_order_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.pipeline.executing.SLICE", 3)
    monkeypatch.setattr("tidings.pipeline.executing.PAIRS_AT_ONCE", 4)
    version = OpenVersion(VersionFiles(str(Table(tmp_path / "t").publish(rows("x > 1", "x > 5")).folder)))
    batch = pa.record_batch({"x": list(range(10))})
    found = pa.Table.from_batches(answers(batch, version, JOB))
    assert found.column(0).to_pylist() == list(range(10))
    assert found.column(1).to_pylist() == [["s0"] * (x > 1) + ["s1"] * (x > 5) for x in range(10)]
    assert set(found.column(2).to_pylist()) == {9}
    pairs = pa.Table.from_batches(answers(batch, version, JOB._replace(pairs=True)))
    assert list(zip(pairs.column(0).to_pylist(), pairs.column(1).to_pylist(), strict=True)) == [
        (x, s) for x in range(10) for s in ["s0"] * (x > 1) + ["s1"] * (x > 5)
    ]


def test_where_nothing_is_rows_are_looked_at_all_the_same() -> None:
    job = JOB._replace(attributes=(("topic", 0),), check_topics=True)
    batch = pa.record_batch({"topic": ["a", "a/+", None]})
    found = pa.Table.from_batches(answers(batch, Nothing(job), job))
    assert found.column(1).to_pylist() == [[], [], []]
    assert [problem is None for problem in found.column(3).to_pylist()] == [True, False, True]
    with pytest.raises(EventError, match="cannot be matched"):
        list(answers(batch, Nothing(job), job._replace(reject=False)))


def test_filters_that_ask_for_nothing_still_match(tmp_path: Path) -> None:
    version = OpenVersion(VersionFiles(str(Table(tmp_path / "t").publish(rows("TRUE")).folder)))
    found = pa.Table.from_batches(
        answers(pa.record_batch({"odd": [1, 2]}), version, JOB._replace(attributes=()))
    )
    assert found.column(1).to_pylist() == [["s0"], ["s0"]]
