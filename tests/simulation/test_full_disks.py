"""Full disks in the simulator: publishers are answered at once, deliveries go on, and it ends by itself."""

from __future__ import annotations

from functools import partial

import pytest

from tidings.history.check import check
from tidings.protocol.node import Node
from tidings.simulation.faults import DISK_FULL, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line, mesh
from tidings.simulation.world import World


def full(world: World, broker: str, at: float, until: float) -> None:
    incident = Incident(kind=DISK_FULL, at=at, until=until, nodes=(broker,))
    world.simulation.call_at(at, partial(world.simulation.begin, incident))
    world.simulation.call_at(until, partial(world.simulation.end, incident))


def publish_every(world: World, client: str, seconds: float, begin: float, end: float) -> None:
    for number in range(int((end - begin) / seconds)):
        world.simulation.call_at(
            begin + number * seconds, partial(world.publish, client, {"x": number + 1}, lifetime=100.0)
        )


def node_at(world: World, broker: str) -> Node:
    node = world.simulation.hosts[broker].machine
    assert isinstance(node, Node)
    return node


def outcomes(world: World, client: str) -> tuple[set[str], dict[str, int]]:
    """The ids that were acknowledged, and how many publishes failed, by the code of the answer."""
    codes: dict[str, int] = {}
    for failure in world.applications[client].failures:
        codes[failure.code] = codes.get(failure.code, 0) + 1
    return {receipt.id for receipt in world.applications[client].receipts}, codes


@pytest.mark.parametrize("broker", ["b0", "b1"])
def test_what_a_full_disk_acknowledged_arrives_and_what_it_refused_never_does(broker: str) -> None:
    """p publishes at b0; the full disk is that of the publisher's broker, or of one on the way."""
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True))
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    full(world, broker, 4.0, 9.0)
    publish_every(world, "p", 0.25, 3.0, 12.0)
    world.run(8.9)
    assert (node_at(world, broker).disk_full is not None) == (broker == "b0")
    acknowledged, codes = outcomes(world, "p")
    assert len(acknowledged) + sum(codes.values()) == 24, "each was answered though the disk is full"
    world.run(40.0)
    acknowledged, codes = outcomes(world, "p")
    received = {id for _, id in world.received("s")}
    assert acknowledged <= received
    assert len(received - acknowledged) <= codes.get("unknown", 0), "a publish that was refused was told"
    assert (codes.get("full", 0) > 10) == (broker == "b0")
    assert node_at(world, broker).disk_full is None
    assert len(world.received("s")) == len(received)
    report = check(world.rows, t_sub=1.0, t_diff=15.0)
    assert report.holds, report.story


@pytest.mark.parametrize("broker", ["b0", "b1", "b2"])
def test_a_group_goes_on_with_the_full_disk_of_one_member(broker: str) -> None:
    world = World("tidings-group", mesh(3), seed=2, settings=SimulationSettings(check=True))
    world.run(3.0)
    for host in range(3):
        world.add_client(f"s{host}", f"b{host}")
    for host in range(3):
        world.add_client(f"p{host}", f"b{host}")
    world.run(4.0)
    for host in range(3):
        world.subscribe(f"s{host}", "all", "x > 0", durable=True)
    world.run(6.0)
    full(world, broker, 7.0, 14.0)
    for host in range(3):
        publish_every(world, f"p{host}", 0.5, 6.5 + host / 10, 18.0)
    world.run(13.9)
    for host in range(3):
        acknowledged, codes = outcomes(world, f"p{host}")
        assert len(acknowledged) + sum(codes.values()) >= 14, "each was answered though one disk is full"
    world.run(60.0)
    answers = [outcomes(world, f"p{host}") for host in range(3)]
    acknowledged = set().union(*(acked for acked, _ in answers))
    assert len(acknowledged) > 40
    unsure = sum(codes.get("unknown", 0) for _, codes in answers)
    for host in range(3):
        received = {id for _, id in world.received(f"s{host}")}
        assert acknowledged <= received
        assert len(received - acknowledged) <= unsure
        assert len(world.received(f"s{host}")) == len(received)


