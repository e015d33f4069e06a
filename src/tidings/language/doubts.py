"""Doubts about a filter: it parses, and it can never be true or was surely not meant so.

Rules
- A doubt is about the normal form, so it does not matter how the filter was made; its place is looked up
  in the text, where there is one.
- Kinds are judged where they are certain: of literals, of what is computed, of the event's own `id`,
  `source`, `type`, `topic` and `time`, and of the attributes whose kind the caller knows from a class. Any
  other attribute may hold any kind.
- Only the dialect `tidings` has doubts: CESQL casts where kinds differ.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tidings.errors import FilterError, ImpossibleFilterError
from tidings.language.functions import BOOLEAN, FUNCTIONS, INTEGER, NUMBER, STRING, TIME
from tidings.language.lexer import NAME, name_of, tokenise
from tidings.language.measure import walk
from tidings.language.printer import print_expression, print_value
from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.event import RESERVED
from tidings.model.filter import TIDINGS, Filter
from tidings.model.topic import is_pattern
from tidings.model.value import Kind, kind_of

_FOREIGN_WILDCARD = re.compile(r"(?:^|[./])(?:\*\*?|>)(?:$|[./])")
_OWN = dict.fromkeys(("id", "source", "type", "topic"), Kind.STRING) | {"time": Kind.TIME}
_UNKNOWN: Mapping[str, Kind] = MappingProxyType({})
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_RETURNS = {
    STRING: Kind.STRING,
    INTEGER: Kind.NUMBER,
    NUMBER: Kind.NUMBER,
    BOOLEAN: Kind.BOOL,
    TIME: Kind.TIME,
}
_CONDITIONS = (
    e.Not, e.And, e.Or, e.Xor, e.Compare, e.In, e.Between, e.LikeTest, e.RegexpTest, e.TopicTest,
    e.ExistsTest,
    e.NullTest, e.TypeTest,
)  # fmt: skip
_ORDER = ("<", "<=", ">", ">=")
_WORDS = {
    Kind.BOOL: "a truth value",
    Kind.NUMBER: "a number",
    Kind.STRING: "a string",
    Kind.TIME: "a timestamp",
}


class Doubt(msgspec.Struct, frozen=True):
    """One doubt: what is doubtful, what to write instead, and where it stands in the text."""

    code: str  # never | kinds | chain | name | attribute | wildcard; by class field | list | value | envelope
    message: str
    hint: str
    about: tuple[str, ...] = ()  # the name or text that it speaks of
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})"


_NEVER = Doubt("never", "the filter can never be true", "look for conditions that exclude each other")
_SAY_NEVER = frozenset({"kinds", "chain", "name"})  # doubts that say of one condition why it is never true


def doubts_of(
    filter: Filter,
    *,
    known: Collection[str] | None = None,
    kinds: Mapping[str, Kind] = _UNKNOWN,
    can_match: bool | None = None,
) -> list[Doubt]:
    """The doubts about a filter; `known` are names of attributes that events are known to have, `kinds` those
    whose values are known to be of one kind, `can_match` is what `tidings.algebra.can_match` says of it."""
    if filter.dialect != TIDINGS:
        return []
    if filter.is_never_true:
        return [_NEVER]
    found: dict[str, Doubt] = {}
    own = {**kinds, **_OWN}
    for conjunction in filter.conjunctions:
        for constraint in conjunction.constraints:
            for warning in _of_constraint(constraint, own):
                found.setdefault(warning.message, warning)
        for residual in conjunction.residuals:
            for node in walk(residual):
                for warning in _of_node(node, known, own):
                    found.setdefault(warning.message, warning)
    if can_match is False and not any(warning.code in _SAY_NEVER for warning in found.values()):
        found[_NEVER.message] = _NEVER
    positions = _places(filter.text) if found else []
    return [msgspec.structs.replace(warning, offset=_find(warning, positions)) for warning in found.values()]


def refuse_doubtful(
    filter: Filter, *, known: Collection[str] | None = None, can_match: bool | None = None
) -> None:
    """Raise an `ImpossibleFilterError` for the first doubt."""
    for warning in doubts_of(filter, known=known, can_match=can_match):
        raise ImpossibleFilterError(warning.message, hint=warning.hint)


# constraints: on one attribute


def _of_constraint(constraint: c.Constraint, kinds: Mapping[str, Kind]) -> Iterator[Doubt]:
    name = constraint.attribute
    texts = [value for value in _values(constraint) if isinstance(value, str)]
    if name == "topic":
        yield from (warning for text in texts for warning in _of_topic(text))
    patterns = [constraint.pattern] if isinstance(constraint, c.Like) else texts
    if name == "topic" and not isinstance(constraint, c.TopicIs) and any(map(is_pattern, patterns)):
        hint = f"write topic MATCHES {print_value(patterns[0])}"
        yield Doubt(
            "wildcard", "LIKE takes + and # of a topic as they are; its wildcards are % and _", hint, (name,)
        )
    own = kinds.get(name)
    wanted = _kind_wanted(constraint)
    if own is not None and wanted is not None and wanted is not own:
        yield _kinds(name, own, wanted, texts, (name,))


def _of_topic(text: str) -> Iterator[Doubt]:
    if _FOREIGN_WILDCARD.search(text):
        levels = re.sub(r"\*\*$|>$", "#", text).replace("**", "+").replace("*", "+")
        meant = levels if "/" in levels else levels.replace(".", "/")
        yield Doubt(
            "wildcard",
            f"the topic {print_value(text)} has wildcards of another system",
            f"+ stands for one level and a final # for all below: write topic MATCHES {print_value(meant)}",
            ("topic",),
        )


def _values(constraint: c.Constraint) -> tuple[Any, ...]:
    if isinstance(constraint, c.Equals):
        return (constraint.value,)
    if isinstance(constraint, c.OneOf | c.NotOneOf):
        return constraint.values
    if isinstance(constraint, c.Range):
        return tuple(bound for bound in (constraint.low, constraint.high) if bound is not None)
    return (constraint.pattern,) if isinstance(constraint, c.TopicIs) else ()


def _kind_wanted(constraint: c.Constraint) -> Kind | None:
    """The one kind that a constraint accepts; None for several."""
    if isinstance(constraint, c.Prefix | c.Like | c.Regexp | c.TopicIs):
        return Kind.STRING
    kinds = {kind_of(value) for value in _values(constraint)}
    return kinds.pop() if len(kinds) == 1 else None


# residuals: what is computed, and attributes against attributes


def _kind(node: e.Expression, kinds: Mapping[str, Kind]) -> Kind | None:
    """The kind of an expression's value, when it is certain."""
    if isinstance(node, e.Literal):
        return kind_of(node.value)
    if isinstance(node, e.Attribute):
        return kinds.get(node.name)
    if isinstance(node, e.Arithmetic | e.Negate):
        return Kind.NUMBER
    if isinstance(node, e.Call):
        return _RETURNS.get(FUNCTIONS[node.function].returns) if node.function in FUNCTIONS else None
    return Kind.BOOL if isinstance(node, _CONDITIONS) else None


