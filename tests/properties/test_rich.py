"""Lists, decimals, dates and names of the envelope: every engine against the evaluator, on draws at the
edges."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._edges import EDGE_TEXTS, edge_numbers, neighbours

from tidings.algebra import covers, intersect, overlaps
from tidings.history.attributes import from_json_values, to_json_values
from tidings.language.evaluate import accepts, evaluate
from tidings.language.leaves import canonical
from tidings.language.normalise import normalise
from tidings.language.parser import parse
from tidings.language.printer import print_expression, print_filter
from tidings.language.text import read_filter
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings.matching.matcher import lists_of
from tidings.matching.naive import NaiveMatcher
from tidings.matching.small import SmallMatcher
from tidings.model import cloudevents
from tidings.model import expression as e
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter

DOUBLES = (0.1, 0.3, 1.0, 12.1, 2.0**53, -0.1)


def _decimals(number: int | float) -> tuple[Decimal, ...]:
    """Decimals at a number: equal to it, looking like it, and on both sides of it."""
    exact = Decimal(number)
    near = Decimal(repr(number)) if math.isfinite(number) else exact
    return (
        exact,
        near,
        near + Decimal("1E-30"),
        near - Decimal("1E-30"),
        near + Decimal("0.5"),
        near * 10 / 10,
    )


def _beside(number: float, sign: int) -> Decimal:
    """A decimal nearer to the number than any double."""
    with localcontext() as context:
        context.prec = 1200
        return Decimal(number) + sign * Decimal("1E-350")


NUMBERS: tuple[Any, ...] = tuple(n for pivot in DOUBLES for n in neighbours(pivot))
FINITE = sorted({n for n in (*NUMBERS, 2.0**53 - 1, 5e-324) if math.isfinite(n)})
DECIMALS: tuple[Any, ...] = tuple(d for number in DOUBLES for d in _decimals(number))
BETWEEN: tuple[Any, ...] = (
    *(_beside(n, sign) for n in FINITE for sign in (1, -1)),
    *DECIMALS, *FINITE, Decimal("1E-500"), Decimal("-1E+400"), Decimal("9007199254740991.3"),
    Decimal("9007199254740991.7"), Decimal("9007199254740993.5"), 2**53 + 1,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    2**63, -(2**70), Decimal("1E+400"), Decimal("-Infinity"), Decimal("NaN"), Decimal("0.00"),
    Decimal("-0"), b"", b"\x00", date(2026, 1, 1), date.min, datetime(2026, 1, 1), datetime(2026, 1, 1,
    tzinfo=UTC), time(8, 30), timedelta(1), UUID(int=0), None, True, False, "", "a", "b", "red",
)  # fmt: skip
scalars = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(DECIMALS), st.sampled_from(ODD))
lists = st.recursive(
    st.lists(scalars, max_size=3),
    lambda inner: st.lists(st.one_of(scalars, inner), max_size=3),
    max_leaves=6,
)
elements = st.dictionaries(st.sampled_from(("p", "s", "t")), st.one_of(scalars, lists), max_size=3)
LONG = "a" * 400_000  # over the work budget of each pattern in LONG_PATTERNS
LONG_PATTERNS = ("%a%", "%b", "%a%b%")
heavy = st.sampled_from((LONG, "a", (LONG, "b"), ({"p": LONG},), ()))
bodies = st.fixed_dictionaries(
    {},
    optional={
        "x": st.one_of(scalars, lists), "y": scalars, "id": scalars, "l": st.lists(elements, max_size=3),
        "=0": scalars, "[]": scalars, "": scalars, "h": heavy, "t": st.one_of(lists, scalars),
        "d": st.dictionaries(st.sampled_from(("x", "l")), st.one_of(scalars, lists), max_size=2),
    },
)  # fmt: skip
NAMES = (
    "x", "y", "t", "l.p", "l.s", "l.t", "d.x", "d.l", "data.id", "l", "missing", "=0", "[]", "h",
    "type.lists", "",
)  # fmt: skip
names = st.sampled_from(NAMES)
constants = st.one_of(
    st.sampled_from([n for n in NUMBERS if math.isfinite(n)]),
    st.sampled_from(("", "a", "red", True, False, datetime(2026, 1, 1, tzinfo=UTC))),
)
operands = st.one_of(
    names.map(e.Attribute),
    constants.map(e.Literal),
    st.sampled_from(DECIMALS).map(lambda d: e.Call("DECIMAL", (e.Literal(str(d)),))),
    names.map(lambda name: e.Call("LENGTH", (e.Attribute(name),))),
    st.builds(e.Arithmetic, st.sampled_from("+-*"), names.map(e.Attribute), constants.map(e.Literal)),
)
_signs = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
simple = st.one_of(
    st.builds(e.Compare, _signs, names.map(e.Attribute), constants.map(e.Literal)),
    st.builds(e.Compare, _signs, operands, operands),
    st.builds(e.In, names.map(e.Attribute),
    st.lists(constants.map(e.Literal), min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(e.ExistsTest, names),
    st.builds(e.NullTest, names.map(e.Attribute), st.booleans()),
    st.builds(e.LikeTest, names.map(e.Attribute), st.sampled_from(("a%", "%", "r_d")), st.booleans()),
    st.builds(e.LikeTest, st.just(e.Attribute("h")), st.sampled_from(LONG_PATTERNS), st.booleans()),
)  # fmt: skip


def _ranging(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = inner.filter(lambda node: any(True for _ in _names(node)))
    return st.one_of(
        st.builds(e.AnyOf, named), st.builds(e.AllOf, named), st.builds(e.Not, inner),
        st.builds(e.And, inner, inner),
        st.builds(e.Or, inner, inner), st.builds(lambda name, value: e.AnyOf(e.Compare("=",
        e.Attribute(name), e.Literal(value))), names, constants),
    )  # fmt: skip


def _names(node: Any) -> Any:
    from tidings.language.lists import names_in

    return names_in(node)


_every = st.builds(
    e.AllOf,
    st.builds(e.Compare, _signs, st.sampled_from(("t", "l.p")).map(e.Attribute), constants.map(e.Literal)),
)
conditions: st.SearchStrategy[Any] = st.one_of(
    st.recursive(simple, _ranging, max_leaves=4), st.builds(e.Or, _every, _every)
)  # of two conditions on every element each is looked up apart


def made(body: dict[str, Any]) -> Event:
    return make_event(body, source="s", id="1")


def filter_of(expression: Any) -> Filter:
    return normalise(expression, text=print_expression(expression))


@settings(max_examples=50)
@given(body=bodies)
def test_a_body_survives_the_wire_the_history_and_cloudevents(body: dict[str, Any]) -> None:
    event = made(body)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event)
    assert again == event
    assert repr(again.attributes) == repr(event.attributes)
    written = msgspec.json.decode(msgspec.json.encode(to_json_values(event.attributes)))
    assert made(from_json_values(written)).view == event.view
    document = cloudevents.from_structured(cloudevents.to_structured(event))
    assert document.view == event.view
    assert list(document.view) == list(event.view)


@settings(max_examples=50)
@given(expression=conditions, body=bodies)
def test_the_normal_form_and_both_printers_keep_the_meaning(expression: Any, body: dict[str, Any]) -> None:
    event = made(body)
    value = evaluate(expression, event.view)
    filter, denied = filter_of(expression), filter_of(e.Not(expression))
    assert accepts(filter, event) is (value is True)
    assert accepts(denied, event) is (value is False)
    assert evaluate(parse(print_expression(expression)), event.view) == value
    assert read_filter(print_filter(filter)).digest == filter.digest


@settings(max_examples=50)
@given(
    expressions=st.lists(conditions, min_size=1, max_size=6), found=st.lists(bodies, min_size=1, max_size=4)
)
def test_every_engine_gives_the_answer_of_the_evaluator(
    expressions: list[Any], found: list[dict[str, Any]]
) -> None:
    filters, events = [filter_of(expression) for expression in expressions], [made(body) for body in found]
    oracle = NaiveMatcher()
    for filter in filters:
        oracle.add(filter)
    expected = [list(oracle.match(event)) for event in events]
    for matcher in (SmallMatcher(), ColumnarMatcher(), NumpyMatcher()):
        for filter in filters:
            matcher.add(filter)
        assert [[int(n) for n in matcher.match(event)] for event in events] == expected
        assert [list(map(int, handles)) for handles in lists_of(matcher.match_batch(events))] == expected


@settings(max_examples=50)
@given(one=conditions, other=conditions, body=bodies)
def test_the_algebra_is_sound(one: Any, other: Any, body: dict[str, Any]) -> None:
    wide, narrow, event = filter_of(one), filter_of(other), made(body)
    if covers(wide, narrow):
        assert accepts(wide, event) or not accepts(narrow, event)
    both = accepts(wide, event) and accepts(narrow, event)
    assert accepts(intersect(wide, narrow), event) is both
    assert overlaps(wide, narrow) or not both


@settings(max_examples=50)
@given(number=edge_numbers, text=st.sampled_from(EDGE_TEXTS))
def test_a_pattern_fits_a_value_and_a_list_with_it(number: Any, text: str) -> None:
    from tidings.language.eventbridge import from_pattern, to_pattern

    for value in (number, text):
        if not isinstance(value, float) or math.isfinite(value):
            filter = from_pattern({"x": [canonical(value)]})
            assert accepts(filter, made({"x": value}))
            assert accepts(filter, made({"x": [None, [value]]}))
            assert not accepts(filter, made({"x": [], "y": value}))
            assert from_pattern(to_pattern(filter)).digest == filter.digest


def _bounds(rng: random.Random, name: str) -> Any:
    """One or two bounds on a name, often neighbours of one another."""
    low, high = sorted(rng.choices(FINITE, k=2))
    parts = [
        e.Compare(rng.choice((">", ">=")), e.Attribute(name), e.Literal(low)),
        e.Compare(rng.choice(("<", "<=", "!=")), e.Attribute(name), e.Literal(high)),
        e.In(e.Attribute(name), (e.Literal(low), e.Literal(high)), rng.random() < 0.5),
        e.Compare(
            rng.choice(("=", "!=", "<", ">=")),
            e.Attribute(name),
            e.Call("DECIMAL", (e.Literal(str(rng.choice(DECIMALS))),)),
        ),
    ]
    return rng.choice((*parts, e.And(parts[0], parts[1])))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_decimals_between_doubles_are_found_in_frozen_tables(seed: int) -> None:
    """Filters on one, two and three of eight numbers, so that single cells, pairs and boxes are used."""
    rng = random.Random(seed)
    attributes = "abcdefgh"
    shapes = [rng.sample(attributes, rng.choice((1, 2, 2, 3))) for _ in range(4)]
    filters = []
    for _ in range(120):
        first, *others = rng.choice(shapes)
        expression = _bounds(rng, first)
        for name in others:
            expression = e.And(expression, _bounds(rng, name))
        filters.append(filter_of(expression))
    bodies = [
        {name: rng.choice(BETWEEN) for name in rng.sample(attributes, rng.randrange(1, 9))} for _ in range(12)
    ]
    events = [made(body) for body in bodies]
    oracle = NaiveMatcher()
    for filter in filters:
        oracle.add(filter)
    expected = [list(oracle.match(event)) for event in events]
    for matcher in (ColumnarMatcher(), NumpyMatcher()):
        for filter in filters[:90]:
            matcher.add(filter)
        matcher.freeze()
        for filter in filters[90:]:
            matcher.add(filter)
        assert [matcher.match(event).tolist() for event in events] == expected
        assert [list(map(int, handles)) for handles in lists_of(matcher.match_batch(events))] == expected