@pytest.mark.parametrize("fulls", [("b1", "b2"), ("b0", "b2")])
def test_a_group_whose_majority_is_full_answers_every_publisher(fulls: tuple[str, str]) -> None:
    """Found from outside: publishes at the member with room waited for ever, and it was ready."""
    world = World("tidings-group", mesh(3), seed=3, settings=SimulationSettings(check=True))
    world.run(3.0)
    for host in range(3):
        world.add_client(f"s{host}", f"b{host}")
        world.add_client(f"p{host}", f"b{host}")
    world.run(4.0)
    for host in range(3):
        world.subscribe(f"s{host}", "all", "x > 0", durable=True)
    world.run(6.0)
    for broker in fulls:
        full(world, broker, 7.0, 14.0)
    for host in range(3):
        publish_every(world, f"p{host}", 0.5, 6.5 + host / 10, 18.0)
    world.run(13.9)
    assert all(node_at(world, f"b{host}").disk_full is not None for host in range(3))
    for host in range(3):
        acknowledged, codes = outcomes(world, f"p{host}")
        assert len(acknowledged) + sum(codes.values()) == 15, "each was answered"
        assert codes["full"] > 8
    world.run(60.0)
    assert all(node_at(world, f"b{host}").disk_full is None for host in range(3))
    answers = [outcomes(world, f"p{host}") for host in range(3)]
    acknowledged = set().union(*(acked for acked, _ in answers))
    assert len(acknowledged) >= 24, "those before and those after, by themselves"
    unsure = sum(codes.get("unknown", 0) for _, codes in answers)
    for host in range(3):
        received = [id for _, id in world.received(f"s{host}")]
        assert acknowledged <= set(received)
        assert len(received) == len(set(received))
        assert len(set(received) - acknowledged) <= unsure, "a publish that was refused was delivered"


def test_a_new_durable_subscription_that_was_on_its_way_to_a_full_disk_is_refused_and_leaves_nothing() -> (
    None
):
    world = World("tidings", line(2), seed=3, settings=SimulationSettings(check=True, disk_seconds=0.5))
    for client, broker in {"p": "b0", "s": "b0", "t": "b0"}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    full(world, "b0", 3.0, 8.0)
    world.simulation.call_at(3.1, partial(world.publish, "p", {"x": 1}))
    world.simulation.call_at(3.2, partial(world.subscribe, "t", "m", "x > 0", durable=True))
    world.run(6.0)
    assert [failure.code for failure in world.applications["t"].failures] == ["full"]
    world.run(12.0)
    assert [str(id) for id, _ in node_at(world, "b0").durables()] == ["s/n"]
    world.publish("p", {"x": 2})
    world.run(20.0)
    assert len(world.received("s")) == 2
    assert not world.received("t")


def test_an_event_that_has_to_follow_one_on_its_way_to_a_full_disk_is_refused_and_others_are_delivered() -> (
    None
):
    """Taken behind the earlier event of its source, it would get no answer while the disk is full."""
    world = World("tidings", line(1), seed=4, settings=SimulationSettings(check=True))
    for client in ("p", "q", "s"):
        world.add_client(client, "b0")
    world.subscribe("s", "n", "x > 0")
    world.run(3.0)
    full(world, "b0", 3.0, 8.0)
    world.publish("p", {"x": 1}, lifetime=100.0)
    world.run(4.0)
    world.publish("p", {"x": 2}, lifetime=100.0)
    world.publish("p", {"x": 3})
    world.publish("q", {"x": 4})
    world.run(7.0)
    assert [failure.code for failure in world.applications["p"].failures] == ["unknown", "full", "full"]
    assert len(world.applications["q"].receipts) == 1
    assert [source for source, _ in world.received("s")] == ["q"]
    world.run(12.0)
    world.publish("p", {"x": 5})
    world.run(15.0)
    assert [(source, id.rpartition("-")[2]) for source, id in world.received("s")] == [
        ("q", "1"),
        ("p", "1"),
        ("p", "4"),
    ]
