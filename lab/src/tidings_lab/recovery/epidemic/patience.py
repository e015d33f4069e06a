"""Timeout of requests: how long to wait before a request is repeated.

A broker cannot tell a lost answer from one that is still on its way. A copy tells afterwards: it was asked
for again too early, so the next wait is longer. Every answer that comes in time makes it a little shorter,
down to the setting. So a few answers in a hundred are copies where answers are slow, and hardly any where
they are not. A digest that is sent too early brings as many copies as it names events: with 0.98 as `SHORTER`
a copy came with every eighth of a hundred thousand events over UDP.
"""

from __future__ import annotations

LONGER = 1.5  # after a copy, or an answer that came too late
SHORTER = 0.995  # after an answer in time: eighty of them undo one copy
MOST_SECONDS = 8.0


class Patience:
    def __init__(self, least: float) -> None:
        self._least = least
        self.seconds = least

    def answered(self) -> None:
        """In time, and once."""
        if self.seconds > self._least:
            self.seconds = max(self._least, self.seconds * SHORTER)

    def was_short(self) -> None:
        """A request was repeated, or given up, while the answer was on its way."""
        self.seconds = max(self._least, min(MOST_SECONDS, self.seconds * LONGER))
