"""VIR3-6: the curves of Figures 3.7 to 3.9 (Virgillito 2003, 3.2.3), from equation (3.6)."""

from __future__ import annotations

import pytest

from tidings_lab.analysis.delays import Logistic
from tidings_lab.analysis.probability import brokers_reachable, interval_needed, volatile, volatile_exact

FIGURE_3_7 = {  # T_ON -> update rate -> d, N = 100
    500: {0.1: 0.816, 0.2: 0.908, 0.5: 0.963, 1: 0.982},
    150: {0.1: 0.386, 0.2: 0.693, 0.5: 0.877, 1: 0.939, 1.5: 0.959},
    100: {0.2: 0.540, 0.5: 0.816, 1: 0.908, 1.5: 0.939},
    50: {0.5: 0.632, 1: 0.816, 1.5: 0.877, 2: 0.908},
}
FIGURE_3_8 = {  # update rate -> T_ON -> d, N = 100
    1: {20: 0.540, 40: 0.770, 60: 0.846, 100: 0.908, 150: 0.939, 200: 0.954, 300: 0.969, 500: 0.982},
    0.5: {60: 0.693, 100: 0.816, 200: 0.908},
    2: {60: 0.923},
}
FIGURE_3_9 = {  # update rate -> N -> d, T_ON = 150
    1.5: {10: 0.980, 100: 0.959, 1000: 0.939, 10_000: 0.918, 100_000: 0.898},
    1: {10: 0.969, 100: 0.939, 1000: 0.908, 10_000: 0.877, 100_000: 0.846},
    0.5: {10: 0.939, 100: 0.877, 1000: 0.816, 10_000: 0.754, 100_000: 0.693},
}


@pytest.mark.parametrize(("t_on", "rate"), [(t, a) for t, curve in FIGURE_3_7.items() for a in curve])
def test_vir3_6_figure_3_7(t_on: float, rate: float) -> None:
    assert volatile(t_on, 100, rate, rate) == pytest.approx(FIGURE_3_7[t_on][rate], abs=1e-3)


@pytest.mark.parametrize(("rate", "t_on"), [(a, t) for a, curve in FIGURE_3_8.items() for t in curve])
def test_vir3_6_figure_3_8(rate: float, t_on: float) -> None:
    assert volatile(t_on, 100, rate, rate) == pytest.approx(FIGURE_3_8[rate][t_on], abs=1e-3)


@pytest.mark.parametrize(("rate", "brokers"), [(a, n) for a, curve in FIGURE_3_9.items() for n in curve])
def test_vir3_6_figure_3_9(rate: float, brokers: int) -> None:
    assert volatile(150, brokers, rate, rate) == pytest.approx(FIGURE_3_9[rate][brokers], abs=1e-3)


def test_vir3_6_what_the_text_says_of_them() -> None:
    assert volatile(500, 100, 0.2, 0.2) > 0.9  # long subscriptions forgive a slow system ...
    assert volatile(500, 100, 0.184, 0.184) == pytest.approx(0.9, abs=1e-3)  # ... down to this rate
    assert brokers_reachable(0.9, 150, 1.5, 1.5) == pytest.approx(76_900, rel=0.001)  # "fast": d > .9
    assert interval_needed(0.8, 100, 1.5, 1.5) == pytest.approx(30.7, abs=0.05)  # "at least the 80%"


def test_vir3_6_short_intervals_need_the_exact_form() -> None:
    assert volatile(50, 100, 0.1, 0.1) < 0
    assert 0 < volatile_exact(50, Logistic(100, 0.1), Logistic(100, 0.1)) < 0.2
