"""The values that an expression can have, seen from the domains of its attributes.

Rules
- `TermValues.value` returns a `Domain` that holds every value of the expression for every event in the
  region, `absent` for NULL; it may hold more. So a condition whose domain lacks TRUE is never true.
- Equal terms have one value: functions are pure and an event does not change. A term that conditions
  compare with constants is narrowed as an attribute is, and two terms that are compared have one order.
- A comparison is between values of one kind; booleans have no order; a list is NULL to every operator but
  LENGTH. Arithmetic gives a finite number or NULL.
- Only the dialect `tidings` is read: CESQL casts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.domain import ABSENT, ANYTHING, NOTHING, Domain
from tidings.algebra.intervals import BOTTOM, EMPTY, FULL, Intervals
from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.topic import is_pattern
from tidings.model.value import Kind, kind_of

Truths: TypeAlias = frozenset[bool]  # the truth values that are possible; NULL always is
Signs: TypeAlias = frozenset[int]  # of a comparison: -1 less, 0 equal, 1 greater

DEEPEST = 100  # operators inside operators that are followed; texts have 32 at most
TURNED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
SIGNS: Final[dict[str, Signs]] = {
    "=": frozenset({0}), "!=": frozenset({-1, 1}), "<": frozenset({-1}), "<=": frozenset({-1, 0}),
    ">": frozenset({1}), ">=": frozenset({0, 1}),
}  # fmt: skip
OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

# What a function of the language returns, besides NULL. Functions that are not here may return anything.
RETURNS: Final = {
    **dict.fromkeys(("CONCAT", "CONCAT_WS", "LOWER", "UPPER", "TRIM", "LEFT", "RIGHT"), Kind.STRING),
    **dict.fromkeys(("SUBSTRING", "STRING"), Kind.STRING),
    **dict.fromkeys(("LENGTH", "ABS", "INT", "FLOAT", "DECIMAL", "FLOOR", "CEIL", "ROUND"), Kind.NUMBER),
    "MOD": Kind.NUMBER,
    **dict.fromkeys(("BOOL", "IS_INT", "IS_BOOL"), Kind.BOOL),
    "TIMESTAMP": Kind.TIME,
}
NEVER_NEGATIVE: Final = frozenset({"LENGTH", "ABS"})
# Functions whose arguments all have one kind; with another one the result is NULL.
TAKES: Final = {
    **dict.fromkeys(("CONCAT", "CONCAT_WS", "LOWER", "UPPER", "TRIM"), Kind.STRING),
    **dict.fromkeys(("ABS", "FLOOR", "CEIL", "ROUND", "MOD"), Kind.NUMBER),
}

_PATTERNS: Final[dict[type, Any]] = {e.LikeTest: c.Like, e.RegexpTest: c.Regexp, e.TopicTest: c.TopicIs}

_BOTH: Truths = frozenset({True, False})
_ANY_VALUE = Domain(True, (FULL, FULL, FULL, FULL, EMPTY))
_FINITE = iv.between(float("-inf"), float("inf"), True, True)
_NUMBER = Domain(True, dm.of_kind(Kind.NUMBER, _FINITE).kinds)
_COUNT = Domain(True, dm.of_kind(Kind.NUMBER, iv.between(0, None, False, False)).kinds)
_TRUTHS: dict[Truths, Domain] = {
    frozenset(some): Domain(True, dm.of_values(some).kinds) for some in ((), (True,), (False,), (True, False))
}


def contradicts(domains: Mapping[str, Domain], residuals: Iterable[e.Expression]) -> bool:
    """Can these conditions surely not all be true, for attributes in these domains? False when in doubt."""
    residuals = tuple(residuals)
    values = TermValues(domains)
    for residual in residuals:
        if not values.narrow(residual):
            return True
    orders: dict[tuple[bytes, bytes], Signs] = {}
    for residual in residuals:
        if True not in values.truths(residual):
            return True
        for pair, signs in _orders(residual):
            orders[pair] = left = orders.get(pair, signs) & signs
            if not left:
                return True
    return False


def _orders(residual: e.Expression) -> Iterable[tuple[tuple[bytes, bytes], Signs]]:
    """The order of two terms that a comparison demands."""
    if isinstance(residual, e.Between) and not residual.negated:
        yield from _orders(e.Compare(">=", residual.operand, residual.low))
        yield from _orders(e.Compare("<=", residual.operand, residual.high))
    if isinstance(residual, e.Compare) and not _is_topic_test(residual):
        left, right = term_key(residual.left), term_key(residual.right)
        signs = SIGNS[residual.op]
        if left > right:
            left, right, signs = right, left, frozenset(-sign for sign in signs)
        yield (left, right), signs


def term_key(term: e.Expression) -> bytes:
    """Equal keys: the same term; it tells 1 from 1.0 and from TRUE."""
    return msgspec.msgpack.encode(term)


class TermValues:
    """The values of terms over one region; terms that were narrowed have fewer."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._narrowed: dict[bytes, Domain] = {}
        self._known: dict[int, Domain] = {}  # by the identity of computed nodes, which the caller keeps

    def narrow(self, condition: e.Expression) -> bool:
        """Note what a condition says of its term, as far as constants do; False: no value is left."""
        for term, wanted in _wanted(condition):
            left = dm.intersection(self.value(term), wanted)
            self._narrowed[term_key(term)] = left
            self._known.clear()
            if dm.decide_empty(left):
                return False
        return True

    def truths(self, condition: e.Expression, depth: int = 0) -> Truths:
        """The truth values that a condition can have beside unknown."""
        value = self.value(condition, depth)
        return frozenset(truth for truth in (True, False) if value.accepts(truth))

    def value(self, node: e.Expression, depth: int = 0) -> Domain:
        """Every value that the expression can have, and perhaps more."""
        if isinstance(node, e.Literal):
            return ABSENT if kind_of(node.value) is None else dm.of_values([node.value])
        if isinstance(node, e.Attribute):
            return _seen(self._domains.get(node.name, ANYTHING))
        known = self._known.get(id(node))
        if known is not None:
            return known
        if depth >= DEEPEST:
            return _ANY_VALUE
        found = self._computed(node, depth + 1)
        narrowed = self._narrowed.get(term_key(node)) if self._narrowed else None
        found = found if narrowed is None else dm.intersection(found, narrowed)
        self._known[id(node)] = found
        return found

    def _computed(self, node: e.Expression, depth: int) -> Domain:
        if isinstance(node, e.Arithmetic):
            sides = (self.value(node.left, depth), self.value(node.right, depth))
            return _NUMBER if all(side.kinds[Kind.NUMBER] for side in sides) else ABSENT
        if isinstance(node, e.Negate):
            return _NUMBER if self.value(node.operand, depth).kinds[Kind.NUMBER] else ABSENT
        if isinstance(node, e.Call):
            return self._called(node, depth)
        judge = _JUDGES.get(type(node))
        return _TRUTHS[_BOTH if judge is None else judge(self, node, depth)]

    def _called(self, node: e.Call, depth: int) -> Domain:
        kind, takes = RETURNS.get(node.function), TAKES.get(node.function)
        if kind is None:
            return _ANY_VALUE
        if takes is not None and not all(self.value(part, depth).kinds[takes] for part in node.arguments):
            return ABSENT
        if node.function == "LENGTH" and not self._has_length(node, depth):
            return ABSENT
        return _COUNT if node.function in NEVER_NEGATIVE else Domain(True, dm.of_kind(kind, FULL).kinds)

    def _has_length(self, node: e.Call, depth: int) -> bool:
        (argument,) = node.arguments
        if isinstance(argument, e.Attribute):
            domain = self._domains.get(argument.name, ANYTHING)
            return bool(domain.strings or domain.kinds[Kind.OTHER])
        return bool(self.value(argument, depth).strings)

    # conditions: which of TRUE and FALSE are possible

    def _compare(self, node: e.Compare, depth: int) -> Truths:
        if _is_topic_test(node):
            return _BOTH
        return self._compared(node.op, node.left, node.right, depth)

    def _compared(self, op: str, one: e.Expression, other: e.Expression, depth: int) -> Truths:
        signs = _signs(self.value(one, depth), self.value(other, depth), ordered=op not in ("=", "!="))
        if one is other or term_key(one) == term_key(other):
            signs &= SIGNS["="]
        return frozenset(
            truth for truth, which in ((True, op), (False, OPPOSITE[op])) if signs & SIGNS[which]
        )

    def _between(self, node: e.Between, depth: int) -> Truths:
        low = self._compared(">=", node.operand, node.low, depth)
        high = self._compared("<=", node.operand, node.high, depth)
        return _turned(_all_of(low, high), node.negated)

    def _in(self, node: e.In, depth: int) -> Truths:
        if _is_topic(node.operand):
            return _BOTH
        each = [self._compared("=", node.operand, item, depth) for item in node.items]
        found = _BOTH if any(True in truths for truths in each) else frozenset({False})
        return _turned(found, node.negated)

    def _text(self, node: e.LikeTest | e.RegexpTest | e.TopicTest, depth: int) -> Truths:
        return _BOTH if self.value(node.operand, depth).strings else frozenset()

    def _exists(self, node: e.ExistsTest, _depth: int) -> Truths:
        return _presence(self._domains.get(node.name, ANYTHING))

    def _null(self, node: e.NullTest, depth: int) -> Truths:
        if isinstance(node.operand, e.Attribute):
            present = _presence(self._domains.get(node.operand.name, ANYTHING))
        else:
            present = _presence(self.value(node.operand, depth))
        return _turned(present, not node.negated)

    def _not(self, node: e.Not, depth: int) -> Truths:
        return _turned(self.truths(node.operand, depth), True)

    def _and(self, node: e.And, depth: int) -> Truths:
        return _all_of(self.truths(node.left, depth), self.truths(node.right, depth))

    def _or(self, node: e.Or, depth: int) -> Truths:
        sides = (self.truths(node.left, depth), self.truths(node.right, depth))
        return _turned(_all_of(*(_turned(side, True) for side in sides)), True)

    def _xor(self, node: e.Xor, depth: int) -> Truths:
        left, right = self.truths(node.left, depth), self.truths(node.right, depth)
        return frozenset(one is not other for one in left for other in right)


