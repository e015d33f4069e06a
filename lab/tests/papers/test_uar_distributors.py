"""UAR-1 to UAR-10 (Mathur et al. 1995): services, views of subscribers, multicast, stability, hierarchies."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tidings.history.check import check
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, mesh
from tidings.simulation.world import World
from tidings_lab.studies import distributors as study


def group(size: int = 4, *, seed: int = 1, **options: Any) -> World:
    world = World("uarc", mesh(size), seed=seed, settings=SimulationSettings(check=True), options=options)
    world.simulation.plan_rough()
    world.run(3.0)
    return world


def clients(world: World, **at: str) -> None:
    for name, broker in at.items():
        world.add_client(name, broker)
    world.run(world.simulation.now + 0.5)


def wait(world: World, seconds: float = 2.0) -> None:
    world.run(world.simulation.now + seconds)


def node(world: World, name: str) -> Any:
    return world.simulation.hosts[name].machine


def client(world: World, name: str) -> Any:
    return world.simulation.hosts[name].machine


def crash(world: World, name: str) -> None:
    world.simulation.crash(name)
    world.simulation.notice(name)


def numbers(world: World, name: str) -> list[int]:
    return [int(id.rpartition("-")[2]) for _, id in world.received(name)]


def judge(world: World, contract: str = "UARC, gap") -> None:
    report = check(world.rows, contract=contract)
    assert report.holds, report.story


def test_uar_3_a_service_is_publicised_and_each_distributor_opens_an_empty_view() -> None:
    from tidings.simulation.workloads import AdvertiseStep

    world = group(3)
    clients(world, pub="b0", s="b2")
    world.do(AdvertiseStep(at=0.0, client="pub", name="weather", filter="topic = 'weather'"))
    wait(world)
    services = {name: each.slots["routing"].services for name, each in world.nodes()}
    assert all(list(found) == ["topic = 'weather'"] for found in services.values())
    assert [found["topic = 'weather'"].creator for found in services.values()] == ["pub", None, None]
    assert all(not found["topic = 'weather'"].subscribers for found in services.values())
    world.subscribe("s", "n", "topic = 'weather'")
    wait(world)
    known = {
        name: len(each.slots["routing"].services["topic = 'weather'"].subscribers)
        for name, each in world.nodes()
    }
    assert known == {"b0": 0, "b1": 0, "b2": 1}, "who subscribes is known to its own distributor alone"


def test_uar_3_a_distributor_that_joins_later_hears_of_the_services() -> None:
    from tidings.simulation.workloads import AdvertiseStep

    world = group(3)
    clients(world, pub="b0")
    world.do(AdvertiseStep(at=0.0, client="pub", name="weather", filter="topic = 'weather'"))
    wait(world)
    crash(world, "b2")
    wait(world, 5.0)
    world.simulation.restart("b2", keep_disk=False)
    wait(world, 10.0)
    assert list(node(world, "b2").slots["routing"].services) == ["topic = 'weather'"]


def test_uar_6_on_failure_the_next_of_the_list_is_tried() -> None:
    world = group(4)
    clients(world, pub="b1", s="b0")
    world.subscribe("s", "n", "x > 0")
    wait(world)
    crash(world, "b0")
    wait(world, 6.0)
    assert client(world, "s").broker == "b1"
    world.publish("pub", {"x": 1})
    wait(world)
    assert len(world.received("s")) == 1
    judge(world)


def test_uar_6_a_stale_list_is_fetched_again() -> None:
    """Everybody on the list is gone but the one that came back; the list is fetched until one of
    it answers."""
    world = group(5)
    clients(world, s="b0")
    world.subscribe("s", "n", "x > 0")
    wait(world)
    for name in ("b0", "b1"):
        crash(world, name)
    client(world, "s")._list = ["b0", "b1"]  # what it knows is stale
    wait(world, 15.0)
    roamer = client(world, "s")
    assert roamer.fetches >= 1
    assert roamer.broker in ("b2", "b3", "b4")


@pytest.mark.parametrize("mode", ["gap", "no-gap"])
def test_uar_6_suspected_wrongly_two_serve_and_each_event_is_heard_once(mode: str) -> None:
    world = group(4, mode=mode)
    clients(world, pub="b3", s="b0")
    world.subscribe("s", "n", "x > 0")
    wait(world)
    roamer = client(world, "s")
    link = world.simulation.links[("b0", "s")]
    link.seconds = 6.0  # its distributor is slow, not dead
    for number in range(60):
        world.publish("pub", {"x": number + 1})
        wait(world, 0.25)
        if number == 30:
            link.seconds = 0.001
    wait(world, 30.0)
    assert roamer.fail_overs >= 1
    assert roamer.received_twice >= 1, "both served it for a while"
    received = numbers(world, "s")
    assert received == sorted(set(received)), "once, in order"
    assert roamer._older == set(), "one connection remains"
    served = [name for name, each in world.nodes() if each.slots["delivery"].subscriptions()]
    assert served == [roamer.broker]
    judge(world, "UARC" if mode == "no-gap" else "UARC, gap")
    if mode == "no-gap":
        assert received == list(range(1, 61))


@pytest.mark.parametrize("seed", range(3))
def test_uar_4_a_publisher_fails_over_and_its_events_keep_their_order(seed: int) -> None:
    world = group(5, seed=seed, mode="no-gap")
    clients(world, pub="b0", s="b3")
    world.subscribe("s", "n", "x > 0")
    wait(world)
    start = world.simulation.now
    for number in range(100):
        world.simulation.call_at(start + number / 20, partial(world.publish, "pub", {"x": number + 1}))
    world.simulation.call_at(start + 2.0 + seed / 100, lambda: crash(world, "b0"))
    world.run(start + 25.0)
    assert numbers(world, "s") == list(range(1, 101))
    assert len(world.applications["pub"].receipts) == 100
    judge(world, "UARC")


def test_uar_8_buffers_empty_when_all_is_quiet_and_survivors_have_the_same() -> None:
    world = group(4)
    clients(world, pub="b0", s1="b1", s2="b2", s3="b3")
    for name in ("s1", "s2", "s3"):
        world.subscribe(name, "n", "x > 0")
    wait(world)
    for other in ("b2", "b3"):  # the multicast reaches b1 alone, and its distributor dies
        world.simulation.links[("b0", other)].cut[("b0", other)] += 1
    world.publish("pub", {"x": 1})
    wait(world, 0.05)
    assert node(world, "b1").slots["recovery"].buffered == 1
    crash(world, "b0")
    wait(world, 10.0)
    assert [len(world.received(name)) for name in ("s1", "s2", "s3")] == [1, 1, 1]
    assert [node(world, name).slots["recovery"].buffered for name in ("b1", "b2", "b3")] == [0, 0, 0]


@pytest.mark.parametrize("mode", study.MODES)
def test_uar_10_gaps_after_a_crash(mode: str) -> None:
    found = study.gaps_of(mode, 10, 20.0, 2)
    assert found["twice"] == 0
    assert (found["missed"] > 0) is (mode == "gap")


@pytest.mark.parametrize("mode", study.MODES)
def test_uar_10_what_a_distributor_knows_of_subscribers(mode: str) -> None:
    found = study.state_of(mode, 30, 1)
    assert found["heard"] == 1.0
    assert found["others"] == (27.0 if mode == "no-gap" else 0.0)


@pytest.mark.parametrize("unstable", [1, 20])
def test_uar_9_virtual_synchrony_delays_the_view(unstable: int) -> None:
    assert study.view_seconds("weak", unstable, 1) < study.view_seconds("virtual", unstable, 1)


# -- more than two levels -------------------------------------------------------------------------


def levels() -> World:
    """Three distributors agree; under them two of a lower level, and one under those."""
    links = [("d0", "d1"), ("d0", "d2"), ("d1", "d2")]
    links += [("d0", "e0"), ("d1", "e0"), ("d1", "e1"), ("d2", "e1"), ("e0", "f0"), ("e1", "f0")]
    overlay = OverlayGraph(("d0", "d1", "d2", "e0", "e1", "f0"), tuple(links))
    above = {"e0": ["d0", "d1"], "e1": ["d1", "d2"], "f0": ["e0", "e1"]}
    world = World("uarc", overlay, settings=SimulationSettings(check=True), options={"above": above})
    world.simulation.plan_rough()
    world.run(3.0)
    return world


def test_uar_1_events_go_down_and_up_a_hierarchy() -> None:
    world = levels()
    clients(world, top="d2", low="f0", s0="d0", s1="e1", s2="f0")
    for name in ("s0", "s1", "s2"):
        world.subscribe(name, "n", "x > 0")
    wait(world)
    world.publish("top", {"x": 1})
    world.publish("low", {"x": 2})
    wait(world)
    assert [len(world.received(name)) for name in ("s0", "s1", "s2")] == [2, 2, 2]
    judge(world)


def test_uar_1_a_distributor_below_goes_to_another_one_above() -> None:
    world = levels()
    clients(world, top="d2", s="f0")
    world.subscribe("s", "n", "x > 0")
    wait(world)
    world.publish("top", {"x": 1})
    wait(world)
    crash(world, "e0")
    wait(world, 5.0)
    for number in range(3):
        world.publish("top", {"x": number + 2})
    wait(world, 5.0)
    assert numbers(world, "s") == [1, 2, 3, 4]
    judge(world)
