"""Conjunctions of constraints as filter text, for the filters that the algebra makes up.

The text is in the grammar of the language, so that it can be read, stored and parsed again. Residual
conditions are not worded here: a filter that has them keeps the text of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
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
)
from tidings.model.event import LINEAGE
from tidings.model.filter import Conjunction
from tidings.model.pattern import escape_like
from tidings.model.value import utc

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_KEYWORDS = frozenset(
    [
        "AND",
        "OR",
        "XOR",
        "NOT",
        "LIKE",
        "EXISTS",
        "IN",
        "TRUE",
        "FALSE",
        "BETWEEN",
        "IS",
        "NULL",
        "REGEXP",
        "MATCHES",
        "TIMESTAMP",
    ]
)


def worded(conjunctions: Sequence[Conjunction]) -> str:
    """The text of a disjunction of conjunctions without residuals."""
    if not conjunctions:
        return "FALSE"
    parts = [_conjunction(conjunction) for conjunction in conjunctions]
    return parts[0] if len(parts) == 1 else " OR ".join(f"({part})" for part in parts)


def _conjunction(conjunction: Conjunction) -> str:
    return " AND ".join(_constraint(constraint) for constraint in conjunction.constraints) or "TRUE"


def _constraint(constraint: Constraint) -> str:
    name = "type" if constraint.attribute == LINEAGE else _name(constraint.attribute)
    match constraint:
        case Equals(value=value):
            return f"{name} = {_literal(value)}"
        case OneOf(values=values):
            return f"{name} IN ({', '.join(map(_literal, values))})"
        case NotOneOf(values=(value,)):
            return f"{name} != {_literal(value)}"
        case NotOneOf(values=values):
            return f"{name} NOT IN ({', '.join(map(_literal, values))})"
        case Range():
            return _range(name, constraint)
        case Prefix(prefix=prefix):
            return _prefix(name, prefix)
        case Exists():
            return f"EXISTS {name}"
        case Missing():
            return f"{name} IS NULL"
        case IsA(name=lineage, negated=negated):
            return f"{name} IS {'NOT ' if negated else ''}A {_literal(lineage)}"
    verb = {Like: "LIKE", Regexp: "REGEXP"}.get(type(constraint), "MATCHES")
    return f"{name} {'NOT ' if constraint.negated else ''}{verb} {_literal(constraint.pattern)}"


def _range(name: str, constraint: Range) -> str:
    parts: list[str] = []
    if constraint.low is not None:
        parts.append(f"{name} {'>' if constraint.low_open else '>='} {_literal(constraint.low)}")
    if constraint.high is not None:
        parts.append(f"{name} {'<' if constraint.high_open else '<='} {_literal(constraint.high)}")
    return " AND ".join(parts)


def _prefix(name: str, prefix: str) -> str:
    if prefix.endswith("\\"):  # before % a backslash would take away its meaning
        return f"{name} >= {_literal(prefix)} AND {name} < {_literal(prefix[:-1] + ']')}"
    return f"{name} LIKE {_literal(escape_like(prefix) + '%')}"


def _name(name: str) -> str:
    if _PLAIN_NAME.match(name) and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{utc(value).isoformat().replace('+00:00', 'Z')}'"
    return repr(value)
