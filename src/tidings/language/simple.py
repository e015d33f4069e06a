"""The short way from text to normal form for plain filters: conditions joined by AND alone.

One match of a regular expression takes one whole condition, so a filter of this shape (most are)
needs neither tokens nor an expression. It covers `name op value`, BETWEEN, IN, LIKE 'prefix%' and
EXISTS with plain values; at anything else it steps back (None) and the parser does the work.
Meaning is not given here: `leaves` and `normalise.conjunction` serve both ways, and a property
test holds the two together.
"""

from __future__ import annotations

import re
from sys import intern
from typing import Any

from tidings.errors import FilterError
from tidings.language import leaves
from tidings.language.limits import Limits
from tidings.language.normalise import conjunction
from tidings.model.constraint import Constraint, Exists
from tidings.model.filter import Conjunction

# Eighteen digits fit 64 bits and no double overflows; longer numbers are the parser's.
_VALUE = r"""-?[0-9]{1,18}+(?:\.[0-9]++)?(?![\w.`])|'[^'\\]*+'(?!')|"[^"\\]*+"(?!")|(?i:true|false)\b"""
_NAME = r"((?!(?i:and|or|xor|not|like|exists|in|true|false|null)\b)[^\W0-9]\w*+(?:\.\w++)*+)"
_CONDITION = re.compile(
    rf"""\s*+(?:
      {_NAME}\s*+(?:
          (<=|>=|<>|!=|<|>|=)\s*+({_VALUE})
        | (?i:between)\s++({_VALUE})\s++(?i:and)\s++({_VALUE})
        | (?i:in)\s*+\(\s*+((?:{_VALUE})(?:\s*+,\s*+(?:{_VALUE}))*+)\s*+\)
        | (?i:like)\s*+('[^'\\]*+')(?!')
        )
    | (?i:exists)\s++{_NAME}
    )(?:\s++(?i:and)\s++(?=\S)|\s*+\Z)""",
    re.VERBOSE,
)
_EACH_VALUE = re.compile(_VALUE)
_COMPARISON, _BETWEEN, _IN, _LIKE = 3, 5, 6, 7  # the last group that took part, by shape


def plain(text: str, limits: Limits) -> tuple[Conjunction, ...] | None:
    """The normal form of a plain filter; None when the text needs the whole parser."""
    constraints: list[Constraint] = []
    position, end = 0, len(text)
    match = _CONDITION.match
    while position < end:
        found = match(text, position)
        if found is None:
            return None
        try:
            constraint = _constraint(found)
        except FilterError:  # a broken topic pattern: the parser shows its place
            return None
        if constraint is None:
            return None
        constraints.append(constraint)
        position = found.end()
    if not constraints or len(constraints) > limits.constraints or limits.depth < 2:
        return None
    return conjunction(constraints)


def _constraint(found: re.Match[str]) -> leaves.Leaf:
    """The constraint of one condition; None when it is never true or not plain after all."""
    shape = found.lastindex
    if shape == _COMPARISON:
        name, op, token = found.group(1, 2, 3)
        return leaves.compare(intern(name), "!=" if op == "<>" else op, _value(token))
    if shape == _BETWEEN:
        name, low, high = found.group(1, 4, 5)
        return leaves.between(intern(name), _value(low), _value(high))
    if shape == _IN:
        name, tokens = found.group(1, 6)
        if name == leaves.TOPIC:
            return None  # its items may be patterns
        return leaves.one_of(intern(name), map(_value, _EACH_VALUE.findall(tokens)))
    if shape == _LIKE:
        name, token = found.group(1, 7)
        return leaves.like(intern(name), token[1:-1])
    return Exists(intern(found[8]))


def _value(token: str) -> Any:
    first = token[0]
    if first == "'" or first == '"':
        return token[1:-1]
    if first in "tTfF":
        return first in "tT"
    return float(token) if "." in token else int(token)
