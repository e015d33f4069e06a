"""Selection of files and row groups that may hold an event for a filter; all others are not read.

Rules
- Never a false exclusion. A row group with odd rows is read, because its columns are incomplete. Unknown
  bounds do not exclude a row group.
- A filter may be met when some conjunction may; a conjunction when each of its constraints may. Residuals and
  constraints that no bounds speak of are taken as met.
- The dialect `cesql` has names without case and casts of its own: its filters exclude row groups only by the
  constraints of their normal form, which mean the same in both dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tidings.archive.state import ArchiveFile, Stats
from tidings.model.constraint import (
    Constraint,
    Equals,
    Exists,
    IsA,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.filter import Conjunction, Filter

Bounds = Callable[[str], Stats | None]
NOTHING = Stats(None, None, False, True)


def may_hold(filters: Iterable[Filter], bounds: Bounds) -> bool:
    """May an event within these bounds be accepted by one of the filters?"""
    return any(_may_meet(part, bounds) for filter in filters for part in filter.conjunctions)


def file_may_hold(file: ArchiveFile, filters: Sequence[Filter]) -> bool:
    """May one of the filters accept an event of this file?"""
    return bool(file.odd) or may_hold(filters, lambda name: file.stats.get(name, NOTHING))


def row_groups(metadata: Any, filters: Sequence[Filter], *, has_odd: bool) -> list[int]:
    """The row groups of a Parquet file that may hold an event for one of the filters."""
    positions = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if (has_odd and _has_odd(group, positions)) or may_hold(filters, _group_bounds(group, positions)):
            found.append(number)
    return found


def _has_odd(group: Any, positions: Mapping[str, int]) -> bool:
    stats = group.column(positions["_odd"]).statistics
    return stats is None or not stats.has_min_max or bool(stats.max)


def _group_bounds(group: Any, positions: Mapping[str, int]) -> Bounds:
    def bounds(name: str) -> Stats | None:
        position = positions.get(name)
        if position is None:
            return NOTHING
        stats = group.column(position).statistics
        if stats is None:
            return None
        has_nulls = not stats.has_null_count or stats.null_count > 0
        if stats.has_null_count and stats.null_count == group.num_rows:
            return NOTHING
        if not stats.has_min_max:
            return Stats(None, None, True, has_nulls)
        return Stats(stats.min, stats.max, True, has_nulls)

    return bounds


def _may_meet(part: Conjunction, bounds: Bounds) -> bool:
    return all(_may_hold(constraint, bounds) for constraint in part.constraints)


def _may_hold(constraint: Constraint, bounds: Bounds) -> bool:
    if isinstance(constraint, IsA) or constraint.attribute == "type":
        return True  # a lineage has no bounds
    stats = bounds(constraint.attribute)
    if stats is None:
        return True
    if isinstance(constraint, Missing):
        return stats.has_nulls
    if not stats.has_values:
        return False
    match constraint:
        case Equals(_, value):
            return _overlaps(stats, value, value)
        case OneOf(_, values):
            return any(_overlaps(stats, value, value) for value in values)
        case Range(_, low, high, low_open, high_open):
            return _overlaps(stats, low, high, low_open=low_open, high_open=high_open)
        case Prefix(_, prefix):
            return _may_begin(stats, prefix)
        case NotOneOf(_, values):
            return not (stats.low is not None and stats.low == stats.high and stats.low in values)
        case Exists() | Like() | Regexp() | TopicIs():
            return True


def _overlaps(stats: Stats, low: Any, high: Any, *, low_open: bool = False, high_open: bool = False) -> bool:
    """Do the values between two bounds meet those of the column? Values of another kind never do."""
    kind = next((value for value in (low, high) if value is not None), None)
    least, most = _like(stats.low, kind), _like(stats.high, kind)
    if least is None or most is None:
        return True
    if not _is_alike(least, kind):
        return False
    if low is not None and (most < low or (low_open and most == low)):
        return False
    return not (high is not None and (least > high or (high_open and least == high)))


def _like(bound: Any, value: Any) -> Any:
    """A bound of the state is as JSON holds it: a time is a text there."""
    if isinstance(bound, str) and isinstance(value, datetime):
        try:
            return datetime.fromisoformat(bound)
        except ValueError:
            return bound
    return bound


def _is_alike(one: Any, other: Any) -> bool:
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    if isinstance(one, numbers) or isinstance(other, numbers):
        return isinstance(one, numbers) and isinstance(other, numbers)
    return type(one) is type(other)


def _may_begin(stats: Stats, prefix: str) -> bool:
    if not isinstance(stats.low, str) or not isinstance(stats.high, str):
        return not (stats.low is not None and stats.high is not None)
    return stats.high >= prefix and stats.low[: len(prefix)] <= prefix
