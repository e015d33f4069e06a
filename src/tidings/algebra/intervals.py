"""Sets of values of one kind as sorted, disjoint intervals between cuts.

Rules
- A cut is a place in the order of a kind: below every value (BOTTOM), just before a value, just
  after it, or above every value (TOP). Cuts compare as tuples. An interval lies between two cuts.
- For a kind with successor values a cut has one canonical form only: after 's' is before 's\\0'
  (strings), after t is before t + 1 µs (times), after False is before True. So equal sets of
  these kinds are equal tuples, and no interval is empty in disguise.
- Numbers are integers, doubles and decimals in one dense order: between any two lies a decimal.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any, TypeAlias

from tidings.model.value import INT_MAX, INT_MIN, Kind, Value, kind_of

Cut: TypeAlias = tuple[Any, ...]  # (-1,) | (0, value, side) | (1,)
Interval: TypeAlias = tuple[Cut, Cut]
Intervals: TypeAlias = tuple[Interval, ...]

BOTTOM: Cut = (-1,)
TOP: Cut = (1,)
EMPTY: Intervals = ()
FULL: Intervals = ((BOTTOM, TOP),)

FIRST_TIME = datetime.min.replace(tzinfo=UTC)
LAST_TIME = datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)
_DIGITS = 1200  # of the decimal between two doubles, which have up to 767 each
_LAST_CHARACTER = chr(0x10FFFF)
_LEAST: dict[Kind, Any] = {
    Kind.BOOL: False,
    Kind.NUMBER: -math.inf,
    Kind.STRING: "",
    Kind.TIME: FIRST_TIME,
}


def before(value: Value) -> Cut:
    """The cut just before a value."""
    kind = kind_of(value)
    assert kind is not None
    return BOTTOM if value == _LEAST[kind] else (0, value, 0)


def after(value: Any) -> Cut:
    """The cut just after a value, in its canonical form."""
    kind = kind_of(value)
    if kind is Kind.STRING:
        return (0, value + "\0", 0)
    if kind is Kind.NUMBER:
        return TOP if value == math.inf else (0, value, 1)
    if kind is Kind.BOOL:
        return TOP if value else (0, True, 0)
    return TOP if value == LAST_TIME else (0, value + TICK, 0)


def point(value: Value) -> Interval:
    return (before(value), after(value))


def points(values: list[Any]) -> Intervals:
    """The set of these values, all of one kind."""
    return union(EMPTY, tuple(point(value) for value in values))


def between(low: Any, high: Any, low_open: bool, high_open: bool) -> Intervals:
    """A range as constraints give it; None is no bound."""
    start = BOTTOM if low is None else after(low) if low_open else before(low)
    end = TOP if high is None else before(high) if high_open else after(high)
    return ((start, end),) if holds_value(start, end) else EMPTY


def prefixed(prefix: str) -> Intervals:
    """All strings that begin with `prefix`: one interval, since order is by code point."""
    return ((before(prefix), after_prefix(prefix)),)


def after_prefix(prefix: str) -> Cut:
    """The cut above every string with this prefix."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return TOP
    following = ord(stem[-1]) + 1
    if 0xD800 <= following < 0xE000:  # surrogates are no characters of any string that we accept
        following = 0xE000
    return (0, stem[:-1] + chr(following), 0)


def holds_value(start: Cut, end: Cut) -> bool:
    """Is there a value between the two cuts?"""
    return start < end


def number_between(low: Any, high: Any) -> int | float | Decimal:
    """A number strictly between two numbers, as plain as possible: a decimal between neighbouring doubles."""
    if math.isfinite(low):
        whole: int = math.floor(low) + 1
        if whole < high and INT_MIN <= whole <= INT_MAX:
            return whole
    middle = float(low) / 2 + float(high) / 2
    if low < middle < high:
        return middle
    above = math.nextafter(float(low), math.inf)
    if low < above < high:
        return above
    if math.isinf(low) or math.isinf(high):
        return 2 * Decimal(high if math.isinf(low) else low)
    with localcontext() as context:
        context.prec = _DIGITS
        middle_decimal: Decimal = (Decimal(low) + Decimal(high)) / 2
        return middle_decimal


def union(one: Intervals, other: Intervals) -> Intervals:
    """The values of either; neighbouring intervals are joined."""
    result: list[Interval] = []
    for start, end in sorted(one + other):
        if result and start <= result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        else:
            result.append((start, end))
    return tuple(result)


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """The values of both."""
    if one == FULL:
        return other
    if other == FULL:
        return one
    result: list[Interval] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if holds_value(start, end):
            result.append((start, end))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def complement(intervals: Intervals) -> Intervals:
    """Every other value of the kind."""
    result: list[Interval] = []
    start = BOTTOM
    for low, high in intervals:
        if holds_value(start, low):
            result.append((start, low))
        start = high
    if holds_value(start, TOP):
        result.append((start, TOP))
    return tuple(result)


def difference(one: Intervals, other: Intervals) -> Intervals:
    """The values of `one` that are not in `other`."""
    return intersection(one, complement(other)) if other else one


def within(small: Intervals, large: Intervals) -> bool:
    """Is every value of `small` in `large`?"""
    if not small:
        return True
    if len(large) == 1 and large[0][0] <= small[0][0] and small[-1][1] <= large[0][1]:
        return True
    return bool(large) and not difference(small, large)


def only_value(kind: Kind, interval: Interval) -> Value | None:
    """The one value of an interval that holds just one, else None."""
    value = some_value(kind, interval)
    return value if point(value) == interval else None


def values_of(kind: Kind, intervals: Intervals) -> list[Value] | None:
    """The values of a finite set, else None."""
    result: list[Value] = []
    for interval in intervals:
        for value in _few_values(kind, interval):
            if value is None:
                return None
            result.append(value)
    return result


def _few_values(kind: Kind, interval: Interval) -> list[Value | None]:
    if kind is Kind.BOOL:
        return [v for v in (False, True) if interval[0] <= before(v) and after(v) <= interval[1]]
    return [only_value(kind, interval)]


def some_value(kind: Kind, interval: Interval) -> Value:
    """A value inside a non-empty interval, as plain as possible."""
    start, end = interval
    if kind is Kind.NUMBER:
        return _some_number(start, end)
    if start is not BOTTOM and start != BOTTOM:
        value: Value = start[1]
        return value
    least: Value = _LEAST[kind]
    return least


def _some_number(start: Cut, end: Cut) -> int | float | Decimal:
    if start == BOTTOM:
        if end == TOP:
            return 0
        return _inside_if(end[1] - 1, start, end, -math.inf)
    low: int | float = start[1]
    if start[2] == 0:
        return low
    if end == TOP:
        return _inside_if(low + 1, start, end, math.inf)
    if end[2] == 1:
        high: int | float = end[1]
        return high
    return number_between(low, end[1])


def _inside_if(candidate: int | float, start: Cut, end: Cut, otherwise: float) -> int | float:
    fits = isinstance(candidate, float) or INT_MIN <= candidate <= INT_MAX
    return candidate if fits and start <= before(candidate) and after(candidate) <= end else otherwise
