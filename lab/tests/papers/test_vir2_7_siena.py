"""VIR2-7, SIENA: containment pruning and advertisements (Virgillito 2003, section 2.5.4)."""

from __future__ import annotations

from tidings.simulation.topology import OverlayGraph, line
from tidings.testing.trial import Trial, everybody_leaves, random_trial

Y_TREE = OverlayGraph(("b0", "b1", "b2", "b3"), (("b0", "b1"), ("b1", "b2"), ("b1", "b3")))


def test_vir2_7_siena_covered_subscriptions_stay_at_home() -> None:
    trial = Trial("siena", line(5))
    trial.client("alice", "b0")
    trial.subscribe("alice", "wide", "x > 0")
    trial.settle()
    before = trial.messages()["Interest"]
    for number in range(1, 6):
        trial.subscribe("alice", f"n{number}", f"x > {number}")
    trial.settle()
    assert trial.messages()["Interest"] == before == 4


def test_vir2_7_siena_a_subscription_goes_only_toward_advertisers_that_it_meets() -> None:
    trial = Trial("siena", Y_TREE, advertisements=True)
    trial.client("alice", "b0")
    trial.client("near", "b2")
    trial.client("far", "b3")
    trial.advertise("near", "a", "x BETWEEN 0 AND 5")
    trial.advertise("far", "a", "x BETWEEN 10 AND 15")
    trial.settle()
    trial.subscribe("alice", "n", "x < 5")
    trial.settle()
    routing = {name: node.slots["routing"] for name, node in trial.world.nodes()}
    assert len(routing["b2"].interest("b1")) == 1
    assert routing["b3"].interest("b1") == (), "nobody there publishes such events"
    trial.unadvertise("near", "a")
    trial.advertise("far", "b", "x < 1")
    trial.settle()
    assert routing["b2"].interest("b1") == ()
    assert len(routing["b3"].interest("b1")) == 1
    trial.publish("far", {"x": 0})
    trial.settle()
    trial.judge()
    assert sum(trial.received().values()) == 1


def test_vir2_7_siena_deliveries_equal_the_oracle_after_any_order_of_changes() -> None:
    for seed in range(100, 104):
        trial = random_trial("siena", seed, calm=False, operations=48, advertisements=True)
        trial.judge()
        everybody_leaves(trial)
        assert set(trial.routing_tables().values()) == {0}
