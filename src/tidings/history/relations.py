"""Interface between properties and the engine that checks them: a few operations on tables of records.

A table holds records (msgspec Structs) of one type. A property is written once, as pure
functions on small groups of records, and says by column names which records meet in a group.
So the same definition runs over lists in memory and over the partitions of a cluster: `each` is
a map, `group` a shuffle by key, `probe` a broadcast join, `largest` and `found` are aggregates. Results
do not depend on the order of a table. Functions handed over are module-level (or partials of such),
so that they can be sent to where the records are. A result made of a record or a group keeps its
`run`, and its `source` and `event` (or the columns of the group's key) where it has columns of
that name, so that an engine may go on where the records already are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

R = TypeVar("R")
Table = Any  # opaque: what it is depends on the engine
Columns = tuple[str, ...]


class Violation(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One way in which a history breaks a property. Ordered: the first one is reported."""

    time: float
    run: str
    process: str
    subscription: str
    source: str
    event: str
    story: str
    facts: dict[str, Any] = {}


class PropertyViolations(msgspec.Struct, frozen=True):
    """The violations of one property."""

    count: int
    first: Violation | None


class RelationEngine(Protocol):
    def facts(self, kind: type[Any]) -> Table:
        """The facts of that kind (see `facts.py`)."""

    def is_empty(self, table: Table) -> bool: ...

    def lacks(self, table: Table) -> bool:
        """Is it known, without another pass over the history, that the table is empty?"""

    def each(self, make: Callable[[Any], Iterable[R]], table: Table, *, output: type[R]) -> Table:
        """`make(record)` for each record, all in one table."""

    def group(
        self,
        make: Callable[..., Iterable[R]],
        left: tuple[Table, Columns],
        *rights: tuple[Table, Columns],
        output: type[R],
        apart: bool = False,
    ) -> Table:
        """For each key of `left`: `make(lefts, rights…)`, each a list of the records with that key.

        Keys match by position: the columns of each table may have names of their own. `apart`
        says that each left record is judged by itself beside the rights, so that the left ones
        of a key may come in several portions."""

    def probe(
        self,
        make: Callable[[Any, Any], Iterable[R]],
        stream: Table,
        stored: Table,
        prepare: Callable[[Iterable[Any]], Any],
        *,
        output: type[R],
    ) -> Table:
        """For each record of `stream`: `make(prepare(held), record)`; all of `stored` is everywhere."""

    def largest(self, table: Table, value: Callable[[Any], float | None]) -> dict[str, float]:
        """For each run the largest value of its records; None does not count."""

    def keep(self, table: Table) -> None:
        """The table will be asked for again after the next answer; an engine may store it."""

    def found(self, *tables: Table) -> PropertyViolations:
        """Number of violations in the tables, and the first."""
