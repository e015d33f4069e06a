"""`match_stream`: subscriptions that change, and what may be wrong with a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import CorruptionError, InputError, SettingsError
from tidings.pipeline import Table, match, match_stream, sink

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Path:
    """Two files of events, one subscription."""
    put(spark, tmp_path, 0)
    put(spark, tmp_path, 1)
    publish(spark, tmp_path, "n >= 0")
    return tmp_path


def put(spark: Any, folder: Path, number: int) -> None:
    frame = spark.range(number * 10, number * 10 + 10).selectExpr(
        "id AS n", "CASE WHEN id = 3 THEN 'a/+' END AS topic"
    )
    frame.coalesce(1).write.mode("append").parquet(str(folder / "in"))


def publish(spark: Any, folder: Path, *filters: str) -> None:
    rows = [(f"s{n}", text) for n, text in enumerate(filters)]
    Table(folder / "table").publish(spark.createDataFrame(rows, "id string, filter string"))


def stream(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema("n bigint, topic string").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "in"))


def run(spark: Any, folder: Path, **options: Any) -> list[Any]:
    batches: list[Any] = []
    query = match_stream(
        stream(spark, folder),
        options.pop("subscriptions", folder / "table"),
        to=folder / "out",
        checkpoint=folder / "checkpoint",
        once=True,
        on_batch=batches.append,
        **options,
    )
    query.awaitTermination()
    return batches


def output(spark: Any, folder: Path) -> list[tuple[int, int, list[str]]]:
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted((row["n"], row["version"], list(row["subscriptions"])) for row in rows)


def test_each_batch_has_the_version_of_its_start(spark: Any, folder: Path) -> None:
    first = run(spark, folder)
    assert [(b.number, b.version, b.rows, b.matches, b.problems) for b in first] == [
        (0, 1, 10, 10, 0),
        (1, 1, 10, 10, 0),
    ]
    publish(spark, folder, "n >= 0", "n >= 25")
    put(spark, folder, 2)
    assert [(b.number, b.version, b.matches) for b in run(spark, folder)] == [(2, 2, 15)]
    expected = [(n, 1, ["s0"]) for n in range(20)] + [
        (n, 2, ["s0"] + ["s1"] * (n >= 25)) for n in range(20, 30)
    ]
    assert output(spark, folder) == expected


def test_subscriptions_as_parquet_are_compiled_anew_when_they_changed(spark: Any, folder: Path) -> None:
    path = str(folder / "subscriptions")
    spark.createDataFrame([("a", "n = 1")], "id string, filter string").write.parquet(path)
    assert [b.matches for b in run(spark, folder, subscriptions=path)] == [1, 0]
    spark.createDataFrame([("b", "n >= 25")], "id string, filter string").write.mode("append").parquet(path)
    put(spark, folder, 2)
    assert [(b.version, b.matches) for b in run(spark, folder, subscriptions=path)] == [(2, 5)]
    put(spark, folder, 3)
    assert [(b.version, b.matches) for b in run(spark, folder, subscriptions=path)] == [(2, 10)]  # unchanged


def test_compiled_tables_need_a_place_that_outlives_the_driver(spark: Any, folder: Path) -> None:
    rows = spark.createDataFrame([("a", "n = 1")], "id string, filter string")
    with pytest.raises(SettingsError, match=r"is not on this machine.*folder="):
        match_stream(stream(spark, folder), rows, to=folder / "out", checkpoint="hdfs://far/checkpoint")


def test_poison_rows_are_in_the_output_with_their_problem(spark: Any, folder: Path) -> None:
    publish(spark, folder, "topic = '#'", "n < 5")
    assert [b.problems for b in run(spark, folder, unmatched=False)] == [1, 0]
    rows = {row["n"]: row for row in spark.read.parquet(str(folder / "out")).collect()}
    assert set(rows) == {0, 1, 2, 3, 4}
    assert "holds + or #" in rows[3]["problem"]
    assert rows[3]["subscriptions"] == []
    assert rows[2]["problem"] is None


def test_pairs_into_parquet(spark: Any, folder: Path) -> None:
    assert [b.matches for b in run(spark, folder, output="pairs", keep=["n"])] == [10, 10]
    rows = spark.read.parquet(str(folder / "out")).collect()
    assert sorted((row["n"], row["subscription"]) for row in rows) == [(n, "s0") for n in range(20)]


def test_columns_of_every_kind_leave_as_they_came(spark: Any, folder: Path) -> None:
    """The workers write the files; Spark reads the same types and values, an interval by its own writer."""
    columns = """id AS n, id % 2 = 0 AS flag, CAST(id AS tinyint) AS tiny, CAST(id AS float) AS single,
        CAST(id AS decimal(20, 3)) AS money, DATE '2026-01-01' AS day,
        TIMESTAMP '2026-01-01 10:00:00.123456' AS at,
        TIMESTAMP_NTZ '2026-01-01 10:00:00' AS local, X'C328' AS raw, array(id, NULL) AS many,
        map('a', id) AS named, struct(id AS inner, 'x' AS Other) AS nested, CAST(NULL AS string) AS absent"""
    for path, more in (("plain", ""), ("spark", ", INTERVAL '3' HOUR AS span")):
        frame = spark.range(20).selectExpr(*_parts(columns + more))
        frame.write.parquet(str(folder / path))
        events = spark.readStream.schema(frame.schema).parquet(str(folder / path))
        to, state = folder / f"{path} out", folder / f"{path} state"
        match_stream(events, folder / "table", to=to, checkpoint=state, once=True).awaitTermination()
        found = spark.read.parquet(str(to))
        assert [(f.name, f.dataType.simpleString()) for f in found.schema][: len(frame.columns)] == [
            (f.name, f.dataType.simpleString()) for f in frame.schema
        ]
        assert sorted(map(str, found.select(frame.columns).collect())) == sorted(map(str, frame.collect()))


def _parts(text: str) -> list[str]:
    """The expressions of a list, cut at commas outside brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        parts = [*parts, ""] if sign == "," and not depth else [*parts[:-1], parts[-1] + sign]
    return parts


