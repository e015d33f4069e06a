"""Expression to filter: a disjunction of conjunctions of constraints, with residuals.

Rules
- NOT moves inward under three-valued logic: "e is false" is asked of each leaf in place of "e is
  true". Then only AND and OR remain, over which "is true" distributes.
- A leaf with an attribute on one side and a constant on the other becomes a constraint (`leaves`);
  what no index can hold stays a residual, evaluated three-valued.
- Constraints on one attribute are combined (`combine`); contradictions, duplicates and equal
  conjunctions are dropped; alternatives of values for one attribute become one value set.
- The order of what was written leaves no trace: equal meaning of this kind has an equal digest.
- The size is checked before each product is made, and the steps (conditions that are copied) over all of
  them.
- A filter of dialect `cesql` is one residual: its casts and errors fit no constraint.
"""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import msgspec

from tidings.language import leaves
from tidings.language.combine import Constraints, combined
from tidings.language.constant import UNKNOWN, constant
from tidings.language.limits import DEFAULT_LIMITS, Limits, check_conjunctions, check_steps
from tidings.language.measure import check_size, walk
from tidings.language.mistakes import check_call, check_dialect
from tidings.language.parser import balanced
from tidings.model.constraint import Constraint, Equals, Exists, IsA, Missing, OneOf, Prefix
from tidings.model.expression import (
    AllOf,
    And,
    AnyOf,
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
from tidings.model.filter import CESQL, TIDINGS, Conjunction, Filter


class _PartialConjunction(msgspec.Struct):
    """A conjunction in the making: canonical constraints by attribute, and residuals."""

    constraints: dict[str, Constraints] = {}
    residuals: tuple[Expression, ...] = ()


Boxes: TypeAlias = list[_PartialConjunction]  # a disjunction

_ALWAYS: Boxes = [_PartialConjunction()]
_NEVER: Boxes = []


def normalise(
    expression: Expression, *, text: str, dialect: str = TIDINGS, limits: Limits = DEFAULT_LIMITS
) -> Filter:
    """The filter that accepts an event exactly when the expression is true for it."""
    check_dialect(dialect)
    check_size(expression, limits)
    if dialect == TIDINGS:
        check_calls(expression)
    return normalised(expression, text, dialect, limits)


def normalised(expression: Expression, text: str, dialect: str, limits: Limits) -> Filter:
    """As `normalise`, for an expression of a size that was already checked."""
    if dialect == CESQL:
        return Filter(text, (Conjunction((), (regrouped(expression),)),), CESQL)
    expression = regrouped(expression)
    boxes = _Normaliser(limits).truth(expression, True)
    return Filter(text, conjunctions_of(boxes), TIDINGS)


def check_calls(expression: Expression) -> None:
    """Refuse a function that is not there: for expressions that come without a text."""
    for node in walk(expression):
        if isinstance(node, Call):
            check_call(f"{node.function}(...)", 0, node.function, len(node.arguments))


def regrouped(expression: Expression) -> Expression:
    """The same condition with each chain of AND (OR, XOR) as the parser builds it from its text.

    Brackets inside a chain do not change its meaning, and printing leaves them out: so they must not show in
    a residual either, or the printed filter would have another digest.
    """
    if isinstance(expression, And | Or | Xor):
        return balanced(type(expression), [regrouped(part) for part in _chain(expression)])
    if not any(isinstance(node, And | Or | Xor) for node in walk(expression)):
        return expression
    changed: dict[str, Any] = {}
    for name in expression.__struct_fields__:
        stored = getattr(expression, name)
        if isinstance(stored, tuple):
            changed[name] = tuple(regrouped(part) for part in stored)
        elif isinstance(stored, msgspec.Struct):
            changed[name] = regrouped(stored)  # type: ignore[arg-type]
    return msgspec.structs.replace(expression, **changed)


def conjunction(constraints: list[Constraint]) -> tuple[Conjunction, ...]:
    """The normal form of constraints that must all hold (the short way in, for plain filters)."""
    if len({c.attribute for c in constraints}) == len(constraints):
        constraints.sort(key=_attribute_of)
        return (Conjunction(tuple(constraints)),)
    box: _PartialConjunction | None = _PartialConjunction()
    for constraint in constraints:
        box = _both(box, _PartialConjunction({constraint.attribute: (constraint,)})) if box else None
    return conjunctions_of([box] if box else [])


def _attribute_of(constraint: Constraint) -> str:
    return constraint.attribute


def conjunctions_of(boxes: Boxes) -> tuple[Conjunction, ...]:
    """Boxes as conjunctions: each once, in a fixed order; one that is always true stands alone."""
    found: dict[bytes, Conjunction] = {}
    for box in boxes:
        constraints = tuple(c for name in sorted(box.constraints) for c in box.constraints[name])
        conjunction = Conjunction(constraints, box.residuals)
        found[msgspec.msgpack.encode(conjunction)] = conjunction
    always = Conjunction()
    if always in found.values():
        return (always,)
    return tuple(found[key] for key in sorted(found))


def _both(one: _PartialConjunction, other: _PartialConjunction) -> _PartialConjunction | None:
    """Both boxes at once; None when they contradict each other."""
    if len(one.constraints) < len(other.constraints):
        one, other = other, one
    constraints = dict(one.constraints)
    for name, wanted in other.constraints.items():
        known = constraints.get(name)
        if known is not None:
            both = combined((*known, *wanted))
            if both is None:
                return None
            wanted = both
        constraints[name] = wanted
    return _PartialConjunction(constraints, _union(one.residuals, other.residuals))


def _all_of_single(boxes: Boxes) -> _PartialConjunction | None:
    """All of these boxes at once, in one pass; None when they contradict each other."""
    if len(boxes) <= 1:
        return boxes[0] if boxes else _ALWAYS[0]
    constraints: dict[str, Constraints] = {}
    residuals: dict[bytes, Expression] = {}
    for box in boxes:
        for name, wanted in box.constraints.items():
            known = constraints.get(name)
            both = wanted if known is None else combined((*known, *wanted))
            if both is None:
                return None
            constraints[name] = both
        for residual in box.residuals:
            residuals[msgspec.msgpack.encode(residual)] = residual
    return _PartialConjunction(constraints, tuple(residuals[key] for key in sorted(residuals)))


def _size(box: _PartialConjunction) -> int:
    return len(box.constraints) + len(box.residuals) + 1


def _union(one: tuple[Expression, ...], other: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Residuals of both, each once, in a fixed order. By bytes: Literal(1) equals Literal(True)."""
    if not one or not other:
        return one or other
    found = {msgspec.msgpack.encode(residual): residual for residual in (*one, *other)}
    return tuple(found[key] for key in sorted(found))


class _Normaliser:
    """Asks "when is it true?" and "when is it false?" of expressions, each question once."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.known: dict[tuple[int, bool], Boxes] = {}
        self.steps = 0  # conditions that were copied so far

    def truth(self, node: Expression, wanted: bool) -> Boxes:
        """The boxes in which the condition is `wanted` (True: true, False: false)."""
        key = (id(node), wanted)
        if key not in self.known:
            self.known[key] = self.fresh(node, wanted)
        return self.known[key]

    def fresh(self, node: Expression, wanted: bool) -> Boxes:
        """As `truth`, unremembered: for a node made here, because another node may reuse its id."""
        kind = type(node)
        if kind is Not:
            return self.truth(node.operand, not wanted)  # type: ignore[union-attr]
        if isinstance(node, And | Or):
            parts = [self.truth(part, wanted) for part in _chain(node)]
            return self.all_of(parts) if (kind is And) is wanted else self.any_of(parts)
        if isinstance(node, Xor):
            return self.xor(_chain(node), wanted)
        known = constant(node)
        if known is not UNKNOWN:
            return _ALWAYS if known is wanted else _NEVER
        return self.leaf(node, wanted)

    def xor(self, parts: list[Expression], wanted: bool) -> Boxes:
        """True when an odd number of parts is true and the others are false; unknown with any unknown."""
        odd, even = _NEVER, _ALWAYS
        for part in parts:
            yes, no = self.truth(part, True), self.truth(part, False)
            odd, even = (
                self.any_of([self.all_of([odd, no]), self.all_of([even, yes])]),
                self.any_of([self.all_of([odd, yes]), self.all_of([even, no])]),
            )
        return odd if wanted else even

    def any_of(self, parts: list[Boxes]) -> Boxes:
        boxes = _merged([box for part in parts for box in part])
        check_conjunctions(len(boxes), self.limits)
        return boxes

    def all_of(self, parts: list[Boxes]) -> Boxes:
        """Every combination; single boxes first, since they only narrow the others."""
        if not all(parts):
            return _NEVER
        only = _all_of_single([part[0] for part in parts if len(part) == 1])
        if only is None:
            return _NEVER
        boxes = [only]
        for part in sorted((part for part in parts if len(part) > 1), key=len):
            check_conjunctions(len(boxes) * len(part), self.limits)
            self.count(len(part) * sum(map(_size, boxes)) + len(boxes) * sum(map(_size, part)))
            joined = (_both(one, other) for one, other in product(boxes, part))
            boxes = [box for box in joined if box is not None]
            if not boxes:
                return _NEVER
        return _merged(boxes)

    def count(self, steps: int) -> None:
        """Refuse the filter when so many more steps are too many."""
        self.steps += steps
        check_steps(self.steps, self.limits)

    # leaves

    def leaf(self, node: Expression, wanted: bool) -> Boxes:
        if isinstance(node, Attribute):
            return _one(Equals(node.name, wanted))
        if isinstance(node, Compare):
            return self.comparison(node, wanted)
        if isinstance(node, In):
            return self.membership(node, wanted is not node.negated)
        if isinstance(node, Between):
            return self.between(node, wanted is not node.negated)
        if isinstance(node, ExistsTest):
            return _one(Exists(node.name) if wanted else Missing(node.name))
        if isinstance(node, TypeTest):
            return _one(IsA.of(node.name, wanted is node.negated))
        if isinstance(node, NullTest | LikeTest | RegexpTest | TopicTest):
            return _test(node, wanted is node.negated)
        if isinstance(node, Negate | Arithmetic):
            return _NEVER  # a number is neither true nor false
        if isinstance(node, AnyOf | AllOf):
            return _ranged(node, wanted)
        return _residual(node if wanted else Not(node))

    def comparison(self, node: Compare, wanted: bool) -> Boxes:
        op = node.op if wanted else leaves.OPPOSITE[node.op]
        left, right = node.left, node.right
        if isinstance(right, Attribute) and constant(left) is not UNKNOWN:
            left, right, op = right, left, leaves.TURNED[op]
        value = constant(right)
        if isinstance(left, Attribute) and value is not UNKNOWN:
            if not isinstance(right, Literal) and leaves.is_wild(left.name, value):
                return _computed_topic(left.name, op)
            return _one(leaves.compare(left.name, op, value))
        if value is None or constant(left) is None:
            return _NEVER
        return _residual(Compare(op, left, right))

    def between(self, node: Between, wanted: bool) -> Boxes:
        operand, low, high = node.operand, node.low, node.high
        if not isinstance(operand, Attribute) and constant(operand) is UNKNOWN:
            return _residual(Between(operand, low, high, not wanted))
        if wanted and isinstance(operand, Attribute):
            least, most = constant(low), constant(high)
            if least is not UNKNOWN and most is not UNKNOWN:
                return _one(leaves.between(operand.name, least, most))
        ends = [
            self.fresh(Compare(">=", operand, low), wanted),
            self.fresh(Compare("<=", operand, high), wanted),
        ]
        return self.all_of(ends) if wanted else self.any_of(ends)

    def membership(self, node: In, wanted: bool) -> Boxes:
        operand = node.operand
        if not isinstance(operand, Attribute) and constant(operand) is UNKNOWN:
            return _residual(In(operand, node.items, not wanted))
        values: list[Any] = []
        parts: list[Boxes] = []
        for item in node.items:
            value = constant(item) if isinstance(operand, Attribute) else UNKNOWN
            if value is UNKNOWN or leaves.is_wild(operand.name, value):  # type: ignore[union-attr]
                parts.append(self.fresh(Compare("=", operand, item), wanted))
            else:
                values.append(value)
        if values:
            listed = leaves.one_of if wanted else leaves.none_of
            parts.append(_one(listed(operand.name, values)))  # type: ignore[union-attr]
        return self.any_of(parts) if wanted else self.all_of(parts)


def _chain(node: And | Or | Xor) -> list[Expression]:
    """The operands of a chain of one operator, however the tree was built."""
    kind = type(node)
    operands: list[Expression] = []
    stack: list[Expression] = [node]
    while stack:
        part = stack.pop()
        if type(part) is kind:
            stack.extend((part.right, part.left))
        else:
            operands.append(part)
    return operands


def _one(constraint: Constraint | None) -> Boxes:
    return _NEVER if constraint is None else [_PartialConjunction({constraint.attribute: (constraint,)})]


def _residual(expression: Expression) -> Boxes:
    return [_PartialConjunction({}, (expression,))]


def _ranged(node: AnyOf | AllOf, wanted: bool) -> Boxes:
    """A condition on elements is a residual, beside the presence of its list where it demands that."""
    if not wanted:
        opposite = AllOf if isinstance(node, AnyOf) else AnyOf
        return _ranged(opposite(_negated(node.condition)), True)
    constraints: dict[str, Constraints] = {}
    if isinstance(node, AnyOf):
        name = _demanded(node.condition)
        if name is not None and "." not in name:
            constraints[name] = (Exists(name),)
    return [_PartialConjunction(constraints, (node,))]


def _negated(condition: Expression) -> Expression:
    return condition.operand if isinstance(condition, Not) else Not(condition)


def _demanded(condition: Expression) -> str | None:
    """The name that must be there for a simple comparison with a constant to be true."""
    if isinstance(condition, Compare):
        operand = condition.left
    elif isinstance(condition, In | Between | LikeTest | RegexpTest | TopicTest):
        operand = condition.operand
    else:
        return None
    return operand.name if isinstance(operand, Attribute) else None


def _computed_topic(name: str, op: str) -> Boxes:
    """A computed text with a wildcard is no pattern: no topic equals it, every topic differs."""
    return _one(Prefix(name, "")) if op == "!=" else _NEVER


def _test(node: NullTest | LikeTest | RegexpTest | TopicTest, negated: bool) -> Boxes:
    operand = node.operand
    if not isinstance(operand, Attribute):
        return _residual(msgspec.structs.replace(node, negated=negated))
    if isinstance(node, NullTest):
        return _one(Exists(operand.name) if negated else Missing(operand.name))
    if isinstance(node, LikeTest):
        return _one(leaves.like(operand.name, node.pattern, negated=negated))
    if isinstance(node, RegexpTest):
        return _one(leaves.regexp(operand.name, node.pattern, negated=negated))
    return _one(leaves.topic_is(operand.name, node.pattern, negated=negated))


def _merged(boxes: Boxes) -> Boxes:
    """Alternatives of values for one attribute, without other conditions, as one value set."""
    values: dict[str, list[Any]] = {}
    rest: Boxes = []
    for box in boxes:
        listed = _listed(box)
        if listed is None:
            rest.append(box)
        else:
            values.setdefault(listed[0], []).extend(listed[1])
    for name, alternatives in values.items():
        rest.extend(_one(leaves.one_of(name, alternatives)))
    return rest


def _listed(box: _PartialConjunction) -> tuple[str, tuple[Any, ...]] | None:
    if len(box.constraints) != 1 or box.residuals:
        return None
    ((name, constraints),) = box.constraints.items()
    only = constraints[0]
    if len(constraints) == 1 and isinstance(only, Equals | OneOf):
        return name, (only.value,) if isinstance(only, Equals) else only.values
    return None
