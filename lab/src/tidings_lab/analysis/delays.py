"""Delays of a subscription (D_s) or an event (D_n) on the way to a broker.

A delay is a distribution with a `cdf`, a `mean` and `draw`. `Logistic` is the epidemic model of
the thesis (3.3, 3.4): the fraction of N brokers that a flood has reached after t seconds is
1 / (1 + (N-1) e^(-rate t)). It begins at 1/N, the source itself, and not at 1, which would be
the number of brokers; and it is a probability, not a density. `MeasuredDelay` is what a run gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


class Delay(Protocol):
    @property
    def mean(self) -> float:
        """Seconds, over all brokers, the source (0 s) included."""

    def cdf(self, t: Any) -> Floats:
        """Probability that the delay is at most t, for each t."""

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """That many independent delays."""


class Logistic:
    """A flood among `brokers` whose update rate is `rate` per second."""

    def __init__(self, brokers: int, rate: float) -> None:
        if brokers < 2 or not rate > 0:
            raise ValueError(f"a flood needs 2 brokers or more and a rate above 0, not {brokers} and {rate}")
        self.brokers = brokers
        self.rate = rate

    @property
    def mean(self) -> float:
        return math.log(self.brokers) / self.rate  # the integral of 1 - cdf, exactly

    @property
    def settling_time(self) -> float:
        """T_sub or T_diff: all but one in N are reached, cdf = 1 - 1/N."""
        return 2 / self.rate * math.log(self.brokers - 1)

    def cdf(self, t: Any) -> Floats:
        t = np.asarray(t, dtype=np.float64)
        return np.where(t < 0, 0.0, 1 / (1 + (self.brokers - 1) * np.exp(-self.rate * np.maximum(t, 0))))

    def reached_integral(self, t: float) -> float:
        """The integral of f over [0, t]: t + (1/rate) ln((1 + (N-1) e^(-rate t)) / N)."""
        spread = (1 + (self.brokers - 1) * math.exp(-self.rate * t)) / self.brokers
        return t + math.log(spread) / self.rate

    def unreached_integral(self, t: float) -> float:
        """The integral of g = 1 - f over [0, t]; (ln N)/rate for a long t."""
        return t - self.reached_integral(t)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        u = rng.random(count)
        with np.errstate(divide="ignore"):  # u = 0 is a delay of 0 below
            late = np.log((self.brokers - 1) * u / (1 - u)) / self.rate
        return np.maximum(late, 0)


class MeasuredDelay:
    """Delays seen in a run."""

    def __init__(self, delays: Iterable[float]) -> None:
        self.delays: Floats = np.sort(np.fromiter(delays, dtype=np.float64))
        if len(self.delays) == 0 or not self.delays[0] >= 0 or not np.isfinite(self.delays[-1]):
            raise ValueError("measured delays are at least one finite number of seconds, none below 0")

    @property
    def mean(self) -> float:
        return float(self.delays.mean())

    @property
    def longest(self) -> float:
        """A measured T_sub or T_diff. It is a maximum over sources, so it lies above the
        `settling_time` of the fitted flood, which is a quantile of the mean curve."""
        return float(self.delays[-1])

    def cdf(self, t: Any) -> Floats:
        count = np.searchsorted(self.delays, np.asarray(t, dtype=np.float64), side="right")
        return np.asarray(count / len(self.delays), dtype=np.float64)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        return rng.choice(self.delays, count)
