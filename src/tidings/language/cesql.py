"""The meaning of expressions in the dialect `cesql`: CloudEvents SQL 1.0.

Rules
- Values are booleans, 32-bit integers and strings; anything else an attribute holds is seen as
  its text. Names, of attributes too, are read without regard to case.
- Every evaluation gives a value and the names of its errors: parse, math, cast,
  missingAttribute, missingFunction, functionEvaluation, generic; each is listed once.
- A text that does not parse has no type, so it counts as a filter: false. An integer past 32 bits is a
  parse error too, and gives the zero value of the type that the expression has.
- Operands are cast to what the operator wants; `x = y` casts x to the type of y, `x IN (...)`
  casts the items to the type of x. A cast that fails lists an error; a number or truth value
  then counts as 0 or false, and a comparison as false.
- An operator or function with an operand that already failed, or that is missing, gives the zero
  value of what it returns. AND and OR look at the right side only when the left leaves it open.
- `NOT 10` is a cast error, as the public conformance cases want, although the text of the
  specification would let 10 count as true there; everywhere else a number casts to a boolean.
- Over the work budget (`work.py`) the value is false and the error `generic`.
- As a filter, an expression accepts an event when its value is true and no error is listed.
- The additions of the wider grammar (BETWEEN, REGEXP, IS NULL, MATCHES, IS A) follow the same casts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tidings.language.functions import (
    ANY,
    FUNCTIONS,
    INT32_MAX,
    INT32_MIN,
    INTEGER,
    STRING,
    Failure,
    boolean_of,
    integer_of,
    remainder,
    string_of,
)
from tidings.language.work import BUDGET, Work, cesql_cost, work_of_expression
from tidings.model import expression as e
from tidings.model.event import LINEAGE, Event
from tidings.model.pattern import like_matches, regexp_matches
from tidings.model.topic import topic_matches
from tidings.model.value import is_null

Attributes: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = tuple[Any, tuple[str, ...]]  # the value and the errors so far, in order

REQUIRED = frozenset({"id", "source", "type", "specversion"})
SPECVERSION = "1.0"
_MISSING = (False, ("missingAttribute",))
_ZERO: dict[str, Any] = {STRING: "", INTEGER: 0}
_MANY = 4096
_checked: dict[int, tuple[e.Expression, bool, Work]] = {}  # the expression is kept, so its id stays its own


def evaluate(expression: e.Expression, attributes: Attributes) -> tuple[Any, list[str]]:
    """The value of an expression for the attributes of an event, and the names of the errors."""
    known = _checked.get(id(expression))
    wide, work = _remembered(expression) if known is None else known[1:]
    if wide:
        return zero_of(expression), ["parse"]
    if work and cesql_cost(work, attributes) > BUDGET:
        return zero_of(expression), ["generic"]
    value, errors = _evaluate(expression, attributes)
    return value, list(dict.fromkeys(errors)) if errors else []


def zero_of(expression: e.Expression) -> Any:
    """The zero value of the type that the expression has: what an error gives in its place."""
    if isinstance(expression, e.Literal):
        return {int: 0, str: ""}.get(type(expression.value), False)
    if isinstance(expression, e.Arithmetic | e.Negate):
        return 0
    if isinstance(expression, e.Call) and expression.function in FUNCTIONS:
        return _ZERO.get(FUNCTIONS[expression.function].returns, False)
    return False


def _remembered(expression: e.Expression) -> tuple[bool, Work]:
    """Is there an integer past 32 bits, and what is its work? Asked once of each expression, by identity."""
    if len(_checked) >= _MANY:
        _checked.clear()
    wide = _has_wide_integer(expression)
    work = work_of_expression(expression)
    _checked[id(expression)] = (expression, wide, work)
    return wide, work


def accepts(expression: e.Expression, attributes: Attributes) -> bool:
    """Result as a filter: true, and without any error."""
    value, errors = evaluate(expression, attributes)
    return value is True and not errors


def event_attributes(event: Event) -> Attributes:
    """The attributes of a Tidings event for an expression: `subject` carries the topic."""
    seen = {"specversion": SPECVERSION, **event.view}
    if event.topic is not None:
        seen.setdefault("subject", event.topic)
    return seen


def _evaluate(node: e.Expression, attributes: Attributes) -> Answer:
    return _EVALUATORS[type(node)](node, attributes)


def _has_wide_integer(node: e.Expression) -> bool:
    """A literal past 32 bits anywhere: CESQL says that such a text does not parse."""
    if isinstance(node, e.Literal):
        return type(node.value) is int and not INT32_MIN <= node.value <= INT32_MAX
    if isinstance(node, e.Negate) and isinstance(node.operand, e.Literal):
        return type(node.operand.value) is int and not INT32_MIN <= -node.operand.value <= INT32_MAX
    return any(_has_wide_integer(child) for child in _children(node))


def _children(node: e.Expression) -> list[e.Expression]:
    fields = [getattr(node, name) for name in node.__struct_fields__]
    flat = [part for field in fields for part in (field if isinstance(field, tuple) else (field,))]
    return [part for part in flat if type(part) in _EVALUATORS]


def _plain(value: Any) -> Any:
    """A value of CESQL's three types."""
    if type(value) is int and not INT32_MIN <= value <= INT32_MAX:
        return str(value)
    return value if type(value) in (bool, int, str) else string_of(value)


