"""The filter dialects of the CloudEvents Subscriptions API, as filters of ours.

    [{"exact": {"type": "com.example.order"}}, {"any": [{"prefix": {"source": "/eu/"}}, {"sql": "x < 3"}]}]

Rules
- A filter is an object with one member, its dialect: exact, prefix, suffix, all, any, not or sql, and
  beyond the standard `tidings`, an expression of our own language. A list of filters accepts what all of
  them accept. `sql` is CloudEvents SQL as its standard has it, so it compares no fractions.
- Logic there has two values: an attribute that is absent makes exact, prefix and suffix false, and `not`
  true. So `not` goes inward here, to conditions that also hold when the attribute is absent.
- Values are texts, and are compared with the text of the attribute: '5' is also the number 5.
- `subject` is the topic of an event; one that cannot be a topic is the attribute `subject`.
- With `sql` inside, everything becomes one CloudEvents SQL expression. An error in it means: not accepted.
  `sql` and `tidings` give one text two meanings, so that no subscription has both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from tidings.errors import FilterError
from tidings.language import parse, parse_filter
from tidings.language.build import AttributeTerm, Condition, attr, call
from tidings.language.measure import children, walk
from tidings.model.expression import Between, Compare, Expression, Literal, NullTest
from tidings.model.filter import CESQL, EVERYTHING, TIDINGS, Filter
from tidings.model.pattern import escape_like
from tidings.model.value import INT_MAX, INT_MIN

DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "sql", TIDINGS)
FRACTIONS = (
    "{text!r} is CloudEvents SQL, which compares whole numbers: an event whose attribute is a "
    "fraction, -4.5 say, is "
    'not accepted. {{"tidings": {text!r}}} compares fractions too'
)
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
    if len(filters) == 1 and TIDINGS in filters[0]:
        return parse_filter(filters[0][TIDINGS])
    if any(_holds("sql", one) for one in filters):
        if any(_holds(TIDINGS, one) for one in filters):
            raise FilterError(
                "'sql' and 'tidings' are in one subscription", hint="write all of it in one of them"
            )
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
    elif dialect in ("sql", TIDINGS):
        if not isinstance(body, str):
            raise FilterError(f"{dialect!r} holds an expression as text")
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


def _holds(wanted: str, filter: Mapping[str, Any]) -> bool:
    """Is the filter of this dialect, or has it one inside?"""
    return any(dialect == wanted for dialect, _ in _inside(filter))


def _inside(filter: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each filter in this one, and itself, as dialect and body."""
    dialect, body = next(iter(filter.items()))
    yield dialect, body
    for inner in [body] if dialect == "not" else body if dialect in ("all", "any") else ():
        yield from _inside(inner)


def warnings_of(filters: Any) -> list[str]:
    """Warnings about filters that `read_filters` took: CloudEvents SQL that orders numbers."""
    texts = [body for one in filters or () for dialect, body in _inside(one) if dialect == "sql"]
    return [FRACTIONS.format(text=text) for text in texts if _orders_numbers(parse(text, dialect=CESQL))]


def _orders_numbers(expression: Expression) -> bool:
    """Does it compare by order, of anything but a text?"""
    orders = (node for node in walk(expression) if isinstance(node, Between) or _is_order(node))
    return any(not any(map(_is_text, children(node))) for node in orders)


def _is_order(node: Expression) -> bool:
    return isinstance(node, Compare) and node.op not in ("=", "!=")


def _is_text(node: Expression) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str)


# -- as a condition --------------------------------------------------------------------------------


def _condition(filter: Mapping[str, Any], *, wanted: bool) -> Condition:
    """Holds when the filter accepts (`wanted`), or when it does not."""
    dialect, body = next(iter(filter.items()))
    if dialect == "not":
        return _condition(body, wanted=not wanted)
    if dialect == TIDINGS:
        holds = parse(body)
        return Condition(holds) if wanted else ~Condition(holds) | Condition(NullTest(holds))
    if dialect in ("all", "any"):
        parts = [_condition(inner, wanted=wanted) for inner in body]
        return reduce(and_ if (dialect == "all") == wanted else or_, parts)
    parts = [_test(dialect, name, text, wanted=wanted) for name, text in body.items()]
    return reduce(and_ if wanted else or_, parts)


def _test(dialect: str, name: str, text: str, *, wanted: bool) -> Condition:
    if name == "specversion":
        return _constant(_FITS[dialect]("1.0", text) == wanted)
    terms = [attr("topic"), attr("subject")] if name == "subject" else [attr(name)]
    if wanted:
        return reduce(or_, (_positive(dialect, term, text) for term in terms))
    return reduce(and_, (~term.exists() | _negative(dialect, term, text) for term in terms))


def _negative(dialect: str, term: AttributeTerm, text: str) -> Condition:
    """Of a value of any kind: as its text, since a number is unlike every word."""
    value = call("STRING", term)
    if dialect == "exact":
        return value != text
    return ~(value.startswith(text) if dialect == "prefix" else value.endswith(text))


def _positive(dialect: str, term: AttributeTerm, text: str) -> Condition:
    if dialect == "prefix":
        return term.startswith(text)
    if dialect == "suffix":
        return term.endswith(text)
    same = term == text
    if text in _CASES:
        return same | (term == _CASES[text])
    number = _number(text)
    return same if number is None else same | (term == number)


def _number(text: str) -> int | None:
    """The integer that this text spells."""
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
