"""Counts of lost events over broken links and kills of the broker: each event is received or counted.

Each subscription stands before anything is published. A transient one drops by its policy, and its link
breaks. A durable one with a bound has a listener that takes nothing, so that its client's token says nothing
of the events, and the broker is killed between any two steps, with writes on their way to the disk.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import Stage

from tidings.model.subscription import Policy
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Counted, Effect
from tidings.protocol.inputs import ClientAck
from tidings.runtime.losses import SubscriptionLosses

NOBODY: Any = None


class Play:
    """One publisher and one subscriber, with counts as a listener keeps them."""

    def __init__(self, rng: Random, **options: Any) -> None:
        self.rng = rng
        self.losses = SubscriptionLosses()
        self.stage = Stage(
            stable=True, settings=DeliverySettings(chunk=rng.choice((2, 5)), flush_seconds=0.01)
        )
        self._place = self.stage._place
        self.stage._place = self._see  # type: ignore[method-assign]
        self.stage.client("p")
        self.stage.client("s")
        self.ref = self.stage.subscribed("s", auto=False, **options)
        self.stage.rng = rng
        self.calls: list[int] = []
        self.waiting: int | None = None
        self.is_linked = True

    def _see(self, name: str, effect: Effect) -> None:
        if type(effect) is Counted:
            self.losses.count(NOBODY, effect.lost, warns=False)
        self._place(name, effect)

    def publish(self, lifetime: float) -> None:
        self.calls.append(self.stage.publish("p", {"n": len(self.calls)}, lifetime=lifetime))

    @property
    def may_take(self) -> bool:
        return self.waiting is None or self.waiting in self.stage.answers

    def take(self) -> None:
        if self.may_take:
            self.waiting = self.stage.take("s", self.ref)

    def relink(self, chance: float) -> None:
        if self.is_linked and chance < 0.4:
            self.stage.cut("s")
            self.is_linked = False
        elif not self.is_linked and chance > 0.4:
            self.stage.link("s")
            self.is_linked = True

    def crash(self) -> None:
        self.stage.crash()
        self.stage.link("p")
        if self.is_linked:
            self.stage.link("s")

    def judge(self) -> None:
        """Take all that is left: each acknowledged event is received, or counted, and not both."""
        if not self.is_linked:
            self.stage.link("s")
        self.stage.rng = None
        self.stage.settle()
        for _ in range(len(self.calls) + 5):
            self.take()
            self.stage.wait(0.05)
        self.stage.wait(3.0)
        answered = {number for number, call in enumerate(self.calls) if call in self.stage.answers}
        received = {note.event["n"] for note in self.stage.received.get(("s", self.ref), [])}
        assert sum(self.losses.counts.values()) == len(answered - received)


def play_reconnects(seed: int) -> None:
    rng = Random(seed)
    play = Play(
        rng,
        name=rng.choice(("n", None)),
        queue=rng.choice((1, 2, 4)),
        policy=rng.choice((Policy.DROP_OLDEST, Policy.DROP_NEWEST)),
        window=rng.choice((0, 1, 3)),
    )
    for _ in range(60):
        chance = rng.random()
        if chance < 0.4:
            play.publish(1000.0)
        elif chance < 0.6:
            play.take()
        elif chance < 0.7 and play.may_take:
            play.stage.hand("s", ClientAck(play.ref))
        elif chance < 0.85:
            play.relink(rng.random())
        for _ in range(rng.randrange(4)):
            play.stage.step()
    play.judge()


def play_bounds(seed: int) -> None:
    rng = Random(seed)
    bound = rng.choice(
        ({"keep_events": 1}, {"keep_events": 4}, {"keep_seconds": 0.05}, {"keep_seconds": 0.3})
    )
    lifetime = rng.choice((0.0, 1000.0))
    play = Play(rng, name="n", durable=True, queue=rng.choice((1, 2, 10)), window=0, **bound)
    for _ in range(80):
        chance = rng.random()
        if chance < 0.4:
            play.publish(lifetime)
        elif chance < 0.5:
            play.relink(rng.random())
        elif chance < 0.55:
            play.crash()
        elif chance < 0.6:
            play.stage.wait(rng.choice((0.01, 0.1)))
        for _ in range(rng.randrange(6)):
            play.stage.step()
    play.judge()


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_an_event_of_a_transient_subscription_is_received_or_counted_over_broken_links(seed: int) -> None:
    """A broker counted from zero for a client that was back, and forgot what the link had not carried."""
    play_reconnects(seed)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_what_a_bound_drops_is_counted_once_over_kills_of_the_broker(seed: int) -> None:
    play_bounds(seed)


@pytest.mark.parametrize("seed", [100, 126, 365])
def test_seeds_that_found_a_wrong_count_hold(seed: int) -> None:
    """A client's token passed losses that the disk did not have, and a part that was not counted was given up
    with what waited behind it."""
    play_bounds(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_counts_are_right_in_many_runs() -> None:
    for seed in range(2000):
        play_reconnects(seed)
        play_bounds(seed)
