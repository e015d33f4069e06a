"""VIR2-7: Gryphon's link matching on the acknowledged core (Virgillito 2003, 2.5.3)."""

from __future__ import annotations

from random import Random

import pytest

from tidings.simulation.topology import line, random_tree
from tidings.testing.trial import Trial, everybody_leaves, random_trial


@pytest.mark.parametrize("seed", range(6))
def test_vir2_7_gryphon_tells_exactly_those_who_want_it_and_forgets_who_leaves(seed: int) -> None:
    trial = random_trial("gryphon", seed, calm=seed % 2 == 0)
    trial.judge()
    everybody_leaves(trial)
    assert set(trial.routing_tables().values()) == {0}


def test_vir2_7_gryphon_every_broker_holds_every_subscription() -> None:
    trial = Trial("gryphon", line(6))
    for number in range(6):
        trial.client(f"c{number}", f"b{number}")
        trial.subscribe(f"c{number}", "n", f"x = {number / 8}")
    trial.settle()
    assert set(trial.routing_tables().values()) == {5}, "its own clients', and five others with their links"


def test_vir2_7_gryphon_an_event_crosses_exactly_the_links_that_lead_to_takers() -> None:
    rng = Random(3)
    trial = Trial("gryphon", random_tree(12, rng, fan_out=3))
    for number in range(8):
        trial.client(f"c{number}", rng.choice(trial.overlay.brokers))
        trial.subscribe(f"c{number}", "n", f"x BETWEEN {number / 16} AND {number / 8}")
    trial.client("press", "b0")
    trial.settle()
    for _ in range(15):
        event = {"x": rng.randrange(9) / 8, "y": 0.0}
        before = trial.messages()["Forward"]
        trial.publish("press", event)
        trial.settle()
        assert trial.messages()["Forward"] - before == len(trial.subtree({"b0", *trial.takers(event)}))
    trial.judge()


def test_vir2_7_gryphon_a_hop_searches_only_for_the_links_that_are_left() -> None:
    trial = Trial("gryphon", line(3), factored="x")
    for client, broker in (("press", "b0"), ("near", "b1"), ("far", "b2")):
        trial.client(client, broker)
    for number in range(20):
        trial.subscribe("press", f"p{number}", f"x = 0.5 AND y > {number / 40}")
    trial.subscribe("far", "n", "x = 0.5")
    trial.settle()
    trial.publish("press", {"x": 0.5, "y": 0.9})
    trial.settle()
    trial.judge()
    visited = {name: node.slots["routing"].tree.visited for name, node in trial.world.nodes()}
    assert visited["b1"] == 1, "twenty filters behind the link that it came from are not looked at"
    assert visited["b2"] == 0, "no link is left there"
