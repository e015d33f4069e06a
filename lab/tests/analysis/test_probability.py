"""The notification probability: exact forms against each other, against drawing and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_lab.analysis.delays import Logistic, MeasuredDelay
from tidings_lab.analysis.probability import (
    brokers_reachable,
    interval_needed,
    persistent_exact,
    volatile,
    volatile_exact,
    volatile_from_means,
    volatile_from_pairs,
)

from .._montecarlo import drawn_probability

seconds = st.floats(0, 50)


def test_fixed_delays_by_hand() -> None:
    """3 s to be known, 2 s to arrive: of 10 s, the first 3 and the last 2 are lost."""
    three, two = MeasuredDelay([3.0]), MeasuredDelay([2.0])
    assert volatile_exact(10, three, two) == pytest.approx(0.5, abs=1e-3)
    assert volatile_from_pairs(10, [(3.0, 2.0)]) == pytest.approx(0.5)
    assert volatile_from_means(10, 3, 2) == pytest.approx(0.5)
    assert volatile_exact(4, three, two) == 0
    assert volatile_from_means(4, 3, 2) == -0.25  # outside its domain, as (3.6) is
    # Stored for 10 s more: of 20 s only the first 3 (gone before known) and the last 2 are lost.
    assert persistent_exact(10, 10, three, two) == pytest.approx(15 / 20, abs=1e-3)
    assert persistent_exact(4, 10, three, two) == 0


@settings(deadline=None, max_examples=40)
@given(
    st.lists(seconds, min_size=1, max_size=6), st.lists(seconds, min_size=1, max_size=6), st.floats(0.5, 80)
)
def test_exact_is_the_mean_over_all_pairs(known: list[float], arrival: list[float], t_on: float) -> None:
    every_pair = [(a, b) for a in known for b in arrival]
    oracle = volatile_from_pairs(t_on, every_pair)
    assert volatile_exact(t_on, MeasuredDelay(known), MeasuredDelay(arrival)) == pytest.approx(
        oracle, abs=2e-3
    )


@settings(deadline=None, max_examples=15)
@given(st.floats(0.3, 3), st.floats(0.3, 3), st.floats(1, 100), st.sampled_from([0.0, 5.0, 40.0]))
def test_exact_is_what_drawing_gives(s: float, r: float, t_on: float, t_x: float) -> None:
    known, arrival = Logistic(100, s), Logistic(100, r)
    drawn = drawn_probability(t_on, known, arrival, np.random.default_rng(5), t_x=t_x)
    assert persistent_exact(t_on, t_x, known, arrival) == pytest.approx(drawn, abs=0.005)


def test_nothing_stored_is_volatile() -> None:
    known, arrival = Logistic(100, 0.97), Logistic(100, 1.21)
    for t_on in (5, 20, 100):
        assert persistent_exact(t_on, 0, known, arrival) == pytest.approx(
            volatile_exact(t_on, known, arrival)
        )


def test_the_inverses_invert() -> None:
    t_on = interval_needed(0.9, 100, 0.5, 0.8)
    assert volatile(t_on, 100, 0.5, 0.8) == pytest.approx(0.9)
    brokers = brokers_reachable(0.9, 150, 1.5, 1.5)
    assert volatile(150, round(brokers), 1.5, 1.5) == pytest.approx(0.9, abs=1e-6)
