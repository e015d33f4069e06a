"""Seeds of `tidings-group`: what was acknowledged is heard by every durable subscriber, once and in order.

The oracle is the dumbest there is: each subscriber wants everything, so it has to hear exactly what was
published, the events of each publisher in the order of their numbers, through crashes, partitions, stops,
loss and clocks.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

import pytest

from tidings.history.check import check
from tidings.model.event import make_event
from tidings.protocol.effects import Send
from tidings.protocol.inputs import LinkUp, PersistFailed, Received
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Hello, Publish
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultMix, drawn
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, mesh
from tidings.simulation.world import World
from tidings.store.memory import MemoryStore
from tidings.testing.seeds import EVERYTHING

KINDS = tuple(kind for kind in EVERYTHING if kind != fault.DISK_LOSS)
SECONDS, CALM = 30.0, 60.0


def run(seed: int, *, size: int = 5, kinds: tuple[str, ...] = KINDS, incidents: int = 12) -> World:
    world = World("tidings-group", mesh(size), seed=seed, settings=SimulationSettings(check=True))
    world.run(3.0)
    for position in range(size):
        world.add_client(f"s{position}", f"b{position}")
    for position in range(2):
        world.add_client(f"p{position}", f"b{position}")
    world.run(4.0)
    for position in range(size):
        world.subscribe(f"s{position}", "all", "EXISTS x", durable=True)
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
    for position in range(size):
        received = world.received(f"s{position}")
        assert len(received) == len(set(received)), f"s{position} was told something twice"
        assert set(received) == acked, f"s{position} misses {len(acked - set(received))}"
        for source in ("p0", "p1"):
            numbers = [int(id.rpartition("-")[2]) for who, id in received if who == source]
            assert numbers == sorted(numbers), f"s{position} heard {source} out of order"
    report = check(world.rows, contract="UARC")
    assert report.verdicts["view_agreement"].holds, report.verdicts["view_agreement"].story
    ends = {node.slots["recovery"].committed for _, node in world.nodes()}
    assert ends == {len(acked)}, "all members have the same log"


@pytest.mark.parametrize("seed", [0, 1, 2, 113])  # 113: a member that missed what the others had committed
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
    """Two of five, one after the other: each copies the log from the others, with what was
    published before."""
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
    numbers = [int(id.rpartition("-")[2]) for _, id in world.received("s")]
    assert numbers == list(range(1, 41))
    assert len(world.applications["p"].receipts) == 40
    assert {node.slots["recovery"].committed for _, node in world.nodes()} == {40}


def test_one_disk_may_be_put_back_to_an_older_copy() -> None:
    """Found from outside: b2's older copy and b1, which was away, were a majority without what b0
    and b2 had."""
    world = small(seed=6)
    world.add_client("p", "b0")
    world.run(4.0)
    published(world, "p", 5, lifetime=1000.0)
    host = world.simulation.hosts["b2"]
    crash(world, "b2")
    assert isinstance(host.disk, MemoryStore)
    copy = MemoryStore(deepcopy(host.disk.disk))
    world.simulation.restart("b2")
    world.run(15.0)
    crash(world, "b1")
    world.run(20.0)
    published(world, "p", 20, lifetime=1000.0)
    assert len(world.applications["p"].receipts) == 25
    crash(world, "b2")
    crash(world, "b0")
    host.disk = copy
    world.simulation.restart("b1")
    world.simulation.restart("b2")
    world.run(world.simulation.now + 15.0)
    assert not any(node.is_serving for name, node in world.nodes() if name != "b0"), (
        "b1 and b2 lack what was acknowledged"
    )
    world.simulation.restart("b0")
    world.run(world.simulation.now + 15.0)
    assert entries(world) == dict.fromkeys(("b0", "b1", "b2"), 25)
    assert all(node.has_caught_up for _, node in world.nodes())


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


def small(size: int = 3, *, seed: int = 5, limits: ResourceLimits = DEFAULT_LIMITS, **log: float) -> World:
    world = World(
        "tidings-group", mesh(size), seed=seed, settings=SimulationSettings(check=True), options={"log": log},
        limits=limits,
    )  # fmt: skip
    world.simulation.plan_rough()
    world.run(3.0)
    return world


def published(world: World, client: str, count: int, **fields: float) -> None:
    for number in range(count):
        world.publish(client, {"x": number}, **fields)
    world.run(world.simulation.now + 3.0)


def entries(world: World) -> dict[str, int]:
    return {name: len(node.slots["delivery"]._index.entries) for name, node in world.nodes()}


def test_a_newcomer_copies_the_log_page_by_page() -> None:
    world = small(limits=ResourceLimits(page_count=8))
    world.add_client("p", "b0")
    world.run(4.0)
    published(world, "p", 50, lifetime=1000.0)
    crash(world, "b2")
    world.run(10.0)
    world.simulation.restart("b2", keep_disk=False)
    world.run(20.0)
    assert entries(world) == {"b0": 50, "b1": 50, "b2": 50}
    published(world, "p", 1, lifetime=1000.0)
    assert {node.slots["recovery"].committed for _, node in world.nodes()} == {51}


def test_what_nobody_needs_is_forgotten_everywhere_and_what_somebody_needs_nowhere() -> None:
    world = small(keep_seconds=5.0)
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.run(4.0)
    world.subscribe("s", "all", "EXISTS x", durable=True)
    world.run(5.0)
    published(world, "p", 20)
    assert entries(world) == {"b0": 20, "b1": 20, "b2": 20}, "for those who fail over"
    world.run(30.0)
    published(world, "p", 1)
    world.run(60.0)
    assert set(entries(world).values()) <= {0, 1}
    for a, b in [pair for pair in world.simulation.links if "s" in pair]:  # the subscriber is away
        world.simulation.disconnect(a, b)
    world.simulation.crash("s")
    world.run(62.0)
    published(world, "p", 20)
    world.run(120.0)
    assert min(entries(world).values()) >= 20, "each member keeps what a subscription at another one needs"


def test_entries_that_a_group_finds_on_its_disks_are_kept_as_long_as_new_ones() -> None:
    """All members restart: the age of an entry is not known then, so none is old."""
    world = small(keep_seconds=20.0)
    world.add_client("p", "b0")
    world.run(4.0)
    published(world, "p", 5)
    for name in ("b0", "b1", "b2"):
        crash(world, name)
    world.run(8.0)
    for name in ("b0", "b1", "b2"):
        world.simulation.restart(name)
    world.run(20.0)
    assert entries(world) == {"b0": 5, "b1": 5, "b2": 5}


def test_a_publish_that_everybody_has_forgotten_is_answered_and_told_nobody_again() -> None:
    """Its acknowledgement was lost; its event is in no log any more; the member that is asked has an empty
    disk."""
    world = small(keep_seconds=1.0)
    world.add_client("p", "b0")
    world.add_client("s", "b1")
    world.run(4.0)
    world.subscribe("s", "all", "EXISTS x", durable=True)
    world.run(5.0)
    published(world, "p", 3)
    world.run(40.0)
    published(world, "p", 1)
    world.run(80.0)
    crash(world, "b2")
    world.run(90.0)
    world.simulation.restart("b2", keep_disk=False)
    world.run(100.0)
    publisher: Any = world.simulation.hosts["p"].machine
    again = Publish(7000, make_event({"x": 0}, source="p", id=f"{publisher.incarnation}-1"), 1)
    node = world.simulation.hosts["b2"].machine
    node.handle(LinkUp("q"), world.simulation.now)
    node.handle(Received("q", Hello("p", publisher.incarnation)), world.simulation.now)
    answers = node.handle(Received("q", again), world.simulation.now)
    assert [type(effect.message).__name__ for effect in answers] == ["Published"]
    world.run(110.0)
    assert len(world.received("s")) == 4


def test_a_publish_that_was_passed_on_is_unknown_at_a_member_whose_disk_has_failed() -> None:
    """Seed 2522 of the wide world: it was refused as not kept, and the others committed it."""
    world = small()
    node = world.simulation.hosts["b2"].machine
    now = world.simulation.now
    node.handle(LinkUp("q"), now)
    node.handle(Received("q", Hello("q", "life")), now)
    passed_on, new = (
        Publish(number, make_event({"x": number}, source="q", id=f"life-{number}"), number)
        for number in (1, 2)
    )
    sent = [
        effect.message for effect in node.handle(Received("q", passed_on), now) if isinstance(effect, Send)
    ]
    assert [type(message).__name__ for message in sent] == ["Propose"]
    node.handle(PersistFailed(1, "store", "input/output error"), now)
    codes = []
    for publish in (passed_on, new):
        (answer,) = node.handle(Received("q", publish), now)
        codes.append(answer.message.code)
    assert codes == ["unknown", "store"]


@pytest.mark.parametrize("home_is_up", [True, False], ids=["home up", "home down"])
def test_a_durable_subscriber_without_its_token_goes_on_at_another_member(home_is_up: bool) -> None:
    """Its process ended, and the next one finds another member. While its home is up nothing is lost."""
    world = small(5)
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.run(4.0)
    world.subscribe("s", "all", "EXISTS x", durable=True)
    world.run(5.0)
    published(world, "p", 5)
    first = world.received("s")
    for a, b in [pair for pair in world.simulation.links if "s" in pair]:
        world.simulation.disconnect(a, b)
    world.simulation.crash("s")
    published(world, "p", 5)
    if not home_is_up:
        crash(world, "b2")
        world.run(world.simulation.now + 5.0)
    del world.simulation.hosts["s"]
    world.overlay = OverlayGraph(("b3", "b4", "b0", "b1", "b2"), world.overlay.links)
    world.add_client("s", "b3")
    world.run(world.simulation.now + 1.0)
    world.subscribe("s", "all", "EXISTS x", durable=True)
    world.run(world.simulation.now + 3.0)
    published(world, "p", 2)
    received = first + world.received("s")
    numbers = [int(id.rpartition("-")[2]) for _, id in received]
    assert numbers == (list(range(1, 13)) if home_is_up else [1, 2, 3, 4, 5, 11, 12])
    stored = [name for name, node in world.nodes() if node.slots["delivery"].subscriptions()]
    assert stored == ["b3"] if home_is_up else "b3" in stored
