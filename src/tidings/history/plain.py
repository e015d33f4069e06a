"""The engine for histories that fit in memory: tables are lists, groups are dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from tidings.history.relations import Columns, PropertyViolations, Table, Violation

R = TypeVar("R")


class PlainEngine:
    def __init__(self, facts: Mapping[type[Any], list[Any]]) -> None:
        self._facts = facts

    def facts(self, kind: type[Any]) -> Table:
        return self._facts.get(kind, [])

    def is_empty(self, table: Table) -> bool:
        return not table

    def lacks(self, table: Table) -> bool:
        return not table

    def each(self, make: Callable[[Any], Iterable[R]], table: Table, *, output: type[R]) -> Table:  # noqa: ARG002
        return [made for record in table for made in make(record)]

    def group(
        self,
        make: Callable[..., Iterable[R]],
        left: tuple[Table, Columns],
        *rights: tuple[Table, Columns],
        output: type[R],  # noqa: ARG002  a list holds anything; other engines need the columns
        apart: bool = False,  # noqa: ARG002  all are here
    ) -> Table:
        lefts, columns = left
        groups = grouped(lefts, columns)
        others = [grouped(table, columns, groups) for table, columns in rights]
        made: list[R] = []
        for key, records in groups.items():
            made.extend(make(records, *[other.get(key, ()) for other in others]))
        return made

    def probe(
        self,
        make: Callable[[Any, Any], Iterable[R]],
        stream: Table,
        stored: Table,
        prepare: Callable[[Iterable[Any]], Any],
        *,
        output: type[R],  # noqa: ARG002  a list holds anything; other engines need the columns
    ) -> Table:
        index = prepare(stored)
        made: list[R] = []
        for record in stream:
            made.extend(make(index, record))
        return made

    def largest(self, table: Table, value: Callable[[Any], float | None]) -> dict[str, float]:
        largest: dict[str, float] = {}
        for record in table:
            number = value(record)
            if number is not None and number > largest.get(record.run, float("-inf")):
                largest[record.run] = number
        return largest

    def keep(self, table: Table) -> None:
        """A list is kept as long as it has readers."""

    def found(self, *tables: Table) -> PropertyViolations:
        violations = [violation for table in tables for violation in table]
        return PropertyViolations(len(violations), first_of(violations))


def first_of(violations: Iterable[Violation]) -> Violation | None:
    """Order of reports: the first in time, the rest decides only between equals."""
    return min(violations, key=_place, default=None)


_place = attrgetter("time", "run", "process", "subscription", "source", "event", "story")


def grouped(
    table: Iterable[Any], columns: Columns, wanted: Mapping[Any, Any] | None = None
) -> dict[Any, list[Any]]:
    key_of = attrgetter(*columns)
    groups: dict[Any, list[Any]] = {}
    for record in table:
        key = key_of(record)
        if key in groups:
            groups[key].append(record)
        elif wanted is None or key in wanted:
            groups[key] = [record]
    return groups
