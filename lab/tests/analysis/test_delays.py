"""The delays of the model: the logistic flood, and what a run measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tidings_lab.analysis.delays import Logistic, MeasuredDelay


@pytest.mark.parametrize("rate", [0.1, 0.97, 1.5])
@pytest.mark.parametrize("brokers", [2, 100, 10_000])
def test_the_mean_is_the_integral_of_what_is_not_reached(brokers: int, rate: float) -> None:
    flood = Logistic(brokers, rate)
    t = np.linspace(0, 60 / rate, 200_001)
    missed = 1 - flood.cdf(t)
    assert np.sum(np.diff(t) * (missed[1:] + missed[:-1]) / 2) == pytest.approx(flood.mean, abs=1e-4)
    assert flood.unreached_integral(60 / rate) == pytest.approx(flood.mean, abs=1e-9)


def test_the_settling_time_leaves_one_in_n() -> None:
    flood = Logistic(100, 0.97)
    assert flood.cdf(flood.settling_time) == pytest.approx(1 - 1 / 100)
    assert flood.cdf(0) == pytest.approx(1 / 100)
    assert flood.cdf(-1) == 0


def test_drawn_delays_have_the_cdf() -> None:
    flood = Logistic(50, 0.5)
    drawn = MeasuredDelay(flood.draw(100_000, np.random.default_rng(1)))
    t = np.linspace(0, 40, 100)
    assert np.abs(drawn.cdf(t) - flood.cdf(t)).max() < 0.01
    assert drawn.mean == pytest.approx(flood.mean, rel=0.01)


def test_measured_delays_are_a_step_function() -> None:
    seen = MeasuredDelay([3.0, 1.0, 1.0, 0.0])
    assert list(seen.cdf([-1, 0, 0.5, 1, 3, 9])) == [0, 0.25, 0.25, 0.75, 1, 1]
    assert (seen.mean, seen.longest) == (1.25, 3.0)
    assert set(seen.draw(50, np.random.default_rng(1))) <= {0.0, 1.0, 3.0}


@pytest.mark.parametrize("delays", [[], [-1.0], [math.inf], [math.nan]])
def test_delays_that_are_none_are_refused(delays: list[float]) -> None:
    with pytest.raises(ValueError, match="delays"):
        MeasuredDelay(delays)


@pytest.mark.parametrize(("brokers", "rate"), [(1, 1.0), (10, 0.0), (10, -1.0), (10, math.nan)])
def test_floods_that_are_none_are_refused(brokers: int, rate: float) -> None:
    with pytest.raises(ValueError, match="flood"):
        Logistic(brokers, rate)
