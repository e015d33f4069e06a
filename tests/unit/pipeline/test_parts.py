"""Files that workers write: what is in them, how they are counted, where they may lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.pipeline import parts
from tidings.pipeline.parts import OutputPart, local_folder, writing


def lists(*rows: tuple[str, list[int], str | None]) -> pa.RecordBatch:
    names, ids, problems = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(names),
            pa.array(ids, pa.list_(pa.int32())),
            pa.array([7] * len(rows), pa.int64()),
            pa.array(problems, pa.string()),
        ],
        names=["c0", "c1", "c2", "c3"],
    )


def written(folder: Path, batches: list[Any], **how: Any) -> dict[str, Any]:
    part = OutputPart(str(folder), ("id", "subscriptions", "version", "problem"), True, True, "snappy")

    def same(given: Iterator[Any]) -> Iterator[Any]:
        yield from given

    (stated,) = writing(same, part._replace(**how))(iter(batches))
    return stated.to_pylist()[0]  # type: ignore[no-any-return]


BATCHES = [lists(("a", [1, 2], None), ("b", [], None)), lists(("c", [], "no topic"), ("d", [3], None))]


def test_rows_matches_and_problems_are_counted(tmp_path: Path) -> None:
    fields = written(tmp_path, BATCHES)
    assert (fields["rows"], fields["matches"], fields["problems"]) == (4, 3, 1)
    found = pq.read_table(tmp_path / fields["file"]).to_pylist()
    assert [(row["id"], row["subscriptions"]) for row in found] == [
        ("a", [1, 2]), ("b", []), ("c", []), ("d", [3])
    ]  # fmt: skip
    assert {row["version"] for row in found} == {7}


def test_what_matched_nothing_may_be_left_out_but_no_problem_is(tmp_path: Path) -> None:
    fields = written(tmp_path, BATCHES, unmatched=False)
    assert (fields["rows"], fields["matches"], fields["problems"]) == (3, 3, 1)
    found = pq.read_table(tmp_path / fields["file"]).to_pylist()
    assert [row["id"] for row in found] == ["a", "c", "d"]


def test_many_small_batches_become_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS", 100)
    fields = written(tmp_path, [lists(("a", [1], None), ("b", [2], None))] * 75, codec="zstd")
    file = pq.ParquetFile(tmp_path / fields["file"])
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (150, 2)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_nothing_to_write_is_no_file(tmp_path: Path) -> None:
    assert written(tmp_path, []) == {"file": None, "rows": 0, "matches": 0, "problems": 0}
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_fails_leaves_no_open_file(tmp_path: Path) -> None:
    def failing(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        raise ValueError("the worker's own")

    part = OutputPart(str(tmp_path), ("id", "subscriptions", "version", "problem"), True, True, "snappy")
    with pytest.raises(ValueError, match="the worker's own"):
        list(writing(failing, part)(iter(BATCHES)))


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/out", "/data/out"),
        ("file:///data/out", "/data/out"),
        ("file:/data/out", "/data/out"),
        ("/data/run=a:b", "/data/run=a:b"),
        ("hdfs://host/out", None),
        ("s3a://bucket/out", None),
    ],
)
def test_which_paths_are_folders_of_this_machine(path: str, folder: str | None) -> None:
    assert local_folder(path) == (None if folder is None else Path(folder))
