"""The notification probability by drawing: one subscription, one publication, again and again.

Nothing of the formulas is used, so that they can be judged by it. 200,000 draws give d with a
standard error of at most 0.0011.
"""

from __future__ import annotations

import numpy as np

from tidings_lab.analysis.delays import Delay

DRAWS = 200_000


def drawn_probability(
    t_on: float,
    subscription: Delay,
    notification: Delay,
    rng: np.random.Generator,
    *,
    t_x: float = 0.0,
    draws: int = DRAWS,
) -> float:
    """The share of publications that were notified; uniform from `t_x` before the subscription."""
    published = rng.uniform(-t_x, t_on, draws)
    known = subscription.draw(draws, rng)
    # Before the subscription is known the event can only wait, and only while it is available.
    sent = np.maximum(published, known)
    waited_too_long = sent - published > t_x
    arrives = sent + notification.draw(draws, rng)
    return float(np.mean(~waited_too_long & (arrives <= t_on)))
