"""Events that are committed late, in any order, or returned, while links break and the broker crashes: at
random.

A subscriber takes events and keeps several open, as handlers with concurrency do. It commits and returns them
in any order, also after their link has broken and before the broker has sent them again. Rules
- Each event is committed once, and never handed over again after that.
- An event is handed over once, and once more for each time that it was returned.
- A subscriber that leaves, on a link or without one, and comes back receives what it has not committed.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.model.event import FOREVER
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ClientAck, ClientNack, ClientTake

OPTIONS = {"name": "mine", "durable": True, "max_deliveries": 100}


class Handling:
    """One subscriber with events open, and its broker."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        tiny = DeliverySettings(chunk=3, flush_seconds=0.01, collect_budget=4)
        self.stage = Stage(stable=True, rng=self.rng, settings=tiny)
        self.stage.client("p")
        self.stage.client("s")
        self.window = self.rng.choice((0, 1, 3, 50))
        self.ref = self.stage.subscribed("s", window=self.window, **OPTIONS)
        self.is_up = True
        self.published = 0
        self.seen = 0  # of what was handed over on this subscription
        self.open: dict[int, int] = {}  # event by number
        self.handed: Counter[int] = Counter()
        self.returned: Counter[int] = Counter()
        self.committed: Counter[int] = Counter()

    def look(self) -> None:
        notes = self.stage.received.get(("s", self.ref), [])
        numbers = self.stage.tags.get(("s", self.ref), [])
        for note, number in list(zip(notes, numbers, strict=True))[self.seen :]:
            event = note.event["n"]
            assert isinstance(event, int)
            assert not self.committed[event], f"{event} is handed over after it was committed"
            self.open[number] = event
            self.handed[event] += 1
        self.seen = len(notes)

    def act(self) -> None:
        chance, stage = self.rng.random(), self.stage
        if chance < 0.25:
            self.published += 1
            stage.publish("p", {"n": self.published}, lifetime=FOREVER)
        elif chance < 0.45:
            stage.hand("s", ClientTake(stage.call(), self.ref, False, self.rng.choice((1, 1, 3))))
        elif chance < 0.65 and self.open:
            self.settle(self.rng.choice(list(self.open)), returns=False)
        elif chance < 0.72 and self.open:
            self.settle(self.rng.choice(list(self.open)), returns=True)
        elif chance < 0.76 and self.is_up:
            stage.cut("s")
            self.is_up = False
        elif chance < 0.78:
            stage.crash()
            stage.link("p")
            self.is_up = False
        elif chance < 0.95 and not self.is_up:
            stage.link("s")
            self.is_up = True
        self.look()

    def settle(self, number: int, *, returns: bool) -> None:
        event = self.open.pop(number)
        if returns:
            self.returned[event] += 1
            self.stage.hand("s", ClientNack(self.ref, (number,)))
        else:
            self.committed[event] += 1
            self.stage.hand("s", ClientAck(self.ref, number))

    def finish(self) -> None:
        """Take and commit all that is left."""
        if not self.is_up:
            self.stage.link("s")
        idle = 0  # rounds in which no event was left to commit
        while idle < 2:
            self.stage.hand("s", ClientTake(self.stage.call(), self.ref, False, 50))
            self.stage.settle()
            self.stage.wait(0.1)
            self.look()
            idle = 0 if self.open else idle + 1
            for number in list(self.open):
                self.settle(number, returns=False)


def run(seed: int, steps: int = 100) -> Handling:
    made = Handling(seed)
    for _ in range(steps):
        made.act()
        for _ in range(made.rng.randrange(4)):
            made.stage.step()
        made.look()
    made.finish()
    return made


def judge(made: Handling, seed: int) -> int:
    for event in range(1, made.published + 1):
        assert made.committed[event] == 1, f"seed {seed}: {event} is committed {made.committed[event]} times"
        handed, returned = made.handed[event], made.returned[event]
        assert handed == 1 + returned, f"seed {seed}: {event} is handed over {handed} times, {returned=}"
    return made.published


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_late_commits_settle_the_event_that_they_name(seed: int) -> None:
    judge(run(seed), seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_late_commits_settle_the_event_that_they_name() -> None:
    assert sum(judge(run(seed, steps=400), seed) for seed in range(2000)) > 2000


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from(["up", "greeting", "down"]))
def test_what_is_committed_by_leaving_is_not_delivered_again(seed: int, link: str) -> None:
    made = Handling(seed)
    stage, taken = made.stage, made.rng.randrange(1, 6)
    for number in range(1, 9):
        stage.published("p", {"n": number}, lifetime=FOREVER)
    for _ in range(taken):
        stage.taken("s", made.ref)
    stage.cut("s") if made.rng.random() < 0.5 else stage.crash()
    if link != "down":
        stage.link("s")
    if link == "up":
        for _ in range(made.rng.randrange(6)):
            stage.step()
    left = stage.leave("s", made.ref)
    if link == "down":
        stage.settle()
        assert left not in stage.answers, "it waits for a broker"
        stage.link("s")
    stage.settle()
    assert left in stage.answers
    stage.wait(1.0)
    stage.cut("s")
    stage.client("later", subscriber="s")
    again = stage.subscribed("later", window=made.window, **OPTIONS)
    assert stage.drain("later", again) == list(range(taken + 1, 9))
