"""Figures of the past days: one row a minute, kept beside the store, for the console's history.

Rules
- A row holds counters and levels as they are; readers make rates of two rows. Counters fall when the broker
  starts.
- `KEEP_SECONDS` are kept. A broker with a store finds them again after a restart (`figures.jsonl`); a line
  that cannot be read is left out, and a disk that cannot be written costs the history alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.errors import InputError

log = logging.getLogger("tidings.broker")

EVERY_SECONDS = 60.0
KEEP_SECONDS = 3 * 86_400.0
FILE = "figures.jsonl"
SHOWN = (
    "published", "delivered", "lost", "waiting", "entries", "subscriptions", "connections", "sessions",
    "dead letters", "refused by rule", "store bytes", "store free bytes",
)  # fmt: skip

Row = dict[str, float]


class PastFigures:
    """The rows of one broker. `figures` gives those of now."""

    def __init__(
        self,
        figures: Callable[[], dict[str, Any]],
        folder: Path | None,
        clock: Callable[[], float] = time.time,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._figures, self._clock, self._every = figures, clock, every_seconds
        self._file = None if folder is None else folder / FILE
        self._rows: deque[Row] = deque(maxlen=int(KEEP_SECONDS / EVERY_SECONDS))
        self._timer: asyncio.TimerHandle | None = None
        self._written = 0  # lines of the file

    def start(self) -> None:
        """Read what the disk holds, and note the figures of now and of every minute."""
        if self._file is not None and self._file.exists():
            for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
                self._written += 1
                if (row := _read(line)) is not None and row["time"] > self._clock() - KEEP_SECONDS:
                    self._rows.append(row)
        self._turn()

    def _turn(self) -> None:
        self.note()
        self._timer = asyncio.get_running_loop().call_later(self._every, self._turn)

    def note(self) -> None:
        """Keep the figures of now."""
        shown = self._figures()
        row: Row = {"time": round(self._clock(), 1)}
        row |= {name: shown[name] for name in SHOWN if isinstance(shown.get(name), int | float)}
        self._rows.append(row)
        self._write(row)

    def _write(self, row: Row) -> None:
        if self._file is None or not self._file.parent.is_dir():
            return
        try:
            if self._written > 2 * (self._rows.maxlen or 1):
                new = self._file.with_suffix(".new")
                new.write_text("".join(json.dumps(each) + "\n" for each in self._rows), encoding="utf-8")
                new.replace(self._file)
                self._written = len(self._rows)
            else:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                self._written += 1
        except OSError as error:
            log.warning("the history of figures cannot be written: %s", error)

    def rows(self, about: dict[str, Any]) -> list[Row]:
        """Rows of the last `seconds`, thinned to `count`. Raises `InputError`."""
        seconds, count = about.get("seconds", 86_400), about.get("count", 300)
        if not all(isinstance(value, int | float) and value > 0 for value in (seconds, count)):
            raise InputError("`seconds` and `count` are numbers above 0")
        chosen = [row for row in self._rows if row["time"] > self._clock() - seconds]
        step = max(1, -(-len(chosen) // int(count)))
        return chosen[::-1][::step][::-1]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _read(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and all(isinstance(value, int | float) for value in row.values())
    return row if is_row and "time" in row else None
