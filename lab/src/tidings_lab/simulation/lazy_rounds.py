"""Lazy push inside one group, in rounds: announce to the whole table, send the event to those who ask.

Rules
- A peer with the event tells its table so, once (`AckProgress`, a few bytes); one that lacks it asks the
  first that told it and, when no answer came after `patience` rounds, the next. An answer is the event
  itself.
- The first `eager` steps from the publisher send the event at once: the group is hardly reached then, so few
  of these copies are wasted, and each such step saves the two rounds of asking.
- Loss hits every message alike. A message takes one round.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings_lab.simulation.rounds import fan_out

Ints = NDArray[np.int64]


class LazyRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one event in one group."""

    reached: float  # of the live processes
    payloads: int  # messages that carried the event
    announcements: int
    requests: int
    rounds: int
    payloads_per_delivery: float


def eager_steps(size: int, fan: int) -> int:
    """Steps in which a push reaches at most a quarter of the group."""
    return max(0, math.floor(math.log(max(1.0, size / 4)) / math.log(max(2, fan))))


def lazy_push(
    size: int, *, seed: int, c: float = 5.0, loss: float = 0.0, crashed: float = 0.0,
    eager: int | None = None,
    success: float = 1.0, patience: int = 3, tries: int = 20,
) -> LazyRun:  # fmt: skip
    """One event in a group of `size` with tables of ln S + c entries."""
    fan = fan_out(size, c, success)
    group = _LazyGroup(size, fan, np.random.default_rng(seed), loss, crashed, patience, tries)
    group.eager = eager_steps(size, fan) if eager is None else eager
    rounds = group.run()
    alive = int(group.alive.sum())
    received = int((group.has >= 0).sum())
    return LazyRun(
        reached=received / alive, payloads=group.payloads, announcements=group.announcements,
        requests=group.requests, rounds=rounds, payloads_per_delivery=group.payloads / max(1, received - 1),
    )  # fmt: skip


class _LazyGroup:
    def __init__(
        self, size: int, fan: int, rng: np.random.Generator, loss: float, crashed: float, patience: int,
        tries: int
    ) -> None:  # fmt: skip
        self.size, self.rng, self.loss, self.patience, self.tries = size, rng, loss, patience, tries
        others = rng.random((size, size - 1)).argpartition(fan - 1, axis=1)[:, :fan]
        own = np.arange(size)[:, None]
        self.tables: Ints = np.where(others >= own, others + 1, others)
        self.alive = rng.random(size) >= crashed
        self.alive[0] = True
        self.has = np.full(size, -1, np.int64)  # the round in which it got the event
        self.step = np.zeros(size, np.int64)  # steps from the publisher
        self.announced_by: list[list[int]] = [[] for _ in range(size)]  # who said that it has it
        self.asked = np.zeros(size, np.int64)
        self.ask_at = np.full(size, -1, np.int64)
        self.payloads = self.announcements = self.requests = self.eager = 0

    def run(self) -> int:
        """Round after round until no peer has a message to send; how many rounds there were."""
        self.has[0] = 0
        fresh = np.zeros(1, np.int64)
        turn, asks = 0, np.zeros((0, 2), np.int64)
        while fresh.size or asks.size or (self.ask_at >= turn).any():
            answers = asks  # requests that arrived: (asking peer, asked peer)
            pushing = self.step[fresh] < self.eager
            events = np.concatenate([self._to_table(fresh[pushing]), answers[:, ::-1]])
            haves = self._to_table(fresh[~pushing])
            self.payloads += len(events)
            self.announcements += len(haves)
            asks = self._request(turn)
            fresh = self._get(self._arrived(events), turn + 1)
            self._receive(self._arrived(haves), turn + 1)
            turn += 1
        return turn

    def _to_table(self, senders: Ints) -> Ints:
        targets = self.tables[senders]
        pairs: Ints = np.stack([np.repeat(senders, targets.shape[1]), targets.ravel()], axis=1)
        return pairs

    def _arrived(self, pairs: Ints) -> Ints:
        kept = (self.rng.random(len(pairs)) >= self.loss) & self.alive[pairs[:, 1]]
        return pairs[kept]

    def _get(self, pairs: Ints, turn: int) -> Ints:
        """Events arrive, as (sender, receiver); who has it now for the first time."""
        new = pairs[self.has[pairs[:, 1]] < 0]
        receivers, positions = np.unique(new[:, 1], return_index=True)
        self.has[receivers] = turn
        self.step[receivers] = self.step[new[positions, 0]] + 1
        self.ask_at[receivers] = -1
        return receivers

    def _receive(self, pairs: Ints, turn: int) -> None:
        for sender, receiver in pairs.tolist():
            if self.has[receiver] < 0:
                if not self.announced_by[receiver]:
                    self.ask_at[receiver] = turn
                self.announced_by[receiver].append(sender)

    def _request(self, turn: int) -> Ints:
        """Peers with an expired request ask the next of those that told them."""
        requests = np.flatnonzero((self.ask_at == turn) & (self.has < 0))
        pairs = []
        for process in requests.tolist():
            delivered = self.announced_by[process]
            if self.asked[process] >= self.tries:
                self.ask_at[process] = -1
                continue
            pairs.append((process, delivered[self.asked[process] % len(delivered)]))
            self.asked[process] += 1
            self.ask_at[process] = turn + self.patience
        self.requests += len(pairs)
        sent: Ints = np.asarray(pairs, np.int64).reshape(len(pairs), 2)
        return self._arrived(sent)
