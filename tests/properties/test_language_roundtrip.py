"""The language against dumb oracles: evaluation judges the normal form, the parser judges the
printer, and the long way judges the short way.
"""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.properties import _edges

from tidings.errors import FilterError, FilterLimitError
from tidings.language import (
    accepts,
    evaluate,
    normalise,
    parse,
    parse_filter,
    print_expression,
    print_filter,
)
from tidings.language.leaves import canonical as canonical_number
from tidings.language.leaves import like, none_of, one_of
from tidings.language.limits import DEFAULT_LIMITS, Limits
from tidings.language.normalise import conjunction as conjoined
from tidings.language.normalise import conjunctions_of, normalised
from tidings.language.simple import plain
from tidings.model.constraint import (
    Equals,
    Exists,
    IsA,
    Missing,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.event import make_event
from tidings.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    ExistsTest,
    Expression,
    In,
    LikeTest,
    Literal,
    Negate,
    Not,
    NullTest,
    Or,
    RegexpTest,
    TopicTest,
    TypeTest,
    Xor,
)
from tidings.model.filter import Filter

WIDE = Limits(text=1 << 20, depth=64, constraints=4096, conjunctions=4096)
NAMES = ("a", "b", "c.d", "flag", "topic", "odd name", "in", "1e3")

# small domains, so that values meet


def moments() -> st.SearchStrategy[datetime]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return st.integers(0, 3).map(lambda n: start + timedelta(microseconds=n))


VALUES = st.one_of(
    st.integers(-2, 3),
    st.sampled_from((0.0, -0.0, 1.0, 1.5, 2.5, 1e300)),
    st.booleans(),
    st.sampled_from(("", "a", "ab", "abc", "b", "a%", "it's", "\\", "x/y", "x")),
    moments(),
)
PATTERNS = st.text("ab%_\\", max_size=4)
TOPIC_PATTERNS = st.sampled_from(("#", "+", "x/#", "x/y", "+/y", "a"))
OPERATORS = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))


def operands() -> st.SearchStrategy[Expression]:
    return st.recursive(
        st.one_of(st.sampled_from(NAMES).map(Attribute), VALUES.map(Literal)),
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
            st.builds(Negate, inner),
            st.builds(lambda x: Call("LENGTH", (x,)), inner),
            st.builds(lambda x, y: Call("COALESCE", (x, y)), inner, inner),
        ),
        max_leaves=3,
    )


def conditions() -> st.SearchStrategy[Expression]:
    operand = operands()
    leaf = st.one_of(
        st.builds(Compare, OPERATORS, operand, operand),
        st.builds(Compare, OPERATORS, st.sampled_from(NAMES).map(Attribute), VALUES.map(Literal)),
        st.builds(In, operand, st.lists(operand, min_size=1, max_size=4).map(tuple), st.booleans()),
        st.builds(Between, operand, operand, operand, st.booleans()),
        st.builds(LikeTest, operand, PATTERNS, st.booleans()),
        st.builds(RegexpTest, operand, st.sampled_from(("a", "^a", "b$", "a|b")), st.booleans()),
        st.builds(TopicTest, operand, TOPIC_PATTERNS, st.booleans()),
        st.builds(ExistsTest, st.sampled_from(NAMES)),
        st.builds(NullTest, operand, st.booleans()),
        st.builds(TypeTest, st.sampled_from(("Base", "Odd's")), st.booleans()),
        operand,
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(And, inner, inner),
            st.builds(Or, inner, inner),
            st.builds(Xor, inner, inner),
            st.builds(Not, inner),
        ),
        max_leaves=6,
    )


@st.composite
def events(draw: st.DrawFn) -> Any:
    names = [name for name in NAMES if name != "topic"]
    attributes = draw(st.dictionaries(st.sampled_from(names), st.one_of(VALUES, st.none()), max_size=6))
    topic = draw(st.sampled_from((None, "x", "x/y", "a", "x/y/z", "/")))
    lineage = draw(st.sampled_from((None, ("Base",), ("Odd's", "Base"))))
    return make_event(attributes, source="s", id="1", topic=topic, type=lineage)


