"""Values at the edges of their representation, for every generator of numbers, texts, times and events.

Uniform draws never meet 2**53, the neighbour of a bound, an empty text or a nested attribute beside a
dotted name, and the faults were there. So each strategy here draws an edge with the share that it
states (`EDGES`), and the numbers of one example lie around one pivot, so that they are neighbours of one
another. `test_edges.py` measures the shares.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tidings.model.value import INT_MAX, INT_MIN

EDGES = 0.5  # the share of the draws of each strategy below that are edges

CLOCK = 1_700_000_000_000_000_000  # nanoseconds: doubles are 256 apart
POWERS = (31, 53, 63)
PIVOTS: tuple[int | float, ...] = (
    0, 1, 1.0, 0.1, -1.5, CLOCK, -CLOCK, 10**18, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    1e16,
    *(sign * 2**power for power in POWERS for sign in (1, -1)),
    *(sign * 2.0**power for power in POWERS for sign in (1, -1)),
)  # fmt: skip
TICK = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = (
    EPOCH, datetime(2026, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
    EPOCH + timedelta(microseconds=2**53), EPOCH - timedelta(microseconds=2**53),
    datetime(3000, 1, 1, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC) + 3 * TICK, datetime.max.replace(tzinfo=UTC) - 3 * TICK,
)  # fmt: skip
EDGE_TEXTS = (
    "", "\0", "a\0", "a", "\U0001f600", "a\U0010ffff", "\U0010ffff", "\ud7ff", "\ue000", "e\u0301", "\u00e9",
    "\u0130",
    "\u017f", "%", "_", "\\", "a%", "'", "`", "/", "a/b", "+", "\n", " ", "1", "true", "\u2028", "\ufeffa",
)  # fmt: skip
# Texts at the edges of what INT, FLOAT, DECIMAL, BOOL and TIMESTAMP read: exponents and digits that no number
# has, days and years that no calendar has.
CONVERTED_TEXTS = (
    "1E99999999999999999999", "0E-99999999999999999999", "-1e400", "1e-400", "1e308", "+.5", "-0", "9" * 400,
    "9" * 401, "9" * 5000, "1E400", "0E999999999999999999", "9223372036854775808", "nan", "Infinity", "1_0",
    "TRUE", "0001-01-01T00:00:00+18:00", "9999-12-31T23:59:59.999999999-18:00", "2026-02-30T00:00:00Z",
    "2026-01-31T12:00:00Z",
)  # fmt: skip


def neighbours(pivot: int | float) -> tuple[int | float, ...]:
    """The numbers next to a number: as integers, as doubles, and where one lies between two of the other."""
    found: dict[tuple[type, str], int | float] = {}
    if math.isfinite(pivot):
        near = float(pivot)
        doubles = [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
        whole = [int(pivot) + step for step in (0, 1, -1, 2, -2)]
        whole += [int(double) + step for double in doubles if math.isfinite(double) for step in (0, 1, -1)]
        if abs(pivot) >= 2**53:
            gap = int(math.ulp(near))
            whole += [int(near) + sign * (gap // 2 + step) for sign in (1, -1) for step in (0, 1, -1)]
        numbers: list[int | float] = [*doubles, -0.0, *(n for n in whole if INT_MIN <= n <= INT_MAX)]
        for number in numbers:
            if math.isfinite(number):
                found[type(number), repr(number)] = number
    return tuple(found.values())


EDGE_NUMBERS = tuple(dict.fromkeys((type(n), repr(n)) for pivot in PIVOTS for n in neighbours(pivot)))
EDGE_TIMES = tuple(moment + step * TICK for moment in MOMENTS for step in (-2, -1, 0, 1, 2))


def is_edge(value: Any) -> bool:
    """Is it one of the values above?"""
    if isinstance(value, datetime):
        return value in EDGE_TIMES
    if isinstance(value, str):
        return value in EDGE_TEXTS
    return (type(value), repr(value)) in EDGE_NUMBERS


def weighed(edges: st.SearchStrategy[Any], ordinary: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Edges with their share, and ordinary values for the rest."""
    return st.booleans().flatmap(lambda edge: edges if edge else ordinary)


_pivot: st.SearchStrategy[int | float] = st.shared(st.sampled_from(PIVOTS), key="pivot of the numbers")
edge_numbers = _pivot.flatmap(lambda pivot: st.sampled_from(neighbours(pivot)))
numbers = weighed(
    edge_numbers,
    st.one_of(
        st.integers(3, 99), st.integers(INT_MIN, INT_MAX), st.floats(allow_nan=False, allow_infinity=False)
    ),
)
texts = weighed(
    st.sampled_from(EDGE_TEXTS),
    st.one_of(
        st.sampled_from(("ab", "abc", "b", "a%b", "A")),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=4),
    ),
)
times = weighed(
    st.sampled_from(EDGE_TIMES),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
        lambda moment: moment.replace(tzinfo=UTC, fold=0)
    ),
)
values = st.one_of(numbers, texts, times, st.booleans())
converted_texts = st.sampled_from(CONVERTED_TEXTS)


def placed(attributes: dict[str, Any], name: str, value: Any, shape: int) -> None:
    """Put a value under a dotted name: nested, dotted, or dotted beside deeper nesting (edges: 1 and 2)."""
    outer, dot, inner = name.partition(".")
    if not dot:
        attributes[name] = value
    elif shape == 0:
        attributes[outer] = {inner: value}
    elif shape == 1:
        attributes[name] = value
    else:
        attributes[name] = value
        attributes[outer] = {inner: {"deeper": 1}, "beside": "a"}


shapes = weighed(st.sampled_from((1, 2)), st.just(0))  # of `placed`
