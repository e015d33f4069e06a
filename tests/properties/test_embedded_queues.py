"""Queues, policies, groups, giving back and cancelling, at random: every event is accounted for.

Each subscription stands before anything is published. In the end, for each: what it heard, what it lost by
a named policy, and what went to dead letters is together everything that matched it; first attempts come
in the order of their source (in a group: there is one of each); every publisher was answered; and of the
events with one key the last that is handed over is the newest, whatever was returned in between.
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
from tidings.protocol.inputs import ClientAck, ClientCancel, ClientNack, ClientPublish, ClientTake

FILTERS = ("n < 4", "n >= 2", "n % 2 = 1", "TRUE")
POLICIES = (Policy.BLOCK, Policy.DROP_OLDEST, Policy.DROP_NEWEST)


class Reader:
    """One subscription, or one member of a group."""

    def __init__(self, who: str, ref: int, filter: str, group: str | None) -> None:
        self.who = who
        self.ref = ref
        self.filter = filter
        self.group = group
        self.loses_none = False  # does a full queue cost it no event?
        self.waiting: int | None = None


class Hall:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.keyed = self.rng.choice((0.25, 0.8))  # of the events
        self.taking = self.rng.choice((0.7, 0.5))  # of the acts; more of the others are returns
        self.pace = self.rng.choice((4, 12))  # of messages between two acts
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
        policy = Policy.BLOCK if group else rng.choice(POLICIES)
        ref = self.stage.subscribed(
            who,
            filter,
            name=None if group else "mine",
            group=group,
            durable=durable,
            queue=rng.choice((1, 2, 5, 100)),
            policy=policy,
            max_deliveries=2,
            window=rng.choice((0, 0, 3, 8, 8, 8)),
        )
        reader = Reader(who, ref, filter, group)
        reader.loses_none = durable or policy is Policy.BLOCK
        self.readers.append(reader)

    def publish(self) -> None:
        name = self.rng.choice(("p", "q"))
        number = len(self.published)
        is_keyed = self.rng.random() < self.keyed
        key = f"{name}-{number // 6}" if is_keyed else None  # of one source: its order is known
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
        if reader.waiting is None and chance < self.taking:
            reader.waiting = stage.call()
            stage.hand(reader.who, ClientTake(reader.waiting, reader.ref, most=rng.choice((1, 1, 2, 4))))
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
            for key in {event.key for event in self.published if event.key is not None}:
                self.judge_key(first, received, key)
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

    def judge_key(self, reader: Reader, received: list[Notification], key: str) -> None:
        """The newest of a key ends what was handed over of it, unless the filter does not accept it."""
        newest = [event for event in self.published if event.key == key][-1:]
        if reader.loses_none and newest and accepts(parse_filter(reader.filter), newest[0]):
            handed_over = [note.event.id for note in received if note.event.key == key]
            assert handed_over[-1:] == [newest[0].id], f"{reader.who}: the latest of its key was lost"


def play(seed: int, steps: int = 80) -> None:
    hall = Hall(seed)
    for _ in range(steps):
        for _ in range(hall.rng.choice((1, 1, 4)) if hall.rng.random() < 0.3 else 0):
            hall.publish()
        hall.act(hall.rng.choice(hall.readers))
        for _ in range(hall.rng.randrange(hall.pace)):
            hall.stage.step()
    hall.finish()
    hall.judge()


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_every_event_is_accounted_for(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", [2, 20, 23, 52])
def test_seeds_that_found_a_defect_hold(seed: int) -> None:
    play(seed, steps=200)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_event_is_accounted_for_in_many_runs() -> None:
    for seed in range(3000):
        play(seed, steps=200)
