"""Answers written as Parquet by the Python workers themselves, without a way back through Java.

Turning Arrow lists into Spark's rows and those into Parquet takes longer than matching. A worker that
has the answer in Arrow can write it at once; what goes back to the driver is one row for each file.

Rules
- Only onto paths of a file system that all machines see as files. Else Spark's own writer does it.
- A task may be tried twice, or run twice at once. Each try writes a file of its own name, and the driver
  keeps those that the tasks it accepted have named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

COUNTS = "file string, rows bigint, matches bigint, problems bigint"
GROUP_ROWS = 250_000  # rows of a row group at most
CODECS = ("snappy", "zstd", "gzip", "none")
PLAIN = frozenset(("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
                   "date", "timestamp", "timestamp_ntz"))  # fmt: skip


class OutputPart(NamedTuple):
    """Options for writing the answers of a job to a file."""

    folder: str
    names: tuple[str, ...]  # of the answer's columns
    lists: bool
    unmatched: bool  # lists that are empty stay
    codec: str


def writing(
    run: Callable[[Iterator[Any]], Iterator[Any]], part: OutputPart
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that `mapInArrow` runs: `run`, and its answers into a file."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        file = _PartFile(part)
        try:
            for batch in run(batches):
                file.add(batch)
        finally:
            file.close()
        counts = [[file.name], [file.rows], [file.matches], [file.problems]]
        types = [pa.string(), pa.int64(), pa.int64(), pa.int64()]
        columns = [pa.array(each, kind) for each, kind in zip(counts, types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=["file", "rows", "matches", "problems"])

    return write


class _PartFile:
    """One file, and what is in it."""

    def __init__(self, part: OutputPart) -> None:
        self._part = part
        self._waiting: list[Any] = []
        self._waiting_rows = 0
        self._writer: Any = None
        self.name: str | None = None
        self.rows = self.matches = self.problems = 0

    def add(self, batch: Any) -> None:
        import pyarrow.compute as pc

        batch = batch.rename_columns(list(self._part.names))
        problem = batch.column("problem")
        self.problems += batch.num_rows - problem.null_count
        if self._part.lists:
            sizes = pc.list_value_length(batch.column("subscriptions"))
            self.matches += pc.sum(sizes).as_py() or 0
            if not self._part.unmatched:
                batch = batch.filter(pc.or_(pc.greater(sizes, 0), problem.is_valid()))
        else:
            self.matches += problem.null_count
        if batch.num_rows:
            self.rows += batch.num_rows
            self._waiting.append(batch)
            self._waiting_rows += batch.num_rows
            if self._waiting_rows >= GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_rows = [], 0
            self._open(table.schema).write_table(table)

    def _open(self, schema: Any) -> Any:
        if self._writer is None:
            import pyarrow.parquet as pq
            from pyspark import TaskContext

            context = TaskContext.get()
            number = context.partitionId() if context is not None else 0
            self.name = f"part-{number:05}-{uuid4().hex}.parquet"
            # ids and measured values seldom repeat within a page: a dictionary of them only costs time
            texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
            self._writer = pq.ParquetWriter(
                str(Path(self._part.folder) / self.name),
                schema,
                compression=self._part.codec,
                use_dictionary=[*texts, "version"],
            )
        return self._writer

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()


def local_folder(path: str) -> Path | None:
    """The path as a folder of this file system; None for another file system."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return None if ":" in path.split("/", 1)[0] else Path(path).absolute()


def fits(schema: Any) -> bool:
    """Does Spark read these columns again as what they were, when Arrow has written them?"""
    return all(_is_plain(field.dataType) for field in schema.fields)


def _is_plain(kind: Any) -> bool:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(kind, StructType):
        return fits(kind)
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return isinstance(kind, DecimalType) or kind.simpleString() in PLAIN


def codec(spark: Any) -> str:
    """The compression that the session asks for; snappy when it is one that Arrow does not write."""
    wanted = str(spark.conf.get("spark.sql.parquet.compression.codec", "snappy")).lower()
    wanted = "none" if wanted == "uncompressed" else wanted
    return wanted if wanted in CODECS else "snappy"