def test_files_of_tries_that_do_not_count_are_not_published(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sink.local_folder

    def with_stray(path: str) -> Path | None:
        location = made(path)
        assert location is not None
        monkeypatch.setattr(Path, "mkdir", _mkdir_and_stray)
        return location

    monkeypatch.setattr(sink, "local_folder", with_stray)
    assert [b.rows for b in run(spark, folder)] == [10, 10]
    assert len(output(spark, folder)) == 20


_mkdir = Path.mkdir


def _mkdir_and_stray(path: Path, *args: Any, **more: Any) -> None:
    """As a task that was tried twice would: a file that no accepted task names."""
    _mkdir(path, *args, **more)
    if "_staged" in str(path):
        (path / "part-00000-stray.parquet").write_bytes(b"half a file")


def test_a_batch_that_is_published_already_is_not_written_again(spark: Any, folder: Path) -> None:
    run(spark, folder)
    before = output(spark, folder)
    (folder / "checkpoint" / "commits" / "1").unlink()  # as if killed between publishing and committing
    (folder / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    publish(spark, folder, "FALSE OR n < 0")
    assert [(b.number, b.rows) for b in run(spark, folder)] == [(1, None)]
    assert output(spark, folder) == before


def test_a_lost_checkpoint_does_not_write_everything_twice(spark: Any, folder: Path) -> None:
    run(spark, folder)
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(
        InputError, match=r"holds batches of 1 other query, and the checkpoint .* is lost or empty"
    ):
        run(spark, folder)
    assert len(output(spark, folder)) == 20
    run(spark, folder, append=True)
    assert len(output(spark, folder)) == 40  # as it said


def test_an_old_checkpoint_does_not_lose_events(spark: Any, folder: Path) -> None:
    run(spark, folder)
    shutil.copytree(folder / "checkpoint", folder / "old")
    put(spark, folder, 2)
    run(spark, folder)
    shutil.rmtree(folder / "checkpoint")
    shutil.move(folder / "old", folder / "checkpoint")
    for path in sorted((folder / "in").glob("part-*")):
        if path.stat().st_mtime_ns == max(p.stat().st_mtime_ns for p in (folder / "in").glob("part-*")):
            path.unlink()
    put(spark, folder, 3)
    with pytest.raises(Exception, match="was written from other offsets than the checkpoint has for batch 2"):
        run(spark, folder)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("metadata", b'{"id":', "metadata that are no JSON"),
        ("offsets/1", b"", r"torn file offsets/1"),
        ("offsets/1", b"v1\n{", r"torn file offsets/1"),
        ("commits/0", b"v", r"torn file commits/0"),
    ],
)
def test_a_corrupt_checkpoint_is_told(spark: Any, folder: Path, file: str, content: bytes, told: str) -> None:
    run(spark, folder)
    path = folder / "checkpoint" / file
    path.write_bytes(content)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptionError, match=told):
        run(spark, folder)


