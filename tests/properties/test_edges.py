"""The generators draw edges with the share that they state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import _edges

DRAWS = 400
TOLERANCE = 0.15  # Hypothesis repeats and mutates what it has drawn

CASES: list[tuple[str, Any, Callable[[Any], bool]]] = [
    ("numbers", _edges.numbers, _edges.is_edge),
    ("texts", _edges.texts, _edges.is_edge),
    ("times", _edges.times, _edges.is_edge),
    ("shapes", _edges.shapes, lambda shape: shape > 0),
]


@pytest.mark.parametrize(("name", "strategy", "is_edge"), CASES, ids=[name for name, _, _ in CASES])
def test_edges_have_their_share(name: str, strategy: Any, is_edge: Callable[[Any], bool]) -> None:
    drawn: list[bool] = []

    @settings(max_examples=DRAWS, database=None)
    @given(strategy, st.integers())
    def draw(value: Any, _: int) -> None:
        drawn.append(is_edge(value))

    draw()
    share = sum(drawn) / len(drawn)
    print(f"{name}: {share:.2f} of {len(drawn)} draws are edges")
    assert len(drawn) >= DRAWS // 2
    assert abs(share - _edges.EDGES) <= TOLERANCE


def test_the_edges_that_mattered_are_among_them() -> None:
    for number in (
        2**31,
        2**31 - 1,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        -0.0,
        5e-324,
        _edges.CLOCK + 129,
        2.0**63,
    ):
        assert _edges.is_edge(number), number
    assert {"", "\U0001f600", "\0"} <= set(_edges.EDGE_TEXTS)
    assert not _edges.is_edge(True)
    assert not _edges.is_edge(57)