def _of_node(node: e.Expression, known: Collection[str] | None, kinds: Mapping[str, Kind]) -> Iterator[Doubt]:
    if isinstance(node, e.Compare):
        pairs = [(node.left, node.right)]
    elif isinstance(node, e.In):
        pairs = [(node.operand, item) for item in node.items]
    elif isinstance(node, e.Between):
        pairs = [(node.operand, node.low), (node.operand, node.high)]
    elif isinstance(node, e.LikeTest | e.RegexpTest | e.TopicTest):
        pairs = [(node.operand, e.Literal(node.pattern))]
    else:
        return
    ordered = isinstance(node, e.Between) or (isinstance(node, e.Compare) and node.op in _ORDER)
    for one, other in pairs:
        yield from _of_pair(one, other, ordered, kinds)
    if isinstance(node, e.Compare | e.In) and not ordered:
        for one, other in pairs:
            yield from _of_names(one, other, known)


def _of_pair(
    one: e.Expression, other: e.Expression, ordered: bool, known: Mapping[str, Kind]
) -> Iterator[Doubt]:
    kinds, about = (_kind(one, known), _kind(other, known)), _names(one, other)
    if ordered and Kind.BOOL in kinds:
        inner = one if kinds[0] is Kind.BOOL else other
        hint = "truth values have no order"
        if isinstance(inner, e.Compare):
            hint = "write both comparisons, with AND between them, or BETWEEN"
        yield Doubt(
            "chain", f"{print_expression(inner)} is a truth value, and it is compared by order", hint, about
        )
    elif None not in kinds and kinds[0] is not kinds[1]:
        texts = [
            side.value for side in (one, other) if isinstance(side, e.Literal) and type(side.value) is str
        ]
        names = _hyphened(one) or _hyphened(other)
        if names:
            hint = f"a name with a hyphen stands in backquotes: `{names}`"
            yield Doubt("name", f"{names} is read as a difference of two attributes", hint, about)
        else:
            yield _kinds(print_expression(one), kinds[0], kinds[1], texts, about)  # type: ignore[arg-type]


