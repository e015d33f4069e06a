"""The meaning of expressions in the dialect `tidings`, and of filters in both dialects.

Rules
- Three-valued logic: None stands for unknown (NULL). An event is accepted only by True.
- Kinds are strict: comparing or computing across kinds is unknown; integers and floats are both
  numbers, and compare exactly. A boolean is no number, and booleans have no order.
- Integers have 64 bits. Overflow, division by zero and an infinite or undefined result are unknown.
- `topic = 'a/+'` with a wildcard in the literal tests the pattern: no topic can hold a wildcard.
- An expression is compiled once to nested closures, since residuals run on every candidate event.
  Programs are remembered by the identity of the expression, never by equality: Literal(1) equals
  Literal(True) in Python, and has another meaning here.
- No function raises for any value. Should one do so, that is a defect, and the filter alone is unknown
  (`unexpected.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, TypeAlias

from tidings.errors import FilterError
from tidings.language import cesql
from tidings.language.functions import (
    ANY,
    FUNCTIONS,
    INTEGER,
    NUMBER,
    SEES_UNKNOWN,
    STRING,
    Failure,
    as_double,
    remainder,
)
from tidings.language.lists import looking_up, membership, ranging
from tidings.language.unexpected import FAILURES
from tidings.language.work import (
    BUDGET,
    Work,
    cost,
    has_work,
    is_over,
    plain_parts_hold,
    without_work,
    work_of,
    work_of_expression,
)
from tidings.model import expression as e
from tidings.model.event import LINEAGE, Event
from tidings.model.filter import CESQL, Conjunction, Filter
from tidings.model.pattern import like_matches, regexp_matches
from tidings.model.topic import check_pattern, is_pattern, topic_matches
from tidings.model.value import INT_MAX, INT_MIN, Value, is_null, kind_of

View: TypeAlias = Mapping[str, Any]
Program: TypeAlias = Callable[[View], Any]

_REMEMBERED = 4096
_programs: dict[
    int, tuple[e.Expression, Program, Work]
] = {}  # the expression is kept, so its id stays its own


def evaluate(expression: e.Expression, view: View) -> Value | None:
    """The value of an expression for what `Event.view` shows; None is unknown. Over budget each condition
    with a weight is unknown."""
    known = _programs.get(id(expression))
    program, work = (compiled(expression), work_of_expression(expression)) if known is None else known[1:]
    if work and cost(work, view) > BUDGET:
        expression = without_work(expression)
        program = _compile(expression)
    return value_of(expression, program, view)


def value_of(expression: e.Expression, program: Program, view: View) -> Value | None:
    """The value that the compiled expression has; unknown when it fails."""
    try:
        result: Value | None = program(view)
    except Exception as error:
        FAILURES.note(expression, view, error)
        return None
    return result


def evaluate_as(filter: Filter | None, expression: e.Expression, event: Event) -> tuple[Value | None, bool]:
    """The value of an expression for an event, and whether that is unknown for being over the work budget.

    A condition is weighed as the filter that it is, in normal form: engines weigh that, so the value is true
    just where they accept. A number, and an expression that no filter is made of (None), are weighed as
    written.
    """
    if filter is None or isinstance(expression, e.Arithmetic | e.Negate):
        value = evaluate(expression, event.view)
        return value, value is None and cost(work_of_expression(expression), event.view) > BUDGET
    if not is_over(filter, event):
        return value_of(expression, compiled(expression), event.view), False
    if accepts(filter, event):
        return True, False
    light = without_work(expression)
    is_denied = value_of(light, _compile(light), event.view) is False
    return (False if is_denied else None), is_unknown(filter, event)


def accepts(filter: Filter, event: Event) -> bool:
    """Does the filter accept the event?

    Through the normal form, as matching does; over budget only a conjunction without a weight does.
    """
    program = filter.__dict__.get("_accepts")
    if program is None:
        program = filter.__dict__["_accepts"] = compiled_filter(filter)
    result: bool = program(event)
    return result


def compiled_filter(filter: Filter) -> Callable[[Event], bool]:
    """The filter as a function of events, for repeated evaluation."""
    parts = _tests(filter, filter.conjunctions)
    if not work_of(filter):
        return _any_of(filter, parts)
    light = _tests(filter, light_parts(filter))
    within, over = _any_of(filter, parts), _any_of(filter, light)
    return lambda event: (over if is_over(filter, event) else within)(event)


def light_parts(filter: Filter) -> list[Conjunction]:
    """The conjunctions without a weight: over budget they are what is left of the filter."""
    return [conjunction for conjunction in filter.conjunctions if not has_work(conjunction)]


def lightly_accepts(filter: Filter, event: Event) -> bool:
    """Does a conjunction without a weight accept the event?"""
    return _any_of(filter, _tests(filter, light_parts(filter)))(event)


def is_unknown(filter: Filter, event: Event) -> bool:
    """Is the filter unknown for being over budget: it does not accept the event, and might have?"""
    return is_over(filter, event) and plain_parts_hold(filter, event) and not lightly_accepts(filter, event)


_Tests: TypeAlias = list[
    tuple[list[tuple[str, Callable[[Any], bool]]], list[Callable[[Event], bool]]]
]  # of each conjunction


def _tests(filter: Filter, conjunctions: Iterable[Conjunction]) -> _Tests:
    return [
        (
            [(constraint.attribute, constraint.accepts) for constraint in conjunction.constraints],
            [residual_test(residual, filter.dialect) for residual in conjunction.residuals],
        )
        for conjunction in conjunctions
    ]


def _any_of(filter: Filter, parts: _Tests) -> Callable[[Event], bool]:
    def run(event: Event) -> bool:
        value_of = event.view.get
        for constraints, residuals in parts:
            try:
                for attribute, holds in constraints:
                    if not holds(value_of(attribute)):
                        break
                else:
                    if all(residual(event) for residual in residuals):
                        return True
            except Exception as error:
                FAILURES.note(filter, event.view, error)
        return False

    return run


def budget_test(filter: Filter, conjunction: Conjunction) -> list[Callable[[Event], bool]]:
    """Is the filter within its work budget for an event? No test when the conjunction has no weight."""
    return [lambda event: not is_over(filter, event)] if has_work(conjunction) else []


def residual_test(residual: e.Expression, dialect: str) -> Callable[[Event], bool]:
    """Is the residual true for an event? By the meaning that the dialect gives it. The caller keeps what it
    raises to the conjunction that has it."""
    if dialect == CESQL:
        return lambda event: cesql.accepts(residual, cesql.event_attributes(event))
    program = compiled(residual)
    return lambda event: program(event.view) is True


def fails(filter: Filter, view: View) -> bool:
    """Does a part of the filter raise for these values?"""
    value_of = view.get
    for conjunction in filter.conjunctions:
        try:
            for constraint in conjunction.constraints:
                constraint.accepts(value_of(constraint.attribute))
            for residual in conjunction.residuals:
                cesql.evaluate(residual, view) if filter.dialect == CESQL else compiled(residual)(view)
        except Exception:
            return True
    return False


def compiled(expression: e.Expression) -> Program:
    """The expression as a function of a view."""
    known = _programs.get(id(expression))
    if known is not None:
        return known[1]
    if len(_programs) >= _REMEMBERED:
        _programs.clear()
    program = _compile(expression)
    _programs[id(expression)] = (expression, program, work_of_expression(expression))
    return program


def _compile(expression: e.Expression) -> Program:
    return _COMPILERS[type(expression)](expression)


def _literal(node: e.Literal) -> Program:
    value = node.value if kind_of(node.value) is not None else None
    return lambda view: value


def _attribute(node: e.Attribute) -> Program:
    name = node.name

    def run(view: View) -> Any:
        value = view.get(name)
        return value if kind_of(value) is not None else None

    return run


def _not(node: e.Not) -> Program:
    return _negated(_compile(node.operand))


def _negated(operand: Program) -> Program:
    def run(view: View) -> bool | None:
        value = operand(view)
        return not value if type(value) is bool else None

    return run


def _and(node: e.And) -> Program:
    return _both(_compile(node.left), _compile(node.right))


def _both(left: Program, right: Program) -> Program:
    def run(view: View) -> bool | None:
        one = left(view)
        if one is False:
            return False
        other = right(view)
        if other is False:
            return False
        return True if one is True and other is True else None

    return run


def _or(node: e.Or) -> Program:
    left, right = _compile(node.left), _compile(node.right)

    def run(view: View) -> bool | None:
        one = left(view)
        if one is True:
            return True
        other = right(view)
        if other is True:
            return True
        return False if one is False and other is False else None

    return run


def _xor(node: e.Xor) -> Program:
    left, right = _compile(node.left), _compile(node.right)

    def run(view: View) -> bool | None:
        one = left(view)
        other = right(view)
        return one is not other if type(one) is bool and type(other) is bool else None

    return run


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _compare(node: e.Compare) -> Program:
    if node.op in ("=", "!="):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if _is_topic(one) and isinstance(other, e.Literal) and _is_wild(other.value):
                return _topic(e.TopicTest(one, other.value, node.op == "!="))
    return _comparing(_compile(node.left), _compile(node.right), _COMPARISONS[node.op])


def _comparing(left: Program, right: Program, holds: Callable[[Any, Any], bool]) -> Program:
    ordered = holds not in (operator.eq, operator.ne)

    def run(view: View) -> bool | None:
        one = left(view)
        if one is None or (ordered and type(one) is bool):
            return None
        other = right(view)
        if type(one) is not type(other) and (other is None or kind_of(one) is not kind_of(other)):
            return None
        return holds(one, other)

    return run


def _is_topic(node: e.Expression) -> bool:
    return isinstance(node, e.Attribute) and node.name == "topic"


def _is_wild(value: object) -> bool:
    return type(value) is str and is_pattern(value)


def _arithmetic(node: e.Arithmetic) -> Program:
    left, right = _compile(node.left), _compile(node.right)
    compute = _ARITHMETIC[node.op]

    def run(view: View) -> Any:
        one, other = left(view), right(view)
        if type(one) not in _PLAIN_NUMBERS:
            one = _double_of(one)
        if type(other) not in _PLAIN_NUMBERS:
            other = _double_of(other)
        if one is None or other is None:
            return None
        try:
            return _bounded(compute(one, other))
        except OverflowError:  # an integer beyond every double
            return None

    return run


_PLAIN_NUMBERS = frozenset({int, float})


def _double_of(value: Any) -> float | None:
    """A decimal as arithmetic takes it; None for what is no number."""
    return as_double(value) if type(value) is Decimal else None


def _bounded(result: Any) -> Any:
    if type(result) is int:
        return result if INT_MIN <= result <= INT_MAX else None
    return result if type(result) is float and math.isfinite(result) else None


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    if type(left) is float or type(right) is float:
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "%": remainder,
}  # fmt: skip


def _negate(node: e.Negate) -> Program:
    operand = _compile(node.operand)

    def run(view: View) -> Any:
        value = operand(view)
        if type(value) not in _PLAIN_NUMBERS:
            value = _double_of(value)
        return None if value is None else _bounded(-value)

    return run


def _in(node: e.In) -> Program:
    if all(isinstance(item, e.Literal) for item in node.items) and not _is_topic(node.operand):
        values = [item.value for item in node.items if isinstance(item, e.Literal)]
        found = _in_constants(_compile(node.operand), values)
    else:
        found = _in_expressions(node)
    return _negated(found) if node.negated else found


def _in_constants(operand: Program, values: list[Any]) -> Program:
    """Looked up: the operand is computed once, however many constants there are."""
    by_kind: dict[Any, set[Any]] = {}
    for value in values:
        by_kind.setdefault(kind_of(value), set()).add(value)  # NULL has no kind
    kinds = len(by_kind)

    def run(view: View) -> bool | None:
        value = operand(view)
        kind = kind_of(value)
        if kind is None:
            return None if kinds else False
        same = by_kind.get(kind)
        if same is None:
            return None if kinds else False
        return True if value in same else None if kinds > 1 else False

    return run


def _in_expressions(node: e.In) -> Program:
    if _is_topic(node.operand):  # a pattern among the items is tested as one
        return _first_true([_compile(e.Compare("=", node.operand, item)) for item in node.items])
    operand, items = _compile(node.operand), [_compile(item) for item in node.items]

    def run(view: View) -> bool | None:
        value = operand(view)
        if value is None:
            return None if items else False
        unknown = False
        for item in items:
            other = item(view)
            if type(value) is not type(other) and kind_of(value) is not kind_of(other):
                unknown = True
            elif value == other:
                return True
        return None if unknown else False

    return run


def _first_true(tests: list[Program]) -> Program:
    def run(view: View) -> bool | None:
        unknown = False
        for test in tests:
            found = test(view)
            if found:
                return True
            unknown = unknown or found is None
        return None if unknown else False

    return run


def _between(node: e.Between) -> Program:
    operand = _compile(node.operand)
    within = _both(
        _comparing(operand, _compile(node.low), operator.ge),
        _comparing(operand, _compile(node.high), operator.le),
    )
    return _negated(within) if node.negated else within


def _text_test(node: e.LikeTest | e.RegexpTest | e.TopicTest, fits: Callable[[str, str], bool]) -> Program:
    operand, pattern, negated = _compile(node.operand), node.pattern, node.negated

    def run(view: View) -> bool | None:
        value = operand(view)
        return fits(pattern, value) is not negated if type(value) is str else None

    return run


def _like(node: e.LikeTest) -> Program:
    return _text_test(node, like_matches)


def _regexp(node: e.RegexpTest) -> Program:
    return _text_test(node, regexp_matches)


def _topic(node: e.TopicTest) -> Program:
    check_pattern(node.pattern)
    return _text_test(node, topic_matches)


def _exists(node: e.ExistsTest) -> Program:
    name = node.name

    def run(view: View) -> bool:
        return not is_null(view.get(name))

    return run


def _null(node: e.NullTest) -> Program:
    negated = node.negated
    if isinstance(node.operand, e.Attribute):
        present = _exists(e.ExistsTest(node.operand.name))
        return present if negated else _negated(present)
    operand = _compile(node.operand)
    return lambda view: (operand(view) is None) is not negated


def _type(node: e.TypeTest) -> Program:
    name, negated = node.name, node.negated

    def run(view: View) -> bool | None:
        lineage = view.get(LINEAGE)
        return (name in lineage) is not negated if type(lineage) is tuple else None

    return run


_ARGUMENT_TYPES = {STRING: (str,), INTEGER: (int,), NUMBER: (int, float)}


def _call(node: e.Call) -> Program:
    function = FUNCTIONS.get(node.function)
    if function is None:
        near = get_close_matches(node.function, FUNCTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else "docs list the functions"
        raise FilterError(f"there is no function {node.function}", hint=hint)
    count = len(node.arguments)
    if not function.takes_count(count):
        raise FilterError(f"{node.function} cannot be called with {count} arguments")
    run_function = function.run
    sees_unknown = node.function in SEES_UNKNOWN
    arguments = [
        (_compile(argument), _checker(function.argument(i))) for i, argument in enumerate(node.arguments)
    ]
    if node.function == "LENGTH" and isinstance(node.arguments[0], e.Attribute):
        return _length(node.arguments[0].name)

    def run(view: View) -> Any:
        values = []
        for argument, allowed in arguments:
            value = argument(view)
            if type(value) is Decimal and allowed:
                value = as_double(value)
            if not sees_unknown and (value is None or (allowed and type(value) not in allowed)):
                return None
            values.append(value)
        result = run_function(*values)
        return None if type(result) is Failure else result

    return run


def _length(name: str) -> Program:
    """LENGTH of an attribute: of a text or of a list, which no other function sees."""

    def run(view: View) -> int | None:
        value = view.get(name)
        return len(value) if type(value) is str or type(value) is tuple else None

    return run


def _ranging(node: e.AnyOf | e.AllOf) -> Program:
    wanted = membership(node)
    return ranging(node, _compile(node.condition)) if wanted is None else looking_up(wanted)


def _checker(wanted: str) -> tuple[type, ...] | None:
    return None if wanted == ANY else _ARGUMENT_TYPES[wanted]


_COMPILERS: dict[type, Callable[[Any], Program]] = {
    e.Literal: _literal, e.Attribute: _attribute, e.Not: _not, e.Negate: _negate, e.And: _and,
    e.Or: _or, e.Xor: _xor, e.Compare: _compare, e.Arithmetic: _arithmetic, e.In: _in,
    e.Between: _between, e.LikeTest: _like, e.RegexpTest: _regexp, e.TopicTest: _topic,
    e.ExistsTest: _exists, e.NullTest: _null, e.TypeTest: _type, e.Call: _call, e.AnyOf: _ranging,
    e.AllOf: _ranging,
}  # fmt: skip
