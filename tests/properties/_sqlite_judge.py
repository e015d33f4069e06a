"""Random filters in two languages at once, ours and SQL, so that SQLite can judge the engines.

Rules
- A condition is written as a pair: our text, and SQL with bound parameters (no literal is read twice).
- Columns are typed as attributes are: `i j` integers, `m` integers and doubles, `x` doubles, `s` text,
  `w` moments (in SQLite microseconds), `f` booleans, `n_x` the attribute `n.x`, `topic`. NULL is absent.
- Left out is what SQLite means differently: comparison across kinds, overflow, NUL in text.
- Numbers are edges with weight: those of one filter and of some events lie around the same pivot.
"""

from __future__ import annotations

import random
import sqlite3
from datetime import datetime
from typing import Any, NamedTuple

from tests.properties._edges import CLOCK, EDGE_TEXTS, EDGE_TIMES, EPOCH, PIVOTS, TICK, neighbours

from tidings.language import print_value
from tidings.model.event import Event, make_event
from tidings.model.value import INT_MAX, INT_MIN

COLUMNS = ("i", "j", "m", "x", "s", "w", "f", "n_x", "topic")
EDGE_SHARE = 0.7  # of the numbers, texts and moments that are drawn
LARGE = (CLOCK, -CLOCK, 10**18, 2**53, -(2**53), 2**63)  # every other pivot is one of these
SAFE = 2**61  # `j` stays below, so that sums and doubles of it do not overflow
TEXTS = [text for text in EDGE_TEXTS if "\0" not in text] + ["ab", "abc", "b", "a/b/c", "IBM", "ibm"]
TOPICS = ["a", "a/b", "a/b/c", "b", "b/a", "\U0001f600/a"]
LIKES = ["a%", "%b", "a_c", "_", "%", "", "%b%", "a\\%", "\\_%", "_%_", "\U0001f600%", "I%"]


class Said(NamedTuple):
    """One condition in both languages."""

    ours: str
    sql: str
    given: tuple[Any, ...] = ()


def stored(value: Any) -> Any:
    """A value as SQLite keeps it."""
    if isinstance(value, datetime):
        return (value - EPOCH) // TICK
    return int(value) if isinstance(value, bool) else value