def _find(name: str, attributes: Attributes) -> Any:
    """The attribute of that name, however it is spelt; None when there is none."""
    value = attributes.get(name)
    if value is None:
        folded = name.lower()
        value = attributes.get(folded)
        if value is None:
            value = next(
                (v for key, v in attributes.items() if key.lower() == folded and v is not None), None
            )
        if value is None and folded == "specversion":
            return SPECVERSION
    return None if is_null(value) or isinstance(value, (dict, list, tuple)) else value


def _literal(node: e.Literal, _: Attributes) -> Answer:
    return _plain(node.value), ()


def _attribute(node: e.Attribute, attributes: Attributes) -> Answer:
    value = _find(node.name, attributes)
    return _MISSING if value is None else (_plain(value), ())


def _cast(value: Any, wanted: str) -> Any:
    """The value as another type, or a `Failure`."""
    if wanted == STRING:
        return string_of(value)
    if wanted == ANY:
        return value
    return boolean_of(value) if wanted == _BOOLEAN else integer_of(value, INT32_MIN, INT32_MAX)


_BOOLEAN = "boolean"


def _type_of(value: Any) -> str:
    return {bool: _BOOLEAN, int: INTEGER}.get(type(value), STRING)


def _used(cast: Any) -> tuple[Any, tuple[str, ...]]:
    """Result of a cast: its value, or the substitute for a failed cast, with the error."""
    return (cast.value, (cast.error,)) if type(cast) is Failure else (cast, ())


def _not(node: e.Not, attributes: Attributes) -> Answer:
    value, errors = _evaluate(node.operand, attributes)
    if errors:
        return False, errors
    truth, failed = (False, ("cast",)) if type(value) is int else _used(_cast(value, _BOOLEAN))
    return not truth, failed


def _flipped(answer: Answer, negated: bool) -> Answer:
    value, errors = answer
    return (value if errors or not negated else not value), errors


def _negate(node: e.Negate, attributes: Attributes) -> Answer:
    if isinstance(node.operand, e.Literal) and type(node.operand.value) is int:
        return -node.operand.value, ()
    value, errors = _evaluate(node.operand, attributes)
    if errors:
        return 0, errors
    number, failed = _used(_cast(value, INTEGER))
    return _within(-number, failed)


def _within(number: int, errors: tuple[str, ...]) -> Answer:
    return (number, errors) if INT32_MIN <= number <= INT32_MAX else (0, (*errors, "math"))


def _logic(node: e.And | e.Or | e.Xor, attributes: Attributes) -> Answer:
    left, errors = _evaluate(node.left, attributes)
    if errors:
        return False, errors
    one, failed = _used(_cast(left, _BOOLEAN))
    if (isinstance(node, e.And) and not one) or (isinstance(node, e.Or) and one):
        return one, failed
    right, errors = _evaluate(node.right, attributes)
    if errors:
        return False, failed + errors
    other, more = _used(_cast(right, _BOOLEAN))
    return (one is not other if isinstance(node, e.Xor) else other), failed + more


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _pair(
    left: e.Expression, right: e.Expression, attributes: Attributes
) -> tuple[Any, Any, tuple[str, ...]]:
    one, failed = _evaluate(left, attributes)
    other, more = _evaluate(right, attributes)
    return one, other, failed + more


