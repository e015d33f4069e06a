"""History files: round trips, constant memory, and errors that name file, line and problem."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidings.errors import HistoryError
from tidings.history.files import HistoryWriter, read_history, write_history
from tidings.history.recorder import FileRecorder, MemoryRecorder
from tidings.history.schema import crash_row, ntfy_row, pub_row, recv_row, sub_row, view_row
from tidings.model.event import FOREVER, make_event

NOON = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
EVENT = make_event(
    {
        "price": 1.0,
        "count": 2**62,
        "name": "Ünïcode\n'q'",
        "on": True,
        "when": NOON,
        "$odd": {"$timestamp": "mine"},
        "low": -math.inf,
        "deep": {"er": {"est": NOON}},
    },
    source="press",
    id="a-1",
    topic="t/u",
    type=("Quote", "Thing"),
    lifetime=FOREVER,
    key="k",
    expires=9,
    time=NOON,
)
ROWS = [
    sub_row(0.5, "alice", "alice/news", "price > 0", run="r1", broker="b1"),
    pub_row(1.0, "press", EVENT, run="r1", sequence=1),
    pub_row(1.5, "press", make_event({}, source="press", id="a-2"), run="r1", outcome="unknown"),
    ntfy_row(2.0, "alice", "alice/news", EVENT, run="r1", sequence=1),
    recv_row(2.5, "b1", EVENT, "b0", run="r1"),
    view_row(3.0, "b1", 2, ("b0", "b1"), run="r1"),
    crash_row(4.0, "b1", run="r2"),
]
FORMATS = ["jsonl", "ndjson", "parquet"]


@pytest.mark.parametrize("ending", FORMATS)
def test_every_row_comes_back_as_it_was(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    assert write_history(path, ROWS) == len(ROWS)
    assert list(read_history(path)) == ROWS


@pytest.mark.parametrize("ending", FORMATS)
def test_small_buffers_make_the_same_history(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    with HistoryWriter(path, buffered_rows=2) as writer:
        for row in ROWS:
            writer.write(row)
            assert len(writer._buffer) < 2
    assert list(read_history(path)) == ROWS


@pytest.mark.parametrize("ending", FORMATS)
def test_a_history_of_nothing_is_a_history(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    assert write_history(path, []) == 0
    assert list(read_history(path)) == []


def test_json_lines_hold_every_column_by_name_and_forever_in_words(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_history(path, ROWS)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0].pop("version") == 1
    assert all(len(line) == 23 and "from" in line for line in lines)
    assert lines[1]["lifetime"] == "forever"
    assert lines[4]["from"] == "b0"
    assert lines[1]["attributes"]["price"] == 1.0


def test_parquet_has_the_columns_and_infinity(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "run.parquet"
    write_history(path, ROWS)
    table = pq.read_table(path)
    assert table.column_names[-1] == "from"
    assert table.column("lifetime").to_pylist()[1] == math.inf
    assert json.loads(table.column("attributes").to_pylist()[1])["on"] is True


def test_rows_written_by_hand_may_leave_columns_out(tmp_path: Path) -> None:
    path = tmp_path / "hand.jsonl"
    path.write_text(
        '{"time": 1, "process": "p", "op": "pub", "event": "x", "lifetime": "forever", "type": "Quote",'
        ' "attributes": {"a": 1}}\n\n'
        '{"time": 2, "process": "p", "op": "pub", "event": "y", "attributes": "{\\"a\\": 2}"}\n'
    )
    first, second = read_history(path)
    assert (first.lifetime, first.type, first.attributes) == (math.inf, ("Quote",), {"a": 1})
    assert (second.attributes, second.run) == ({"a": 2}, "")


def test_a_directory_of_parquet_parts_is_one_history(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "run.parquet"
    folder.mkdir()
    write_history(folder / "part-0.parquet", ROWS[:3])
    write_history(folder / "part-1.parquet", ROWS[3:])
    assert list(read_history(folder)) == ROWS


GOOD = '{"time": 1, "process": "p", "op": "crash"}\n'
BAD_LINES = [
    ("{", "not JSON"),
    ("[1]", "not a JSON object"),
    ('{"time": 1, "process": "p"}', "`op`"),
    ('{"time": 1, "process": "p", "op": "shout"}', "Invalid enum value 'shout'"),
    ('{"time": "x", "process": "p", "op": "sub"}', "$.time"),
    ('{"time": 1, "process": "p", "op": "sub", "fliter": "x"}', "fliter"),
    ('{"time": 1, "process": "p", "op": "pub", "outcome": "maybe"}', "maybe"),
    ('{"time": 1, "process": "p", "op": "pub", "attributes": {"a": {"$decimal": "x"}}}', "is no decimal"),
    ('{"time": 1, "process": "p", "op": "pub", "attributes": "[]"}', "not a JSON object"),
    ('{"time": 1, "process": "p", "op": "pub", "attributes": {"a": {"$timestamp": "noon"}}}', "noon"),
    ('{"time": 1, "process": "p", "op": "pub", "attributes": {"a": {"$number": "nan"}}}', "$number"),
    ('{"time": 1, "process": "p", "op": "pub", "attributes": {"$a": 1}}', "leading $"),
    ('{"time": 1, "process": "p", "op": "pub", "lifetime": "for ages"}', "$.lifetime"),
    ('{"version": 99, "time": 1, "process": "p", "op": "crash"}', "version 99"),
    ('{"a":' * 100_000, "not JSON"),
    ("\x00\x01PAR1", "not JSON"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_LINES)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(GOOD + line + "\n" + GOOD)
    with pytest.raises(HistoryError) as caught:
        list(read_history(path))
    assert str(path) in str(caught.value)
    assert "line 2" in str(caught.value)
    assert problem in str(caught.value)


def test_a_torn_last_line_is_told_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    write_history(path, ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"line 7: .*cut off"):
        list(read_history(path))


def test_bytes_that_are_no_text_are_an_error_too(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"time": 1, "process": "\xff\xfe", "op": "crash"}\n')
    with pytest.raises(HistoryError, match="line 1"):
        list(read_history(path))


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -9])
def test_a_torn_parquet_file_is_an_error(tmp_path: Path, cut: int) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "torn.parquet"
    write_history(path, ROWS)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(HistoryError, match=r"torn\.parquet: not a whole Parquet file"):
        list(read_history(path))


def _parquet(path: Path, **columns: list[object]) -> Path:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), path)
    return path


def test_a_foreign_parquet_file_is_an_error(tmp_path: Path) -> None:
    good: dict[str, list[object]] = {"time": [1], "process": ["p"], "op": ["crash"]}
    assert list(read_history(_parquet(tmp_path / "a.parquet", **good))) == [crash_row(1.0, "p")]
    for change, problem in [
        ({"colour": ["red"]}, "'colour' is no column"),
        ({"op": ["shout"]}, "row 1: unknown op 'shout'"),
        ({"op": [None]}, "op"),
        ({"outcome": ["maybe"]}, "row 1: unknown outcome"),
        ({"time": ["noon"]}, "noon"),
        ({"attributes": ["{"]}, "row 1: attributes are not JSON"),
    ]:
        path = _parquet(tmp_path / "b.parquet", **{**good, **change})
        with pytest.raises(HistoryError) as caught:
            list(read_history(path))
        assert problem in str(caught.value)
        assert "b.parquet" in str(caught.value)


def test_a_parquet_file_without_a_required_column_is_an_error(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "c.parquet", time=[1.0], process=["p"])
    with pytest.raises(HistoryError, match="'op' is missing"):
        list(read_history(path))


def test_the_ending_must_name_a_format(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"\.csv"):
        read_history(tmp_path / "run.csv")
    with pytest.raises(HistoryError, match="no such file"):
        read_history(tmp_path / "run.jsonl")
    with pytest.raises(HistoryError, match="cannot be written"):
        HistoryWriter(tmp_path / "nowhere" / "run.jsonl")


@pytest.mark.parametrize("ending", FORMATS)
def test_times_that_are_no_times_are_not_written(tmp_path: Path, ending: str) -> None:
    with pytest.raises(HistoryError, match="time"):
        write_history(tmp_path / f"run.{ending}", [crash_row(math.nan, "p")])


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    recorder = FileRecorder(tmp_path / "run.jsonl", run="r9")
    recorder.record(crash_row(1.0, "p"))
    recorder.close()
    recorder.close()
    assert recorder.count == 1
    assert [row.run for row in read_history(tmp_path / "run.jsonl")] == ["r9"]
    with pytest.raises(HistoryError, match="closed"):
        recorder.record(crash_row(2.0, "p"))


def test_a_memory_recorder_refuses_past_its_bound() -> None:
    recorder = MemoryRecorder(run="r1", limit=2)
    recorder.record(crash_row(1.0, "p"))
    recorder.record(crash_row(2.0, "p", run="other"))
    assert [row.run for row in recorder.rows] == ["r1", "other"]
    with pytest.raises(HistoryError, match="2 rows"):
        recorder.record(crash_row(3.0, "p"))


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_come_as_they_are_read(tmp_path: Path, ending: str) -> None:
    """The first ones are there before a damaged end is met, so the whole is never in memory."""
    path = tmp_path / f"run.{ending}"
    with HistoryWriter(path, buffered_rows=20_000) as writer:
        for number in range(60_000):
            writer.write(crash_row(float(number), f"p{number}"))
    damaged = bytearray(path.read_bytes())
    position = len(damaged) - 1000
    if ending == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        position = pq.read_metadata(path).row_group(2).column(1).data_page_offset + 200  # of `time`
    damaged[position : position + 100] = b"\xff" * 100
    path.write_bytes(damaged)
    came: list[float] = []
    with pytest.raises(HistoryError):
        came.extend(row.time for row in read_history(path))
    assert came[:3] == [0.0, 1.0, 2.0]
    assert 30_000 < len(came) < 60_000