def test_a_checkpoint_without_metadata_is_told(spark: Any, folder: Path) -> None:
    run(spark, folder)
    (folder / "checkpoint" / "metadata").unlink()
    with pytest.raises(CorruptionError, match="has offsets and no metadata"):
        run(spark, folder)


def test_a_torn_file_of_events_fails_and_loses_nothing(spark: Any, folder: Path) -> None:
    torn = folder / "in" / "part-zzz.parquet"
    torn.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(Exception, match=r"part-zzz\.parquet"):
        run(spark, folder)
    published = {row[0] for row in output(spark, folder)}
    good = sorted((folder / "in").glob("part-0*"))
    shutil.copy(good[0], torn)
    (folder / "in" / ".part-zzz.parquet.crc").unlink(missing_ok=True)
    run(spark, folder)
    assert {row[0] for row in output(spark, folder)} == set(range(20)) >= published
    assert len(output(spark, folder)) == 30  # the file that was torn is now there, once


def test_a_stream_can_also_be_matched_lazily(spark: Any, folder: Path) -> None:
    matched = match(stream(spark, folder), folder / "table", keep=["n"])
    assert matched.result.isStreaming
    sunk = matched.result.writeStream.format("memory").queryName("lazily").trigger(availableNow=True).start()
    sunk.awaitTermination()
    assert spark.table("lazily").count() == 20


def test_a_stream_may_be_sent_to_cells(spark: Any, folder: Path) -> None:
    rows = spark.createDataFrame(
        [(n, f"n BETWEEN {n} AND {n + 1}") for n in range(25)], "id int, filter string"
    )
    matched = match(stream(spark, folder), rows, keep=["n"], strategy="partitioned")
    sunk = matched.result.writeStream.format("memory").queryName("cells").trigger(availableNow=True).start()
    sunk.awaitTermination()
    found = {row["n"]: list(row["subscriptions"]) for row in spark.table("cells").collect()}
    assert found == {n: [m for m in (n - 1, n) if 0 <= m < 25] for n in range(20)}


def test_columns_that_change_between_runs_are_refused(spark: Any, folder: Path) -> None:
    """Found by an attack from outside: the output could not be read whole any more."""
    run(spark, folder, keep=["n"])
    put(spark, folder, 2)
    for options, told in (
        ({"keep": ["n", "topic"]}, "'topic' is new"),
        ({"keep": ["n"], "output": "pairs"}, "'subscriptions' is gone, 'subscription' is new"),
    ):
        with pytest.raises(InputError, match=told):
            run(spark, folder, **options)
    rows = spark.createDataFrame([(1, "n >= 0")], "id int, filter string")
    Table(folder / "table").publish(rows)
    with pytest.raises(InputError, match=r"'subscriptions' was array<string> and is array<int>"):
        run(spark, folder, keep=["n"])
    publish(spark, folder, "n >= 0")
    assert [b.rows for b in run(spark, folder, keep=["n"])] == [10]
    assert len(output(spark, folder)) == 30


@pytest.mark.parametrize("name", ["run", "Batch"])
def test_columns_that_folders_would_replace_are_refused(spark: Any, folder: Path, name: str) -> None:
    events = stream(spark, folder).withColumnRenamed("topic", name)
    about: dict[str, Any] = {"to": folder / "out", "checkpoint": folder / "checkpoint", "once": True}
    with pytest.raises(InputError, match=f"the rows have a column '{name}', and so has the output"):
        match_stream(events, folder / "table", **about)
    match_stream(events, folder / "table", keep=["n"], **about).awaitTermination()
    assert len(output(spark, folder)) == 20


def test_a_version_that_is_removed_in_mid_batch_is_there_for_the_batch(spark: Any, folder: Path) -> None:
    table = Table(folder / "one", kept=1)
    rows = spark.createDataFrame([("a", "n >= 0")], "id string, filter string").toArrow()
    table.publish(rows)
    given = table.pin

    def pin() -> Any:
        pinned = given()
        table.publish(rows)  # another process publishes before a worker has opened the files
        return pinned

    table.pin = pin  # type: ignore[method-assign]
    assert [(b.version, b.matches) for b in run(spark, folder, subscriptions=table)] == [(2, 10), (3, 10)]


def test_what_is_no_stream_is_refused(spark: Any, folder: Path) -> None:
    with pytest.raises(InputError, match="no stream"):
        match_stream(spark.range(3), folder / "table", to=folder / "out", checkpoint=folder / "checkpoint")
    with pytest.raises(SettingsError, match="not both"):
        run(spark, folder, every="1 second")
