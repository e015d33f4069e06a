"""Recorders: where a driver puts the rows of its history.

A driver calls `record(row)` for each thing that happens and `close()` at the end. Memory is
bounded either way: a file recorder holds one buffer, a memory recorder refuses past its limit
(a history with holes would be judged wrongly, so no row is ever dropped).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

import msgspec

from tidings.errors import HistoryError
from tidings.history.files import BUFFERED_ROWS, HistoryWriter
from tidings.history.schema import Row

MEMORY_ROWS: Final = 5_000_000  # a few hundred bytes each


class Recorder(Protocol):
    def record(self, row: Row) -> None:
        """Take one row; it is in the history from now on."""

    def close(self) -> None:
        """End the history. Closing again has no effect."""


class MemoryRecorder:
    """Keeps the rows; `rows` is the history so far."""

    def __init__(self, *, run: str = "", limit: int = MEMORY_ROWS) -> None:
        self.rows: list[Row] = []
        self._run = run
        self._limit = limit

    def record(self, row: Row) -> None:
        if len(self.rows) >= self._limit:
            raise HistoryError(
                f"the history in memory has reached its {self._limit} rows",
                hint="record to a file, which holds any number",
            )
        self.rows.append(_of_run(row, self._run))

    def close(self) -> None:
        """No action: the rows stay."""


class FileRecorder:
    """Writes the rows to a file; its ending gives the format."""

    def __init__(self, path: Path | str, *, run: str = "", buffered_rows: int = BUFFERED_ROWS) -> None:
        self._writer = HistoryWriter(path, buffered_rows=buffered_rows)
        self._run = run

    @property
    def count(self) -> int:
        return self._writer.count

    def record(self, row: Row) -> None:
        self._writer.write(_of_run(row, self._run))

    def close(self) -> None:
        self._writer.close()


def _of_run(row: Row, run: str) -> Row:
    """The row as part of this run, when it does not name one itself."""
    return msgspec.structs.replace(row, run=run) if run and not row.run else row