_JUDGES: dict[type, Callable[[TermValues, Any, int], Truths]] = {
    e.Compare: TermValues._compare, e.Between: TermValues._between, e.In: TermValues._in,
    **dict.fromkeys((e.LikeTest, e.RegexpTest, e.TopicTest), TermValues._text),
    e.ExistsTest: TermValues._exists, e.NullTest: TermValues._null, e.Not: TermValues._not,
    e.And: TermValues._and, e.Or: TermValues._or, e.Xor: TermValues._xor,
}  # fmt: skip


def _seen(domain: Domain) -> Domain:
    """An attribute's domain as operators see it: a list is NULL. Patterns are left out."""
    if not domain.kinds[Kind.OTHER]:
        return domain._replace(patterns=()) if domain.patterns else domain
    return Domain(True, (*domain.kinds[:4], EMPTY))


def _presence(domain: Domain) -> Truths:
    """Is a value of the domain there, can it be absent?"""
    present = {True} if any(domain.kinds) else set()
    return frozenset(present | {False} if domain.absent else present)


def _turned(truths: Truths, turn: bool) -> Truths:
    return frozenset(not truth for truth in truths) if turn else truths


def _all_of(left: Truths, right: Truths) -> Truths:
    """The truth values of AND: one false side is enough, whatever the other is."""
    found = {True} if True in left and True in right else set()
    return frozenset(found | {False} if False in left or False in right else found)


