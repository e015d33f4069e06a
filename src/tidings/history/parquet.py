"""Histories as Parquet, written and read in row groups: memory stays constant.

`attributes` is JSON text, `type` and `members` are lists of strings, `lifetime` is infinite for
forever. The version of the schema is in the file's metadata. A directory of Parquet files (as
Spark writes it) is one history.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from tidings.errors import HistoryError, MissingDependencyError, install_command
from tidings.history.attributes import from_json_values, to_json_values
from tidings.history.jsonlines import attributes_from_text
from tidings.history.schema import COLUMNS, OPS, OUTCOMES, VERSION, Row

VERSION_KEY: Final = b"tidings.history"
BATCH_ROWS: Final = 16_384

_NUMBERS: Final = ("time", "lifetime", "expires")
_INTEGERS: Final = ("sequence", "view")
_LISTS: Final = ("type", "members")
_REQUIRED: Final = ("time", "process", "op")
_OUTCOMES: Final = OUTCOMES | {None}
_FIELDS: Final = tuple(Row.__struct_fields__)


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(
            "histories in Parquet need pyarrow", hint=f"use .jsonl, or {install_command('tidings[fast]')}"
        ) from None
    return pyarrow


def arrow_schema() -> Any:
    """The schema of the map in Arrow's types."""
    pa = _arrow()
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, pa.string())
    kinds.update(dict.fromkeys(_NUMBERS, pa.float64()))
    kinds.update(dict.fromkeys(_INTEGERS, pa.int64()))
    kinds.update(dict.fromkeys(_LISTS, pa.list_(pa.string())))
    fields = [pa.field(name, kind, nullable=name not in _REQUIRED) for name, kind in kinds.items()]
    return pa.schema(fields, metadata={VERSION_KEY: str(VERSION).encode()})


class ParquetWriter:
    """Each batch becomes a row group. Without `close` the file has no footer and is no history."""

    def __init__(self, path: Path) -> None:
        self._arrow = _arrow()
        self._schema = arrow_schema()
        self._writer = self._arrow.parquet.ParquetWriter(
            path, self._schema, compression="zstd", write_page_checksum=True
        )

    def write_batch(self, rows: Iterable[Row]) -> None:
        stored = list(rows)
        columns: list[list[Any]] = [[getattr(row, name) for row in stored] for name in _FIELDS]
        position = COLUMNS.index("attributes")
        columns[position] = [None if value is None else _text_of(value) for value in columns[position]]
        if not all(map(math.isfinite, columns[COLUMNS.index("time")])):
            raise HistoryError("a row whose time is not finite cannot be written", hint="times are seconds")
        batch = self._arrow.RecordBatch.from_arrays(
            [self._arrow.array(c, t) for c, t in zip(columns, self._schema.types, strict=True)],
            schema=self._schema,
        )
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


def read_parquet(path: Path) -> Iterator[Row]:
    """The rows of the file, or of every part in the directory."""
    for part in parts_of(path):
        yield from _read_part(part)


def parts_of(path: Path) -> list[Path]:
    """The file itself, or every part in the directory."""
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not parts:
        raise HistoryError(f"{path}: the directory holds no Parquet file")
    return parts


def read_footer(path: Path) -> Any:
    """The schema that the file says it has, in Arrow's types; a file that is torn has none."""
    pa = _arrow()
    try:
        return pa.parquet.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise _not_ours(path, error) from None


def _not_ours(path: Path, error: Exception) -> HistoryError:
    if isinstance(error, FileNotFoundError):
        return HistoryError(f"{path}: no such file")
    problem = str(error).splitlines()[0]
    return HistoryError(f"{path}: not a whole Parquet file of our schema: {problem}")


def _read_part(path: Path) -> Iterator[Row]:
    pa = _arrow()
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            schema = checked_schema(path, file.schema_arrow)
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                yield from _rows_of(path, _cast(pa, batch, schema), number)
                number += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _not_ours(path, error) from None


def checked_schema(path: Path, found: Any) -> Any:
    """Our schema for the columns that were found; a foreign or a missing one is refused."""
    version = (found.metadata or {}).get(VERSION_KEY, str(VERSION).encode())
    if version != str(VERSION).encode():
        raise HistoryError(
            f"{path}: written with version {version.decode(errors='replace')} of the schema; "
            f"this Tidings reads {VERSION}"
        )
    foreign = [name for name in found.names if name not in COLUMNS]
    missing = [name for name in _REQUIRED if name not in found.names]
    if foreign or missing:
        problem = f"column {foreign[0]!r} is no column" if foreign else f"column {missing[0]!r} is missing"
        raise HistoryError(f"{path}: {problem} of a history")
    ours = arrow_schema()
    # Nullable here: a wrong null is reported with its row, not with the whole batch.
    return _arrow().schema([ours.field(name).with_nullable(True) for name in found.names])


def _cast(pa: Any, batch: Any, schema: Any) -> Any:
    """The batch in our own types (a dictionary of strings, or 32-bit numbers, will do)."""
    return pa.Table.from_batches([batch]).cast(schema)


def _rows_of(path: Path, table: Any, start: int) -> Iterator[Row]:
    columns = {
        "from_" if name == "from" else name: table.column(name)
        for name in table.column_names
        if name in _REQUIRED or table.column(name).null_count < len(table)
    }
    values = {name: _values(name, column) for name, column in columns.items()}
    trusted = _is_plain(values)
    for number, row in enumerate(zip(*values.values(), strict=True), start + 1):
        try:
            yield row_of(dict(zip(values, row, strict=True)), trusted=trusted)
        except HistoryError as error:
            raise HistoryError(f"{path}: row {number}: {error}") from None


def _values(name: str, column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if name in _LISTS:
        return [None if value is None else tuple(value) for value in values]
    return values


def _is_plain(values: dict[str, list[Any]]) -> bool:
    """Do these columns need no check row by row?"""
    required = all(None not in values[name] for name in (*_REQUIRED, "run") if name in values)
    return required and OPS.issuperset(values["op"]) and _OUTCOMES.issuperset(values.get("outcome", ()))


def row_of(values: dict[str, Any], *, trusted: bool) -> Row:
    """A row from the values of its columns; what is wrong with it is a `HistoryError`."""
    if not trusted:
        _check(values)
    if values.get("attributes") is not None:
        values["attributes"] = from_json_values(attributes_from_text(values["attributes"]))
    return Row(**values)


def _check(values: dict[str, Any]) -> None:
    for name in _REQUIRED:
        if values[name] is None:
            raise HistoryError(f"{name} is null")
    if values["op"] not in OPS:
        raise HistoryError(f"unknown op {values['op']!r}", hint=f"one of {', '.join(sorted(OPS))}")
    if values.get("outcome") not in _OUTCOMES:
        raise HistoryError(f"unknown outcome {values['outcome']!r}", hint="ok, refused or unknown")
    if values.get("run", "") is None:
        values["run"] = ""


def _text_of(attributes: dict[str, Any]) -> str:
    return msgspec.json.encode(to_json_values(attributes)).decode()