def _compare(node: e.Compare, attributes: Attributes) -> Answer:
    left, right, errors = _pair(node.left, node.right, attributes)
    if errors:
        return False, errors
    if node.op in _ORDER:
        one, other = _cast(left, INTEGER), _cast(right, INTEGER)
        if type(one) is Failure or type(other) is Failure:
            return False, ("cast",)
        return _ORDER[node.op](one, other), ()
    one = _cast(left, _type_of(right))
    if type(one) is Failure:
        return False, ("cast",)
    return (one == right) is (node.op == "="), ()


def _arithmetic(node: e.Arithmetic, attributes: Attributes) -> Answer:
    left, right, errors = _pair(node.left, node.right, attributes)
    if errors:
        return 0, errors
    one, failed = _used(_cast(left, INTEGER))
    other, more = _used(_cast(right, INTEGER))
    result = _ARITHMETIC[node.op](one, other)
    if type(result) is Failure:
        return 0, (*failed, *more, result.error)
    return _within(result, failed + more)


def _divide(left: int, right: int) -> int | Failure:
    if right == 0:
        return Failure("math", 0)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_ARITHMETIC: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "%": remainder,
}  # fmt: skip


def _in(node: e.In, attributes: Attributes) -> Answer:
    value, errors = _evaluate(node.operand, attributes)
    if errors:
        return False, errors
    wanted = _type_of(value)
    for item in node.items:
        found, failed = _evaluate(item, attributes)
        cast = Failure("", None) if failed else _cast(found, wanted)
        if type(cast) is Failure:
            errors += failed or (cast.error,)
        elif cast == value:
            return not node.negated, errors
    return node.negated and not errors, errors


def _between(node: e.Between, attributes: Attributes) -> Answer:
    within = e.And(e.Compare(">=", node.operand, node.low), e.Compare("<=", node.operand, node.high))
    return _flipped(_logic(within, attributes), node.negated)


def _text_test(fits: Callable[[str, str], bool]) -> Callable[[Any, Attributes], Answer]:
    def test(node: e.LikeTest | e.RegexpTest | e.TopicTest, attributes: Attributes) -> Answer:
        value, errors = _evaluate(node.operand, attributes)
        if errors:
            return False, errors
        return fits(node.pattern, string_of(value)) is not node.negated, ()

    return test


def _exists(node: e.ExistsTest, attributes: Attributes) -> Answer:
    return node.name.lower() in REQUIRED or _find(node.name, attributes) is not None, ()


def _null(node: e.NullTest, attributes: Attributes) -> Answer:
    if isinstance(node.operand, e.Attribute):
        return (_find(node.operand.name, attributes) is None) is not node.negated, ()
    _, errors = _evaluate(node.operand, attributes)
    return (False, errors) if errors else (node.negated, ())


def _type(node: e.TypeTest, attributes: Attributes) -> Answer:
    lineage = attributes.get(LINEAGE) or (_find("type", attributes),)
    return (node.name in lineage) is not node.negated, ()


def _call(node: e.Call, attributes: Attributes) -> Answer:
    function = FUNCTIONS.get(node.function)
    if function is None or function.cesql is None or not function.takes_count(len(node.arguments)):
        return False, ("missingFunction",)
    values: list[Any] = []
    errors: tuple[str, ...] = ()
    for position, argument in enumerate(node.arguments):
        value, failed = _evaluate(argument, attributes)
        cast = value if failed else _cast(value, function.argument(position))
        errors += failed or ((cast.error,) if type(cast) is Failure else ())
        values.append(cast)
    if errors:
        return _ZERO.get(function.returns, False), errors
    return _used(function.cesql(*values))


_EVALUATORS: dict[type, Callable[[Any, Attributes], Answer]] = {
    e.Literal: _literal, e.Attribute: _attribute, e.Not: _not, e.Negate: _negate, e.And: _logic,
    e.Or: _logic, e.Xor: _logic, e.Compare: _compare, e.Arithmetic: _arithmetic, e.In: _in,
    e.Between: _between, e.LikeTest: _text_test(like_matches), e.RegexpTest: _text_test(regexp_matches),
    e.TopicTest: _text_test(topic_matches), e.ExistsTest: _exists, e.NullTest: _null, e.TypeTest: _type,
    e.Call: _call,
}  # fmt: skip
