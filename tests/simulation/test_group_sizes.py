"""A group whose events are larger than a page, a batch or a window: nothing is taken for the end of a log
that is not.

All messages pass through the real codec with its frame limit. The limits are those of a broker divided by 64,
so that events of 300 bytes to 240 kB stand for those of 20 kB to 15 MB. Disks are replaced when the member
before has reported that it caught up.
"""

from __future__ import annotations

from functools import partial

import pytest

from tidings.protocol.limits import ResourceLimits
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import mesh
from tidings.simulation.world import World
from tidings.systems import Site, find_system
from tidings.wire.codec import Codec

LIMITS = ResourceLimits(
    frame_bytes=256 << 10, envelope_bytes=4 << 10, batch_bytes=16 << 10, page_bytes=8 << 10,
    window_bytes=128 << 10, window_count=256, page_count=64, batch_count=64,
)  # fmt: skip
SIZES = [(300, 400), (1_600, 200), (15_000, 60), (250_000, 12)]
MEMBERS = ("b0", "b1", "b2")


def group(seed: int = 5, limits: ResourceLimits = LIMITS) -> World:
    slots = find_system("tidings-group").build(Site(name="b0", brokers=MEMBERS), None).slots  # type: ignore[arg-type]
    declared = tuple(message for slot in slots.values() for message in slot.messages)
    codec = Codec(declared, max_frame_bytes=limits.frame_bytes)
    settings = SimulationSettings(check=True, codec=codec)
    world = World("tidings-group", mesh(3), seed=seed, settings=settings, limits=limits)
    world.simulation.plan_rough()
    world.run(3.0)
    return world


def publish(world: World, client: str, count: int, size: int) -> None:
    for number in range(count):
        payload = bytes([number % 256]) * size
        world.publish(client, {"x": number}, payload=payload, lifetime=10_000.0)


def crash(world: World, name: str) -> None:
    world.simulation.crash(name)
    world.simulation.notice(name)


def figures(world: World, name: str) -> dict[str, int]:
    node = dict(world.nodes())[name]
    return node.figures()  # type: ignore[no-any-return]


def entries(world: World) -> dict[str, int]:
    return {name: figures(world, name)["entries"] for name in MEMBERS}


def run_until_caught_up(world: World, name: str, seconds: float = 60.0) -> None:
    end = world.simulation.now + seconds
    while not figures(world, name)["group caught up"]:
        assert world.simulation.now < end, f"{name} does not report that it caught up"
        world.run(world.simulation.now + 0.25)


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_a_member_that_was_away_holds_everything(size: int, count: int) -> None:
    world = group()
    world.add_client("p", "b0")
    crash(world, "b2")
    world.run(8.0)
    publish(world, "p", count, size)
    world.run(40.0)
    assert len(world.applications["p"].receipts) == count
    world.simulation.restart("b2")
    world.run(world.simulation.now + 2.0)
    run_until_caught_up(world, "b2")
    assert entries(world) == dict.fromkeys(MEMBERS, count)


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_every_disk_may_be_replaced_one_after_the_other(size: int, count: int) -> None:
    world = group()
    world.add_client("p", "b0")
    world.run(4.0)
    publish(world, "p", count, size)
    world.run(40.0)
    assert len(world.applications["p"].receipts) == count
    for name in ("b2", "b0", "b1"):
        crash(world, name)
        world.run(world.simulation.now + 5.0)
        world.simulation.restart(name, keep_disk=False)
        world.run(world.simulation.now + 2.0)
        run_until_caught_up(world, name)
    assert entries(world) == dict.fromkeys(MEMBERS, count)


@pytest.mark.parametrize("seed", range(3))
def test_a_group_goes_on_after_its_coordinator_died_with_much_in_flight(seed: int) -> None:
    """Far more than a batch is on its way at a member when the coordinator, which stood still, is gone."""
    world = group(seed)
    world.add_client("p", "b1")
    world.run(4.0)
    world.simulation.stop("b0")
    publish(world, "p", 300, 2_000)
    world.run(4.5)
    world.simulation.resume("b0")
    crash(world, "b0")
    world.run(30.0)
    assert len(world.applications["p"].receipts) == 300
    assert {entries(world)[name] for name in ("b1", "b2")} == {300}


def test_a_tail_larger_than_a_batch_passes_to_the_next_coordinator() -> None:
    """Its entries are with every member and committed nowhere: each hand-over goes in parts."""
    world = group()
    for position, name in enumerate(MEMBERS):
        world.add_client(f"p{position}", name)
    world.run(4.0)
    for position in range(3):
        publish(world, f"p{position}", 100, 2_000)
    for at in (4.011, 4.013):  # before anything that was sent is acknowledged
        world.simulation.call_at(at, partial(world.simulation.stop, "b2"))
    world.simulation.call_at(4.014, partial(crash, world, "b0"))
    world.simulation.call_at(6.0, partial(world.simulation.resume, "b2"))
    world.simulation.call_at(6.0, partial(world.simulation.resume, "b2"))
    world.simulation.call_at(9.0, partial(world.simulation.restart, "b0"))
    world.run(60.0)
    assert [len(world.applications[f"p{position}"].receipts) for position in range(3)] == [100, 100, 100]
    assert entries(world) == dict.fromkeys(MEMBERS, 300)
    assert world.simulation.sent["TailAsk"] > 1


def test_no_message_of_a_group_is_larger_than_a_batch_and_one_event() -> None:
    sizes: list[int] = []
    world = group()
    codec = world.simulation.settings.codec
    assert codec is not None
    encode = codec.encode
    codec.encode = lambda message: (sizes.append(len(frame := encode(message))), frame)[1]  # type: ignore[method-assign, func-returns-value]
    world.add_client("p", "b1")
    crash(world, "b2")
    world.run(8.0)
    publish(world, "p", 200, 3_000)
    world.run(30.0)
    world.simulation.restart("b2", keep_disk=False)
    world.run(60.0)
    assert entries(world) == dict.fromkeys(MEMBERS, 200)
    assert max(sizes) <= LIMITS.batch_bytes + LIMITS.envelope_bytes
