"""Constraints as functions: the same answer as `constraint.accepts`, in fewer steps.

For the inner loops of matchers in plain Python. A constraint without a faster form uses its own `accepts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidings.model.constraint import Constraint, Equals, Range, TopicIs
from tidings.model.topic import topic_matches
from tidings.model.value import NUMBERS, Kind, kind_of

Acceptor = Callable[[Any], bool]

TOPICS = 4096  # answers about a pattern and a topic that are remembered ...
REMEMBERED_TOPIC = 256  # ... when the topic is no longer than this
_remembered = lru_cache(maxsize=TOPICS)(topic_matches)

_TYPES: dict[Kind, frozenset[type]] = {
    Kind.BOOL: frozenset({bool}),
    Kind.NUMBER: NUMBERS,
}


def acceptor(constraint: Constraint) -> Acceptor:
    """A function that says whether a value is accepted; None is an absent value."""
    if isinstance(constraint, Equals):
        return _equals(constraint)
    if isinstance(constraint, Range) and constraint.kind is Kind.NUMBER:
        return _numbers(constraint)
    if isinstance(constraint, TopicIs):
        return _topics(constraint)
    return constraint.accepts


def _topics(constraint: TopicIs) -> Acceptor:
    """A pattern of topics. Events share topics, so the last answers are remembered."""
    pattern, is_negated = constraint.pattern, constraint.negated

    def holds(value: Any) -> bool:
        if type(value) is not str:
            return False
        is_short = len(value) <= REMEMBERED_TOPIC
        return (_remembered if is_short else topic_matches)(pattern, value) is not is_negated

    return holds


def _equals(constraint: Equals) -> Acceptor:
    wanted = constraint.value
    kind = kind_of(wanted)
    types = _TYPES.get(kind) if kind is not None else None
    if types is None:  # texts and times equal no value of another kind
        return lambda value: bool(value == wanted)
    return lambda value: type(value) in types and value == wanted


def _numbers(constraint: Range) -> Acceptor:
    """An interval of numbers. NaN is in no interval, since every comparison with it fails."""
    low = -math.inf if constraint.low is None else constraint.low
    high = math.inf if constraint.high is None else constraint.high
    types = _TYPES[Kind.NUMBER]
    low_open = constraint.low_open and constraint.low is not None
    high_open = constraint.high_open and constraint.high is not None
    if low_open and high_open:
        return lambda value: type(value) in types and low < value < high
    if low_open:
        return lambda value: type(value) in types and low < value <= high
    if high_open:
        return lambda value: type(value) in types and low <= value < high
    return lambda value: type(value) in types and low <= value <= high
