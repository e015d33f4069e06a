"""Rates of a run: the s (or r) whose logistic has the same integral as the measured curve.

Equal integral is equal mean delay, and the logistic's mean is ln N / rate; so the fit is a
division. The mean is over all brokers, the source with its 0 seconds included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tidings_lab.analysis.delays import Floats, Logistic, MeasuredDelay


def fit_rate(delays: Iterable[float], brokers: int) -> float:
    """From delays: ln N / mean."""
    return _rate(MeasuredDelay(delays).mean, brokers)


def fit_rate_to_curve(times: Sequence[float], reached: Sequence[float], brokers: int) -> float:
    """From a curve of fractions reached; it holds each value until the next time, and must end at 1."""
    t, f = _curve(times, reached)
    if abs(f[-1] - 1) > 1e-9:
        raise ValueError(f"the curve ends at {f[-1]}, not at 1: its mean delay is not known")
    return _rate(float(t[0] + np.sum(np.diff(t) * (1 - f[:-1]))), brokers)


def goodness(times: Sequence[float], reached: Sequence[float], brokers: int, rate: float) -> float:
    """R squared of the logistic against the curve at its own times."""
    t, f = _curve(times, reached)
    misses = float(np.sum((f - Logistic(brokers, rate).cdf(t)) ** 2))
    spread = float(np.sum((f - f.mean()) ** 2))
    return 1 - misses / spread


def _rate(mean: float, brokers: int) -> float:
    if not mean > 0:
        raise ValueError("every delay is 0: no rate can be fitted")
    return math.log(brokers) / mean


def _curve(times: Sequence[float], reached: Sequence[float]) -> tuple[Floats, Floats]:
    t = np.asarray(times, dtype=np.float64)
    f = np.asarray(reached, dtype=np.float64)
    if len(t) != len(f) or len(t) < 2 or np.any(np.diff(t) < 0) or np.any(np.diff(f) < 0) or t[0] < 0:
        raise ValueError("a curve is two lists of one length, both rising, from time 0 or later")
    return t, f
