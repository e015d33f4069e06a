"""History files: the ending gives the format (`.jsonl`, `.ndjson` or `.parquet`).

Reading and writing hold a bounded number of rows. Every error in a file is a
`HistoryError` that names the file, the line or row, and the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

from tidings.errors import HistoryError
from tidings.history.schema import Row

BUFFERED_ROWS: Final = 16_384  # held before they are written; more makes larger row groups

_JSON_LINES: Final = (".jsonl", ".ndjson")
_PARQUET: Final = (".parquet",)


class _RowBatchWriter(Protocol):
    def write_batch(self, rows: Iterable[Row]) -> None: ...

    def close(self) -> None: ...


class HistoryWriter:
    """Writes rows to a file, a full buffer at a time. Use it as a context manager."""

    def __init__(self, path: Path | str, *, buffered_rows: int = BUFFERED_ROWS) -> None:
        if buffered_rows < 1:
            raise HistoryError(f"a buffer of {buffered_rows} rows holds nothing", hint="at least 1")
        self.path = Path(path)
        self.count = 0
        self._limit = buffered_rows
        self._buffer: list[Row] = []
        self._writer = _writer_for(self.path)
        self._closed = False

    def write(self, row: Row) -> None:
        if self._closed:
            raise HistoryError(f"{self.path}: the history is closed; nothing more can be written")
        self._buffer.append(row)
        self.count += 1
        if len(self._buffer) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Hand the buffered rows to the file (in Parquet a row group of their own)."""
        if self._buffer:
            rows, self._buffer = self._buffer, []
            self._writer.write_batch(rows)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._writer.close()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_history(path: Path | str, rows: Iterable[Row]) -> int:
    """Write all rows; the number of rows written."""
    with HistoryWriter(path) as writer:
        for row in rows:
            writer.write(row)
    return writer.count


def read_history(path: Path | str) -> Iterator[Row]:
    """The rows of a history file, in the order of the file."""
    path = Path(path)
    ending = _ending(path)
    if not path.exists():
        raise HistoryError(f"{path}: no such file")
    if ending in _PARQUET:
        from tidings.history.parquet import read_parquet

        return read_parquet(path)
    if path.is_dir():
        raise HistoryError(f"{path}: a directory, not a file of JSON lines")
    from tidings.history.jsonlines import read_json_lines

    return read_json_lines(path)


def _writer_for(path: Path) -> _RowBatchWriter:
    ending = _ending(path)
    try:
        if ending in _PARQUET:
            from tidings.history.parquet import ParquetWriter

            return ParquetWriter(path)
        from tidings.history.jsonlines import JsonLinesWriter

        return JsonLinesWriter(path)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be written: {error.strerror or error}") from None


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in _JSON_LINES + _PARQUET:
        raise HistoryError(
            f"{path}: the ending {ending!r} names no format of histories",
            hint="use .jsonl (JSON lines) or .parquet",
        )
    return ending
