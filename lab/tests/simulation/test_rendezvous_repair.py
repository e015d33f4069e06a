"""What is lost mends: forwarders and rendezvous brokers go, a fifth of all nodes goes, newcomers come."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.protocol.inputs import Parted
from tidings.simulation.faults import FaultPlan, Rates

from ..simulation._rendezvous import MARGIN, SYSTEMS, Scene, Size

HEALED = 30.0  # seconds after which everything has to be right again
SIZE = Size(brokers=40, subscriptions=40)


def settled(system: str, seed: int, spared: int = 20, **options: Any) -> Scene:
    """A scene whose clients are at the first brokers only; everybody has subscribed."""
    scene = Scene(system, seed, SIZE, check=False, **options)
    scene.add_clients(SIZE.subscriptions, brokers=list(scene.world.overlay.brokers[:spared]))
    for number in range(SIZE.subscriptions):
        scene.subscribe(f"c{number}", scene.now + scene.rng.random())
    scene.run(3.0)
    return scene


def publish_some(scene: Scene, count: int = 40) -> None:
    for _ in range(count):
        scene.publish(f"c{scene.rng.randrange(SIZE.subscriptions)}", scene.now + scene.rng.random())
    scene.run(1.0 + 2 * MARGIN)


def vanish(scene: Scene, names: list[str]) -> None:
    for name in names:
        assert scene.world.simulation.crash(name)


def places(scene: Scene, *, roots: bool) -> list[str]:
    """The roots of trees, or the other brokers without subscribers that are in some tree."""
    found = []
    for name in scene.up()[20:]:
        trees = scene.node(name).slots["routing"].trees().values()
        if any((parent is None) is roots and children for parent, children, _ in trees):
            found.append(name)
    return found


@pytest.mark.parametrize("system", ["scribe", "hermes", "hermes-path"])
@pytest.mark.parametrize("roots", [False, True], ids=["forwarders", "rendezvous"])
def test_trees_mend_when_their_brokers_vanish(system: str, roots: bool) -> None:
    scene = settled(system, 1)
    victims = places(scene, roots=roots)
    assert victims
    publish_some(scene)
    vanish(scene, victims)
    scene.run(HEALED)
    publish_some(scene)
    assert scene.judge() > 200


def test_brokers_that_come_back_take_their_places_again() -> None:
    scene = settled("scribe", 1)
    victims = places(scene, roots=True)
    vanish(scene, victims)
    scene.run(HEALED)
    for name in victims:
        scene.world.simulation.restart(name)
    scene.run(10.0)
    publish_some(scene)
    assert scene.judge() > 100
    assert set(places(scene, roots=True)) == set(victims)


@pytest.mark.parametrize("system", SYSTEMS)
def test_deliveries_are_exact_again_after_a_fifth_of_the_nodes_vanished(system: str) -> None:
    scene = settled(system, 2)
    vanish(scene, Random(2).sample(scene.world.overlay.brokers[20:], 8))
    scene.run(HEALED)
    publish_some(scene)
    assert scene.judge() > 100


@pytest.mark.parametrize("system", SYSTEMS)
def test_newcomers_take_their_share_and_nothing_is_missed_once_they_are_in(system: str) -> None:
    scene = settled(system, 3)
    before = {name: scene.node(name).slots["routing"].table_size() for name in scene.up()}
    names = [f"new{number}" for number in range(20)]
    for name in names:
        scene.world.add_broker(name)
    scene.run(10.0)
    publish_some(scene)
    assert scene.judge() > 100
    took = sum(scene.node(name).slots["routing"].table_size() for name in names)
    assert took > 0, before


@pytest.mark.parametrize("system", SYSTEMS)
def test_with_loss_nobody_is_told_wrongly_or_twice_and_afterwards_all_is_heard(system: str) -> None:
    scene = settled(system, 4)
    scene.world.simulation.plan(FaultPlan(Rates(loss=0.2), rates_until=scene.now + 20.0))
    for number in range(10):
        scene.unsubscribe(f"c{number}", scene.now + scene.rng.random())
        scene.subscribe(f"c{number}", scene.now + 2.0)
    lossy = len(scene.published)
    publish_some(scene, 60)
    scene.run(17.0)
    received = scene.received()
    due, allowed = scene.expected()
    assert received.keys() <= allowed
    assert max(received.values()) == 1
    assert due - received.keys(), "with a fifth of all messages lost something is missed"
    scene.run(HEALED)
    scene.published = [
        (-1.0e9, drawn) for _, drawn in scene.published[: lossy + 60]
    ]  # nothing of these is due
    known = set(scene.received())
    publish_some(scene)
    due, allowed = scene.expected()
    later = set(scene.received()) - known
    assert due <= later <= allowed
    assert len(due) > 100


def test_brokers_that_say_farewell_are_no_leaves_any_more_at_once_and_not_missed_later() -> None:
    scene = settled("scribe", 5)
    for name in scene.up()[20:30]:
        scene.world.simulation.input(name, Parted(name))
        scene.run(0.1)
        vanish(scene, [name])
        for other in scene.up():
            leaves = scene.node(other).slots["overlay"].known.leaves()
            assert len(leaves) >= 16
            assert name not in leaves, "without waiting for answers"
    scene.run(HEALED)
    publish_some(scene)
    assert scene.judge() > 100


@pytest.mark.parametrize("system", ["scribe", "partitioned-elastic"])
def test_over_links_that_are_made_as_they_are_needed_it_is_the_same(system: str) -> None:
    scene = settled(system, 6, datagrams=False)
    publish_some(scene)
    assert scene.judge() > 100
    gone = scene.up()[20:28]
    vanish(scene, gone)
    for name in gone:
        scene.world.simulation.notice(name)
    scene.run(HEALED)
    publish_some(scene)
    assert scene.judge() > 200
    links = [len(scene.node(name).slots["overlay"].links()) for name in scene.up()]
    assert max(links) < 40, "to whom a broker speaks, and no others"
