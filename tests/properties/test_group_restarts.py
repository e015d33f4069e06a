"""Restarts of a broker while workers of a durable group have events in hand: at random.

Workers take events, hold several open, and commit them in any order, also while there is no link. The broker
is killed, or stops, at any moment; the workers live on and return in any order. Rules
- Each event is handed to one worker, once.
- Each event is committed in the end.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.model.event import FOREVER
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ClientAck, ClientTake

WORKERS = ("w0", "w1", "w2")


class Working:
    """Three workers, and their broker."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        tiny = DeliverySettings(chunk=3, flush_seconds=0.01, collect_budget=4)
        self.stage = Stage(stable=True, rng=self.rng, settings=tiny)
        self.stage.client("p")
        window = self.rng.choice((0, 1, 3, 50))
        self.refs = {
            name: self.stage.subscribed(self.stage.client(name), group="workers", durable=True, window=window)
            for name in WORKERS
        }
        self.away: list[str] = []  # not linked
        self.published = 0
        self.seen = dict.fromkeys(WORKERS, 0)
        self.open: list[tuple[str, int, int]] = []  # worker, number, event
        self.handed: list[int] = []
        self.committed: list[int] = []

    def look(self) -> None:
        for name, ref in self.refs.items():
            notes = self.stage.received.get((name, ref), [])
            numbers = self.stage.tags.get((name, ref), [])
            for note, number in list(zip(notes, numbers, strict=True))[self.seen[name] :]:
                event = note.event["n"]
                assert isinstance(event, int)
                assert event not in self.handed, f"{event} is handed to {name} too"
                self.handed.append(event)
                self.open.append((name, number, event))
            self.seen[name] = len(notes)

    def act(self) -> None:
        chance, stage = self.rng.random(), self.stage
        if chance < 0.3:
            self.published += 1
            stage.publish("p", {"n": self.published}, lifetime=FOREVER)
        elif chance < 0.55:
            name = self.rng.choice(WORKERS)
            stage.hand(name, ClientTake(stage.call(), self.refs[name], False, self.rng.choice((1, 1, 3))))
        elif chance < 0.8 and self.open:
            self.commit(self.rng.randrange(len(self.open)))
        elif chance < 0.83:
            self.restart()
        elif self.away:
            stage.link(self.away.pop(self.rng.randrange(len(self.away))))
        self.look()

    def restart(self) -> None:
        linked = [name for name in WORKERS if name not in self.away]
        if self.rng.random() < 0.4:
            for name in self.rng.sample(linked, len(linked)):
                self.stage.cut(name)
            while self.stage.disk.pending and self.rng.random() < 0.9:
                self.stage.move("commit", None)
        self.stage.crash()
        self.stage.link("p")
        self.away = list(WORKERS)

    def commit(self, at: int) -> None:
        name, number, event = self.open.pop(at)
        self.committed.append(event)
        self.stage.hand(name, ClientAck(self.refs[name], number))

    def finish(self) -> None:
        """All workers return, and take and commit all that is left."""
        while self.away:
            self.stage.link(self.away.pop())
        idle = 0
        while idle < 2:
            for name, ref in self.refs.items():
                self.stage.hand(name, ClientTake(self.stage.call(), ref, False, 50))
            self.stage.settle()
            self.stage.wait(0.1)
            self.look()
            idle = 0 if self.open else idle + 1
            while self.open:
                self.commit(0)


def run(seed: int, steps: int = 120) -> Working:
    made = Working(seed)
    for _ in range(steps):
        made.act()
        for _ in range(made.rng.randrange(5)):
            made.stage.step()
        made.look()
    made.finish()
    return made


def judge(made: Working, seed: int) -> int:
    wanted = list(range(1, made.published + 1))
    assert sorted(made.handed) == wanted, f"seed {seed}"
    assert sorted(made.committed) == wanted, f"seed {seed}"
    return made.published


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_restart_hands_no_event_to_a_second_worker(seed: int) -> None:
    judge(run(seed), seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_restarts_hand_no_event_to_a_second_worker() -> None:
    assert sum(judge(run(seed, steps=400), seed) for seed in range(2000)) > 2000
