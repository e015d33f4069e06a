"""Filter texts for generated constraints, so that peers and parsers get the same filters as we do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidings.model.constraint import (
    Constraint,
    Equals,
    Exists,
    IsA,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.pattern import escape_like


def literal(value: Any) -> str:
    """A literal of the filter language."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def _items(values: Iterable[Any]) -> str:
    return "(" + ", ".join(literal(v) for v in values) + ")"


def _range(c: Range) -> str:
    if c.low is not None and c.high is not None and not c.low_open and not c.high_open:
        return f"{c.attribute} BETWEEN {literal(c.low)} AND {literal(c.high)}"
    parts = []
    if c.low is not None:
        parts.append(f"{c.attribute} {'>' if c.low_open else '>='} {literal(c.low)}")
    if c.high is not None:
        parts.append(f"{c.attribute} {'<' if c.high_open else '<='} {literal(c.high)}")
    return " AND ".join(parts)


def constraint_text(c: Constraint) -> str:
    """The constraint as a filter text."""
    match c:
        case Equals():
            return f"{c.attribute} = {literal(c.value)}"
        case OneOf():
            return f"{c.attribute} IN {_items(c.values)}"
        case NotOneOf():
            if len(c.values) == 1:
                return f"{c.attribute} != {literal(c.values[0])}"
            return f"{c.attribute} NOT IN {_items(c.values)}"
        case Range():
            return _range(c)
        case Prefix():
            return f"{c.attribute} LIKE {literal(escape_like(c.prefix) + '%')}"
        case Like():
            return f"{c.attribute} {'NOT ' if c.negated else ''}LIKE {literal(c.pattern)}"
        case Regexp():
            return f"{c.attribute} {'NOT ' if c.negated else ''}REGEXP {literal(c.pattern)}"
        case Exists():
            return f"EXISTS {c.attribute}"
        case Missing():
            return f"NOT EXISTS {c.attribute}"
        case TopicIs():
            return f"{c.attribute} {'NOT ' if c.negated else ''}MATCHES {literal(c.pattern)}"
        case IsA():
            return f"type IS {'NOT ' if c.negated else ''}A {literal(c.name)}"
