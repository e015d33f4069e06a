"""The tree that is counted is the tree that the protocol makes, and its hops are those that events take."""

from __future__ import annotations

from random import Random
from time import process_time
from typing import Any

import pytest

from tidings.protocol.overlay.measures import SampledMeasure
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings.simulation.world import World
from tidings_lab.studies import _organising as organising
from tidings_lab.studies._organisation_runs import SHORT_TTL
from tidings_lab.studies._organising import FastNetwork, OrganisingVariant, drawn

SWAP_WORDS = ("DiscoveryRequest", "DiscoveryReply", "Lock", "LockAnswer", "TablesTold", "Close", "Closing",
              "LinkClosed", "Unlock")  # fmt: skip


def protocol(system: str, tree: OverlayGraph, steps: list[Any], **options: Any) -> World:
    """The same subscriptions through the protocol, each with time to come to rest; brokers look once."""
    looking = {"points": organising.MEASURED, "again_seconds": 0}
    world = World(system, tree, options={**looking, **options}, record=False)
    world.run(0.5)
    for broker in tree.brokers:
        world.add_client(f"at-{broker}", broker)
    world.run(1.0)
    for number, (broker, filter) in enumerate(steps):
        world.subscribe(f"at-{broker}", f"s{number}", filter.text)
        world.run(world.simulation.now + 3.0)
    return world


def links_of(world: World) -> set[tuple[str, str]]:
    found = set()
    for name, node in world.nodes():
        found |= {(min(name, peer), max(name, peer)) for peer in node.slots["overlay"].neighbours}
    return found


def in_turn(network: FastNetwork, tree: OverlayGraph, steps: list[Any]) -> None:
    for broker, filter in steps:
        network.subscribe(broker, filter)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("fan_out", [4, 10])
def test_the_counted_tree_is_that_of_socbr(seed: int, fan_out: int) -> None:
    tree = random_tree(14, Random(seed), min(fan_out, 4))
    steps = drawn(seed, 20, 1.0, tree.brokers)
    world = protocol("socbr", tree, steps, fan_out=fan_out)
    network = FastNetwork(tree, OrganisingVariant(fan_out=fan_out))
    in_turn(network, tree, steps)
    assert len(network.swaps) >= 3
    assert {tuple(sorted(link)) for link in network.overlay.links} == links_of(world)
    sent = world.simulation.sent
    assert {kind: sent[kind] for kind in SWAP_WORDS} == {kind: network.sent[kind] for kind in SWAP_WORDS}


@pytest.mark.parametrize("trigger", ["overlap", "growth"])
def test_the_counted_tree_is_that_of_each_trigger(trigger: str) -> None:
    tree = random_tree(14, Random(4), 4)
    steps = drawn(4, 24, 1.0, tree.brokers)
    world = protocol("socbr", tree, steps, trigger=trigger)
    network = FastNetwork(tree, OrganisingVariant(trigger=trigger))
    in_turn(network, tree, steps)
    printed = FastNetwork(tree, OrganisingVariant())
    in_turn(printed, tree, steps)
    assert {tuple(sorted(link)) for link in network.overlay.links} == links_of(world)
    sent = world.simulation.sent
    assert {kind: sent[kind] for kind in SWAP_WORDS} == {kind: network.sent[kind] for kind in SWAP_WORDS}
    assert network.sent["DiscoveryRequest"] > printed.sent["DiscoveryRequest"]


def test_the_counted_tree_is_that_of_a_short_ttl() -> None:
    tree = random_tree(14, Random(5), 4)
    steps = drawn(5, 20, 1.0, tree.brokers)
    network = FastNetwork(tree, OrganisingVariant(ttl=2))
    in_turn(network, tree, steps)
    world = protocol("socbr", tree, steps, ttl=2)
    assert {tuple(sorted(link)) for link in network.overlay.links} == links_of(world)


def test_a_ttl_of_one_reaches_neighbours_alone_and_changes_no_link() -> None:
    tree = random_tree(14, Random(5), 4)
    swaps = {}
    for ttl in (1, SHORT_TTL):
        network = FastNetwork(tree, OrganisingVariant(ttl=ttl))
        in_turn(network, tree, drawn(5, 20, 1.0, tree.brokers))
        swaps[ttl] = len(network.swaps)
    assert swaps[1] == 0 < swaps[SHORT_TTL]


def test_tables_are_told_in_about_the_messages_that_are_counted() -> None:
    """`tables` is the one number that is not exact: so many for each link of the path, in the mean."""
    delivered = counted = 0
    for seed in (1, 2, 3):
        tree = random_tree(14, Random(seed), 4)
        steps = drawn(seed, 20, 1.0, tree.brokers)
        delivered -= protocol("socbr", tree, steps, ttl=0).simulation.sent["Interest"]
        delivered += protocol("socbr", tree, steps).simulation.sent["Interest"]
        network = FastNetwork(tree, OrganisingVariant())
        in_turn(network, tree, steps)
        counted += network.sent["tables"]
    assert delivered == pytest.approx(counted, rel=0.25), f"{delivered} were told, {counted} counted"


@pytest.mark.parametrize("seed", [1, 2])
def test_counted_hops_are_those_that_events_take(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event from every broker, through the protocol."""
    few = SampledMeasure(organising.SQUARE, points=24, seed=77)
    monkeypatch.setattr(organising, "POINTS", 24)
    monkeypatch.setattr(organising, "judge", lambda: few)
    tree = random_tree(8, Random(seed), 4)
    steps = drawn(seed, 10, 1.0, tree.brokers)
    world = protocol("socbr", tree, steps)
    network = FastNetwork(tree, OrganisingVariant())
    in_turn(network, tree, steps)
    before = world.simulation.sent["Forward"]
    for x, y in few._at.tolist():
        for broker in tree.brokers:
            world.publish(f"at-{broker}", {"x": x, "y": y})
        world.run(world.simulation.now + 1.0)
    hops = (world.simulation.sent["Forward"] - before) / (24 * len(tree.brokers))
    assert hops == pytest.approx(network.hops(), rel=1e-9)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_brokers_and_twenty_thousand_subscriptions_take_minutes() -> None:
    begun = process_time()
    network = FastNetwork(
        organising.start(1, 1000), OrganisingVariant(weigh="hops", ttl=16, trigger="growth")
    )
    in_turn(network, network.overlay, drawn(1, 20_000, 0.2, network.brokers))
    assert network.overlay.is_tree
    assert process_time() - begun < 600
