"""Subscriptions to changes of quality: a class, sources, a condition on data and one on quality.

    ON Enterprise/Holder FROM INPS, INAIL WHERE FiscalCode = 'MCLMSM73H17H501F' AND name.accuracy <= medium

Rules
- Only the class is needed; it stands for the classes below it too. Without FROM every organisation counts.
- WHERE is a condition of the filter language. A name that ends in a dimension (`name.accuracy`, in any
  case) is a quality, compared with a number from 0 to 1 or with a level. All other names are data.
- A conjunct that names no quality belongs to the condition on data, any other to that on quality.
- Meaning is that of an ordinary filter (`filter`), which brokers match and the algebra compares. There
  the class stands with its ancestors, levels are bands of numbers, and bounds lie within 0 and 1, so that
  `covers` needs no knowledge of classes and levels.
- So a subscription without FROM is never covered by one with FROM, and a class covers those below it:
  the containment of Virgillito (2003), section 5.3.1, corrected in both places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from tidings import algebra
from tidings.errors import FilterSyntaxError, InputError
from tidings.language import accepts, normalise, parse, print_expression, print_filter
from tidings.language.lexer import string_of
from tidings.language.parser import balanced
from tidings.model.constraint import Constraint, Range
from tidings.model.event import RESERVED, Event
from tidings.model.expression import And, Attribute, Expression, In, Literal, Or, TypeTest, Xor
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import Kind
from tidings_quality.levels import attributes_of, canonical, is_quality, without_levels
from tidings_quality.model import CHANGE, STATE, is_within, lineage
from tidings_quality.schema import Schema

_NAME = r"[^\W\d][\w-]*"
_WORD = rf"(?:{_NAME}|'(?:[^'\\]|\\.|'')*')"
_HEAD = re.compile(
    rf"\s*ON\s+(?P<class>{_NAME}(?:/{_NAME})*)"
    rf"(?:\s+FROM\s+(?P<sources>{_WORD}(?:\s*,\s*{_WORD})*))?"
    r"(?:\s+WHERE\s+(?P<where>.*\S))?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_ON, _CLASS = (
    re.compile(r"\s*ON\b", re.IGNORECASE),
    re.compile(rf"\s*ON\s+{_NAME}(?:/{_NAME})*", re.IGNORECASE),
)
_PLAIN = re.compile(rf"{_NAME}\Z")
_KEYWORDS = ("FROM", "WHERE", "ON")


class QualitySubscription(msgspec.Struct, frozen=True, dict=True):
    """The triple: class with sources, condition on data, condition on quality. Levels stand as written."""

    data_class: str
    sources: tuple[str, ...] | None = None  # sorted; None: all
    data: Expression | None = None
    quality: Expression | None = None

    @cached_property
    def where(self) -> Expression | None:
        """Both conditions as one."""
        if self.data is None or self.quality is None:
            return self.data or self.quality
        return And(self.data, self.quality)

    @cached_property
    def text(self) -> str:
        """The subscription in words that parse to it again."""
        delivered = f"ON {self.data_class}"
        if self.sources is not None:
            delivered += " FROM " + ", ".join(_quoted(name) for name in self.sources)
        parts = [part for side in (self.data, self.quality) for part in conjuncts(side)]
        return delivered + (" WHERE " + " AND ".join(_bracketed(part) for part in parts) if parts else "")

    @cached_property
    def filter(self) -> Filter:
        """Its meaning, as an ordinary filter."""
        return _compiled(self)

    def __str__(self) -> str:
        return self.text

    def matches(self, event: Event) -> bool:
        return accepts(self.filter, event)

    def covers(self, other: QualitySubscription) -> bool:
        """Is every change that the other one hears of heard by this one?"""
        return algebra.covers(self.filter, other.filter)

    def seen_from(self, producer: str) -> QualitySubscription | None:
        """Its part for one producer, where the sources are meaningless. None: no part."""
        if self.sources is not None and producer not in self.sources:
            return None
        return msgspec.structs.replace(self, sources=None)

    def check(self, schema: Schema) -> QualitySubscription:
        """The subscription itself, when the schema knows its words."""
        _check_words(self, schema)
        return self


def subscription(
    data_class: str, sources: Sequence[str] | None = None, data: str | None = None, quality: str | None = None
) -> QualitySubscription:
    """From the parts of the triple; conditions are texts, None is no condition."""
    both = " AND ".join(f"({side})" for side in (data, quality) if side is not None)
    return _made(data_class, sources, parse(both) if both else None)


@lru_cache(maxsize=4096)
def parse_subscription(text: str) -> QualitySubscription:
    """The subscription that a text says, or a `FilterSyntaxError` that shows the place."""
    found = _HEAD.match(text)
    if found is None:
        raise _syntax_error(text)
    sources = (
        None if found["sources"] is None else [_unquoted(one) for one in re.findall(_WORD, found["sources"])]
    )
    condition = None
    if found["where"] is not None:
        start = found.start("where")
        try:
            condition = parse(found["where"])
        except FilterSyntaxError as error:
            raise FilterSyntaxError(
                error.problem, text=text, offset=start + error.offset, expected=error.expected,
                suggestion=error.suggestion,
            ) from None  # fmt: skip
    return _made(found["class"], sources, condition)


def merged(subscriptions: Sequence[QualitySubscription]) -> tuple[QualitySubscription, ...]:
    """The merge subscription: those that no other one covers; of two equal ones the first."""
    kept: list[QualitySubscription] = []
    for one in subscriptions:
        if not any(other.covers(one) for other in kept):
            kept = [other for other in kept if not one.covers(other)]
            kept.append(one)
    return tuple(kept)


def _made(
    data_class: str, sources: Sequence[str] | None, condition: Expression | None
) -> QualitySubscription:
    data: list[Expression] = []
    quality: list[Expression] = []
    for part in conjuncts(condition):
        whole = canonical(part)
        names = list(attributes_of(whole))
        (quality if any(is_quality(name) for name in names) else data).append(whole)
    named = None if sources is None else tuple(sorted(set(sources)))
    if named == ():
        raise InputError("a subscription to no source at all", hint="leave the sources out to hear all")
    made = QualitySubscription(data_class, named, _all(data), _all(quality))
    without_levels(made.where)  # what is wrong with a level is told now
    return made


def _all(parts: Sequence[Expression]) -> Expression | None:
    return balanced(And, parts) if parts else None


def conjuncts(expression: Expression | None) -> Iterator[Expression]:
    """The parts that all have to hold."""
    if isinstance(expression, And):
        yield from conjuncts(expression.left)
        yield from conjuncts(expression.right)
    elif expression is not None:
        yield expression


def _compiled(one: QualitySubscription) -> Filter:
    parts: list[Expression] = [TypeTest(name) for name in lineage(one.data_class)]
    if one.sources is not None:
        parts.append(In(Attribute("source"), tuple(Literal(name) for name in one.sources)))
    condition = without_levels(one.where)
    if condition is not None:
        parts.append(condition)
    plain = normalise(balanced(And, parts), text="")
    bounded = [_bounded(conjunction) for conjunction in plain.conjunctions]
    made = Filter("", tuple(one for one in bounded if one is not None))
    return msgspec.structs.replace(made, text=print_filter(made))


def _bounded(conjunction: Conjunction) -> Conjunction | None:
    """The conjunction with every range of a quality within 0 and 1; None: one is empty."""
    constraints: list[Constraint] = []
    for constraint in conjunction.constraints:
        if (
            isinstance(constraint, Range)
            and is_quality(constraint.attribute)
            and constraint.kind is Kind.NUMBER
        ):
            narrowed = _within(constraint)
            if narrowed is None:
                return None
            constraints.append(narrowed)
        else:
            constraints.append(constraint)
    return Conjunction(tuple(constraints), conjunction.residuals)


def _within(found: Range) -> Range | None:
    low, low_open = (found.low, found.low_open) if found.low is not None and found.low >= 0 else (0.0, False)
    high, high_open = (
        (found.high, found.high_open) if found.high is not None and found.high <= 1 else (1.0, False)
    )
    if low > high or (low == high and (low_open or high_open)):
        return None
    return Range(found.attribute, low, high, low_open, high_open)


def _check_words(one: QualitySubscription, schema: Schema) -> None:
    schema.data_class(one.data_class)
    for source in one.sources or ():
        schema.organisation(source)
    known = {
        name
        for path, found in schema.by_path.items()
        if is_within(path, one.data_class)
        for name in found.properties
    }
    qualities = {name.lower() for name in known}
    for name in attributes_of(without_levels(one.where)):
        _check_word(name, one.data_class, known, qualities)


def _check_word(name: str, data_class: str, known: set[str], qualities: set[str]) -> None:
    first, _, rest = name.partition(".")
    if first in RESERVED or first in (CHANGE, STATE) or name in known:
        return
    if is_quality(name) and first in qualities:
        return
    near = get_close_matches(first.lower(), qualities, n=1)
    right = next((one for one in known if near and one.lower() == near[0]), "")
    hint = (
        f"did you mean {right if not rest else f'{right.lower()}.{rest}'}?"
        if right
        else ", ".join(sorted(known))
    )
    raise InputError(f"{data_class} has no property {name!r}", hint=hint)


def _bracketed(part: Expression) -> str:
    text = print_expression(part)
    return f"({text})" if isinstance(part, Or | Xor) else text


def _quoted(name: str) -> str:
    if _PLAIN.match(name) and name.upper() not in _KEYWORDS:
        return name
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _unquoted(word: str) -> str:
    return string_of(word) if word.startswith("'") else word


def _syntax_error(text: str) -> FilterSyntaxError:
    head = _CLASS.match(text)
    if head is not None:
        position = head.end() + len(text[head.end() :]) - len(text[head.end() :].lstrip())
        word = text[position:].partition(" ")[0].upper()
        wanted = {"FROM": "names of organisations", "WHERE": "a condition"}.get(word)
        problem = f"{wanted} must follow {word}" if wanted else "FROM or WHERE was expected"
        return FilterSyntaxError(problem, text=text, offset=position, expected=("FROM", "WHERE"))
    on = _ON.match(text)
    if on is None:
        return FilterSyntaxError(
            "a subscription begins with ON and a class", text=text, offset=0, expected=("ON",)
        )
    return FilterSyntaxError("a class was expected", text=text, offset=min(on.end() + 1, len(text)))


def subscription_of(given: dict[str, Any]) -> QualitySubscription:
    """From JSON: `class`, and `sources`, `data`, `quality` where they are wanted."""
    unknown = set(given) - {"class", "sources", "data", "quality"}
    if unknown or not isinstance(given.get("class"), str):
        raise InputError("a subscription has a class, and may have sources, data and quality")
    sources = given.get("sources")
    if sources is not None and not (
        isinstance(sources, list) and all(isinstance(one, str) for one in sources)
    ):
        raise InputError("the sources of a subscription are a list of names")
    for name in ("data", "quality"):
        if not isinstance(given.get(name), str | None):
            raise InputError(f"{name} of a subscription is a condition, as text")
    return subscription(given["class"], sources, given.get("data"), given.get("quality"))
