"""The notification probability d: an event published while a subscription is on is notified.

An event that is published u seconds into a subscription of T_ON seconds is notified when the
subscription has arrived (D_s <= u) and the event arrives in time (D_n <= T_ON - u). Averaged
over a publication time that is uniform in the interval,

    d = E[max(0, T_ON - D_s - D_n)] / T_ON

for every T_ON (`volatile_exact`). From T_ON = T_sub + T_diff on it is 1 - (mean D_s + mean D_n)
/ T_ON, with the logistic equation (3.6). An event that stays available for T_x seconds can be
published up to T_x before the subscription, and is lost only to the unsubscription.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidings_lab.analysis.delays import Delay, Floats

STEPS = 20_000  # of the trapezoid rule; a step function of delays adds an error below 1/STEPS


def volatile(t_on: float, brokers: int, s: float, r: float) -> float:
    """(3.6): 1 - (1/s + 1/r) ln N / T_ON. For T_ON >= T_sub + T_diff; negative when far below."""
    return volatile_from_means(t_on, math.log(brokers) / s, math.log(brokers) / r)


def volatile_from_means(t_on: float, mean_s: float, mean_n: float) -> float:
    """1 - (mean D_s + mean D_n) / T_ON: what (3.1) is for any shape of f and g."""
    return 1 - (mean_s + mean_n) / t_on


def volatile_from_times(t_on: float, t_diff: float, brokers: int, s: float, r: float) -> float:
    """(3.5) corrected: 1 - T_diff/T_ON - (1/s - 1/r) ln N / T_ON, when T_diff is that of the flood.

    T_sub cancels out: f is integrated up to it."""
    return 1 - t_diff / t_on - (1 / s - 1 / r) * math.log(brokers) / t_on


def volatile_exact(t_on: float, subscription: Delay, notification: Delay) -> float:
    """E[max(0, T_ON - D_s - D_n)] / T_ON for independent delays; right for every T_ON."""
    u = np.linspace(0.0, t_on, STEPS + 1)
    return _area(subscription.cdf(u) * notification.cdf(t_on - u), t_on) / t_on


def volatile_from_pairs(t_on: float, pairs: Sequence[tuple[float, float]] | Floats) -> float:
    """The same from measured pairs (D_s, D_n) of a subscriber and a publisher, dependent or not."""
    both = np.asarray(pairs, dtype=np.float64)
    return float(np.maximum(0.0, t_on - both[:, 0] - both[:, 1]).mean() / t_on)


def persistent(t_on: float, t_x: float, brokers: int, s: float, r: float) -> float:
    """(3.2) corrected: 1 - (1/s + 1/r) ln N / (T_ON + T_x), for T_x > T_sub and T_ON as above.

    The publication time is uniform from T_x before the subscription to its end."""
    return volatile(t_on + t_x, brokers, s, r)


def persistent_exact(t_on: float, t_x: float, subscription: Delay, notification: Delay) -> float:
    """For every T_ON and T_x >= 0, with independent delays.

    Published at u in [-T_x, T_ON], the event is notified when the subscription arrives while it
    is available (D_s <= u + T_x) and the event then arrives in time (max(u, D_s) + D_n <= T_ON):
    T_ON + T_x - D_s - D_n seconds of u when D_s + D_n <= T_ON, none otherwise.
    """
    fits, room = _fits_and_room(t_on, subscription, notification)
    return (t_x * fits + room) / (t_on + t_x)


def _fits_and_room(t_on: float, subscription: Delay, notification: Delay) -> tuple[float, float]:
    """P(D_s + D_n <= T_ON) and E[max(0, T_ON - D_s - D_n)]."""
    u = np.linspace(0.0, t_on, STEPS + 1)
    arrived = subscription.cdf(u)
    in_time = notification.cdf(t_on - u)
    room = _area(arrived * in_time, t_on)
    middle = (in_time[1:] + in_time[:-1]) / 2
    fits = float(arrived[0] * in_time[0] + np.sum(np.diff(arrived) * middle))
    return fits, room


def _area(heights: Floats, width: float) -> float:
    """The trapezoid rule over evenly spaced heights."""
    return float((heights.sum() - (heights[0] + heights[-1]) / 2) * width / (len(heights) - 1))


def interval_needed(d: float, brokers: int, s: float, r: float) -> float:
    """The T_ON from which (3.6) gives at least d."""
    return (1 / s + 1 / r) * math.log(brokers) / (1 - d)


def brokers_reachable(d: float, t_on: float, s: float, r: float) -> float:
    """The largest N (as a real number) for which (3.6) still gives d."""
    return math.exp((1 - d) * t_on / (1 / s + 1 / r))
