"""What makes brokers rearrange their links, and what keeps them from it, through the protocol."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tidings.protocol.overlay.self_organising import SelfOrganisingOverlay
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line, random_tree
from tidings.simulation.workloads import Rectangles
from tidings.simulation.world import World


def opened(system: str, overlay: OverlayGraph, seed: int = 1, **options: Any) -> World:
    world = World(system, overlay, seed=seed, settings=SimulationSettings(check=True), options=options)
    world.run(0.5)
    for broker in overlay.brokers:
        world.add_client(f"at-{broker}", broker)
    world.run(1.0)
    return world


def settle(world: World) -> None:
    world.run(world.simulation.now + 5.0)


def overlay_of(world: World, name: str) -> SelfOrganisingOverlay:
    found = dict(world.nodes())[name].slots["overlay"]
    assert isinstance(found, SelfOrganisingOverlay)
    return found


def like_ends(**options: Any) -> World:
    """b0 and b3, the ends of a line, come to want the same."""
    world = opened("socbr", line(4), **options)
    world.subscribe("at-b3", "n", "x <= 0.5")
    settle(world)
    world.subscribe("at-b0", "n", "x <= 0.4")
    settle(world)
    return world


def test_vir4_4_a_subscription_links_brokers_that_want_the_same() -> None:
    assert "b3" in overlay_of(like_ends(), "b0").links()


def test_vir4_5_with_a_ttl_of_two_it_is_not_found() -> None:
    assert "b3" not in overlay_of(like_ends(ttl=2), "b0").links()
    assert "b3" in overlay_of(like_ends(ttl=3), "b0").links()


@pytest.mark.parametrize("triggers", [True, False])
def test_vir4_4_an_unsubscription_triggers_too(triggers: bool) -> None:
    world = opened("socbr", line(4), on_unsubscribe=triggers, again_seconds=0)
    world.subscribe("at-b0", "left", "x <= 0.4")
    world.subscribe("at-b0", "right", "x >= 0.6")
    world.subscribe("at-b3", "n", "x >= 0.6")  # all at once: nobody has heard of anybody
    settle(world)
    assert overlay_of(world, "b0").links() == ("b1",)
    world.unsubscribe("at-b0", "left")
    settle(world)
    assert ("b3" in overlay_of(world, "b0").links()) is triggers


@pytest.mark.parametrize("system", ["socbr", "pbsocbr", "fewer-hops"])
def test_vir4_4_brokers_that_want_the_same_at_the_same_moment_find_one_another(system: str) -> None:
    """Neither has heard of the other when it looks; as it grows, b0's zone stays wholly inside b3's."""
    for again, linked in ((0.0, False), (2.0, True)):
        world = opened(system, line(4), again_seconds=again)
        world.subscribe("at-b3", "n", "x <= 0.5")
        world.subscribe("at-b0", "n", "x <= 0.35")
        settle(world)
        if system == "socbr":
            world.subscribe("at-b0", "more", "x <= 0.36")
            settle(world)
        assert ("b3" in overlay_of(world, "b0").links()) is linked
        assert bool(world.simulation.sent["Lock"]) is linked


def test_a_swap_that_was_refused_is_tried_again() -> None:
    world = opened("socbr", line(4))
    world.subscribe("at-b3", "n", "x <= 0.5")
    settle(world)
    other_swap = pytest.MonkeyPatch()
    other_swap.setattr(overlay_of(world, "b2").swaps, "is_locked", lambda link: True)
    world.subscribe("at-b0", "n", "x <= 0.4")
    world.run(world.simulation.now + 1.0)
    other_swap.undo()
    assert overlay_of(world, "b0").figures()["swaps refused"] == 1
    assert overlay_of(world, "b0").links() == ("b1",)
    settle(world)
    assert "b3" in overlay_of(world, "b0").links()


def test_a_discovery_without_an_answer_is_made_again() -> None:
    world = opened("socbr", line(4))
    world.subscribe("at-b3", "n", "x <= 0.5")
    settle(world)
    overlay_of(world, "b2").discovery.on_request = lambda *requested: None  # type: ignore[method-assign]
    world.subscribe("at-b0", "n", "x <= 0.4")
    world.run(world.simulation.now + 1.0)
    del overlay_of(world, "b2").discovery.on_request
    assert overlay_of(world, "b0").links() == ("b1",)
    settle(world)
    assert "b3" in overlay_of(world, "b0").links()


def test_looking_again_ends_and_costs_nothing_when_there_is_no_news() -> None:
    world = opened("socbr", line(4))
    world.subscribe("at-b0", "n", "x <= 0.4")
    world.run(world.simulation.now + 60.0)
    assert overlay_of(world, "b0").looks.due is None
    assert world.simulation.sent["DiscoveryRequest"] == 0


def test_alpha_is_kept_a_far_broker_is_not_linked() -> None:
    """The new link would be as slow as all three of the line together."""
    far = {frozenset(("b0", "b3")): 9.0}
    for keeps, linked in ((False, True), (True, False)):
        world = opened("socbr", line(4), keep_alpha=keeps, patience_seconds=60.0)
        world.simulation.measured = lambda a, b: far.get(frozenset((a, b)), 0.01)
        world.subscribe("at-b3", "n", "x <= 0.5")
        settle(world)
        world.subscribe("at-b0", "n", "x <= 0.4")
        settle(world)
        assert ("b3" in overlay_of(world, "b0").links()) is linked


def test_alpha_is_kept_in_the_whole_tree_swap_by_swap() -> None:
    """Brokers count one another, also after swaps; the mean way between any two never grows."""
    rng, content = Random(7), Rectangles()
    world = opened("socbr", random_tree(14, rng, 4), keep_alpha=True, patience_seconds=60.0)
    names = world.overlay.brokers
    at = {name: (rng.random(), rng.random()) for name in names}
    world.simulation.measured = lambda a, b: math.dist(at[a], at[b])
    for name in names:  # links that were up before the map was drawn
        for peer in overlay_of(world, name).links():
            overlay_of(world, name)._distance[peer] = math.dist(at[name], at[peer])
    means = []
    for number in range(30):
        world.subscribe(f"at-{rng.choice(names)}", f"s{number}", content.filter(rng))
        world.run(world.simulation.now + 15.0)
        table = {name: overlay_of(world, name).links() for name in names}
        means.append(mean_way(table, at))
        for name, peers in table.items():
            for peer in peers:
                behind = brokers_behind(table, name, peer)
                assert overlay_of(world, name).subtree_sizes._behind[peer] == len(behind)
    swaps = sum(overlay_of(world, name).swaps.counts["done"] for name in names)
    assert swaps >= 3
    assert all(after <= before + 1e-9 for before, after in pairwise(means))
    assert means[-1] < means[0]


def brokers_behind(table: dict[str, tuple[str, ...]], name: str, peer: str) -> list[str]:
    found = [peer]
    for broker in found:
        found += [other for other in table[broker] if other != name and other not in found]
    return found


def mean_way(table: dict[str, tuple[str, ...]], at: dict[str, tuple[float, float]]) -> float:
    total = 0.0
    for name, peers in table.items():
        for peer in peers:
            there = len(brokers_behind(table, name, peer))
            total += there * (len(table) - there) * math.dist(at[name], at[peer])
    return total / (len(table) * (len(table) - 1))


def test_with_few_events_for_each_change_discovery_stays_near() -> None:
    quiet = opened("socbr", line(8), adaptive_ttl=True)
    quiet.subscribe("at-b7", "n", "x <= 0.5")
    settle(quiet)
    quiet.subscribe("at-b0", "n", "x <= 0.4")
    settle(quiet)
    assert quiet.simulation.sent["DiscoveryRequest"] == 1  # no event was seen: it does not look beyond b1
    busy = opened("socbr", line(8), adaptive_ttl=True)
    busy.subscribe("at-b7", "n", "x <= 0.5")
    for _ in range(30):
        busy.publish("at-b0", {"x": 0.9, "y": 0.9})
    settle(busy)
    busy.subscribe("at-b0", "n", "x <= 0.4")
    settle(busy)
    assert "b7" in overlay_of(busy, "b0").links()


@pytest.mark.parametrize("system", ["socbr", "pbsocbr", "fewer-hops"])
def test_no_broker_ever_has_more_links_than_its_bound_when_nothing_moves(system: str) -> None:
    rng, content = Random(4), Rectangles()
    world = opened(system, random_tree(12, rng, 3), fan_out=3)
    for number in range(25):
        world.subscribe(f"at-{rng.choice(world.overlay.brokers)}", f"s{number}", content.filter(rng))
        world.run(world.simulation.now + rng.choice((0.01, 2.0)))
    settle(world)
    links = {name: overlay_of(world, name).links() for name in world.overlay.brokers}
    assert max(len(peers) for peers in links.values()) <= 3
    pairs = tuple(sorted({(min(a, b), max(a, b)) for a, peers in links.items() for b in peers}))
    assert OverlayGraph(world.overlay.brokers, pairs).is_tree
    assert sum(overlay_of(world, name).swaps.counts["done"] for name in world.overlay.brokers) >= 3


@pytest.mark.parametrize("weigh", ["exact", "sampled"])
def test_both_measures_lead_to_a_tree_that_delivers(weigh: str) -> None:
    world = like_ends(measure=weigh)
    world.publish("at-b1", {"x": 0.3, "y": 0.5})
    settle(world)
    assert [len(world.received(f"at-b{k}")) for k in (0, 3)] == [1, 1]