def _signs(one: Domain, other: Domain, *, ordered: bool) -> Signs:
    """The results of comparing a value of the one domain with a value of the other, of one kind."""
    signs: set[int] = set()
    for kind in (Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.TIME):
        left, right = one.kinds[kind], other.kinds[kind]
        if not left or not right or (ordered and kind is Kind.BOOL):
            continue
        if iv.intersection(left, right):
            signs.add(0)
        if _can_be_less(left, right):
            signs.add(-1)
        if _can_be_less(right, left):
            signs.add(1)
    return frozenset(signs)


def _can_be_less(left: Intervals, right: Intervals) -> bool:
    """Can a value of the left be less than one of the right? Yes when in doubt."""
    start, end = left[0][0], right[-1][1]
    if start != BOTTOM and start[2] == 0:
        start = iv.after(start[1])
    return start < end


def _is_topic(node: e.Expression) -> bool:
    return isinstance(node, e.Attribute) and node.name == "topic"


def _is_topic_test(node: e.Compare) -> bool:
    """Is it a pattern that the topic is tested with, written as a comparison?"""
    return any(
        _is_topic(one)
        and isinstance(other, e.Literal)
        and type(other.value) is str
        and is_pattern(other.value)
        for one, other in ((node.left, node.right), (node.right, node.left))
    )


