"""Timer of gossip rounds: every so often, or less often while rounds find no loss (COS-9)."""

from __future__ import annotations

from random import Random

GROWTH = 1.5  # of the pause after a round that found no loss


class Pace:
    def __init__(self, interval: float, longest: float, rng: Random) -> None:
        self._interval = interval
        self._longest = longest  # 0: the pause never grows
        self._rng = rng
        self._pause = interval
        self._has_learned = False
        self.due: float | None = None

    def begin(self, now: float) -> None:
        """There is work: the first round comes at a moment of its own, so that brokers which
        began together do not gossip together."""
        if self.due is None:
            self.due = now + self._rng.uniform(0.0, self._interval)

    def at_once(self, now: float) -> None:
        self.due = now

    def learned(self, now: float) -> None:
        """A peer missed an event: rounds become quick again."""
        self._has_learned = True
        if self._pause > self._interval:
            self._pause = self._interval
            if self.due is not None:
                self.due = min(self.due, now + self._rng.uniform(0.0, self._interval))

    def next(self, now: float) -> None:
        """A round is over."""
        if self._longest > self._interval and not self._has_learned:
            self._pause = min(self._pause * GROWTH, self._longest)
        self._has_learned = False
        self.due = now + self._pause

    def rest(self) -> None:
        """There is no work."""
        self.due = None
