"""A solver-style oracle for the algebra: on small domains it tries every event.

For each attribute it lists values that stand for every order relation to the constants of the
filters at hand (at, between, around), one or more of every other kind, and absent. An event is
one choice for each attribute. It knows nothing of intervals, cells or automata: it asks `accepts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import combinations, pairwise, product
from typing import Any

from hypothesis import strategies as st

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
from tidings.model.event import LINEAGE
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import INT_MAX, INT_MIN

Choice = dict[str, Any]

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
NUMBERS = [
    -1, 0, 1, 1.0, 1.5, 2, 2**53, 2**53 + 1, 2.0**53 + 2, -0.0, 5e-324, math.nextafter(1, 2),
    math.nextafter(1, 0),
    2**63 - 1, 2.0**63, -(2**63), 1.7976931348623157e308, math.inf, -math.inf,
]  # fmt: skip
STRINGS = ["", "a", "ab", "b", "a\0", "a/b", "/", "\U0001f600", "\U0010ffff"]
TIMES = [T0, T0 + TICK, T0 + 2 * TICK, T0 + timedelta(days=1)]
KINDS: list[list[Any]] = [NUMBERS, STRINGS, TIMES]
LIKES = st.text("ab%_/", max_size=4)
TOPICS = st.sampled_from(["#", "+", "+/#", "a/#", "a/+", "+/b", "a/b", "/", "a/+/#", "+/+", "+/a/#", "a"])
REGEXPS = st.sampled_from(["a", "^a", "b$", "^ab$", "", "^a.*b", "a+b", "^(a|b)", "[ab]", "^a?b", "^ab*"])
SHORT_STRINGS = ["".join(chars) for n in range(5) for chars in product("ab/x", repeat=n)]


@lru_cache
def longer_strings() -> list[str]:
    """For the rare pair of patterns that only a longer string tells apart."""
    return ["".join(chars) for n in range(5, 8) for chars in product("ab/x", repeat=n)]


def simple_constraints(attribute: str) -> st.SearchStrategy[Constraint]:
    """Constraints of the fragment for which covering is complete."""
    anything = st.sampled_from([*NUMBERS, *STRINGS, *TIMES, True, False])
    several = st.lists(anything, min_size=1, max_size=3).map(tuple)
    of_a_kind = st.sampled_from([*KINDS, [True, False]]).flatmap(
        lambda values: st.lists(st.sampled_from(values), min_size=1, max_size=3).map(tuple)
    )
    return st.one_of(
        anything.map(lambda value: Equals(attribute, value)),
        several.map(lambda values: OneOf(attribute, values)),
        of_a_kind.map(lambda values: NotOneOf(attribute, values)),
        ranges(attribute),
        ranges(attribute),
        st.sampled_from(STRINGS).map(lambda prefix: Prefix(attribute, prefix)),
        st.sampled_from([Exists(attribute), Missing(attribute)]),
    )


@st.composite
def ranges(draw: st.DrawFn, attribute: str) -> Range:
    values = draw(st.sampled_from(KINDS))
    low, high = draw(st.sampled_from([*values, None])), draw(st.sampled_from([*values, None]))
    if low is None and high is None:
        low = values[0]
    return Range(attribute, low, high, draw(st.booleans()), draw(st.booleans()))


def pattern_constraints(attribute: str, *, regexps: bool = False) -> st.SearchStrategy[Constraint]:
    made: list[st.SearchStrategy[Constraint]] = [
        st.builds(Like, st.just(attribute), LIKES, st.booleans()),
        st.builds(TopicIs, st.just(attribute), TOPICS, st.booleans()),
    ]
    if regexps:
        made.append(st.builds(Regexp, st.just(attribute), REGEXPS, st.booleans()))
    return st.one_of(*made)


def filters(
    constraints: st.SearchStrategy[Constraint], *, conjunctions: int = 1, size: int = 3
) -> st.SearchStrategy[Filter]:
    conjunction = st.lists(constraints, max_size=size).map(
        lambda found: Conjunction(tuple(sorted(found, key=lambda c: c.attribute)))
    )
    return st.lists(conjunction, min_size=1, max_size=conjunctions).map(
        lambda found: Filter("made", tuple(found))
    )


def constraints_of(filters: Iterable[Filter]) -> list[Constraint]:
    return [c for f in filters for conjunction in f.conjunctions for c in conjunction.constraints]


def values_for(constraints: Iterable[Constraint], more: Iterable[Any] = ()) -> list[Any]:
    """Values at, between and around every constant, and some of every kind."""
    constants: list[Any] = [0, "", T0]
    for c in constraints:
        constants += [v for v in (*getattr(c, "values", ()), getattr(c, "value", None)) if v is not None]
        constants += [v for v in (getattr(c, "low", None), getattr(c, "high", None)) if v is not None]
        constants += [v for v in (getattr(c, "prefix", None),) if v is not None]
    numbers = sorted({v for v in constants if type(v) in (int, float)})
    times = {v + n * TICK for v in constants if type(v) is datetime for n in (-1, 0, 1)}
    texts = {v for v in constants if type(v) is str}
    return [None, True, False, *_around(numbers), *sorted(times), *sorted(_neighbours(texts)), *more]


def _around(numbers: list[Any]) -> list[Any]:
    result = [-math.inf, *numbers, math.inf]
    for low, high in pairwise(result):
        beside = (math.nextafter(low, math.inf), math.nextafter(high, -math.inf))
        for between in (low + 1, high - 1, low / 2 + high / 2, *beside):
            if low < between < high and (type(between) is float or INT_MIN <= between <= INT_MAX):
                result = [*result, between]
    return [value for value in result if value == value]


def _neighbours(texts: set[str]) -> set[str]:
    found = set(texts)
    for text in texts:
        found |= {text + "\0", text + "\0\0", text + "a", text + "\U0010ffff"}
        if text:
            found |= {text[:-1], text[:-1] + "\U0010ffff"}
        if text and text[-1] != "\U0010ffff":
            found.add(text[:-1] + chr(ord(text[-1]) + 1))
    return found


def choices(filters: Iterable[Filter], more: Iterable[Any] = ()) -> Iterator[Choice]:
    """Every event, as far as these filters can tell events apart."""
    by_name: dict[str, list[Constraint]] = {}
    for c in constraints_of(filters):
        by_name.setdefault(c.attribute, []).append(c)
    names = sorted(by_name)
    for values in product(*(_told_apart(by_name[name], more) for name in names)):
        yield dict(zip(names, values, strict=True))


def _told_apart(constraints: list[Constraint], more: Iterable[Any]) -> list[Any]:
    """One value for each different row of answers: the others add nothing."""
    rows: dict[tuple[bool, ...], Any] = {}
    texts = [
        v
        for c in constraints
        for v in (getattr(c, "prefix", None), getattr(c, "low", None))
        if type(v) is str
    ]
    longer = [text + short for text in texts for short in SHORT_STRINGS[:21]] if more else []
    for value in values_for(constraints, [*more, *longer]):
        rows.setdefault(tuple(_answer(c, value) for c in constraints), value)
    return list(rows.values())


def _answer(constraint: Constraint, value: Any) -> bool:
    if isinstance(constraint, Like | TopicIs | Regexp):
        return type(value) is str and _pattern_answer(constraint, value)
    return constraint.accepts(value)


@lru_cache(maxsize=1 << 18)
def _pattern_answer(constraint: Constraint, value: str) -> bool:
    return constraint.accepts(value)


def accepts(filter: Filter, choice: Choice) -> bool:
    return any(
        all(c.accepts(choice.get(c.attribute)) for c in conjunction.constraints)
        for conjunction in filter.conjunctions
    )


def counterexample(wide: Filter, narrow: Filter, more: Iterable[Any] = ()) -> Choice | None:
    """An event that `narrow` accepts and `wide` does not."""
    for choice in choices((wide, narrow), more):
        if accepts(narrow, choice) and not accepts(wide, choice):
            return choice
    return None


def common_event(one: Filter, other: Filter, more: Iterable[Any] = ()) -> Choice | None:
    """An event that both accept."""
    for choice in choices((one, other), more):
        if accepts(one, choice) and accepts(other, choice):
            return choice
    return None


TYPE_NAMES = ["A", "B", "C"]


def typed_constraints() -> st.SearchStrategy[Constraint]:
    names = st.sampled_from(TYPE_NAMES)
    return st.one_of(
        st.builds(IsA.of, names, st.booleans()),
        names.map(lambda name: Equals("type", name)),
        st.lists(names, min_size=1, max_size=2).map(lambda found: OneOf("type", tuple(found))),
        names.map(lambda name: NotOneOf("type", (name,))),
        st.sampled_from([Exists("type"), Missing("type"), Exists(LINEAGE), Missing(LINEAGE)]),
        st.sampled_from(["", "A", "B"]).map(lambda prefix: Prefix("type", prefix)),
    )


@lru_cache
def typed_choices() -> list[Choice]:
    """Events with every lineage over the names and some strange ones; and one without a type."""
    names = [*TYPE_NAMES, "AA", "BA", "Z"]
    ancestors = [found for n in range(5) for found in combinations(names, n)]
    lineages = [(name, *found) for name in names for found in ancestors]
    return [{}, *({"type": lineage[0], LINEAGE: lineage} for lineage in lineages)]
