"""The two halves of the language agree: an expression is true exactly when its normal form accepts."""

from __future__ import annotations

from hypothesis import given, settings
from tests.properties._random import conditions, events

from tidings.errors import FilterLimitError
from tidings.language import normalise, parse, print_expression, print_filter, read_filter
from tidings.language.evaluate import accepts, evaluate
from tidings.model.event import Event
from tidings.model.expression import Expression


@settings(max_examples=600)
@given(conditions, events())
def test_an_expression_is_true_exactly_when_its_normal_form_accepts(
    condition: Expression, event: Event
) -> None:
    try:
        filter = normalise(condition, text="")
    except FilterLimitError:
        return  # a product past its budget is refused, not cut short
    assert accepts(filter, event) is (evaluate(condition, event.view) is True)


@settings(max_examples=200)
@given(conditions, events())
def test_printing_keeps_the_meaning(condition: Expression, event: Event) -> None:
    true = evaluate(condition, event.view) is True
    assert (evaluate(parse(print_expression(condition)), event.view) is True) is true
    try:
        filter = normalise(condition, text="")
    except FilterLimitError:
        return
    assert accepts(read_filter(print_filter(filter)), event) is true
