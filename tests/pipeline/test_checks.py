"""History checks on Spark: every verdict, count and story is that of the plain checker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from tests.properties.test_history_oracle import histories
from tests.unit.history.play import Play
from tests.unit.history.test_mutations import TABLE, TIMES, good

from tidings.cli import main
from tidings.errors import HistoryError
from tidings.history.check import check
from tidings.history.contracts import Contract
from tidings.history.files import write_history
from tidings.history.parquet import arrow_schema
from tidings.history.properties import PROPERTIES
from tidings.history.schema import Row, avail_row, drop_row
from tidings.matching.small import SmallMatcher
from tidings.model.event import make_event
from tidings.pipeline.checks import check_on_spark
from tidings_bench.histories import T_DIFF, T_SUB, Shape, write_large_history

pytestmark = pytest.mark.spark

FILES = 3  # Spark reads each of a history in a task of its own, in every pass


def renamed(name: str, play: Play) -> list[Row]:
    return [msgspec.structs.replace(row, run=name) for row in play.rows]


def same(spark: Any, folder: Path, rows: list[Row], **settings: Any) -> None:
    path = folder / "run.parquet"
    write_history(path, rows)
    assert check_on_spark([path], spark=spark, **settings) == check(rows, **settings)


def test_all_mutations_as_runs_of_one_history(spark: Any, tmp_path: Path) -> None:
    """Runs do not touch one another: each property has as many violations as all mutations together."""
    plays = [("good", good()), *((name, play) for name, play, _ in TABLE)]
    rows = [row for name, play in plays for row in renamed(name, play)]
    for number in range(FILES):  # a run lies in several of them
        write_history(tmp_path / f"part-{number}.parquet", rows[number::FILES])
    report = check_on_spark([tmp_path], spark=spark, bucket_rows=len(rows) // 3, **TIMES)
    assert report == check(rows, **TIMES)
    each = [play.check(**TIMES) for _, play in plays]
    for name, verdict in report.verdicts.items():
        if verdict.holds is not None:
            assert verdict.violations == sum(one[name].violations for one in each)


@pytest.mark.parametrize(
    ("receiver", "times", "sieving"),
    [("process", {}, True), ("subscription", {"t_sub": 1.0, "t_diff": 2.0}, False)],
    ids=["sieved", "not sieved"],
)
def test_random_histories_as_runs_of_one(
    spark: Any, tmp_path: Path, receiver: str, times: dict[str, float], sieving: bool
) -> None:
    """Three hundred good and bad ones: doubtful outcomes, crashes, keys, ends, losses, repetitions."""
    rows: list[Row] = []

    @settings(max_examples=300, database=None, derandomize=True)
    @given(histories())
    def collect(drawn: list[Row]) -> None:
        rows.extend(msgspec.structs.replace(row, run=f"{len(rows):06}") for row in drawn)

    collect()
    path, contract = tmp_path / "run.parquet", Contract("all", frozenset(PROPERTIES), receiver)
    write_history(path, rows)
    stated: list[str] = []
    report = check_on_spark(
        [path], spark=spark, contract=contract, sieving=sieving, say=stated.append, **times
    )
    assert report == check(rows, contract=contract, **times)
    assert any("streams are suspicious" in line for line in stated) == sieving


def test_a_history_of_one_run_by_another_contract(spark: Any, tmp_path: Path) -> None:
    """Each mutation alone has its turn in the soak."""
    same(spark, tmp_path, good().without(8).rows, contract="Intermediary")


@pytest.mark.soak
@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_every_mutation_alone(spark: Any, tmp_path: Path, row: Any) -> None:
    same(spark, tmp_path, row[1].rows, **TIMES)
    same(spark, tmp_path, row[1].rows, contract="everything")


def test_keys_arrivals_losses_and_timestamps(spark: Any, tmp_path: Path) -> None:
    """All that the mutations do not have: superseded events, availability at a broker, excuses."""
    play = Play("r1")
    play.sub(1.0, "alice", "x > 3", broker="b1").sub(1.0, "bob", "at > TIMESTAMP '2026-01-01T00:00:00Z'")
    play.pub(2.0, "a", {"x": 4}, key="k", lifetime=60.0)
    play.pub(3.0, "b", {"x": 5, "at": datetime(2026, 5, 1, tzinfo=UTC)}, key="k", lifetime=60.0)
    play.pub(4.0, "c", {"x": 6})
    play.row(avail_row, 2.5, "b1", "a").row(avail_row, 9.0, "b1", "c")
    play.row(drop_row, 3.1, "alice", "alice", "b", "queue full")
    play.told(4.5, "bob", "b").sub(10.0, "carol", "x > 3").told(10.1, "carol", "b")
    for requested in (TIMES, {"contract": "everything"}, {"until": 5.0}):
        same(spark, tmp_path, play.rows, **requested)


def test_a_thousand_events_in_many_buckets(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "large.parquet"
    write_large_history(folder, Shape(rows=6000, subscriptions=600), spoil="missing")
    for requested in ({"t_sub": T_SUB, "t_diff": T_DIFF}, {}):
        on_spark = check_on_spark([folder], spark=spark, bucket_rows=1000, matcher=SmallMatcher, **requested)
        assert on_spark == check(folder, matcher=SmallMatcher, **requested)
        assert not on_spark.holds
        stated: list[str] = []
        assert check_on_spark([folder], spark=spark, sieving=True, say=stated.append, **requested) == on_spark
        assert "1 streams are suspicious" in stated


def test_keys_losses_and_bad_rows_are_sieved_too(spark: Any, tmp_path: Path) -> None:
    """Events that others supersede, losses with a reason, names of many alphabets; a row that cannot be
    judged is told in the same words."""
    play = Play("läuft").sub(1.0, "Ünal", "x > 3").pub(2.0, "ä", {"x": 4}, key="k", source="Öl")
    play.pub(3.0, "b", {"x": 5}, key="k", source="Öl").pub(4.0, "c", {"x": 6}, source="Öl")
    play.row(drop_row, 3.1, "Ünal", "Ünal", "b", "queue full").pub(5.0, "d", {"x": 7}, source="Öl")
    play.told(5.1, "Ünal", "d").told(5.2, "Ünal", "d")
    path = tmp_path / "run.parquet"
    write_history(path, play.rows)
    for requested in ({"t_sub": 0.5, "t_diff": 0.5}, {}):
        report = check_on_spark([path], spark=spark, sieving=True, **requested)
        assert report == check(play.rows, **requested)
        assert {"minimality", "completeness"} <= set(report.broken)
    with pytest.raises(HistoryError, match=r"the pub row of p e at 1\.0 s"):
        check_on_spark([raw(tmp_path, op="pub", event="e", attributes="[1")], spark=spark, sieving=True)


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        ("", []),
        ("missing", ["liveness", "completeness"]),
        ("doubled", ["minimality"]),
        ("spurious", ["legality", "lp4"]),
        ("early", ["validity", "completeness"]),
    ],
)
def test_the_large_history_is_good_but_for_its_wrong_row(
    tmp_path: Path, spoil: str, broken: list[str]
) -> None:
    folder = tmp_path / "large.parquet"
    rows = write_large_history(folder, Shape(rows=3000, subscriptions=600), spoil=spoil)
    assert rows == pytest.approx(3000, rel=0.1)
    assert check(folder, t_sub=T_SUB, t_diff=T_DIFF).broken == broken


def test_files_directories_and_globs_are_one_history(spark: Any, tmp_path: Path) -> None:
    rows = good().rows
    (tmp_path / "parts").mkdir()
    write_history(tmp_path / "a.parquet", rows[:7])
    write_history(tmp_path / "parts" / "b.parquet", rows[7:11])
    write_history(tmp_path / "c1.parquet", rows[11:14])
    write_history(tmp_path / "c2.parquet", rows[14:])
    paths = [tmp_path / "a.parquet", tmp_path / "parts", str(tmp_path / "c*.parquet")]
    assert check_on_spark(paths, spark=spark, **TIMES) == check(rows, **TIMES)


def test_the_command_line(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = str(tmp_path / "one.parquet"), str(tmp_path / "other.parquet")
    write_history(one, good().rows[:8])
    write_history(other, good().without(8).rows[8:])
    words = ["check", "--t-sub", "0.5", "--t-diff", "0.5", "--json", one, other]
    assert main([*words, "--spark"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found == good().without(8).check(t_sub=0.5, t_diff=0.5).to_json()
    assert main(words) == 2
    assert "with --spark only" in " ".join(capsys.readouterr().err.split())


# Bad input


def test_a_torn_file_is_named(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "torn.parquet"
    write_history(path, good().rows)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"torn\.parquet: not a whole Parquet file"):
        check_on_spark([path], spark=spark)


def test_a_flipped_byte_is_seen(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "flipped.parquet"
    write_history(path, good().rows * 500)
    group = parquet.read_metadata(path).row_group(0)
    page = next(c for n in range(group.num_columns) if (c := group.column(n)).path_in_schema == "event")
    content = bytearray(path.read_bytes())
    content[page.dictionary_page_offset + page.total_compressed_size - 3] ^= 0x10
    path.write_bytes(bytes(content))
    with pytest.raises(HistoryError, match=r"flipped\.parquet: not a whole Parquet file"):
        check_on_spark([path], spark=spark)


def test_a_missing_column_is_named(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"time": [1.0], "op": ["crash"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(HistoryError, match="column 'process' is missing"):
        check_on_spark([tmp_path / "x.parquet"], spark=spark)


def test_a_foreign_column_is_named(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"time": [1.0], "process": ["p"], "op": ["crash"], "colour": ["red"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(HistoryError, match="column 'colour' is no column"):
        check_on_spark([tmp_path / "x.parquet"], spark=spark)


def test_a_column_of_the_wrong_type_is_named(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"time": ["noon"], "process": ["p"], "op": ["crash"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(HistoryError, match=r"column 'time' holds string; in a history it holds double"):
        check_on_spark([tmp_path / "x.parquet"], spark=spark)


def test_nothing_there(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no file matches it"):
        check_on_spark([tmp_path / "*.parquet"], spark=spark)
    with pytest.raises(HistoryError, match="no history was named"):
        check_on_spark([], spark=spark)
    with pytest.raises(HistoryError, match="holds no Parquet file"):
        check_on_spark([tmp_path], spark=spark)


def test_json_lines_are_for_the_plain_checker(spark: Any, tmp_path: Path) -> None:
    write_history(tmp_path / "x.jsonl", good().rows)
    with pytest.raises(HistoryError, match="without --spark"):
        check_on_spark([tmp_path / "x.jsonl"], spark=spark)


def raw(folder: Path, **columns: Any) -> Path:
    """A file of one row that our own writer would not write."""
    values = {"time": 1.0, "process": "p", **columns}
    schema = pa.schema([arrow_schema().field(name).with_nullable(True) for name in values])
    path = folder / "raw.parquet"
    parquet.write_table(
        pa.Table.from_pylist([{"time": 0.0, "process": "p", "op": "restart"}, values], schema), path
    )
    return path


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"op": "ntfy"}, "row 2: it names no event"),
        ({"op": "dance"}, "row 2: unknown op 'dance'"),
        ({"op": None}, "row 2: op is null"),
        ({"op": "pub", "event": "e", "outcome": "perhaps"}, "row 2: unknown outcome 'perhaps'"),
        ({"op": "crash", "time": float("nan")}, "row 2: its time is nan"),
        ({"op": "drop", "event": "e"}, "row 2: it has no reason"),
        ({"op": "view", "view": 1}, "row 2: it has no view number or no members"),
        ({"op": "pub", "event": "e", "lifetime": -1.0}, "row 2: its lifetime is -1"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(
    spark: Any, tmp_path: Path, columns: dict[str, Any], problem: str
) -> None:
    with pytest.raises(HistoryError, match=f"raw.parquet: {problem}"):
        check_on_spark([raw(tmp_path, **columns)], spark=spark)


def test_attributes_that_are_no_object_are_told_with_their_event(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"the pub row of p e at 1\.0 s"):
        check_on_spark([raw(tmp_path, op="pub", event="e", attributes="[1")], spark=spark)


def test_a_filter_that_cannot_be_read_is_told(spark: Any, tmp_path: Path) -> None:
    play = Play().sub(1, "p", "x >").pub(2, "e").told(3, "p", "e")
    write_history(tmp_path / "x.parquet", play.rows)
    with pytest.raises(HistoryError, match="filter that cannot be read"):
        check_on_spark([tmp_path / "x.parquet"], spark=spark)


def test_a_subscription_without_a_filter_is_told(spark: Any, tmp_path: Path) -> None:
    event = make_event({"x": 1}, source="s", id="e")
    rows = [Row(time=1, process="p", op="sub"), *Play().pub(2, event.id).rows, *Play().told(3, "p", "e").rows]
    write_history(tmp_path / "x.parquet", rows)
    with pytest.raises(HistoryError, match="has no filter"):
        check_on_spark([tmp_path / "x.parquet"], spark=spark)
