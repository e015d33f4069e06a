"""The system `qns`: merge subscriptions, diffusion trees, and what faults do to them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tidings.protocol.routing.outlets import OUTLETS
from tidings.simulation.experiment import Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.workloads import Plan
from tidings.simulation.world import World
from tidings.testing.seeds import EVERYTHING, HARMLESS
from tidings_quality.routing.diffusion_trees import DiffuseEvent

ORGANISATIONS = ("CoC", "INAIL", "INPS")


def world_of(brokers: tuple[str, ...] = ORGANISATIONS, **options: Any) -> World:
    world = World("qns", OverlayGraph(brokers, ()), options=options)
    for broker in brokers:
        world.add_client(f"user of {broker}", broker)
    world.run(1.0)
    return world


def sent(world: World, before: Counter[str]) -> Counter[str]:
    world.run(world.simulation.now + 2.0)
    return Counter(world.simulation.sent) - before


def test_vir5_7_a_covered_subscription_sends_nothing_and_a_wider_one_replaces_it() -> None:
    world = world_of()
    before = Counter(world.simulation.sent)
    world.subscribe("user of INPS", "wide", "x < 10")
    assert sent(world, before)["Interest"] == 2
    before = Counter(world.simulation.sent)
    world.subscribe("user of INPS", "narrow", "x < 5")
    assert not sent(world, before)
    before = Counter(world.simulation.sent)
    world.unsubscribe("user of INPS", "wide")
    assert sent(world, before)["Interest"] == 2
    world.publish("user of CoC", {"x": 3})
    world.publish("user of CoC", {"x": 7})
    world.run(world.simulation.now + 2.0)
    assert len(world.received("user of INPS")) == 1


def test_vir5_7_only_possible_producers_are_told() -> None:
    produces = {"CoC": "kind = 'a'", "INAIL": "kind = 'b'", "INPS": "kind = 'c'"}
    world = world_of(produces=produces)
    before = Counter(world.simulation.sent)
    world.subscribe("user of INPS", "s", "kind IN ('b', 'c') AND x < 5")
    assert sent(world, before)["Interest"] == 1
    sizes = {name: node.slots["routing"].table_size() for name, node in world.nodes()}
    assert sizes == {"CoC": 0, "INAIL": 1, "INPS": 0}


def test_vir5_8_a_producer_sends_to_no_more_than_it_can_and_everybody_hears_once() -> None:
    brokers = tuple(f"o{k:02}" for k in range(20))
    world = world_of(brokers, capability=dict.fromkeys(brokers, 3))
    for broker in brokers[1:]:
        world.subscribe(f"user of {broker}", "s", "x > 0")
    world.run(3.0)
    children: Counter[str] = Counter()
    before = Counter(world.simulation.sent)

    def count(_name: str, item: Any, _now: float) -> None:
        if isinstance(getattr(item, "message", None), DiffuseEvent):
            children[item.sender] += 1

    world.simulation.on_handled = count
    world.publish("user of o00", {"x": 1})
    assert sent(world, before)["Notify"] == 19
    assert max(children.values()) <= 3
    assert [len(world.received(f"user of {broker}")) for broker in brokers] == [0] + [1] * 19


def test_a_producer_that_restarts_is_told_again() -> None:
    world = world_of()
    world.subscribe("user of INPS", "s", "x > 0")
    world.run(3.0)
    world.simulation.crash("CoC")
    world.run(4.0)
    world.simulation.restart("CoC")
    world.run(8.0)
    world.publish("user of CoC", {"x": 1})
    world.run(10.0)
    assert len(world.received("user of INPS")) == 1


@pytest.mark.parametrize("reduce", sorted(OUTLETS))
def test_every_reduction_tells_the_same_events(reduce: str) -> None:
    rng = Random(7)
    world = world_of(reduce=reduce)
    expected: Counter[str] = Counter()
    wanted: list[tuple[str, int, int]] = []
    for number in range(30):
        low = rng.randrange(10)
        broker = rng.choice(ORGANISATIONS)
        high = low + rng.randrange(4)
        wanted.append((broker, low, high))
        world.subscribe(f"user of {broker}", f"s{number}", f"x BETWEEN {low} AND {high}")
    world.run(4.0)
    for x in range(12):
        world.publish("user of CoC", {"x": x})
        expected.update(broker for broker, low, high in wanted if low <= x <= high)
    world.run(8.0)
    assert {broker: len(world.received(f"user of {broker}")) for broker in expected} == dict(expected)


def outcome_of(seed: int, kinds: tuple[str, ...] = EVERYTHING) -> ExperimentOutcome:
    plan = Plan(subscriptions=7, events=50, rate=2.5, churn=0.15, publishers=3, leave=True)
    return run_experiment(
        Experiment(
            system="qns", seed=seed, brokers=6, fan_out=3, workload="rectangles", plan=plan, incidents=14,
            kinds=kinds, check=True, bytes=True,
        )
    )  # fmt: skip


def judge(seeds: range) -> None:
    delivered = 0
    for seed in seeds:
        outcome = outcome_of(seed, HARMLESS if seed % 3 == 0 else EVERYTHING)
        assert outcome.report is not None
        assert outcome.report.holds, f"seed {seed}: {outcome.report.story}"
        delivered += outcome.delivered
    assert delivered > 10 * len(seeds), "there was something to tell"


def test_no_seed_breaks_a_promise() -> None:
    judge(range(12))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 1100, 100))
def test_no_seed_of_a_thousand_breaks_a_promise(first: int) -> None:
    judge(range(first, first + 100))