def _wanted(condition: e.Expression) -> Iterable[tuple[e.Expression, Domain]]:
    """The terms that a condition compares with constants, and the values that it leaves them."""
    if isinstance(condition, e.Compare):
        left, right, op = condition.left, condition.right, condition.op
        if isinstance(left, e.Literal):
            left, right, op = right, left, TURNED[op]
        if _is_term(left) and isinstance(right, e.Literal):
            yield left, compared_with(op, right.value)
    elif isinstance(condition, e.Between):
        ends = ((">=", condition.low), ("<=", condition.high))
        if _is_term(condition.operand) and not condition.negated:
            for op, end in ends:
                if isinstance(end, e.Literal):
                    yield condition.operand, compared_with(op, end.value)
    elif isinstance(condition, e.In):
        values = [item.value for item in condition.items if isinstance(item, e.Literal)]
        if _is_term(condition.operand) and len(values) == len(condition.items):
            yield condition.operand, _listed(tuple(values), negated=condition.negated)
    elif isinstance(condition, e.LikeTest | e.RegexpTest | e.TopicTest):
        if _is_term(condition.operand):
            yield condition.operand, _patterned(condition)
    elif isinstance(condition, e.Not):
        if _is_term(condition.operand):
            yield condition.operand, dm.of_values([False])
    elif isinstance(condition, e.Call):
        yield condition, dm.of_values([True])


def _is_term(node: e.Expression) -> bool:
    """Is it computed? Constraints narrow attributes; constants have one value."""
    return isinstance(node, e.Arithmetic | e.Negate | e.Call)


def compared_with(op: str, value: Any) -> Domain:
    """The values for which a comparison with a constant is true."""
    kind = kind_of(value)
    if kind is None:
        return NOTHING
    if op == "=":
        return dm.of_values([value])
    if op == "!=":
        return _listed((value,), negated=True)
    if kind is Kind.BOOL:
        return NOTHING  # booleans have no order
    if op in ("<", "<="):
        return dm.of_kind(kind, iv.between(None, value, False, op == "<"))
    return dm.of_kind(kind, iv.between(value, None, op == ">", False))


def _patterned(condition: e.LikeTest | e.RegexpTest | e.TopicTest) -> Domain:
    return dm.domain_of(_PATTERNS[type(condition)]("", condition.pattern, condition.negated))


def _listed(values: tuple[Any, ...], *, negated: bool) -> Domain:
    if not negated:
        return dm.of_values(values)
    return dm.domain_of(c.NotOneOf("", values)) if values else ANYTHING
