"""Seeds of `tidings-group`: what was acknowledged is heard by every durable subscriber, once and in order.

The oracle is the dumbest there is: each subscriber wants everything, so it has to hear exactly what was published,
the events of each publisher in the order of their numbers, through crashes, partitions, stops, loss and clocks.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from tests.simulation._seeds import EVERYTHING

from tidings.history.check import check
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultMix, drawn
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import mesh
from tidings.simulation.world import World

KINDS = tuple(kind for kind in EVERYTHING if kind != fault.DISK_LOSS)
SECONDS, CALM = 30.0, 60.0


def run(seed: int, *, size: int = 5, kinds: tuple[str, ...] = KINDS, incidents: int = 12) -> World:
    world = World("tidings-group", mesh(size), seed=seed, settings=SimulationSettings(check=True))
    world.run(3.0)
    for place in range(size):
        world.add_client(f"s{place}", f"b{place}")
    for place in range(2):
        world.add_client(f"p{place}", f"b{place}")
    world.run(4.0)
    for place in range(size):
        world.subscribe(f"s{place}", "all", "EXISTS x", durable=True)
    world.run(6.0)
    rng = Random(f"{seed}/incidents")
    plan = drawn(world.overlay, rng, until=SECONDS, mix=FaultMix(kinds=kinds, incidents=incidents))
    for incident in plan.incidents:
        world.simulation.call_at(6.0 + incident.at, partial(world.simulation.begin, incident))
        world.simulation.call_at(6.0 + incident.until, partial(world.simulation.end, incident))
    world.simulation.plan_rough()
    for number in range(int(SECONDS * 4)):
        world.simulation.call_at(6.0 + number / 4, partial(world.publish, f"p{number % 2}", {"x": number}))
    world.run(6.0 + SECONDS + CALM)
    return world


def judge(world: World, *, size: int = 5) -> None:
    acked = {(r.source, r.id) for app in world.applications.values() for r in app.receipts}
    assert len(acked) == SECONDS * 4, "in the end everything is acknowledged"
    for place in range(size):
        heard = world.heard(f"s{place}")
        assert len(heard) == len(set(heard)), f"s{place} was told something twice"
        assert set(heard) == acked, f"s{place} misses {len(acked - set(heard))}"
        for source in ("p0", "p1"):
            numbers = [int(id.rpartition("-")[2]) for who, id in heard if who == source]
            assert numbers == sorted(numbers), f"s{place} heard {source} out of order"
    report = check(world.rows, contract="UARC")
    assert report.verdicts["view_agreement"].holds, report.verdicts["view_agreement"].story
    ends = {node.slots["recovery"].committed for _, node in world.nodes()}
    assert ends == {len(acked)}, "all members have the same log"


@pytest.mark.parametrize("seed", range(4))
def test_a_group_loses_nothing_and_tells_nothing_twice(seed: int) -> None:
    judge(run(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_a_group_loses_nothing_in_many_seeds(seed: int) -> None:
    judge(run(seed))


def crash(world: World, name: str) -> None:
    world.simulation.crash(name)
    world.simulation.notice(name)


def test_a_minority_of_disks_may_be_lost_for_good() -> None:
    """Two of five, one after the other: each copies the log from the others, with what was published before."""
    world = World("tidings-group", mesh(5), seed=3, settings=SimulationSettings(check=True))
    world.run(3.0)
    world.add_client("p", "b0")
    world.add_client("s", "b4")
    world.run(4.0)
    world.subscribe("s", "all", "EXISTS x", durable=True)
    for number in range(40):
        world.simulation.call_at(5.0 + number / 4, partial(world.publish, "p", {"x": number}))
    for at, name in ((6.0, "b0"), (9.0, "b4")):
        world.simulation.call_at(at, partial(crash, world, name))
        world.simulation.call_at(at + 1, partial(world.simulation.restart, name, keep_disk=False))
    world.run(40.0)
    numbers = [int(id.rpartition("-")[2]) for _, id in world.heard("s")]
    assert numbers == list(range(1, 41))
    assert len(world.applications["p"].receipts) == 40
    assert {node.slots["recovery"].committed for _, node in world.nodes()} == {40}


def test_a_minority_acknowledges_nothing() -> None:
    world = World("tidings-group", mesh(5), seed=4, settings=SimulationSettings(check=True))
    world.simulation.plan_rough()
    world.run(3.0)
    world.add_client("p", "b0")
    world.run(4.0)
    for name in ("b2", "b3", "b4"):
        world.simulation.crash(name)
        world.simulation.notice(name)
    world.publish("p", {"x": 1})
    world.run(30.0)
    assert world.applications["p"].receipts == []
    for name in ("b2", "b3", "b4"):
        world.simulation.restart(name)
    world.run(60.0)
    assert len(world.applications["p"].receipts) == 1
