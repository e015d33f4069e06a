"""VIR3-5: the notification probability d (Virgillito 2003, 3.2), and errata E-V1 to E-V6.

Every number is one that the errata or the text gives; rates s = .97, r = 1.21 and N = 100 are
those of Table 3.1's first row.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tidings_lab.analysis.delays import Logistic, MeasuredDelay
from tidings_lab.analysis.probability import (
    persistent,
    persistent_exact,
    volatile,
    volatile_exact,
    volatile_from_means,
    volatile_from_pairs,
    volatile_from_times,
)

from .._montecarlo import drawn_probability
from .._printed import (
    printed_3_1,
    printed_3_1_measured,
    printed_3_2,
    printed_3_2_first_line,
    printed_3_5,
    printed_3_5_with_settling_times,
    printed_integral_of_f,
    printed_integral_of_g,
)

N, S, R = 100, 0.97, 1.21
F, G = Logistic(N, S), Logistic(N, R)
TOLERANCE = 1e-3


def area(heights: np.ndarray, at: np.ndarray) -> float:
    return float(np.sum(np.diff(at) * (heights[1:] + heights[:-1]) / 2))


@pytest.mark.parametrize(
    ("s", "right", "printed"), [(0.47, 9.777, -0.587), (0.97, 4.737, 4.453), (1.5, 3.063, 6.127)]
)
def test_vir3_5_e_v1_the_integral_of_the_logistic(s: float, right: float, printed: float) -> None:
    flood = Logistic(N, s)
    t = np.linspace(0, flood.settling_time, 100_001)
    assert area(flood.cdf(t), t) == pytest.approx(right, abs=TOLERANCE)
    assert flood.reached_integral(flood.settling_time) == pytest.approx(right, abs=TOLERANCE)
    assert printed_integral_of_f(flood.settling_time, N, s) == pytest.approx(printed, abs=TOLERANCE)


def test_vir3_5_e_v1_the_integral_of_g_is_ln_n_over_r() -> None:
    assert G.unreached_integral(100) == pytest.approx(math.log(N) / R)
    extra = printed_integral_of_g(G.settling_time, N, R) - G.mean
    assert extra == pytest.approx((1 - R) * G.settling_time)


@pytest.mark.parametrize(
    ("s", "r", "printed", "exact"), [(0.97, 1.21, 0.792, 0.829), (0.47, 0.58, 0.572, 0.646)]
)
def test_vir3_5_e_v1_equation_3_5(s: float, r: float, printed: float, exact: float) -> None:
    f, g = Logistic(N, s), Logistic(N, r)
    assert printed_3_5(50, f.settling_time, g.settling_time, N, s, r) == pytest.approx(printed, abs=TOLERANCE)
    assert volatile_from_times(50, g.settling_time, N, s, r) == pytest.approx(exact, abs=TOLERANCE)
    assert volatile_exact(50, f, g) == pytest.approx(exact, abs=TOLERANCE)


def test_vir3_5_e_v2_equation_3_6_is_right_by_another_way() -> None:
    assert volatile(50, N, S, R) == pytest.approx(0.8289, abs=1e-4)
    with_settling_times = volatile_from_times(50, G.settling_time, N, S, R)
    assert with_settling_times == pytest.approx(0.8293, abs=1e-4)
    printed_way = printed_3_5_with_settling_times(50, N, S, R)
    assert abs(printed_way - volatile(50, N, S, R)) > 0.03
    same = printed_3_5_with_settling_times(50, N, S, S)
    assert same == pytest.approx(volatile(50, N, S, S))


def test_vir3_5_e_v3_the_mirrored_g_harms_a_measured_t_diff() -> None:
    assert printed_3_1(50, 12.20, 9.95, F, G) == pytest.approx(0.782, abs=TOLERANCE)
    assert volatile(50, N, S, R) == pytest.approx(0.829, abs=TOLERANCE)
    harmless = printed_3_1(50, F.settling_time, G.settling_time, F, G)
    assert harmless == pytest.approx(volatile(50, N, S, R), abs=TOLERANCE)


def hops_of_a_random_tree(brokers: int, rng: np.random.Generator) -> np.ndarray:
    """Hops between any two brokers of a random recursive tree, every pair of different ones."""
    hops = np.zeros((brokers, brokers))
    for new in range(1, brokers):
        hops[new, :new] = hops[rng.integers(0, new), :new] + 1
        hops[:new, new] = hops[new, :new]
    return hops[~np.eye(brokers, dtype=bool)]


def test_vir3_5_e_v3_measured_curves_on_random_trees() -> None:
    """One second a hop: the errata's mean D_s + D_n of 13.17 s, and the error it states."""
    rng = np.random.default_rng(7)
    hops = np.concatenate([hops_of_a_random_tree(100, rng) for _ in range(200)])
    seen = MeasuredDelay(hops)
    assert 2 * seen.mean == pytest.approx(13.17, abs=0.15)
    for t_on, errata in ((50, 0.7366), (150, 0.9122)):
        drawn = drawn_probability(t_on, seen, seen, rng)
        exact = volatile_exact(t_on, seen, seen)
        assert drawn == pytest.approx(exact, abs=0.005)
        assert exact == pytest.approx(errata, abs=0.004)
        assert volatile_from_pairs(t_on, np.column_stack([hops, hops])) == pytest.approx(exact, abs=0.005)
        wrong_by = (seen.longest - 2 * seen.mean) / t_on
        assert exact - printed_3_1_measured(t_on, seen, seen) == pytest.approx(wrong_by, abs=1e-3)
    assert volatile_from_means(10, seen.mean, seen.mean) == pytest.approx(-0.317, abs=0.015)
    assert 0 < volatile_exact(10, seen, seen) < 0.12


