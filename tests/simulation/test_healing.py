"""A broker is lost for good: its neighbours link with one another, and what the others acknowledged arrives.

Every subscription here is durable, so everything that a surviving broker has acknowledged is owed to every
surviving subscriber, once; what only the lost broker had is lost with it.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from tidings.protocol.inputs import Joined
from tidings.protocol.overlay.healing import HealingOverlay, places_to_ask
from tidings.simulation.faults import PARTITION_ONE_WAY, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line, random_tree, star
from tidings.simulation.world import World

HEAL = 2.0


class Losing:
    """A client at each broker that wants everything, durably; events are published all the time."""

    def __init__(self, overlay: OverlayGraph, seed: int = 1, heal: float = HEAL) -> None:
        self.rng = Random(f"losing/{seed}")
        self.overlay = overlay
        options = {"heal_seconds": heal}
        settings = SimulationSettings(check=True)
        self.world = World("tidings", overlay, seed=seed, settings=settings, options=options)
        self.simulation = self.world.simulation
        self.simulation.run(0.5)
        for name in overlay.brokers:
            self.world.add_client(f"at-{name}", name)
        self.simulation.run(1.0)
        for name in overlay.brokers:
            self.world.subscribe(f"at-{name}", "all", "x >= 0", durable=True)
        self.simulation.run(5.0)
        self.lost: set[str] = set()
        self.number = 0

    def publish_for(self, seconds: float, every: float = 0.05) -> None:
        end = self.simulation.now + seconds
        while self.simulation.now < end:
            at = self.rng.choice([name for name in self.overlay.brokers if name not in self.lost])
            self.world.publish(f"at-{at}", {"x": self.number})
            self.number += 1
            self.simulation.run(self.simulation.now + self.rng.uniform(0.0, 2 * every))

    def lose(self, name: str) -> None:
        self.lost.add(name)
        self.simulation.crash(name)
        self.simulation.notice(name)

    def lose_link(self, one: str, other: str) -> None:
        cut = ((one, other), (other, one))
        self.simulation.begin(Incident(kind=PARTITION_ONE_WAY, at=0, until=0, cut=cut))

    def away(self, name: str, seconds: float) -> None:
        self.simulation.crash(name)
        self.simulation.notice(name)
        self.simulation.call_at(self.simulation.now + seconds, partial(self.simulation.restart, name))

    def settle(self, seconds: float = 60.0) -> None:
        self.simulation.run(self.simulation.now + seconds)

    def overlay_of(self, name: str) -> HealingOverlay:
        machine: Any = self.simulation.hosts[name].machine
        found = machine.slots["overlay"]
        assert isinstance(found, HealingOverlay)
        return found

    def left(self) -> list[str]:
        return [name for name in self.overlay.brokers if name not in self.lost]

    def judge(self, *, without: str | None = None) -> None:
        """The survivors are a tree, and everybody (but one) heard once what any of them acknowledged."""
        left = self.left()
        links = set()
        for name in left:
            peers = self.overlay_of(name).neighbours
            assert set(peers) == set(self.overlay_of(name).links()), f"{name}: {peers}"
            links |= {(min(name, peer), max(name, peer)) for peer in peers}
        assert OverlayGraph(tuple(left), tuple(sorted(links))).is_tree, sorted(links)
        owed = {
            (receipt.source, receipt.id)
            for name in left
            for receipt in self.world.applications[f"at-{name}"].receipts
        }
        assert owed
        for name in left:
            received = self.world.received(f"at-{name}")
            assert len(received) == len(set(received)), f"{name} was told something twice"
            missing = owed - set(received) if name != without else set()
            assert not missing, f"{name} was not told {sorted(missing)[:5]} of {len(owed)}"


def test_whom_to_ask_when_a_broker_is_lost() -> None:
    assert places_to_ask(0) == []
    assert places_to_ask(1) == [0]
    assert places_to_ask(5) == [2, 0, 1, 3, 4]


def test_the_hub_of_a_star_is_lost() -> None:
    scene = Losing(star(6))
    scene.publish_for(3.0)
    scene.lose("b0")
    scene.publish_for(15.0)
    scene.settle()
    scene.judge()


@pytest.mark.parametrize("seed", range(4))
def test_any_broker_of_a_tree_is_lost(seed: int) -> None:
    rng = Random(seed)
    overlay = random_tree(8, rng, fan_out=4)
    inner = [name for name, others in overlay.neighbours().items() if len(others) > 1]
    scene = Losing(overlay, seed)
    scene.publish_for(2.0)
    scene.lose(rng.choice(inner))
    scene.publish_for(12.0)
    scene.settle()
    scene.judge()


@pytest.mark.parametrize("seed", range(2))
def test_another_broker_restarts_while_the_tree_heals(seed: int) -> None:
    rng = Random(seed)
    overlay = random_tree(8, rng, fan_out=4)
    table = overlay.neighbours()
    lost = max(table, key=lambda name: len(table[name]))
    scene = Losing(overlay, seed)
    scene.publish_for(2.0)
    scene.lose(lost)
    scene.publish_for(HEAL + 0.5)
    scene.away(rng.choice(table[lost]), 0.8)
    scene.publish_for(12.0)
    scene.settle()
    scene.judge()


def two_adjacent_are_lost(seed: int, every: float = 0.2) -> bool:
    """False: in this tree there are no two such, with others on both sides."""
    rng = Random(seed)
    overlay = random_tree(9, rng, fan_out=4)
    table = overlay.neighbours()
    inner = [link for link in overlay.links if all(len(table[end]) > 1 for end in link)]
    if not inner:
        return False
    scene = Losing(overlay, seed)
    scene.publish_for(1.5, every)
    for name in rng.choice(inner):
        scene.lose(name)
    scene.publish_for(12.0, every)
    scene.settle(90.0)
    scene.judge()
    return True


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_two_adjacent_brokers_are_lost_at_once(seed: int) -> None:
    assert two_adjacent_are_lost(seed)


def test_two_adjacent_brokers_are_lost_that_hold_a_line_together() -> None:
    """On either side there is one broker alone, with nobody of its own to ask."""
    scene = Losing(line(4))
    scene.publish_for(1.5)
    scene.lose("b1")
    scene.lose("b2")
    scene.publish_for(12.0, 0.2)
    scene.settle(90.0)
    scene.judge()


def a_link_is_lost(seed: int, every: float = 0.2) -> None:
    rng = Random(seed)
    overlay = random_tree(9, rng, fan_out=4)
    scene = Losing(overlay, seed)
    scene.publish_for(1.5, every)
    scene.lose_link(*rng.choice(overlay.links))
    scene.publish_for(12.0, every)
    scene.settle(90.0)
    scene.judge()
    assert sum(scene.overlay_of(name).healed for name in overlay.brokers) == 1


@pytest.mark.parametrize("seed", [0, 4, 8])
def test_a_link_is_lost_while_both_its_ends_are_well(seed: int) -> None:
    """To a leaf (0); between two that both look for a way round (4); with many behind both (8)."""
    a_link_is_lost(seed)


def test_a_link_that_comes_back_in_time_stays() -> None:
    scene = Losing(line(4), heal=4.0)
    scene.lose_link("b1", "b2")
    scene.publish_for(2.0, 0.2)
    link = scene.simulation.links[("b1", "b2")]
    link.cut.clear()
    scene.simulation.notice("b1")
    scene.settle()
    scene.judge()
    assert all(scene.overlay_of(name).healed == 0 for name in scene.overlay.brokers)


def test_a_leaf_that_is_lost_is_given_up() -> None:
    """Nobody has to be linked; but nothing is kept for it for ever."""
    scene = Losing(star(4))
    scene.publish_for(1.0)
    scene.lose("b3")
    scene.publish_for(2.0, 0.2)
    scene.settle(8 * HEAL)
    assert "b3" in scene.overlay_of("b0").neighbours  # it may only be slow, or look for a way round
    scene.settle(30.0)
    scene.judge()


def test_a_broker_that_only_restarts_is_not_replaced() -> None:
    scene = Losing(star(5), heal=4.0)
    scene.publish_for(1.0)
    scene.away("b0", 1.5)
    scene.settle(30.0)
    scene.publish_for(2.0)
    scene.settle(30.0)
    scene.judge()
    assert all(scene.overlay_of(name).healed == 0 for name in scene.overlay.brokers)


def test_a_lost_broker_that_comes_back_joins_anew() -> None:
    """All its old neighbours let it in at once; the cycles that this closes are undone. What others published
    while it was given up was not kept for its subscribers; all else is told to everybody, once."""
    scene = Losing(star(5))
    scene.publish_for(3.0, 0.1)
    scene.lose("b0")
    scene.publish_for(10.0, 0.1)
    scene.settle()
    scene.judge()
    scene.lost.clear()
    scene.simulation.restart("b0")
    scene.settle(5.0)
    for name in ("b1", "b2", "b3", "b4"):
        scene.simulation.input(name, Joined("b0"))
        scene.simulation.input("b0", Joined(name))
    scene.settle(5.0)
    scene.publish_for(3.0, 0.1)
    scene.settle(120.0)
    scene.judge(without="b0")


def a_loss_and_a_restart(seed: int) -> None:
    rng = Random(seed)
    overlay = random_tree(8, rng, fan_out=4)
    table = overlay.neighbours()
    lost = rng.choice([name for name, others in table.items() if len(others) > 1])
    apart = [name for name in overlay.brokers if name != lost and name not in table[lost]]
    scene = Losing(overlay, seed)
    scene.publish_for(2.0, 0.1)
    scene.lose(lost)
    scene.publish_for(rng.uniform(0.0, 2 * HEAL), 0.1)
    if seed % 3 == 1:
        scene.away(rng.choice(table[lost]), rng.uniform(0.2, 0.75 * HEAL))  # a restart, not a loss
    elif seed % 3 == 2 and apart:
        scene.lose(rng.choice(apart))
    scene.publish_for(12.0, 0.1)
    scene.settle(90.0)
    scene.judge()


def test_two_that_lead_at_once_find_one_another() -> None:
    """The first of the list restarts, and gives the lost one up later than the others."""
    a_loss_and_a_restart(1075)


def test_what_is_kept_for_one_that_found_another_place_is_kept_until_it_has_it() -> None:
    a_loss_and_a_restart(1039)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_losses_and_restarts_at_random() -> None:
    for seed in range(1000, 1200):
        a_loss_and_a_restart(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_adjacent_brokers_or_a_link_lost_at_random() -> None:
    pairs = sum(two_adjacent_are_lost(seed, 0.1) for seed in range(2000, 2100))
    assert pairs > 80
    for seed in range(3000, 3100):
        a_link_is_lost(seed, 0.1)


def test_a_broker_that_was_away_for_too_long_is_let_in_again() -> None:
    """Nobody tells it whom to join: it asks those who were linked with its neighbours."""
    scene = Losing(line(5))
    scene.publish_for(1.0)
    scene.away("b2", 3 * HEAL)
    scene.publish_for(8.0, 0.2)
    assert "b2" in scene.overlay_of("b1").replaced
    scene.settle(120.0)
    scene.publish_for(2.0, 0.2)
    scene.settle()
    scene.judge(without="b2")


def test_without_healing_the_others_stay_apart() -> None:
    """The same loss with healing so late that it never comes: the judge notices."""
    scene = Losing(star(6), heal=1e6)
    scene.publish_for(3.0)
    scene.lose("b0")
    scene.publish_for(5.0)
    scene.settle()
    with pytest.raises(AssertionError):
        scene.judge()
