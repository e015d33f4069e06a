"""Forms of the thesis that are wrong as printed (Virgillito 2003, section 3.2), for studies only.

Each name says which equation it is. `tidings_lab.analysis.probability` has what to use instead.
"""

from __future__ import annotations

import math

from tidings_lab.analysis.delays import Logistic, MeasuredDelay


def printed_integral_of_f(t: float, brokers: int, s: float) -> float:
    """s T + (1/s) ln(…): the first term must be T, not s T."""
    return s * t + math.log((1 + (brokers - 1) * math.exp(-s * t)) / brokers) / s


def printed_integral_of_g(t_diff: float, brokers: int, r: float) -> float:
    """(1 - r) T_diff - (1/r) ln(1/N): must be (1/r) ln N alone."""
    return (1 - r) * t_diff + math.log(brokers) / r


def printed_3_1(t_on: float, t_sub: float, t_diff: float, f: Logistic, g: Logistic) -> float:
    """(3.1) with T_sub and T_diff that were measured: g is mirrored, so its integral counts the
    time *until* an event arrives where the time *left after* it is meant. Harmless only when
    T_diff is the flood's own (2/r) ln(N-1)."""
    inner = f.reached_integral(t_sub) + g.unreached_integral(t_diff)
    return (t_on - t_diff - t_sub + inner) / t_on


def printed_3_1_measured(t_on: float, subscription: MeasuredDelay, notification: MeasuredDelay) -> float:
    """(3.1) with measured curves; off by (T_diff - 2 mean D_n) / T_ON."""
    t_sub, t_diff = subscription.longest, notification.longest
    inner = (t_sub - subscription.mean) + notification.mean
    return (t_on - t_diff - t_sub + inner) / t_on


def printed_3_2_first_line(t_on: float, t_x: float, f: Logistic, g: Logistic) -> float:
    """(3.2) before it is rewritten: the second integral ends at T_sub + T_x instead of T_x."""
    t_sub, t_diff = f.settling_time, g.settling_time
    ramps = 2 * f.reached_integral(t_sub) + g.unreached_integral(t_diff)
    return (ramps + t_x + t_on - t_diff - t_sub) / (t_on + t_x)


def printed_3_2(t_on: float, t_x: float, f: Logistic, g: Logistic) -> float:
    """(3.2): a second ramp of f after the subscription, where the stored event waits for it."""
    t_sub, t_diff = f.settling_time, g.settling_time
    ramps = 2 * f.reached_integral(t_sub) + g.unreached_integral(t_diff)
    return 1 - (2 * t_sub + t_diff) / (t_on + t_x) + ramps / (t_on + t_x)


def printed_3_5(t_on: float, t_sub: float, t_diff: float, brokers: int, s: float, r: float) -> float:
    """(3.5), which follows from the two wrong integrals above."""
    return 1 - ((1 - s) * t_sub + r * t_diff) / t_on + (1 / s - 1 / r) * math.log(1 / brokers) / t_on


def printed_3_5_with_settling_times(t_on: float, brokers: int, s: float, r: float) -> float:
    """(3.5) after T_sub and T_diff are put in: 1 - (3/s - 1/r) ln N / T_ON, equal to (3.6) only
    when s = r."""
    return 1 - (3 / s - 1 / r) * math.log(brokers) / t_on
