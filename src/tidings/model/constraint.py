"""Constraints: one condition on one attribute.

A constraint is the set of values that it accepts. Absent values (NULL) are accepted by
`Missing` alone, and a value of another kind than the constraint's is accepted by none
but `Exists`: comparing kinds is unknown, and unknown is not true. Negated forms are
therefore *not* set complements: `NotOneOf("a", (5,))` accepts numbers other than 5, no string.

Instances are in normal form when the normaliser made them: `OneOf` has two values or more,
sorted by `sort_key`; `Range` has at least one bound; `Like` is no plain literal and no prefix.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import msgspec

from tidings.model.event import LINEAGE
from tidings.model.pattern import like_matches, regexp_matches
from tidings.model.topic import topic_matches
from tidings.model.value import Kind, Value, is_null, kind_of


class _Constraint(msgspec.Struct, frozen=True, gc=False):
    attribute: str


class Equals(_Constraint, frozen=True, tag="eq"):
    """attribute = value."""

    value: Any  # a Value; Any, since msgspec takes no union of str and datetime

    def accepts(self, value: Any) -> bool:
        return value == self.value and kind_of(value) is kind_of(self.value)


class OneOf(_Constraint, frozen=True, tag="in"):
    """attribute IN (values): any of them; values may be of several kinds."""

    values: tuple[Any, ...]  # of Value

    def accepts(self, value: Any) -> bool:
        kind = kind_of(value)
        return kind is not None and any(value == v and kind is kind_of(v) for v in self.values)


class NotOneOf(_Constraint, frozen=True, tag="nin"):
    """attribute NOT IN (values), and `!=`: a value of the same kind that is none of them."""

    values: tuple[Any, ...]  # of Value

    def accepts(self, value: Any) -> bool:
        kind = kind_of(value)
        return kind is not None and all(kind is kind_of(v) and value != v for v in self.values)


class Range(_Constraint, frozen=True, tag="range"):
    """Between two bounds of one kind (number, string, time); None is no bound on that side."""

    low: Any  # a number, string or time; None: unbounded
    high: Any
    low_open: bool = False  # True: the bound itself is left out
    high_open: bool = False

    @property
    def kind(self) -> Kind:
        kind = kind_of(self.high if self.low is None else self.low)
        assert kind is not None
        return kind

    def accepts(self, value: Any) -> bool:
        if kind_of(value) is not self.kind:
            return False
        low, high = self.low, self.high
        if low is not None and (value < low or (self.low_open and value == low)):
            return False
        return not (high is not None and (value > high or (self.high_open and value == high)))


class Prefix(_Constraint, frozen=True, tag="prefix"):
    """attribute LIKE 'prefix%'."""

    prefix: str

    def accepts(self, value: Any) -> bool:
        return type(value) is str and value.startswith(self.prefix)


class Like(_Constraint, frozen=True, tag="like"):
    """attribute [NOT] LIKE pattern."""

    pattern: str
    negated: bool = False

    def accepts(self, value: Any) -> bool:
        return type(value) is str and like_matches(self.pattern, value) is not self.negated


class Regexp(_Constraint, frozen=True, tag="regexp"):
    """attribute [NOT] REGEXP pattern (RE2, found anywhere)."""

    pattern: str
    negated: bool = False

    def accepts(self, value: Any) -> bool:
        return type(value) is str and regexp_matches(self.pattern, value) is not self.negated


class Exists(_Constraint, frozen=True, tag="exists"):
    """EXISTS attribute, attribute IS NOT NULL."""

    def accepts(self, value: Any) -> bool:
        return not is_null(value)


class Missing(_Constraint, frozen=True, tag="missing"):
    """attribute IS NULL."""

    def accepts(self, value: Any) -> bool:
        return is_null(value)


class TopicIs(_Constraint, frozen=True, tag="topic"):
    """attribute (usually `topic`) [NOT] MATCHES a pattern with + or #."""

    pattern: str
    negated: bool = False

    def accepts(self, value: Any) -> bool:
        return type(value) is str and topic_matches(self.pattern, value) is not self.negated


class IsA(_Constraint, frozen=True, tag="isa"):
    """type IS [NOT] A name: the name is in the event's lineage. `attribute` is LINEAGE."""

    name: str
    negated: bool = False

    @classmethod
    def of(cls, name: str, negated: bool = False) -> IsA:
        return cls(LINEAGE, name, negated)

    def accepts(self, value: Any) -> bool:
        return type(value) is tuple and (self.name in value) is not self.negated


Constraint: TypeAlias = (
    Equals | OneOf | NotOneOf | Range | Prefix | Like | Regexp | Exists | Missing | TopicIs | IsA
)

Kinds: TypeAlias = tuple[Kind | None, ...]


def __getattr__(name: str) -> Any:
    if name == "told_apart":
        warnings.warn(f"{__name__}.told_apart is exact_key now", DeprecationWarning, stacklevel=2)
        return exact_key
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def exact_key(constraint: Constraint) -> tuple[Constraint, Kinds]:
    """A constraint as a dictionary's key: in Python `a = 1` equals `a = TRUE`, here kinds differ."""
    if isinstance(constraint, Equals):
        return constraint, (kind_of(constraint.value),)
    if isinstance(constraint, OneOf | NotOneOf):
        return constraint, tuple(map(kind_of, constraint.values))
    return constraint, ()


__all__ = [
    "Constraint", "Equals", "Exists", "IsA", "Kinds", "Like", "Missing", "NotOneOf", "OneOf", "Prefix",
    "Range", "Regexp", "TopicIs", "Value", "exact_key",
]  # fmt: skip
