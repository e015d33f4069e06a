"""One broker with a disk, its clients, and everything that breaks between them: at random.

Publishers publish (numbered, some twice on purpose), durable subscribers listen, links break, the broker
crashes and loses what was not committed, time jumps. When all is up again and quiet: every acknowledged
event that a durable subscription was owed was heard exactly once, in the order of its source, and nothing
stays behind in the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.language import accepts, parse_filter
from tidings.model.event import FOREVER, Event, make_event
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Receipt
from tidings.protocol.inputs import ClientPublish

FILTERS = ("n >= 0", "n % 2 = 0", "n < 3", "n IN (1, 4, 5)")
PUBLISHERS = ("p", "q")
SUBSCRIBERS = ("s", "t")


class Run:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        tiny = DeliverySettings(chunk=3, flush_seconds=0.01, collect_budget=4)
        self.stage = Stage(stable=True, recording=True, rng=self.rng, settings=tiny)
        self.up: dict[str, bool] = {}
        self.published: dict[int, Event] = {}  # by call
        self.filters: dict[tuple[str, int], str] = {}
        self.asked: dict[int, tuple[str, str]] = {}
        self.started: dict[tuple[str, int], int] = {}  # how many publishes had been made by then
        for name in (*PUBLISHERS, *SUBSCRIBERS):
            self.stage.client(name)
            self.up[name] = True
        for name in SUBSCRIBERS:
            filter = self.rng.choice(FILTERS)
            queue = self.rng.choice((1, 2, 5, 100))
            window = self.rng.choice((1, 3, 50))
            self.asked[
                self.stage.subscribe(
                    name,
                    filter,
                    name="mine",
                    durable=True,
                    queue=queue,
                    auto=True,
                    window=window,
                    replay=False,
                )
            ] = (name, filter)

    def publish(self) -> None:
        name = self.rng.choice(PUBLISHERS)
        stage = self.stage
        number = len(self.published)
        call = stage.call()
        lifetime = self.rng.choice((0.0, 0.0, 0.03, FOREVER))
        event = make_event(
            {"n": number % 6, "number": number}, source=name, id=f"foreign-{number}", lifetime=lifetime
        )
        stage.hand(name, ClientPublish(call, event))
        self.published[call] = event
        if self.rng.random() < 0.1:  # the application tries again, too soon
            stage.hand(name, ClientPublish(stage.call(), event))

    def shake(self) -> None:
        name = self.rng.choice(list(self.up))
        chance = self.rng.random()
        if chance < 0.02:
            self.stage.crash()
            self.up = dict.fromkeys(self.up, False)
        elif chance < 0.06 and self.up[name]:
            self.stage.cut(name)
            self.up[name] = False
        elif chance < 0.3 and not self.up[name]:
            self.stage.link(name)
            self.up[name] = True
        elif chance < 0.32:
            self.stage.now += self.rng.choice((0.005, 0.05))

    def finish(self) -> None:
        for name, is_up in self.up.items():
            if not is_up:
                self.stage.link(name)
        self.stage.settle()
        self.stage.wait(1.0)


def run(seed: int, steps: int = 120) -> Run:
    run = Run(seed)
    first_publish = run.rng.randrange(20)
    for step in range(steps):
        if step >= first_publish and run.rng.random() < 0.25:
            run.publish()
        run.shake()
        for _ in range(run.rng.randrange(4)):
            run.stage.step()
    run.finish()
    return run


def judge(run: Run, seed: int) -> int:
    stage = run.stage
    unanswered = [call for call in run.published if not isinstance(stage.answers.get(call), Receipt)]
    assert not unanswered, f"seed {seed}: {stage.failures}"
    subscribed_at = {str(row.subscription): row.time for row in reversed(stage.rows) if row.op == "sub"}
    told_total = 0
    for call, (name, filter) in run.asked.items():
        ref = stage.answers[call].ref
        received = [note.event for note in stage.received.get((name, ref), [])]
        told_total += len(received)
        counts = Counter(event.id for event in received)
        twice = [id for id, count in counts.items() if count > 1]
        assert not twice, f"seed {seed}: {name} heard {twice} twice"
        issued = {row.event: row.time for row in stage.rows if row.op == "pub"}
        since = subscribed_at[f"{name}/mine"]
        for event in run.published.values():
            if issued[event.id] > since and accepts(parse_filter(filter), event):
                assert event.id in counts, f"seed {seed}: {name} never heard {event.id}"
        numbers: dict[str, list[object]] = defaultdict(list)
        for event in received:
            assert accepts(parse_filter(filter), event)
            numbers[event.source].append(event["number"])
        for own in numbers.values():
            assert own == sorted(own), f"seed {seed}: {name} heard {own}"
    kept = {offset for offset, record in stage.disk.log.items() if record.event.lifetime != FOREVER}
    assert not kept, f"seed {seed}: {kept} should have been forgotten"
    return told_total


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_durable_subscribers_hear_everything_once_through_crashes(seed: int) -> None:
    judge(run(seed), seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_durable_subscribers_hear_everything_once_through_many_crashes() -> None:
    delivered = sum(judge(run(seed, steps=400), seed) for seed in range(3000))
    assert delivered > 3000
