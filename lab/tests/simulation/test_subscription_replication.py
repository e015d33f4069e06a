"""Gryphon's replication of subscriptions (Virgillito 2003, 2.5.3): events keep flowing while a broker is
away."""

from __future__ import annotations

from collections import Counter

import pytest

from tidings.history.check import check
from tidings.simulation.experiment import Experiment, run_experiment
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.workloads import Plan
from tidings.simulation.world import World
from tidings.testing.seeds import NO_CRASH


class Absence:
    """b0 - b1 - b2 - b3 with alice at b3, bob at b2 and the press at b0."""

    def __init__(self, system: str = "subscription-replication", **options: object) -> None:
        settings = SimulationSettings(check=True)
        self.world = World(system, line(4), settings=settings, options=options)
        for name, broker in (("alice", "b3"), ("bob", "b2"), ("press", "b0")):
            self.world.add_client(name, broker)
        self.world.subscribe("alice", "n", "x > 0")
        self.world.subscribe("alice", "m", "x > 5")
        self.world.subscribe("bob", "n", "x > 0")
        self.run(3.0)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.simulation.now + seconds)

    def publish(self, *values: int) -> None:
        for x in values:
            self.world.publish("press", {"x": x})
            self.run(0.05)

    def crash(self) -> None:
        self.world.simulation.crash("b3")
        self.world.simulation.notice("b3")
        self.run(1.0)  # the neighbour has noticed

    def received(self, client: str) -> Counter[tuple[str, int]]:
        return Counter(
            (n.subscription.name, n.event.attributes["x"]) for n in self.world.applications[client].received
        )

    def judge(self) -> None:
        verdicts = check(self.world.rows, contract="Epidemic").verdicts
        assert not {name: v.story for name, v in verdicts.items() if v.holds is False}


EVERYTHING = Counter([("n", 1), ("n", 7), ("n", 2), ("n", 8), ("n", 3), ("m", 7), ("m", 8)])


def test_a_broker_that_returns_is_handed_what_its_subscribers_missed() -> None:
    trial = Absence()
    trial.publish(1, 7)
    trial.crash()
    trial.publish(2, 8)
    trial.world.simulation.restart("b3")
    trial.run(4.0)
    trial.publish(3)
    trial.run(10.0)
    assert trial.received("alice") == EVERYTHING
    assert trial.received("bob") == Counter([("n", x) for x in (1, 7, 2, 8, 3)])  # once each: he was there
    trial.judge()


def test_a_subscriber_that_comes_to_the_neighbour_is_handed_it_there() -> None:
    trial = Absence()
    trial.publish(1, 7)
    trial.crash()
    trial.publish(2, 8)
    trial.world.move("alice", "b2")
    trial.run(2.0)
    trial.publish(3)
    trial.world.simulation.restart("b3")
    trial.run(10.0)
    assert trial.received("alice") == EVERYTHING
    assert trial.received("bob") == Counter([("n", x) for x in (1, 7, 2, 8, 3)])
    figures = dict(trial.world.nodes())["b2"].figures()
    assert figures["events held for others"] == 0
    trial.judge()


def test_without_it_what_is_published_meanwhile_is_gone() -> None:
    trial = Absence("subscription-forwarding")
    trial.publish(1, 7)
    trial.crash()
    trial.publish(2, 8)
    trial.world.simulation.restart("b3")
    trial.run(4.0)
    trial.publish(3)
    trial.run(10.0)
    assert trial.received("alice") == EVERYTHING - Counter([("n", 2), ("n", 8), ("m", 8)])


def test_a_subscriber_that_does_not_return_is_forgotten_and_so_is_the_route() -> None:
    trial = Absence(replication={"patience_seconds": 2.0})
    trial.world.unsubscribe("bob", "n")
    trial.run(1.0)
    trial.crash()
    trial.publish(2)
    trial.world.simulation.disconnect("alice", "b3")
    trial.world.simulation.restart("b3")
    trial.run(10.0)
    before = trial.world.simulation.sent["Forward"]
    trial.publish(3)
    assert trial.world.simulation.sent["Forward"] == before  # nobody wants it any more
    assert dict(trial.world.nodes())["b2"].figures()["events held for others"] == 0


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    trial = Absence(replication={"most": 3})
    trial.crash()
    trial.publish(1, 2, 3, 4, 5)
    trial.world.simulation.restart("b3")
    trial.run(10.0)
    assert sorted(x for name, x in trial.received("alice") if name == "n") == [3, 4, 5]
    assert dict(trial.world.nodes())["b2"].figures()["events dropped while away"] == 2


@pytest.mark.parametrize("seed", range(6))
def test_under_faults_nothing_is_told_twice(seed: int) -> None:
    plan = Plan(subscriptions=8, events=60, rate=4.0, churn=0.15, publishers=3)
    experiment = Experiment(
        system="subscription-replication", seed=seed, brokers=8, plan=plan, incidents=12, kinds=NO_CRASH,
        check=True, bytes=True, calm=15.0,
    )  # fmt: skip
    outcome = run_experiment(experiment)
    assert outcome.report is not None
    assert not {name: v.story for name, v in outcome.report.verdicts.items() if v.holds is False}
