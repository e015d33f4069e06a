"""Kinds of sources, tables of subscriptions and sinks of a flow: registries, open to more.

A kind is its settings (a msgspec Struct: unknown keys and wrong types are told with their place in
the file), which of them are paths, and functions that open it. `KINDS["sources"]["mine"] = FlowKind(…)`
adds one; a flow that names it can then be read, checked, explained and run like any other.

- A source opens as a streaming DataFrame. If text may be malformed, the column `CORRUPT` holds
  the text of rows that could not be read, so that they become problems and are not lost.
- A sink opens as an object that publishes a batch once (see `sink.py`): `is_published(batch)` and
  `publish(frame, batch)`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tidings.errors import InputError
from tidings.pipeline.broker.flow import broker_kinds
from tidings.pipeline.sink import FROM, ParquetSink, check_names

CORRUPT: Final = "_corrupt"
Rows = Literal["matched", "problems", "all"]


class InputSize(NamedTuple):
    """Size of the input, as far as it is known without Spark."""

    files: int
    bytes: int
    rows: int | None


class FlowKind(NamedTuple):
    """One kind of source, subscriptions or sink."""

    settings: type[Any]
    open: Callable[..., Any]  # sources: (spark, settings); sinks: (spark, settings, checkpoint)
    says: Callable[[Any], str]  # what it is, in a few words
    paths: tuple[str, ...] = ("path",)
    size: Callable[[Any], InputSize | None] = lambda settings: None
    once: bool = True  # of a sink: exactly once, also after a crash


class FileSource(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Files of a folder (or glob): those that are there, then those that come."""

    path: str
    columns: str | None = None  # as in SQL: "id string, price double"; Parquet knows its own
    files_per_batch: int = 100
    header: bool = True  # of CSV


class FileSubscriptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Parquet with the columns id, filter and perhaps subscriber and dialect, or a compiled table."""

    path: str
    compiled: str | None = None  # folder of compiled tables; needed if machines share no other folder


class FileSink(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    path: str
    rows: Rows = "matched"


class ConsoleSink(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    rows: Rows = "matched"
    limit: int = 20  # rows of a batch


# Sources


def _open_files(format: str) -> Callable[[Any, FileSource], Any]:
    def open_(spark: Any, settings: FileSource) -> Any:
        reader = spark.readStream.format(format).option("maxFilesPerTrigger", str(settings.files_per_batch))
        if format == "csv":
            reader = reader.option("header", str(settings.header).lower())
        columns = settings.columns or _columns_of_parquet(spark, format, settings)
        if format != "parquet":
            columns = f"{columns}, {CORRUPT} string"
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
        try:
            return reader.schema(columns).load(settings.path)
        except Exception as error:
            raise _refused(f"the source {settings.path}", error) from None

    return open_


def _columns_of_parquet(spark: Any, format: str, settings: FileSource) -> str:
    if format != "parquet":
        raise InputError(
            f"a source of {format} needs its columns", hint="columns = 'id string, price double'"
        )
    try:
        found = spark.read.parquet(settings.path)
    except Exception as error:
        raise _refused(f"the source {settings.path}", error) from None
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in found.schema.fields)


def _refused(what: str, error: Exception) -> Exception:
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return error
    return InputError(f"{what} cannot be opened: {first_line(error)}")


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def local_files(path: str, *endings: str) -> list[Path]:
    """The files that a path of this machine stands for."""
    if "://" in path:
        return []
    roots = [Path(path)] if Path(path).exists() else [Path(name) for name in glob(path)]  # noqa: PTH207
    found = [file for root in roots for file in (root.rglob("*") if root.is_dir() else [root])]
    hidden = (".", "_")
    return [f for f in found if f.is_file() and not f.name.startswith(hidden) and f.suffix in endings]


def size_of(path: str, *endings: str) -> InputSize | None:
    """Files, bytes and, of Parquet, rows; None where this machine cannot look."""
    if "://" in path:
        return None
    files = local_files(path, *endings)
    rows = _rows(files) if endings == (".parquet",) else None
    return InputSize(len(files), sum(file.stat().st_size for file in files), rows)


def _rows(files: list[Path]) -> int | None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        rows: int = sum(parquet.read_metadata(file).num_rows for file in files)
    except (pa.ArrowException, OSError):
        return None  # reported when the file is opened
    return rows


# Sinks


class JsonSink(ParquetSink):
    """JSON lines, published like Parquet. Rows may differ in their columns."""

    def check_columns(self, schema: Any) -> None:
        check_names(schema.names)

    def publish(self, frame: Any, batch: int) -> None:
        staged = f"{self.output}/_staged/{self.run}-{batch}"
        frame.write.mode("overwrite").json(staged)
        self._files.write(f"{staged}/{FROM}", self.checkpoint.source_of(batch).encode())
        self._files.rename(staged, self.place(batch))


class ConsoleWriter:
    """Prints rows as JSON lines. A batch that is replayed after a crash is printed again."""

    def __init__(self, settings: ConsoleSink) -> None:
        self._limit = settings.limit

    def is_published(self, batch: int) -> bool:
        return batch < 0  # it cannot know

    def publish(self, frame: Any, batch: int) -> None:
        for row in frame.limit(self._limit).toJSON().collect():
            print(json.dumps({"batch": batch, **json.loads(row)}), flush=True, file=sys.stdout)


def _open_parquet_sink(spark: Any, settings: FileSink, checkpoint: str) -> Any:
    return ParquetSink(spark, settings.path, checkpoint)


def _open_json_sink(spark: Any, settings: FileSink, checkpoint: str) -> Any:
    return JsonSink(spark, settings.path, checkpoint)


def _open_console(spark: Any, settings: ConsoleSink, checkpoint: str) -> Any:  # noqa: ARG001
    return ConsoleWriter(settings)


def _open_subscribers(spark: Any, settings: FileSubscriptions) -> Any:
    from tidings.pipeline.streaming import StreamSubscriptions

    return StreamSubscriptions(spark, settings.path, settings.compiled)


def _source(format: str, *endings: str) -> FlowKind:
    return FlowKind(
        FileSource,
        _open_files(format),
        lambda settings: f"{format} files in {settings.path}",
        size=lambda settings: size_of(settings.path, *endings),
    )


KINDS: Final[dict[str, dict[str, FlowKind]]] = {
    "sources": {
        "parquet": _source("parquet", ".parquet"),
        "json": _source("json", ".json", ".jsonl", ".ndjson"),
        "csv": _source("csv", ".csv"),
    },
    "subscriptions": {
        "parquet": FlowKind(
            FileSubscriptions,
            _open_subscribers,
            lambda settings: f"Parquet in {settings.path}",
            size=lambda settings: size_of(settings.path, ".parquet"),
        ),
    },
    "sinks": {
        "parquet": FlowKind(FileSink, _open_parquet_sink, lambda s: f"Parquet in {s.path} ({s.rows} rows)"),
        "json": FlowKind(FileSink, _open_json_sink, lambda s: f"JSON lines in {s.path} ({s.rows} rows)"),
        "console": FlowKind(
            ConsoleSink, _open_console, lambda s: f"the console ({s.rows} rows)", (), once=False
        ),
    },
}

for _table, _kind in broker_kinds(FlowKind).items():
    KINDS[_table]["broker"] = _kind
