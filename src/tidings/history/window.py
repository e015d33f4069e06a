"""The last minutes of a history: bounded by time and by rows, and still whole in what it says.

Rules
- A row that is older than the window leaves it. What stands stays: the beginning of a subscription that is
  still open, and its last detachment, since without them later rows could not be judged.
- Rows are numbered as they come, so that a reader that has some can ask for the rest.
- `judged` gives the part of the window that can be judged: events published in it. Deliveries of
  earlier events are left out and counted; properties that look for publishes would be wrong about them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from tidings.history.schema import DETACH, NTFY, PUB, SUB, USUB, Row

CLOCKS_SECONDS = 0.25  # by which the clocks of two brokers may differ


class HistoryWindow:
    def __init__(self, seconds: float, most: int) -> None:
        self.seconds = seconds
        self._most = most
        self._rows: deque[tuple[int, Row]] = deque()
        self._standing: dict[str, list[tuple[int, Row]]] = {}  # by subscription
        self._number = 0
        self.is_cut = False  # the bound on rows made the window shorter

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> None:
        self._number += 1
        self._rows.append((self._number, row))
        if len(self._rows) > self._most:
            self.is_cut = True
            self._leave(*self._rows.popleft())

    def trim(self, now: float) -> None:
        while self._rows and self._rows[0][1].time < now - self.seconds:
            self._leave(*self._rows.popleft())

    def _leave(self, number: int, row: Row) -> None:
        name = row.subscription or row.process
        if row.op == SUB:
            self._standing[name] = [(number, row)]
        elif row.op == USUB and row.reason == DETACH and name in self._standing:
            self._standing[name].append((number, row))
        elif row.op == USUB:
            self._standing.pop(name, None)

    def since(self, after: int, most: int) -> tuple[list[Row], int]:
        """The rows with a higher number, so many at most, and the number of the last."""
        numbered = [*(entry for entries in self._standing.values() for entry in entries), *self._rows]
        newer = sorted((entry for entry in numbered if entry[0] > after), key=lambda entry: entry[0])[:most]
        return [row for _, row in newer], newer[-1][0] if newer else after

    def rows(self) -> list[Row]:
        return [row for entries in self._standing.values() for _, row in entries] + [r for _, r in self._rows]


class Judged(NamedTuple):
    rows: list[Row]
    left_out: int  # notifications of events from before the window


def judged(rows: Iterable[Row], since: float, without: Collection[str] = ()) -> Judged:
    """The rows that can be judged from this time on. `without`: subscriptions to leave out."""
    kept = [row for row in rows if row.subscription is None or row.subscription not in without]
    published = {(row.source, row.event): row.time for row in kept if row.op == PUB and row.time >= since}
    found: list[Row] = []
    left_out = 0
    for row in kept:
        if row.op in (SUB, USUB) or row.event is None:
            found.append(row)
        elif (row.source, row.event) not in published:
            left_out += row.op == NTFY
        elif row.op == PUB:
            found.append(row)
        else:
            found.append(_by_one_clock(row, published[row.source, row.event]))
    return Judged(found, left_out)


def _by_one_clock(row: Row, published: float) -> Row:
    """Clocks of brokers differ a little: what seems a little earlier than its publish counts as at that
    moment."""
    if 0 < published - row.time <= CLOCKS_SECONDS:
        return msgspec.structs.replace(row, time=published)
    return row
