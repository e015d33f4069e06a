"""What the compiled walk computes and answers by itself is what the evaluator says."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.properties import _edges

from tidings.language import evaluate
from tidings.matching.columnar.batches import texts_of_batch, texts_of_events
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.programs import like_bytes, machine_steps
from tidings.matching.columnar.slots import encoded
from tidings.matching.naive import NaiveMatcher
from tidings.model import expression as e
from tidings.model.event import Event, make_event
from tidings.model.filter import Conjunction, Filter
from tidings.model.pattern import like_matches
from tidings.model.topic import topic_matches
from tidings.model.value import INT_MIN

NAMES = ("a", "b", "d.e")
numbers = st.one_of(_edges.numbers, st.integers(-20, 20))
values = st.one_of(numbers, st.booleans(), st.sampled_from(("", "a", "b")), st.just(float("nan")), st.none())


def _grown(inner: st.SearchStrategy[e.Expression]) -> st.SearchStrategy[e.Expression]:
    return st.one_of(
        st.builds(e.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(e.Negate, inner),
        st.builds(e.Call, st.sampled_from(("ABS", "FLOOR", "CEIL")), st.tuples(inner)),
        st.builds(e.Call, st.just("MOD"), st.tuples(inner, inner)),
    )


leaves = st.one_of(st.sampled_from(NAMES).map(e.Attribute), numbers.map(e.Literal))
sums = st.recursive(leaves, _grown, max_leaves=5)
comparisons = st.builds(e.Compare, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), sums, sums)


@st.composite
def _events(draw: st.DrawFn) -> Event:
    stored: dict[str, Any] = {name: draw(values) for name in ("a", "b")}
    stored["d"] = {"e": draw(values)}
    return make_event(stored, source="s", id="1")


def _tests_of(expression: e.Expression, probes: list[Event]) -> list[Filter]:
    """The expression itself, and its value compared with what it is and with its neighbours."""
    literals: list[Any] = [0]
    for event in probes:
        value = evaluate(expression, event.view)
        if type(value) is int:
            literals += [v for v in (value, value - 1, float(value)) if v >= INT_MIN]
        elif type(value) is float:
            literals += [value, math.nextafter(value, math.inf)]  # beyond the greatest double: infinity
    residuals = [
        e.Compare(op, expression, e.Literal(v))
        for v in literals
        if math.isfinite(v)
        for op in ("=", "<", ">=", "!=")
    ]
    return [Filter("", (Conjunction((), (some,)),)) for some in (expression, *residuals)]


@settings(max_examples=150, deadline=None)
@given(st.one_of(sums, comparisons), st.lists(_events(), min_size=1, max_size=4))
@example(e.Attribute("a"), [make_event({"a": sys.float_info.max}, source="s", id="1")])
def test_derived_attributes_are_what_the_evaluator_says(
    expression: e.Expression, probes: list[Event]
) -> None:
    matcher, oracle = ColumnarMatcher(), NaiveMatcher()
    population = _tests_of(expression, probes)
    matcher.load(population)
    for filter in population:
        oracle.add(filter)
    for event in probes:
        assert list(matcher.match(event)) == oracle.match(event)
    assert list(matcher.match_batch(probes).handles) == list(oracle.match_batch(probes).handles)


def test_the_machine_takes_what_it_can_and_nothing_else() -> None:
    a, b = e.Attribute("a"), e.Attribute("b")
    assert machine_steps(e.Arithmetic("*", a, b)) is not None
    assert machine_steps(e.Compare("<", a, b)) is not None
    assert machine_steps(e.Arithmetic("/", a, e.Literal(2.0))) is not None
    assert machine_steps(e.Arithmetic("/", a, e.Literal(2))) is None
    assert machine_steps(e.Arithmetic("+", a, e.Literal(2**53))) is None
    assert machine_steps(e.Call("LENGTH", (a,))) is None
    assert machine_steps(e.Arithmetic("+", a, e.Attribute("time"))) is None


def test_expressions_that_are_equal_in_python_are_told_apart() -> None:
    """1 == 1.0 == True in Python; dividing by them is not the same."""
    matcher, oracle = ColumnarMatcher(), NaiveMatcher()
    halves = [e.Arithmetic("/", e.Attribute("a"), e.Literal(v)) for v in (2, 2.0)]
    for half in halves * 20:
        filter = Filter("", (Conjunction((), (e.Compare("=", half, e.Literal(1.5)),)),))
        assert matcher.add(filter) == oracle.add(filter)
    event = make_event({"a": 3}, source="s", id="1")
    assert list(matcher.match(event)) == oracle.match(event) != []


texts = st.text(st.sampled_from("ab/é\U0001f600\n"), max_size=8)
likes = st.text(st.sampled_from("ab%_é\\"), max_size=6)
levels = st.sampled_from(("a", "b", "é", "ab", ""))
topics = st.one_of(st.lists(levels, min_size=1, max_size=4).map("/".join), st.just("/"))
patterns = st.one_of(
    st.lists(st.sampled_from(("a", "b", "ab", "+")), min_size=1, max_size=4).map("/".join),
    st.lists(st.sampled_from(("a", "b", "+")), max_size=3).map(lambda some: "/".join([*some, "#"])),
    st.just("/"),
)


def _bytes(text: bytes) -> Any:
    return np.frombuffer(text + b"?", np.uint8)


@settings(max_examples=300, deadline=None)
@given(likes, texts)
def test_like_on_bytes_is_like(pattern: str, text: str) -> None:
    from tidings.matching.columnar.row_kernels import like

    wanted, stored = like_bytes(pattern), encoded(text)
    assert like(_bytes(stored), len(stored), _bytes(wanted), len(wanted)) == like_matches(pattern, text)


@settings(max_examples=300, deadline=None)
@given(patterns, topics)
def test_topics_on_bytes_are_topics(pattern: str, text: str) -> None:
    from tidings.matching.columnar.row_kernels import topic

    wanted, stored = encoded(pattern), encoded(text)
    assert topic(_bytes(stored), len(stored), _bytes(wanted), len(wanted)) == topic_matches(pattern, text)


def test_a_long_text_is_left_to_the_linear_engine() -> None:
    from tidings.model.constraint import Like

    matcher = ColumnarMatcher()
    matcher.add(Filter("", (Conjunction((Like("a", "%" + "ab" * 200 + "c%"),)),)))
    assert list(matcher.match(make_event({"a": "ab" * 500 + "c"}, source="s", id="1"))) == [0]
    assert list(matcher.match(make_event({"a": "ab" * 500}, source="s", id="2"))) == []


@pytest.mark.parametrize("form", ["string", "large_string", "dictionary"])
def test_the_bytes_of_columns_are_the_bytes_of_events(form: str) -> None:
    import pyarrow as pa

    stored = ["", "é", None, "abc", "é"]
    kind = {"string": pa.string(), "large_string": pa.large_string(), "dictionary": pa.string()}[form]
    column = pa.array(["x", *stored], kind)
    column = column.dictionary_encode() if form == "dictionary" else column
    batch = pa.RecordBatch.from_pydict({"n": list(range(6)), "t": column}).slice(1)
    events = [make_event({"t": text} if text is not None else {}, source="s", id="1") for text in stored]
    _, sizes, _kept = texts_of_batch(batch, ["t", "missing"])
    _, expected, _more = texts_of_events(events, ["t", "missing"])
    assert sizes.tolist() == expected.tolist() == [[0, 2, -1, 3, 2], [-1] * 5]
