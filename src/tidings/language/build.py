"""Filters built in code instead of text.

    attr("StockName") == "IBM", attr("change") < -3, topic("stocks/#"), is_a("Trade")

are conditions; `&`, `|`, `^` and `~` join them (with brackets around each comparison, as Python
binds `&` tighter than `<`). A condition can replace a filter text: `as_filter` makes
either a filter. A built condition means exactly what its text (`str(condition)`) means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from tidings.errors import EventError, FilterError
from tidings.language.limits import DEFAULT_LIMITS, Limits, check_text
from tidings.language.normalise import normalise
from tidings.language.printer import print_expression, print_value
from tidings.language.text import parse_filter
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
from tidings.model.filter import TIDINGS, Filter
from tidings.model.pattern import check_regexp, escape_like
from tidings.model.topic import check_pattern
from tidings.model.value import checked_value

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


class Condition:
    """A condition on events; immutable."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def filter(self, *, limits: Limits = DEFAULT_LIMITS) -> Filter:
        """The filter that accepts what the condition is true for."""
        text = print_expression(self.expression)
        check_text(text, limits)
        return normalise(self.expression, text=text, limits=limits)

    def __and__(self, other: Condition) -> Condition:
        return Condition(And(self.expression, _condition(other)))

    def __or__(self, other: Condition) -> Condition:
        return Condition(Or(self.expression, _condition(other)))

    def __xor__(self, other: Condition) -> Condition:
        return Condition(Xor(self.expression, _condition(other)))

    def __invert__(self) -> Condition:
        return Condition(Not(self.expression))

    def __bool__(self) -> NoReturn:
        raise FilterError(
            "a condition is neither true nor false until an event comes",
            hint="join conditions with &, | and ~, not with and, or, not; put brackets around each, "
            "and write .between(1, 5) for 1 < x < 5",
        )

    def __str__(self) -> str:
        return print_expression(self.expression)

    def __repr__(self) -> str:
        return f"<condition {self}>"


class Term(Condition):
    """A term with a value: an attribute, or a computation on attributes."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compared(">=", other)

    def _compared(self, op: str, other: object) -> Condition:
        return Condition(Compare(op, self.expression, _operand(other)))

    def __add__(self, other: object) -> Term:
        return Term(Arithmetic("+", self.expression, _operand(other)))

    def __radd__(self, other: object) -> Term:
        return Term(Arithmetic("+", _operand(other), self.expression))

    def __sub__(self, other: object) -> Term:
        return Term(Arithmetic("-", self.expression, _operand(other)))

    def __rsub__(self, other: object) -> Term:
        return Term(Arithmetic("-", _operand(other), self.expression))

    def __mul__(self, other: object) -> Term:
        return Term(Arithmetic("*", self.expression, _operand(other)))

    def __rmul__(self, other: object) -> Term:
        return Term(Arithmetic("*", _operand(other), self.expression))

    def __truediv__(self, other: object) -> Term:
        return Term(Arithmetic("/", self.expression, _operand(other)))

    def __rtruediv__(self, other: object) -> Term:
        return Term(Arithmetic("/", _operand(other), self.expression))

    def __mod__(self, other: object) -> Term:
        return Term(Arithmetic("%", self.expression, _operand(other)))

    def __rmod__(self, other: object) -> Term:
        return Term(Arithmetic("%", _operand(other), self.expression))

    def __neg__(self) -> Term:
        return Term(Negate(self.expression))

    def in_(self, *values: object) -> Condition:
        """One of the values, given one by one or as one list, tuple or set."""
        return Condition(In(self.expression, _items(values)))

    def not_in(self, *values: object) -> Condition:
        return Condition(In(self.expression, _items(values), True))

    def between(self, low: object, high: object) -> Condition:
        """From low to high, both included."""
        return Condition(Between(self.expression, _operand(low), _operand(high)))

    def like(self, pattern: str) -> Condition:
        """`%` is any text, `_` one character, a backslash takes the next `%` or `_` literally."""
        return Condition(LikeTest(self.expression, _text(pattern)))

    def startswith(self, prefix: str) -> Condition:
        if _text(prefix).endswith("\\"):  # LIKE would read the backslash together with the %
            after = prefix[:-1] + "]"  # the text that follows every text with that prefix
            return (self >= prefix) & (self < after)
        return self.like(escape_like(prefix) + "%")

    def endswith(self, suffix: str) -> Condition:
        return self.like("%" + escape_like(_text(suffix)))

    def contains(self, part: str) -> Condition:
        if _text(part).endswith("\\"):
            return self.regexp("".join(f"\\{ch}" if ch in _SPECIAL else ch for ch in part))
        return self.like(f"%{escape_like(part)}%")

    def regexp(self, pattern: str) -> Condition:
        """A regular expression in RE2's syntax, found anywhere."""
        return Condition(RegexpTest(self.expression, check_regexp(_text(pattern))))

    def matches(self, pattern: str) -> Condition:
        """A topic pattern: + is one level, a final # all below."""
        return Condition(TopicTest(self.expression, check_pattern(_text(pattern))))

    def is_null(self) -> Condition:
        return Condition(NullTest(self.expression))

    def is_not_null(self) -> Condition:
        return Condition(NullTest(self.expression, True))


class AttributeTerm(Term):
    """An attribute by its dotted name."""

    __slots__ = ()

    def exists(self) -> Condition:
        assert isinstance(self.expression, Attribute)
        return Condition(ExistsTest(self.expression.name))


def attr(name: str) -> AttributeTerm:
    """The attribute of that (dotted) name."""
    if not isinstance(name, str) or not name:
        raise FilterError(f"an attribute's name is a text, not {name!r}")
    return AttributeTerm(Attribute(name))


def call(function: str, *arguments: object) -> Term:
    """A function of the filter language: call("LENGTH", attr("name")) > 3."""
    return Term(Call(function.upper(), tuple(map(_operand, arguments))))


def topic(pattern: str) -> Condition:
    """Events under a topic, or under a pattern with + and #."""
    return attr("topic").matches(pattern)


def is_a(name: str) -> Condition:
    """Events of a type, or of a type that descends from it."""
    return Condition(TypeTest(_text(name)))


def as_filter(
    filter: str | Condition | Filter, *, dialect: str = TIDINGS, limits: Limits = DEFAULT_LIMITS
) -> Filter:
    """A filter from text, from a condition, or itself."""
    if isinstance(filter, Filter):
        return filter
    if isinstance(filter, str):
        return parse_filter(filter, dialect=dialect, limits=limits)
    if isinstance(filter, Condition):
        return filter.filter(limits=limits)
    raise FilterError(
        f"a filter cannot be made of {type(filter).__name__}", hint="give a text, a condition or a Filter"
    )


def _condition(other: object) -> Expression:
    if isinstance(other, Condition):
        return other.expression
    raise FilterError(
        f"{other!r} is no condition",
        hint="put brackets around comparisons: (attr('a') > 1) & (attr('b') > 2)",
    )


def _operand(other: object) -> Expression:
    if isinstance(other, Condition):
        return other.expression
    try:
        value = checked_value("value", other)
    except EventError as error:
        raise FilterError(f"{other!r} cannot be compared with", hint=error.hint) from None
    if value is None or value != value:
        raise FilterError("nothing equals NULL", hint="use .is_null() or .exists()")
    print_value(value)  # refuses an infinity
    return Literal(value)


def _items(values: tuple[object, ...]) -> tuple[Expression, ...]:
    if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str | Condition):
        values = tuple(values[0])
    if not values:
        raise FilterError("IN needs at least one value")
    return tuple(map(_operand, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FilterError(f"{value!r} is no text")
    return value
