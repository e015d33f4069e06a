"""One name, many lives: resumed, with other filters, through crashes, committed or not.

Against a plain model of what a name is owed: events that came while it stood under a filter that accepts
them, and events that were available when it began to want its filter; as far as its filter of now accepts
them. Whatever was committed is never handed over again; whatever is owed is handed over in the end.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.language import accepts, parse_filter
from tidings.model.event import FOREVER, Event, make_event
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.messages import Publish, Subscribe

FILTERS = ("n < 4", "n >= 2", "n % 2 = 1", "n IN (0, 5)", "TRUE")
NEVER = float("inf")


def wants(filter: str, number: int) -> bool:
    return accepts(parse_filter(filter), make_event({"n": number}, source="p", id="1"))


class Model:
    """What the name is owed, and what it committed."""

    def __init__(self) -> None:
        self.accepted: dict[str, tuple[int, float, float]] = {}  # id -> number, when, until
        self.rights: set[str] = set()
        self.committed: set[str] = set()
        self.given_up = 0  # owed, and not accepted by the next filter
        self.filter: str | None = None  # the filter, while the subscription stands

    def publish(self, event: Event, when: float) -> None:
        number = event["n"]
        assert isinstance(number, int)
        self.accepted[event.id] = (number, when, when + event.lifetime)
        if self.filter is not None and wants(self.filter, number):
            self.rights.add(event.id)

    def subscribe(self, filter: str, when: float) -> None:
        if filter != self.filter:
            self.given_up += sum(not wants(filter, self.accepted[id][0]) for id in self.owed())
            self.rights = {id for id in self.rights if wants(filter, self.accepted[id][0])}
            self.rights |= {
                id
                for id, (number, _, until) in self.accepted.items()
                if until > when and wants(filter, number)
            }
        self.filter = filter

    def end(self) -> None:
        self.filter = None
        self.rights = set()

    def owed(self) -> set[str]:
        return self.rights - self.committed


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.durable = self.rng.random() < 0.7
        tiny = DeliverySettings(chunk=2, flush_seconds=0.01, collect_budget=3)
        self.stage = Stage(stable=True, settings=tiny)
        self.stage.client("p")
        self.stage.client("s")
        self.model = Model()
        self.ref = 0
        self.taken: list[str] = []  # not committed yet
        self.filter = self.rng.choice(FILTERS)
        self.queue = self.rng.choice((1, 2, 5, 50)) if self.durable else 1000  # so that nothing is lost

    def handled(self, kind: type) -> float:
        return next(time for time, _, m in reversed(self.stage.handled) if isinstance(m, kind))

    def publish(self) -> None:
        lifetime = self.rng.choice((0.0, 0.3, 2.0, FOREVER))
        number = self.rng.randrange(6)
        receipt = self.stage.published("p", {"n": number}, lifetime=lifetime)
        event = make_event({"n": number}, source="p", id=receipt.id, lifetime=lifetime)
        self.model.publish(event, self.handled(Publish))

    def subscribe(self) -> None:
        if self.rng.random() < 0.4:
            self.filter = self.rng.choice(FILTERS)
        self.ref = self.stage.subscribed(
            "s", self.filter, name="mine", durable=self.durable, queue=self.queue
        )
        self.model.subscribe(self.filter, self.handled(Subscribe))

    def take(self) -> bool:
        note = self.stage.taken("s", self.ref)
        self.model.committed |= set(self.taken)
        self.taken = []
        if note is None:
            return False
        assert note.event.id not in self.model.committed, "what was committed is not told again"
        assert note.event.id in self.model.owed(), "what is told was owed"
        self.taken = [note.event.id]
        return True

    def leave(self) -> None:
        commit, end = self.rng.random() < 0.6, self.rng.random() < 0.2
        self.stage.leave("s", self.ref, commit=commit, end=end)
        self.stage.settle()
        if commit:
            self.model.committed |= set(self.taken)
        self.taken = []
        self.ref = 0
        if end or not self.durable:
            self.model.end()

    def crash(self) -> None:
        self.stage.wait(0.1)  # progress is on the disk; without this a crash may repeat what was committed
        self.stage.crash()
        self.stage.link("p")
        self.stage.link("s")
        self.stage.settle()

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.45:
            self.publish()
        elif chance < 0.55:
            self.stage.wait(self.rng.choice((0.01, 0.2, 1.0)))
        elif not self.ref:
            if chance < 0.6:
                self.crash()
            else:
                self.subscribe()
        elif chance < 0.8:
            self.take()
        elif chance < 0.95:
            self.leave()

    def finish(self) -> None:
        if not self.ref:
            self.subscribe()
        while self.take():
            pass
        for lost in self.stage.lost.values():  # a broker that crashed counts from none
            assert set(lost) == {"filter changed"}
            assert lost["filter changed"] <= self.model.given_up
        assert not self.model.owed(), "what is owed is told in the end"


def live(seed: int, steps: int = 60) -> None:
    life = Life(seed)
    for _ in range(steps):
        life.step()
    life.finish()


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_name_is_told_what_it_is_owed_and_nothing_twice(seed: int) -> None:
    live(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_name_through_many_lives() -> None:
    for seed in range(5000):
        live(seed, steps=200)