@settings(max_examples=300)
@given(conditions(), st.lists(events(), min_size=1, max_size=8))
def test_the_normal_form_accepts_exactly_what_is_true(expression: Expression, seen: list[Any]) -> None:
    hold_to_evaluation(expression, seen)


@pytest.mark.soak
@settings(max_examples=50_000)
@given(conditions(), st.lists(events(), min_size=1, max_size=8))
def test_the_normal_form_of_many_expressions(expression: Expression, seen: list[Any]) -> None:
    hold_to_evaluation(expression, seen)


def hold_to_evaluation(expression: Expression, seen: list[Any]) -> None:
    try:
        filter = normalise(expression, text="", limits=WIDE)
    except FilterLimitError:
        assume(False)
    for event in seen:
        assert accepts(filter, event) is (evaluate(expression, event.view) is True)


@settings(max_examples=250)
@given(conditions())
def test_a_printed_expression_parses_to_the_same(expression: Expression) -> None:
    text = print_expression(expression)
    once = parse(text, limits=WIDE)
    assert print_expression(once) == text
    assert flat(once) == flat(expression)
    assert flat(parse(text, dialect="cesql", limits=WIDE)) == flat(expression)


def flat(expression: Expression) -> bytes:
    """An expression with its chains in one shape; as bytes, since Literal(1) equals Literal(True)."""
    return msgspec.msgpack.encode(_leaning(expression))


def _leaning(node: Any) -> Any:
    if isinstance(node, And | Or | Xor):
        kind = type(node)
        left, right = _leaning(node.left), _leaning(node.right)
        while type(left) is kind:
            left, right = left.left, _leaning(kind(left.right, right))
        return kind(left, right)
    if isinstance(node, msgspec.Struct):
        return type(node)(*(_leaning(getattr(node, name)) for name in node.__struct_fields__))
    return tuple(map(_leaning, node)) if isinstance(node, tuple) else node


@settings(max_examples=250)
@given(conditions())
def test_a_printed_filter_has_the_same_digest(expression: Expression) -> None:
    try:
        filter = normalise(expression, text="", limits=WIDE)
    except FilterLimitError:
        assume(False)
    text = print_filter(filter)
    again = normalise(parse(text, limits=WIDE), text=text, limits=WIDE)
    assert again.digest == filter.digest
    assert print_filter(again) == text


# constraints of every kind, over all values that there are

TEXTS = st.one_of(_edges.texts, st.text(st.characters(codec="utf-8"), max_size=12))
ODD_NAMES = st.one_of(
    st.sampled_from(
        ("a", "price", "a.b", "NULL", "is", "1abc", "12", "1e5", "1.5", ".", "`", "a`b", "é", "and")
    ),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
)
NUMBERS = _edges.numbers
TIMES = st.one_of(_edges.times, st.datetimes(timezones=st.just(UTC)))
ANY_VALUE = st.one_of(NUMBERS, TEXTS, st.booleans(), TIMES)


@st.composite
def ranges(draw: st.DrawFn) -> Any:
    name = draw(ODD_NAMES)
    low, high = sorted(draw(st.one_of(*(st.tuples(kind, kind) for kind in (NUMBERS, TEXTS, TIMES)))))
    shape = draw(st.sampled_from(("low", "high", "both")))
    constraint = Range(
        name,
        None if shape == "high" else low,
        None if shape == "low" else high,
        shape != "high" and draw(st.booleans()),
        shape != "low" and draw(st.booleans()),
    )
    assume(shape != "both" or low < high)
    return constraint


