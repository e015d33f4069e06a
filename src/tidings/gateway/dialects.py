"""The filter dialects of the CloudEvents Subscriptions API, as filters of ours.

    [{"exact": {"type": "com.example.order"}}, {"any": [{"prefix": {"source": "/eu/"}}, {"sql": "x < 3"}]}]

Rules
- A filter is an object with one member, its dialect: exact, prefix, suffix, all, any, not or sql. A list
  of filters accepts what all of them accept.
- Logic there has two values: an attribute that is absent makes exact, prefix and suffix false, and `not`
  true. So `not` goes inward here, to conditions that also hold when the attribute is absent.
- Values are texts, and are compared with the text of the attribute: '5' is also the number 5.
- `subject` is the topic of an event; one that cannot be a topic is the attribute `subject`.
- With `sql` inside, everything becomes one CloudEvents SQL expression. An error in it means: not accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from tidings.errors import FilterError
from tidings.language import parse_filter
from tidings.language.build import AttributeTerm, Condition, attr, call
from tidings.model.filter import CESQL, EVERYTHING, Filter
from tidings.model.pattern import escape_like
from tidings.model.value import INT_MAX, INT_MIN

DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "sql")
MOST_FILTERS = 256  # in one subscription, nested ones too
DEEPEST = 16
_CASES = {"true": True, "false": False}


def read_filters(filters: Any) -> Filter:
    """The filter that accepts what all of these accept. Raises `FilterError`."""
    if filters is None or filters == []:
        return EVERYTHING
    if not isinstance(filters, list):
        raise FilterError("`filters` is a list of filters", hint='[{"exact": {"type": "…"}}]')
    budget = [MOST_FILTERS]
    for one in filters:
        _check(one, 1, budget)
    if len(filters) == 1 and "sql" in filters[0]:
        return parse_filter(filters[0]["sql"], dialect=CESQL)
    if any(_has_sql(one) for one in filters):
        return parse_filter(" AND ".join(f"({_sql(one)})" for one in filters), dialect=CESQL)
    return reduce(and_, (_condition(one, wanted=True) for one in filters)).filter()


# -- what is well formed ---------------------------------------------------------------------------


def _check(filter: Any, depth: int, budget: list[int]) -> None:
    budget[0] -= 1
    if depth > DEEPEST or budget[0] < 0:
        raise FilterError(f"at most {MOST_FILTERS} filters, nested {DEEPEST} deep")
    if not isinstance(filter, dict) or len(filter) != 1:
        raise FilterError(
            "a filter is an object with one member, its dialect", hint=f"one of {', '.join(DIALECTS)}"
        )
    dialect, body = next(iter(filter.items()))
    if dialect not in DIALECTS:
        raise FilterError(f"no filter dialect is called {dialect!r}", hint=f"one of {', '.join(DIALECTS)}")
    if dialect in ("all", "any"):
        if not isinstance(body, list) or not body:
            raise FilterError(f"{dialect!r} holds a list of filters, one at least")
        for inner in body:
            _check(inner, depth + 1, budget)
    elif dialect == "not":
        _check(body, depth + 1, budget)
    elif dialect == "sql":
        if not isinstance(body, str):
            raise FilterError("'sql' holds an expression as text")
    else:
        _check_texts(dialect, body)


def _check_texts(dialect: str, body: Any) -> None:
    if not isinstance(body, dict) or not body:
        raise FilterError(
            f"{dialect!r} holds attributes with texts", hint=f'{{"{dialect}": {{"type": "…"}}}}'
        )
    for name, text in body.items():
        if not name or not isinstance(text, str) or not text:
            raise FilterError(f"{dialect!r} compares {name!r} with a text that is not empty")


def _has_sql(filter: Mapping[str, Any]) -> bool:
    dialect, body = next(iter(filter.items()))
    if dialect == "not":
        return _has_sql(body)
    return dialect == "sql" or (dialect in ("all", "any") and any(map(_has_sql, body)))


# -- as a condition --------------------------------------------------------------------------------


def _condition(filter: Mapping[str, Any], *, wanted: bool) -> Condition:
    """Holds when the filter accepts (`wanted`), or when it does not."""
    dialect, body = next(iter(filter.items()))
    if dialect == "not":
        return _condition(body, wanted=not wanted)
    if dialect in ("all", "any"):
        parts = [_condition(inner, wanted=wanted) for inner in body]
        return reduce(and_ if (dialect == "all") == wanted else or_, parts)
    parts = [_test(dialect, name, text, wanted=wanted) for name, text in body.items()]
    return reduce(and_ if wanted else or_, parts)


def _test(dialect: str, name: str, text: str, *, wanted: bool) -> Condition:
    if name == "specversion":
        return _constant(_FITS[dialect]("1.0", text) == wanted)
    places = [attr("topic"), attr("subject")] if name == "subject" else [attr(name)]
    if wanted:
        return reduce(or_, (_positive(dialect, place, text) for place in places))
    return reduce(and_, (~place.exists() | _negative(dialect, place, text) for place in places))


def _negative(dialect: str, place: AttributeTerm, text: str) -> Condition:
    """Of a value of any kind: as its text, since a number is unlike every word."""
    value = call("STRING", place)
    if dialect == "exact":
        return value != text
    return ~(value.startswith(text) if dialect == "prefix" else value.endswith(text))


def _positive(dialect: str, place: AttributeTerm, text: str) -> Condition:
    if dialect == "prefix":
        return place.startswith(text)
    if dialect == "suffix":
        return place.endswith(text)
    same = place == text
    if text in _CASES:
        return same | (place == _CASES[text])
    number = _number(text)
    return same if number is None else same | (place == number)


def _number(text: str) -> int | None:
    """The integer whose text this is."""
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 20:
        return None
    number = int(text)
    return number if str(number) == text and INT_MIN <= number <= INT_MAX else None


def _constant(truth: bool) -> Condition:
    known = attr("id").exists()  # every event has one
    return known if truth else ~known


_FITS: dict[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


# -- as CloudEvents SQL ----------------------------------------------------------------------------


def _sql(filter: Mapping[str, Any]) -> str:
    dialect, body = next(iter(filter.items()))
    if dialect == "sql":
        return f"({body})"
    if dialect == "not":
        return f"(NOT ({_sql(body)}))"
    if dialect in ("all", "any"):
        return _joined("AND" if dialect == "all" else "OR", [_sql(inner) for inner in body])
    return _joined("AND", [_sql_test(dialect, name, text) for name, text in body.items()])


def _sql_test(dialect: str, name: str, text: str) -> str:
    names = ("topic", "subject") if name == "subject" else (name,)
    if dialect == "exact":
        tests = [f"(EXISTS {each} AND {each} = {_quoted(text)})" for each in names]
    else:
        pattern = escape_like(text) + "%" if dialect == "prefix" else "%" + escape_like(text)
        tests = [f"(EXISTS {each} AND {each} LIKE {_quoted(pattern)})" for each in names]
    return _joined("OR", tests)


def _joined(word: str, parts: Sequence[str]) -> str:
    """In brackets on each side, so that no precedence is asked for."""
    return reduce(lambda left, right: f"({left} {word} {right})", parts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
