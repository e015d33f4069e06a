"""A fifth of the brokers send false digests and requests: honest delivery stays, and they are soon ignored.

The rogues route events as everybody does, and their own losses are recovered; beside that each sends, once in
every round, what a liar would send. Framing another broker, and false events, are out of reach of this
defence; see decision 11.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.protocol.inputs import Received
from tidings.protocol.messages import Message
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import line, random_tree
from tidings.simulation.world import World
from tidings_lab.recovery.epidemic.messages import (
    LazyAnnounce,
    PatternPull,
    PushOffer,
    PushWant,
    Recovered,
    SourcePull,
)
from tidings_lab.recovery.epidemic.standing import OFFER, OFTEN, REQUEST, PeerStanding

from ..papers._epidemic import Epidemics

ROUND = 0.5
PATTERNS = [parse_filter(f"p{number} = TRUE") for number in range(3)]
BROKERS = ("b0", "b1", "b2")
ROGUES = ("b3", "b7", "b11", "b15")  # of twenty


def false_messages(style: str, rogue: str, source: str, rng: Random) -> list[Message]:
    """What a liar of this style sends in a round."""
    pattern = rng.choice(PATTERNS).signature
    made_up = tuple(rng.sample(range(10**6, 10**7), 5))
    if style == "epidemic-push":
        stored = {f"ghost.{rng.random()}": tuple((number, 0) for number in made_up)}
        return [PushOffer(rogue, pattern, stored), PushWant({"ghost": made_up})]
    if style == "epidemic-lazy-push":
        stored = {f"ghost.{rng.random()}": tuple((number, 0) for number in made_up)}
        return [LazyAnnounce(stored), PushWant({"ghost": made_up})]
    signatures = [each.signature for each in PATTERNS]
    return [
        *(PatternPull(rogue, each, {source: made_up}) for each in signatures),
        SourcePull(rogue, source, dict.fromkeys(signatures, made_up), ()),
    ]


class Poisoned:
    def __init__(self, style: str, *, poison: bool, seed: int = 4, **knobs: Any) -> None:
        rng = Random(seed)
        self.overlay = random_tree(20, rng, fan_out=4)
        self.world = World(style, self.overlay, seed=seed, record=False, options={"gossip": knobs})
        self.honest = [broker for broker in self.overlay.brokers if broker not in ROGUES]
        wanted = {broker: rng.randrange(3) for broker in self.overlay.brokers}
        for broker, number in wanted.items():
            self.world.add_client(f"at-{broker}", broker)
            self.world.subscribe(f"at-{broker}", "n", PATTERNS[number].text)
        self.world.run(4.0)
        self.rounds: dict[
            tuple[str, str], int
        ] = {}  # by victim and rogue: rounds of lies that were listened to
        self.ignored: set[tuple[str, str]] = set()
        publisher = self.honest[0]
        self.owed = 0
        self.source = self.nodes()[publisher].slots["recovery"].counters.source
        self.world.simulation.plan(FaultPlan(Rates(loss=0.1)))
        for step in range(200):
            number = rng.randrange(3)
            self.owed += sum(wanted[broker] == number for broker in self.honest)
            self.world.publish(f"at-{publisher}", {f"p{number}": True})
            if (
                poison and step >= 40 and step % 10 == 0
            ):  # who has heard nothing yet cannot tell what is false
                self.lie(style, rng)
            self.world.run(self.world.simulation.now + ROUND / 10)
        self.world.run(self.world.simulation.now + 20.0)

    def nodes(self) -> dict[str, Any]:
        return dict(self.world.nodes())

    def lie(self, style: str, rng: Random) -> None:
        """Every rogue to every honest broker: nobody is spared."""
        for rogue in ROGUES:
            for victim in self.honest:
                recovery = self.nodes()[victim].slots["recovery"]
                key = (victim, rogue)
                if rogue in recovery.standing.offenders(self.world.simulation.now):
                    self.ignored.add(key)
                if key not in self.ignored:
                    self.rounds[key] = self.rounds.get(key, 0) + 1
                for message in false_messages(style, rogue, self.source, rng):
                    self.world.simulation.input(victim, Received(rogue, message))

    def delivery(self) -> float:
        received = sum(len(self.world.applications[f"at-{broker}"].received) for broker in self.honest)
        return received / self.owed


@pytest.mark.parametrize("style", ["epidemic-push", "epidemic", "epidemic-subscriber-pull"])
def test_lies_do_not_cost_deliveries_and_liars_are_ignored(style: str) -> None:
    clean, poisoned = Poisoned(style, poison=False), Poisoned(style, poison=True)
    assert poisoned.delivery() >= clean.delivery() - 0.01
    judge_offenders(poisoned)


def test_lazy_push_ignores_liars_and_loses_what_they_would_have_repaired() -> None:
    """It repairs link by link, so a liar that is ignored is missed on its own links, and nowhere else."""
    clean, poisoned = (Poisoned("epidemic-lazy-push", poison=poison) for poison in (False, True))
    bare = Poisoned("epidemic-lazy-push", poison=False, announcements=0)
    assert bare.delivery() + 0.1 <= poisoned.delivery() < clean.delivery()
    judge_offenders(poisoned)


def judge_offenders(poisoned: Poisoned) -> None:
    late = {key: rounds for key, rounds in poisoned.rounds.items() if rounds > 3}
    assert not late, "ignored within three rounds"
    assert len(poisoned.ignored) == len(ROGUES) * len(poisoned.honest), "by everybody"


def test_who_asks_again_and_again_for_what_it_was_given_is_ignored() -> None:
    stage = Epidemics(line(3), "subscriber pull", ignore_seconds=30.0)
    stage.wants(("b1", "x > 0"), ("b2", "x > 0"))
    stage.publish("b0", "e1", x=1)
    source, pattern = stage.recovery("b0").counters.source, parse_filter("x > 0").signature
    for _ in range(20):
        stage.simulation.input("b1", Received("b2", PatternPull("b2", pattern, {source: (1,)})))
        stage.run(0.2)
    assert len(list(stage.heard_messages(Recovered, at="b2"))) == OFTEN
    assert stage.recovery("b1").standing.offenders(stage.simulation.now) == {"b2"}
    assert stage.recovery("b1").standing.ignored == 20 - (OFTEN + 3)


def test_strikes_of_one_bad_moment_are_one_reason_to_ignore() -> None:
    standing = PeerStanding(3, ignore_seconds=2.0, longest_seconds=60.0)
    for _ in range(12):  # requests that were open together
        standing.strike("b", OFFER, 1.0)
    assert standing.banned == 1
    assert not standing.is_ignored("b", OFFER, 3.0)


def test_whose_offers_are_not_believed_may_still_ask() -> None:
    standing = PeerStanding(3, ignore_seconds=2.0, longest_seconds=60.0)
    for _ in range(3):
        standing.strike("b", OFFER, 1.0)
    assert standing.is_ignored("b", OFFER, 2.0)
    assert not standing.is_ignored("b", REQUEST, 2.0)


def test_two_honest_peers_do_not_shut_one_another_out_for_long() -> None:
    """Forty seconds of lazy push over links that lose a tenth: once they did, and the rest was lost."""
    world = World("epidemic-lazy-push", line(3), seed=3, record=False, options={"datagrams": True})
    for broker in BROKERS:
        world.add_client(f"at-{broker}", broker)
        world.subscribe(f"at-{broker}", "n", "x >= 0")
    world.run(3.0)
    world.simulation.plan(FaultPlan(Rates(loss=0.1)))
    for number in range(3000):
        world.publish(f"at-b{number % 3}", {"x": number})
        world.run(world.simulation.now + 1 / 75)
    world.run(world.simulation.now + 10.0)
    assert min(len(world.received(f"at-{broker}")) for broker in BROKERS) >= 0.99 * 3000


def test_who_is_ignored_may_try_again_later() -> None:
    stage = Epidemics(line(2), "push", ignore_seconds=5.0)
    stage.wants(("b1", "x > 0"))
    for _ in range(3):
        stage.simulation.input("b1", Received("b0", PushWant({"ghost": (1,)})))
    stage.run(1.0)
    standing = stage.recovery("b1").standing
    assert standing.is_ignored("b0", REQUEST, stage.simulation.now)
    assert not standing.is_ignored("b0", REQUEST, stage.simulation.now + 5.0)
    for at, seconds in ((10.0, 5.0), (20.0, 10.0)):  # twice as long
        for _ in range(3):
            standing.strike("b0", OFFER, at)
        assert standing.is_ignored("b0", OFFER, at + seconds - 0.1)
        assert not standing.is_ignored("b0", OFFER, at + seconds)
    standing.clear("b0")
    for _ in range(3):
        standing.strike("b0", OFFER, 40.0)
    assert not standing.is_ignored("b0", OFFER, 45.0)  # a peer that was cleared begins anew
    for _ in range(3):
        standing.strike("b0", OFFER, 500.0)
    assert not standing.is_ignored("b0", OFFER, 505.0)  # and one of which nothing was held against for long


def test_an_oversized_digest_is_a_strike_and_costs_no_search() -> None:
    stage = Epidemics(line(2), "publisher pull", most_entries=10)
    stage.wants(("b1", "x > 0"))
    huge = SourcePull("b1", "ghost", {1: tuple(range(1000))}, ())
    for _ in range(4):
        stage.simulation.input("b0", Received("b1", huge))
    stage.run(1.0)
    assert stage.recovery("b0").standing.offenders(stage.simulation.now) == {"b1"}
