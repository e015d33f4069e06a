"""Cases of the network and of time, each by its name: how bad it may be, and that nothing is lost for it."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation._tidings import SETTLE, judge, play

from tidings.simulation.faults import (
    ISOLATE_ONE,
    PARTITION_HALVES,
    PARTITION_ONE_WAY,
    PARTITION_RING,
    FaultPlan,
    Incident,
    Rates,
    halves,
    isolated,
    ring_cut,
)
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line
from tidings.simulation.world import World

SECONDS = 12.0

RATES = {
    "loss-10": Rates(loss=0.1),
    "loss-20": Rates(loss=0.2),
    "loss-30": Rates(loss=0.3),
    "duplication-5": Rates(duplication=0.05),
    "reordering-20": Rates(reordering=0.2),
    "corruption-5": Rates(corruption=0.05),
    "all-together": Rates(loss=0.1, duplication=0.05, reordering=0.1, corruption=0.02),
}


@pytest.mark.parametrize("name", RATES)
def test_a_network_that_is_so_bad_loses_nothing(name: str) -> None:
    run = play(11, faults=lambda overlay, rng: FaultPlan(RATES[name], (), SECONDS))
    judge(run)


CUTS = {
    PARTITION_HALVES: lambda overlay, rng: halves(overlay.brokers, rng),
    PARTITION_RING: lambda overlay, rng: ring_cut(overlay.brokers),
    PARTITION_ONE_WAY: lambda overlay, rng: halves(overlay.brokers, rng)[::2],
    ISOLATE_ONE: lambda overlay, rng: isolated(rng.choice(overlay.brokers), overlay.brokers),
}


@pytest.mark.parametrize("kind", CUTS)
def test_a_partition_of_ten_seconds_loses_nothing(kind: str) -> None:
    def plan(overlay: OverlayGraph, rng: Random) -> FaultPlan:
        return FaultPlan(incidents=(Incident(kind=kind, at=0.5, until=10.5, cut=CUTS[kind](overlay, rng)),))

    run = play(12, faults=plan)
    assert run.world.simulation.fired[kind]
    judge(run)


@pytest.mark.parametrize("period", [0.2, 0.7, 2.0])
def test_a_link_that_flaps_loses_nothing(period: float) -> None:
    """Up and down, again and again, faster and slower than anybody notices."""

    def plan(overlay: OverlayGraph, rng: Random) -> FaultPlan:
        a, b = rng.choice(overlay.links)
        times = [n * period for n in range(int(SECONDS / period))]
        return FaultPlan(
            incidents=tuple(
                Incident(kind=ISOLATE_ONE, at=at, until=at + period / 2, cut=((a, b), (b, a))) for at in times
            )
        )

    judge(play(13, faults=plan))


def test_a_partition_that_never_ends_leaves_each_side_whole_and_neither_waits() -> None:
    """Each side hears its own; publishes are acknowledged on both; what is for the other side is kept."""
    world = World("tidings", line(4), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "s": "b1", "q": "b3", "t": "b2"}.items():
        world.add_client(client, broker)
    for client in ("s", "t"):
        world.subscribe(client, "n", "x > 0", durable=True)
    world.run(SETTLE)
    cut = Incident(kind=PARTITION_HALVES, at=0.0, until=0.0, cut=(("b1", "b2"), ("b2", "b1")))
    world.simulation.begin(cut)
    world.run(7.0)
    for x in range(1, 21):
        world.publish("p", {"x": x})
        world.publish("q", {"x": x})
        world.run(7.0 + x)
    world.run(400.0)
    for client in ("p", "q"):
        assert len(world.applications[client].receipts) == 20
    assert {source for source, _ in world.received("s")} == {"p"}
    assert {source for source, _ in world.received("t")} == {"q"}
    assert len(world.received("s")) == len(world.received("t")) == 20
    kept = {name: node.slots["delivery"].figures()["entries"] for name, node in world.nodes()}
    assert kept == {"b0": 20, "b1": 0, "b2": 0, "b3": 20}, "kept for those who may come back"
    world.simulation.end(cut)
    world.run(450.0)
    assert len(set(world.received("s"))) == len(world.received("s")) == 40


@pytest.mark.parametrize("seconds", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("broker", ["b0", "b1", "b2"], ids=["publishers", "middle", "subscribers"])
def test_a_stopped_broker_that_resumes_with_old_news_misleads_nobody(seconds: float, broker: str) -> None:
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True))
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(SETTLE)
    for x in range(1, 4):
        world.publish("p", {"x": x})
    world.simulation.stop(broker)
    world.run(SETTLE + seconds / 2)
    for x in range(4, 7):
        world.publish("p", {"x": x})
    world.run(SETTLE + seconds)
    world.simulation.resume(broker)
    world.run(SETTLE + seconds + 60.0)
    assert [int(id.rpartition("-")[2]) for _, id in world.received("s")] == [1, 2, 3, 4, 5, 6]
