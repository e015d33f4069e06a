"""Histories as JSON lines: one object for each row, every column by name.

The first line also carries the version of the schema. `"forever"` stands for an infinite
lifetime. Keys that are no column are an error, since a misspelt column would change a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tidings.errors import HistoryError
from tidings.history.attributes import from_json_values, to_json_values
from tidings.history.schema import VERSION, Row
from tidings.model.decoding import UNREADABLE

FOREVER_TEXT: Final = "forever"
MAX_LINE_BYTES: Final = 4 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(Row).decode
_decode_any = msgspec.json.Decoder().decode


class JsonLinesWriter:
    """Writes batches of rows; a batch is on its way to the file when `write_batch` returns."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._first = True

    def write_batch(self, rows: Iterable[Row]) -> None:
        lines = [_line_of(row) for row in rows]
        if lines and self._first:
            lines[0] = b'{"version":%d,%s' % (VERSION, lines[0][1:])
            self._first = False
        self._file.write(b"".join(line + b"\n" for line in lines))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_json_lines(path: Path) -> Iterator[Row]:
    """The rows of the file, one line in memory at a time."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise HistoryError(f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes")
            if line.isspace():
                continue
            try:
                yield _row_of(line, first=number == 1)
            except HistoryError as error:
                torn = "" if line.endswith(b"\n") else "; it is the last line and has no end: cut off?"
                raise HistoryError(f"{path}: line {number}: {error}{torn}") from None


def to_lines(rows: Iterable[Row]) -> bytes:
    """Rows as they travel: JSON lines without a version, from one program of ours to another."""
    return b"\n".join(map(_line_of, rows))


def from_lines(lines: bytes) -> list[Row]:
    return [_row_of(line, first=False) for line in lines.split(b"\n") if line]


def _line_of(row: Row) -> bytes:
    if not math.isfinite(row.time):
        raise HistoryError(f"a row at time {row.time!r} cannot be written", hint="times are seconds")
    if row.attributes is None and row.lifetime != math.inf:
        return _encode(row)
    values = msgspec.structs.asdict(row)
    values["from"] = values.pop("from_")
    if row.lifetime == math.inf:
        values["lifetime"] = FOREVER_TEXT
    if row.attributes is not None:
        values["attributes"] = to_json_values(row.attributes)
    return _encode(values)


def _row_of(line: bytes, *, first: bool) -> Row:
    try:
        row = _plain_row(line) if first else _decode_row(line)
    except msgspec.ValidationError:
        row = _plain_row(line)
    except UNREADABLE as error:
        raise HistoryError(f"not JSON: {error}") from None
    if row.attributes is not None:
        row = msgspec.structs.replace(row, attributes=from_json_values(row.attributes))
    return row


def _plain_row(line: bytes) -> Row:
    """The careful way: what people may write by hand, and errors that say what is wrong."""
    try:
        values = _decode_any(line)
    except UNREADABLE as error:
        raise HistoryError(f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise HistoryError("not a JSON object; each line is one row")
    _check_version(values.pop("version", VERSION))
    return row_from_values(values)


def _check_version(version: Any) -> None:
    if version != VERSION:
        raise HistoryError(
            f"written with version {version!r} of the schema; this Tidings reads {VERSION}",
            hint="use the Tidings that wrote it, or a newer one",
        )


def row_from_values(values: dict[str, Any]) -> Row:
    """A row from JSON values by column name."""
    if values.get("lifetime") == FOREVER_TEXT:
        values["lifetime"] = math.inf
    if isinstance(values.get("type"), str):
        values["type"] = (values["type"],)
    if isinstance(values.get("attributes"), str):
        values["attributes"] = attributes_from_text(values["attributes"])
    try:
        return msgspec.convert(values, Row)
    except msgspec.ValidationError as error:
        raise HistoryError(str(error)) from None


def attributes_from_text(text: str) -> dict[str, Any]:
    """Attributes that are kept as JSON text (as in Parquet), before `from_json_values`."""
    try:
        values = _decode_any(text)
    except UNREADABLE as error:
        raise HistoryError(f"attributes are not JSON: {error}") from None
    if not isinstance(values, dict):
        raise HistoryError("attributes are not a JSON object")
    return values
