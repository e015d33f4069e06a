"""Queues, policies, groups, giving back and cancelling, at random: every event is accounted for.

Each subscription stands before anything is published. In the end, for each: what it heard, what it lost by
a named policy, and what went to dead letters is together everything that matched it; first attempts come
in the order of their source (in a group: there is one of each); and every publisher was answered.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.subscription import Notification, Policy
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ClientAck, ClientCancel, ClientNack, ClientPublish

FILTERS = ("n < 4", "n >= 2", "n % 2 = 1", "TRUE")
POLICIES = (Policy.BLOCK, Policy.DROP_OLDEST, Policy.DROP_NEWEST)


class Reader:
    """One subscription, or one member of a group."""

    def __init__(self, who: str, ref: int, filter: str, group: str | None) -> None:
        self.who = who
        self.ref = ref
        self.filter = filter
        self.group = group
        self.waiting: int | None = None


class Hall:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        tiny = DeliverySettings(chunk=2, flush_seconds=0.01)
        self.stage = Stage(stable=self.rng.random() < 0.5, settings=tiny)
        self.published: list[Event] = []
        self.calls: list[int] = []
        self.readers: list[Reader] = []
        for name in ("p", "q"):
            self.stage.client(name)
        for number in range(3):
            self._subscribe(f"s{number}", None)
        for number in range(2):
            self._subscribe(f"g{number}", "workers")
        self.stage.rng = self.rng

    def _subscribe(self, who: str, group: str | None) -> None:
        self.stage.client(who)
        self.stage.settle()
        rng = self.rng
        filter = "TRUE" if group else rng.choice(FILTERS)
        durable = group is None and rng.random() < 0.3
        ref = self.stage.subscribed(
            who,
            filter,
            name=None if group else "mine",
            group=group,
            durable=durable,
            queue=rng.choice((1, 2, 5, 100)),
            policy=Policy.BLOCK if group else rng.choice(POLICIES),
            max_deliveries=2,
            window=rng.choice((0, 0, 3)),
        )
        self.readers.append(Reader(who, ref, filter, group))

    def publish(self) -> None:
        name = self.rng.choice(("p", "q"))
        number = len(self.published)
        key = self.rng.choice((None, None, None, "k"))
        event = make_event(
            {"n": number % 6, "number": number},
            source=name,
            id=str(number),
            key=key,
            lifetime=self.rng.choice((0, 5)),
        )
        self.published.append(event)
        self.calls.append(self.stage.call())
        self.stage.hand(name, ClientPublish(self.calls[-1], event))

    def act(self, reader: Reader) -> None:
        stage, rng = self.stage, self.rng
        if reader.waiting is not None and reader.waiting in stage.answers:
            reader.waiting = None
        chance = rng.random()
        if reader.waiting is None and chance < 0.7:
            reader.waiting = stage.take(reader.who, reader.ref)
        elif reader.waiting is not None and chance < 0.2:
            stage.hand(reader.who, ClientCancel(reader.waiting, reader.ref))
            reader.waiting = None
        elif reader.waiting is None and chance < 0.8:
            stage.hand(reader.who, ClientNack(reader.ref))
        elif reader.waiting is None:
            stage.hand(reader.who, ClientAck(reader.ref))

    def finish(self) -> None:
        for _ in range(40 * len(self.published) + 200):
            for reader in self.readers:
                if reader.waiting is None or reader.waiting in self.stage.answers:
                    reader.waiting = self.stage.take(reader.who, reader.ref)
            self.stage.settle()
        self.stage.wait(1.0)

    def judge(self) -> None:
        assert all(call in self.stage.answers for call in self.calls), "every publisher was answered"
        groups: dict[str, list[Reader]] = {}
        for reader in self.readers:
            groups.setdefault(reader.group or reader.who, []).append(reader)
        for members in groups.values():
            self.judge_one(members)

    def judge_one(self, members: list[Reader]) -> None:
        first = members[0]
        received = [
            note for reader in members for note in self.stage.received.get((reader.who, reader.ref), [])
        ]
        wanted = {e.id for e in self.published if accepts(parse_filter(first.filter), e)}
        lost = sum(self.stage.lost.get((first.who, first.ref), {}).values())
        assert {note.event.id for note in received} <= wanted
        assert len({note.event.id for note in received}) <= len(wanted)
        missing = wanted - {note.event.id for note in received}
        assert len(missing) <= lost, f"{first.who}: {missing} are neither heard nor counted"
        if first.group is None:
            self.judge_order(received)
            assert lost <= len(wanted)

    def judge_order(self, received: list[Notification]) -> None:
        seen: set[str] = set()
        last: Counter[str] = Counter()
        for note in received:
            number = note.event["number"]
            assert isinstance(number, int)
            if note.event.id not in seen:
                assert number >= last[note.event.source], "first attempts come in order"
                last[note.event.source] = number
            seen.add(note.event.id)


def play(seed: int, steps: int = 80) -> None:
    hall = Hall(seed)
    for _ in range(steps):
        if hall.rng.random() < 0.3:
            hall.publish()
        hall.act(hall.rng.choice(hall.readers))
        for _ in range(hall.rng.randrange(4)):
            hall.stage.step()
    hall.finish()
    hall.judge()


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_every_event_is_accounted_for(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", [2, 20, 23])
def test_seeds_that_found_a_defect_hold(seed: int) -> None:
    play(seed, steps=200)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_event_is_accounted_for_in_many_runs() -> None:
    for seed in range(3000):
        play(seed, steps=200)
