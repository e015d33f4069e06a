"""Constraints as functions answer as the constraints do."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from tidings.matching.acceptors import acceptor
from tidings.model.constraint import Constraint, Equals, Exists, NotOneOf, Prefix, Range, TopicIs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 2**63 - 1, 0.0, -0.0, 1.0, 0.5, 5.0, math.inf, -math.inf, math.nan,
    "", "1", "a", "ab", NOON, ("A", "B"),
    "a/b", "a/b/c", "b/a", "a/" + "x" * 300, {"a": 1},
]  # fmt: skip
CONSTRAINTS: list[Constraint] = [
    *(Equals("a", value) for value in (True, False, 0, 1, 1.0, 0.5, "", "1", "a", NOON)),
    *(
        Range("a", low, high, low_open, high_open)
        for low, high in ((0, 5), (None, 1), (1, None), (-1.0, 0.5), ("a", "b"), (NOON, None), (None, "a"))
        for low_open in (False, True)
        for high_open in (False, True)
    ),
    NotOneOf("a", (1,)),
    Prefix("a", "a"),
    Exists("a"),
    *(
        TopicIs("a", pattern, negated)
        for pattern in ("a/+", "a/#", "+/b", "#", "a")
        for negated in (False, True)
    ),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_function_accepts_what_the_constraint_accepts(constraint: Constraint) -> None:
    accepts = acceptor(constraint)
    for value in VALUES * 2:  # the second time from memory, where there is one
        assert accepts(value) == constraint.accepts(value), value
