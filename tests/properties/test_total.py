"""Evaluation is total: no filter raises for any event, in any engine, and all engines agree.

A function that raised for one text failed the match of every subscription, so the values here are those at
which conversions and arithmetic end: exponents, digits, years, integers beyond every double.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import _edges

from tidings.language import cesql
from tidings.language.evaluate import compiled, compiled_filter
from tidings.language.functions import FUNCTIONS, Failure
from tidings.language.normalise import normalise
from tidings.language.printer import print_expression
from tidings.language.unexpected import FAILURES
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.small import SmallMatcher
from tidings.model import expression as e
from tidings.model.event import Event, make_event
from tidings.model.filter import CESQL, Conjunction, Filter

WIDE: tuple[Any, ...] = (
    10**400, -(10**3000), Decimal("1E+400"), Decimal("-1E-4000"), Decimal("Infinity"), Decimal("-Infinity"),
    Decimal("NaN"), float("inf"), float("-inf"), float("nan"), b"\xff", None, 2**63, -(2**63),
)  # fmt: skip
odd = st.one_of(_edges.converted_texts, _edges.values, st.sampled_from(WIDE))
bodies = st.dictionaries(
    st.sampled_from(("a", "b", "l")), st.one_of(odd, st.lists(odd, max_size=3)), max_size=3
)
constants = st.one_of(_edges.converted_texts, _edges.values).map(e.Literal)
leaves = st.one_of(st.sampled_from(("a", "b", "l", "topic")).map(e.Attribute), constants)


def _calls(inner: st.SearchStrategy[e.Expression]) -> st.SearchStrategy[e.Expression]:
    """A call of any function of the table with as many arguments as it takes, or arithmetic."""
    calls = [
        st.builds(e.Call, st.just(name), st.tuples(*[inner] * (len(function.takes) or 1)))
        for name, function in sorted(FUNCTIONS.items())
    ]
    return st.one_of(*calls, st.builds(e.Arithmetic, st.sampled_from("+-*/%"), inner, inner))


operands = st.recursive(leaves, _calls, max_leaves=4)
conditions = st.builds(e.Compare, st.sampled_from(("=", "<", ">=", "!=")), operands, operands)


def _event(body: dict[str, Any]) -> Event:
    return make_event(body, source="s", id="1", topic="a/b")


@settings(max_examples=150)
@given(st.lists(odd, min_size=1, max_size=3))
def test_a_function_gives_a_value_or_a_failure_for_all_arguments_of_its_types(values: list[Any]) -> None:
    views = _event({"a": values}).view["a"]
    for name, function in FUNCTIONS.items():
        if not function.takes_count(len(views)):
            continue
        program = compiled(e.Call(name, tuple(e.Attribute(f"v{n}") for n in range(len(views)))))
        result = program({f"v{n}": value for n, value in enumerate(views)})
        assert type(result) is not Failure


@settings(max_examples=50)
@given(st.lists(conditions, min_size=1, max_size=3), bodies)
def test_no_filter_raises_and_every_engine_gives_the_same_answer(
    written: list[e.Expression], body: dict[str, Any]
) -> None:
    event, failed = _event(body), FAILURES.count
    filters = [normalise(condition, text=print_expression(condition)) for condition in written]
    filters += [
        Filter(f.text, (Conjunction((), (c,)),), CESQL) for f, c in zip(filters, written, strict=True)
    ]
    expected = [compiled_filter(filter)(event) for filter in filters]
    for matcher in (SmallMatcher(), ColumnarMatcher()):
        handles = [matcher.add(filter) for filter in filters]
        found = set(matcher.match(event))
        assert [handle in found for handle in handles] == expected
    for condition in written:
        cesql.evaluate(condition, cesql.event_attributes(event))
    assert FAILURES.count == failed