class Drawing:
    """Draws events and filters from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def number(self, column: str, pivot: float) -> int | float:
        rng = self.rng
        if rng.random() < EDGE_SHARE:
            found = [n for n in neighbours(pivot) if _fits(column, n)]
            if found:
                return rng.choice(found)
        if column == "x" or (column == "m" and rng.random() < 0.5):
            return rng.choice((rng.uniform(-10, 10), rng.uniform(-1e19, 1e19), float(rng.randint(-5, 5))))
        most = SAFE if column == "j" else INT_MAX
        return rng.choice((rng.randint(-5, 5), rng.randint(-most, most)))

    def pivot(self) -> int | float:
        return self.rng.choice(LARGE if self.rng.random() < 0.5 else PIVOTS)

    def value(self, column: str, pivot: float) -> Any:
        rng = self.rng
        if column in ("i", "j", "m", "x", "n_x"):
            return self.number(column, pivot)
        if column == "w":
            return rng.choice(EDGE_TIMES)
        if column == "f":
            return rng.random() < 0.5
        return rng.choice(TOPICS if column == "topic" else TEXTS)

    def event(self, number: int) -> tuple[Event, tuple[Any, ...]]:
        """An event, and the row that says the same."""
        rng, pivot = self.rng, self.pivot()
        row = [self.value(column, pivot) if rng.random() < 0.85 else None for column in COLUMNS]
        kept = {name: v for name, v in zip(COLUMNS, row, strict=True) if v is not None}
        topic, nested = kept.pop("topic", None), kept.pop("n_x", None)
        if nested is not None:
            shape = rng.randrange(3)
            kept |= {"n": {"x": nested}} if shape == 0 else {"n.x": nested}
            if shape == 2:
                kept["n"] = {"x": {"deeper": 1}}
        made = make_event(kept, source="s", id=str(number), topic=topic)
        return made, (number, *(stored(value) for value in row))

    def filter(self, depth: int = 2) -> Said:
        return self._condition(depth, self.pivot())

    def _condition(self, depth: int, pivot: float) -> Said:
        rng = self.rng
        if depth and rng.random() < 0.6:
            if rng.random() < 0.25:
                inner = self._condition(depth - 1, pivot)
                return Said(f"NOT ({inner.ours})", f"NOT ({inner.sql})", inner.given)
            one, other = self._condition(depth - 1, pivot), self._condition(depth - 1, pivot)
            word = rng.choice(("AND", "AND", "OR", "XOR"))
            sql = "<>" if word == "XOR" else word
            return Said(
                f"({one.ours}) {word} ({other.ours})",
                f"(({one.sql}) {sql} ({other.sql}))",
                one.given + other.given,
            )
        makers = (
            self._compare,
            self._compare,
            self._compare,
            self._between,
            self._among,
            self._text,
            self._other,
        )
        return rng.choice(makers)(pivot)

    def _operand(self, column: str) -> tuple[str, str]:
        """An attribute or something computed from it."""
        ours = "n.x" if column == "n_x" else column
        if column == "j" and self.rng.random() < 0.5:
            form = self.rng.choice(
                ("{0} * 2", "{0} + 1", "{0} - 3", "-{0}", "{0} / 2", "{0} % 7", "ABS({0})")
            )
            return form.format(ours), form.format(column)
        return ours, column

    def _column(self) -> str:
        return self.rng.choice(("i", "i", "j", "j", "m", "x", "n_x", "s", "w"))

    def _compare(self, pivot: float) -> Said:
        column = self._column()
        ours, sql = self._operand(column)
        op = self.rng.choice(("<", "<=", ">", ">=", "=", "!="))
        if self.rng.random() < 0.1 and column in ("i", "m", "x", "n_x"):
            other = self.rng.choice(("i", "m", "x"))
            return Said(f"{ours} {op} {other}", f"{sql} {op} {other}")
        kind = self.rng.choice(("i", "m", "x")) if column in ("i", "j", "m", "x", "n_x") else column
        value = self.value(kind, pivot)
        return Said(f"{ours} {op} {print_value(value)}", f"{sql} {op} ?", (stored(value),))

    def _between(self, pivot: float) -> Said:
        column, rng = self._column(), self.rng
        ours, sql = self._operand(column)
        low, high = self.value(column, pivot), self.value(column, pivot)
        if rng.random() < 0.8 and low > high:
            low, high = high, low
        word = rng.choice(("BETWEEN", "NOT BETWEEN"))
        return Said(
            f"{ours} {word} {print_value(low)} AND {print_value(high)}",
            f"({sql} {word} ? AND ?)",
            (stored(low), stored(high)),
        )

    def _among(self, pivot: float) -> Said:
        column, rng = self._column(), self.rng
        values = [self.value(column, pivot) for _ in range(rng.randint(1, 4))]
        word, name = rng.choice(("IN", "NOT IN")), "n.x" if column == "n_x" else column
        # one comparison for each: SQLite would convert the members of a list to one type
        joined = " OR ".join(f"{column} = ?" for _ in values)
        sql = f"({joined})" if word == "IN" else f"NOT ({joined})"
        return Said(f"{name} {word} ({', '.join(map(print_value, values))})", sql, tuple(map(stored, values)))

    def _text(self, _: float) -> Said:
        pattern, word = self.rng.choice(LIKES), self.rng.choice(("LIKE", "NOT LIKE"))
        return Said(f"s {word} {print_value(pattern)}", f"(s {word} ? ESCAPE '\\')", (pattern,))

    def _other(self, _: float) -> Said:
        rng = self.rng
        column = rng.choice(COLUMNS)
        name = "n.x" if column == "n_x" else column
        topic = rng.choice(TOPICS)
        return rng.choice((
            Said("f", "f"), Said("NOT f", "NOT f"), Said(f"{name} IS NULL", f"{column} IS NULL"),
            Said(f"EXISTS {name}", f"{column} IS NOT NULL"),
            Said(f"topic = '{topic}/#'", "(topic = ? OR substr(topic, 1, ?) = ?)",
                (topic, len(topic) + 1, topic + "/")),
        ))  # fmt: skip


def _fits(column: str, number: float) -> bool:
    if column == "x":
        return isinstance(number, float)
    if column == "m":
        return True
    most = SAFE if column == "j" else INT_MAX
    return isinstance(number, int) and -most <= number <= most and number >= INT_MIN


class Judge:
    """A table of events in SQLite."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._base = sqlite3.connect(":memory:")
        self._base.execute("PRAGMA case_sensitive_like = ON")
        self._base.execute(f"CREATE TABLE event (number INTEGER PRIMARY KEY, {', '.join(COLUMNS)})")
        self._base.executemany(f"INSERT INTO event VALUES ({', '.join('?' * (len(COLUMNS) + 1))})", rows)

    def accepted(self, stated: Said) -> set[int]:
        """The numbers of the events for which the condition is true."""
        found = self._base.execute(f"SELECT number FROM event WHERE {stated.sql}", stated.given)
        return {number for (number,) in found}

    def close(self) -> None:
        self._base.close()