def _hyphened(node: e.Expression) -> str | None:
    if isinstance(node, e.Arithmetic) and node.op == "-" and isinstance(node.right, e.Attribute):
        left = node.left.name if isinstance(node.left, e.Attribute) else _hyphened(node.left)
        return None if left is None else f"{left}-{node.right.name}"
    return None


def _names(*nodes: e.Expression) -> tuple[str, ...]:
    return tuple(part.name for node in nodes for part in walk(node) if isinstance(part, e.Attribute))


def _kinds(what: str, own: Kind, wanted: Kind, texts: list[str], about: tuple[str, ...]) -> Doubt:
    hint = "values of different kinds never compare"
    if own is Kind.TIME and texts:
        day = texts[0] if "T" in texts[0] else f"{texts[0]}T00:00:00Z"
        hint = f"write TIMESTAMP {print_value(day)}"
    elif Kind.TIME in (own, wanted) and Kind.STRING in (own, wanted):
        hint = "TIMESTAMP(text) reads a time from its text"
    elif own is Kind.NUMBER and texts and _DECIMAL.fullmatch(texts[0]):
        hint = f"write {texts[0]} without quotes"
        if "." in texts[0]:
            hint += f", or DECIMAL({print_value(texts[0])}) where the values are decimals"
    elif own is Kind.BOOL:
        hint = "write TRUE or FALSE, without quotes"
    elif own is Kind.STRING and wanted is Kind.NUMBER:
        hint = "a text stands in quotes"
    message = f"{what} is {_WORDS[own]} and is compared with {_WORDS[wanted]}: never true"
    return Doubt("kinds", message, hint, about)


def _of_names(one: e.Expression, other: e.Expression, known: Collection[str] | None) -> Iterator[Doubt]:
    """A bare word where a text was meant: `StockName = IBM`."""
    if not (isinstance(one, e.Attribute) and isinstance(other, e.Attribute)) or other.name in RESERVED:
        return
    if other.name not in known if known is not None else other.name.isupper():
        hint = f"for the text write {print_value(other.name)}"
        yield Doubt("attribute", f"{other.name} is read as the name of an attribute", hint, (other.name,))


# places in the text


def _places(text: str) -> list[tuple[str, int]]:
    """The names of a text, and where they stand."""
    try:
        kinds, values, offsets = tokenise(text)
    except FilterError:
        return []
    named = zip(kinds, values, offsets, strict=True)
    return [(name_of(value), offset) for kind, value, offset in named if kind == NAME]


def _find(warning: Doubt, positions: list[tuple[str, int]]) -> int | None:
    return next((offset for name, offset in positions if name in warning.about), None)


__all__ = ["Doubt", "doubts_of", "refuse_doubtful"]
