"""Nothing goes wrong: every system tells exactly whom it should, once, and forgets what is over."""

from __future__ import annotations

from random import Random

import pytest

from tidings.simulation.topology import line, random_tree
from tidings.systems import NO_LINKS, PEERS, TREE, systems
from tidings.testing.trial import (
    Trial,
    drawn_event,
    drawn_filter,
    everybody_leaves,
    matches,
    overlay_for,
    random_trial,
)

VARIANTS = [
    *((system.name, {}) for system in systems() if system.graph != PEERS),  # peers promise nothing for sure
    ("network-of-servers", {"fifo": True}),
    ("siena", {"advertisements": True}),
    ("siena", {"reduce": "merging"}),
    ("siena", {"reduce": "merging", "advertisements": True}),
    ("siena", {"reduce": "identical", "advertisements": True}),
]
BY_SUBSCRIPTIONS = ["siena", "subscription-forwarding"]


def _id(variant: tuple[str, dict[str, object]]) -> str:
    return "-".join([variant[0], *(f"{name}={value}" for name, value in variant[1].items())])


@pytest.mark.parametrize("variant", VARIANTS, ids=_id)
@pytest.mark.parametrize("calm", [True, False], ids=["settled", "crossing"])
def test_deliveries_equal_the_oracle_and_tables_empty_at_the_end(
    variant: tuple[str, dict[str, object]], calm: bool
) -> None:
    system, options = variant
    delivered = 0
    for seed in range(6):
        trial = random_trial(system, seed, calm=calm, **options)
        trial.judge()
        delivered += sum(trial.expected.values())
        everybody_leaves(trial)
        assert set(trial.routing_tables().values()) == {0}, f"seed {seed}"
        for name, node in trial.world.nodes():
            assert node.slots["delivery"].subscriptions() == (), name
    assert delivered > 30, "the oracle had something to say"


@pytest.mark.parametrize("system", [*BY_SUBSCRIPTIONS, "siena-hierarchical"])
def test_vir4_1_hops_equal_the_edges_of_the_minimal_subtree(system: str) -> None:
    used = 0
    for seed in range(12):
        rng = Random(seed)
        trial = Trial(system, overlay_for(system, rng, 12), seed=seed)
        clients = [trial.client(f"c{k}", rng.choice(trial.overlay.brokers)) for k in range(8)]
        for number, client in enumerate(clients):
            trial.subscribe(client, f"n{number}", drawn_filter(rng))
        trial.settle()
        for _ in range(6):
            client, event = rng.choice(clients), drawn_event(rng)
            before = trial.messages()
            trial.publish(client, event)
            trial.settle()
            ends = {trial.at[client], *trial.takers(event)}
            if system == "siena-hierarchical":
                ends.add("b0")  # every event climbs to the root
            hops = (trial.messages() - before)["Forward"]
            assert hops == len(trial.subtree(ends))
            used += hops
        trial.judge()
    assert used > 20


@pytest.mark.parametrize("system", BY_SUBSCRIPTIONS)
def test_cos_1b_the_same_filter_again_adds_messages_only_where_it_was_not_carried(system: str) -> None:
    """The first subscription crosses every link once, away from its broker. The second one adds
    the other direction, on the links between the two brokers and on no other."""
    rng = Random(4)
    for seed in range(10):
        overlay = random_tree(10, Random(seed), fan_out=3)
        trial = Trial(system, overlay, seed=seed)
        one, other = rng.sample(overlay.brokers, 2)
        trial.client("alice", one)
        trial.client("bob", other)
        trial.client("carol", one)
        trial.subscribe("alice", "n", "x < 0.5")
        trial.settle()
        assert trial.messages()["Interest"] == len(overlay.links)
        trial.subscribe("bob", "n", "x < 0.5")
        trial.settle()
        between = len(trial.subtree({one, other}))
        assert trial.messages()["Interest"] == len(overlay.links) + between
        trial.subscribe("carol", "n", "x < 0.5")
        trial.settle()
        assert trial.messages()["Interest"] == len(overlay.links) + between, "a third one is free"


def test_vir2_7_a_covered_filter_is_not_forwarded_and_comes_out_when_its_cover_goes() -> None:
    trial = Trial("siena", line(4))
    trial.client("alice", "b0")
    trial.client("bob", "b0")
    trial.client("press", "b3")
    trial.subscribe("alice", "wide", "x < 1")
    trial.settle()
    assert trial.messages()["Interest"] == 3
    trial.subscribe("bob", "narrow", "x < 0.5")
    trial.settle()
    assert trial.messages()["Interest"] == 3
    trial.unsubscribe("alice", "wide")
    trial.settle()
    assert trial.messages()["Interest"] == 6, "each link hears of both changes at once"
    trial.publish("press", {"x": 0.25})
    trial.publish("press", {"x": 0.75})
    trial.settle()
    trial.judge()
    assert sum(trial.received().values()) == 1


def test_vir2_7_subscriptions_travel_only_toward_overlapping_advertisements() -> None:
    overlay = random_tree(12, Random(3), fan_out=3)
    for seed in range(10):
        rng = Random(seed)
        trial = Trial("siena", overlay, seed=seed, advertisements=True)
        advertisers = {
            trial.client(f"p{k}", broker): drawn_filter(rng)
            for k, broker in enumerate(rng.sample(overlay.brokers, 3))
        }
        for client, filter in advertisers.items():
            trial.advertise(client, "a", filter)
        trial.client("alice", rng.choice(overlay.brokers))
        trial.settle()
        before = trial.messages()["Interest"]
        wanted = drawn_filter(rng)
        trial.subscribe("alice", "n", wanted)
        trial.settle()
        grid = [{"x": x / 8, "y": y / 8} for x in range(9) for y in range(9)]
        toward = {
            trial.at[client]
            for client, filter in advertisers.items()
            if any(matches(filter, event) and matches(wanted, event) for event in grid)
        }
        links = trial.subtree({trial.at["alice"], *toward}) if toward else set()
        assert trial.messages()["Interest"] - before == len(links)


def test_a_filter_of_everything_reaches_all_systems_with_many_subscribers_per_broker() -> None:
    for system in systems():
        trial = Trial(system.name, overlay_for(system.name, Random(9)))
        for number in range(6):
            trial.client(f"c{number}", trial.overlay.brokers[number % 2 % len(trial.overlay.brokers)])
            trial.subscribe(f"c{number}", "all", "x >= 0")
            trial.subscribe(f"c{number}", "again", "x >= 0")
        trial.settle()
        trial.publish("c0", {"x": 0.5, "y": 0.5})
        trial.settle()
        trial.judge()
        assert sum(trial.received().values()) == 12


def test_trees_are_asked_for_where_cycles_would_hurt() -> None:
    assert {system.graph for system in systems()} >= {NO_LINKS, TREE}