@pytest.mark.parametrize(
    ("t_on", "t_x", "right", "line_one", "line_two"),
    [(60, 20, 0.8933, 0.952, 0.834), (150, 30, 0.9526, None, 0.9262)],
)
def test_vir3_5_e_v4_persistent_notifications(
    t_on: float, t_x: float, right: float, line_one: float | None, line_two: float
) -> None:
    assert persistent(t_on, t_x, N, S, R) == pytest.approx(right, abs=TOLERANCE)
    assert persistent_exact(t_on, t_x, F, G) == pytest.approx(right, abs=TOLERANCE)
    drawn = drawn_probability(t_on, F, G, np.random.default_rng(3), t_x=t_x)
    assert drawn == pytest.approx(right, abs=0.005)
    assert printed_3_2(t_on, t_x, F, G) == pytest.approx(line_two, abs=TOLERANCE)
    if line_one is not None:
        assert printed_3_2_first_line(t_on, t_x, F, G) == pytest.approx(line_one, abs=TOLERANCE)


def test_vir3_5_e_v5_the_loss_goes_to_nothing_slowly() -> None:
    assert 1 - volatile(600, N, S, R) == pytest.approx(0.014, abs=TOLERANCE)
    t_on = np.array([50.0, 100, 200, 400, 800])
    loss = 1 - np.array([volatile_exact(t, F, G) for t in t_on])
    slope = np.polyfit(np.log(t_on), np.log(loss), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)


def test_vir3_5_e_v6_f_begins_at_one_in_n() -> None:
    assert F.cdf(0) == pytest.approx(1 / N)
    assert 1 - G.cdf(G.settling_time) <= 1 / N + 1e-12
    numbers = N * F.cdf(np.linspace(0, 20, 2001))  # N f solves df/dt = s f (N - f) / N
    slope = np.gradient(numbers, 0.01)
    assert np.abs(slope - S * numbers * (N - numbers) / N)[1:-1].max() < 1e-2


@pytest.mark.parametrize("t_on", [5, 10, 20, 50, 150, 600])
def test_vir3_5_monte_carlo_and_exact_agree(t_on: float) -> None:
    drawn = drawn_probability(t_on, F, G, np.random.default_rng(11), draws=200_000)
    assert drawn == pytest.approx(volatile_exact(t_on, F, G), abs=0.005)


def test_vir3_5_from_t_sub_and_t_diff_on_only_the_means_count() -> None:
    for t_on in (F.settling_time + G.settling_time, 100, 1000):
        assert volatile_exact(t_on, F, G) == pytest.approx(
            volatile_from_means(t_on, F.mean, G.mean), abs=TOLERANCE
        )