LEAVES = st.one_of(
    st.builds(Equals, ODD_NAMES, ANY_VALUE),
    st.builds(one_of, ODD_NAMES, st.lists(ANY_VALUE, min_size=1, max_size=5)),
    st.builds(none_of, ODD_NAMES, st.lists(TEXTS, min_size=1, max_size=5)),
    st.builds(none_of, ODD_NAMES, st.lists(NUMBERS, min_size=1, max_size=5)),
    ranges(),
    st.builds(Prefix, ODD_NAMES, TEXTS.filter(lambda text: not text.endswith("\\"))),
    st.builds(
        lambda n, p, no: like(n, p, negated=no), ODD_NAMES, st.text("ab%_\\'\"", max_size=6), st.booleans()
    ),
    st.builds(Regexp, ODD_NAMES, st.sampled_from(("a'b", r"\d+", '"')), st.booleans()),
    st.builds(Exists, ODD_NAMES),
    st.builds(Missing, ODD_NAMES),
    st.builds(TopicIs, ODD_NAMES, st.sampled_from(("a/+", "it's/#")), st.booleans()),
    st.builds(IsA.of, TEXTS, st.booleans()),
).filter(lambda leaf: leaf is not None and not (leaf.attribute == "topic" and "value" in dir(leaf)))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(LEAVES, min_size=1, max_size=4))
def test_constraints_of_every_kind_print_and_parse(leaves: list[Any]) -> None:
    filter = Filter("", conjoined([canonical(leaf) for leaf in leaves]))
    text = print_filter(filter)
    assert normalise(parse(text, limits=WIDE), text=text, limits=WIDE).digest == filter.digest


def canonical(leaf: Any) -> Any:
    """A constraint with its numbers as the normaliser writes them."""
    changes = {
        name: canonical_number(getattr(leaf, name))
        for name in ("value", "low", "high")
        if hasattr(leaf, name)
    }
    return msgspec.structs.replace(leaf, **changes)


# the short way and the long way

WORDS = st.sampled_from(
    ("a", "b.c", "symbol", "not", "topic", "and", "'x'", "'te%'", '"q"', "'a/#'", "'it''s'", "5", "-3.50",
        "1.0",
     "=", "!=", "<>", "<", ">=", "AND", "and", "OR", "IN", "('x', 'y')", "(1,2.5 , 3)", "BETWEEN", "LIKE",
     "EXISTS",
     "TRUE", "false", "null", "(", ")", ",", "999999999999999999999", "\n", "`a`", "NOT", "is")
)  # fmt: skip


@st.composite
def plain_texts(draw: st.DrawFn) -> str:
    """Texts of the plain shape, and texts that are nearly so."""
    name = st.sampled_from(("a", "b", "c.d", "_x", "topic", "between"))
    value = st.sampled_from(("'x'", '"y"', "5", "-5", "1.50", "2.0", "TRUE", "false", "'a/#'", "''"))
    gap = st.sampled_from((" ", "  ", "\n\t"))
    shape = st.one_of(
        st.builds(
            "{}{}{}".format, name, st.sampled_from(("=", " < ", "<= ", " <> ", " != ", ">", " >=")), value
        ),
        st.builds("{} BETWEEN {} AND {}".format, name, value, value),
        st.builds("{} in ( {} ,{})".format, name, value, value),
        st.builds(
            "{} LIKE {}".format, name, st.sampled_from(("'te%'", "'t_'", "'%'", "'x'", "'a\\%'", "''"))
        ),
        st.builds("EXISTS {}".format, name),
        WORDS,
    )
    parts = draw(st.lists(shape, min_size=1, max_size=4))
    return f"{draw(gap)}AND{draw(gap)}".join(parts)


@settings(max_examples=300)
@given(st.one_of(plain_texts(), st.lists(WORDS, min_size=1, max_size=9).map(" ".join)))
def test_the_short_way_is_the_long_way(text: str) -> None:
    short = plain(text, DEFAULT_LIMITS)
    if short is None:
        return  # the long way is taken
    long = normalised(parse(text), text, "tidings", DEFAULT_LIMITS)
    assert msgspec.msgpack.encode(short) == msgspec.msgpack.encode(long.conjunctions)


def test_the_short_way_is_taken_by_plain_filters() -> None:
    text = (
        "symbol IN ('a','b') AND price BETWEEN 10.5 AND 20 AND sector LIKE 'te%' AND volume > 5000 AND "
        "EXISTS x"
    )
    assert plain(text, DEFAULT_LIMITS) is not None
    assert conjunctions_of([]) == ()


@settings(max_examples=300)
@given(st.text(string.printable + "é'\"`\\", max_size=40))
def test_any_text_parses_or_is_refused_with_a_reason(text: str) -> None:
    try:
        filter = parse_filter(text)
    except FilterError:  # and no other error
        return
    assert parse_filter(print_filter(filter)).digest == filter.digest
