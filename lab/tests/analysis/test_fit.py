"""Fitting the rates of a run by equal integral."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tidings_lab.analysis.delays import Logistic, MeasuredDelay
from tidings_lab.analysis.fit import fit_rate, fit_rate_to_curve, goodness


def test_the_rate_of_a_drawn_flood_is_found() -> None:
    drawn = Logistic(100, 0.62).draw(200_000, np.random.default_rng(1))
    assert fit_rate(drawn, 100) == pytest.approx(0.62, rel=0.01)


def test_delays_and_their_curve_give_the_same_rate() -> None:
    delays = [0.0, 1.0, 2.5, 2.5, 7.0]
    times = sorted({0.0, *delays})
    reached = [float(MeasuredDelay(delays).cdf(t)) for t in times]
    assert fit_rate_to_curve(times, reached, 5) == pytest.approx(fit_rate(delays, 5))
    assert fit_rate(delays, 5) == pytest.approx(math.log(5) / 2.6)


def test_a_logistic_fits_itself_and_a_line_does_not() -> None:
    times = list(np.linspace(0, 15, 50))
    curve = list(Logistic(100, 0.97).cdf(times))
    assert goodness(times, curve, 100, 0.97) == pytest.approx(1.0)
    late_step = [0.01] * 49 + [1.0]
    assert goodness(times, late_step, 100, 0.97) < 0.5


@pytest.mark.parametrize(
    ("times", "reached"),
    [([0, 1], [0.5, 0.9]), ([1, 0], [0.5, 1]), ([0, 1], [1, 0.5]), ([0], [1]), ([0, 1], [1])],
)
def test_curves_that_are_none_are_refused(times: list[float], reached: list[float]) -> None:
    with pytest.raises(ValueError, match="curve"):
        fit_rate_to_curve(times, reached, 10)


def test_delays_of_nothing_have_no_rate() -> None:
    with pytest.raises(ValueError, match="no rate"):
        fit_rate([0.0, 0.0], 10)
