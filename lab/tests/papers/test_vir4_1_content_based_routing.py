"""VIR4-1: content-based routing and its tables (Virgillito 2003, 4.1.2, Figure 4.1)."""

from __future__ import annotations

from tidings.simulation.topology import OverlayGraph
from tidings.testing.trial import Trial

W = "a BETWEEN 6 AND 9 AND b BETWEEN 1 AND 3"
Y = "a BETWEEN 1 AND 4 AND b BETWEEN 5 AND 9"
INSIDE_W = "a BETWEEN 7 AND 8 AND b BETWEEN 1 AND 2"
FIGURE = OverlayGraph(
    ("b0", "b1", "b2", "b3", "b4"), (("b0", "b1"), ("b0", "b2"), ("b1", "b3"), ("b2", "b4"))
)  # fmt: skip


def figure_4_1() -> Trial:
    trial = Trial("siena", FIGURE)
    for name, broker in (("y", "b1"), ("w1", "b3"), ("w2", "b4"), ("press", "b0")):
        trial.client(name, broker)
    trial.subscribe("y", "n", Y)
    trial.subscribe("w1", "n", W)
    trial.subscribe("w2", "n", W)
    trial.settle()
    return trial


def zone(trial: Trial, broker: str, link: str) -> set[str]:
    routing = dict(trial.world.nodes())[broker].slots["routing"]
    return {filter.text for filter in routing.interest(link)}


def test_vir4_1_figure_4_1_the_routing_table_of_b0() -> None:
    trial = figure_4_1()
    assert zone(trial, "b0", "b1") == {Y, W}
    assert zone(trial, "b0", "b2") == {W}


def test_vir4_1_what_lies_inside_the_zone_of_a_broker_is_not_diffused() -> None:
    trial = figure_4_1()
    before = trial.messages()["Interest"]
    trial.subscribe("w1", "inner", INSIDE_W)
    trial.settle()
    assert trial.messages()["Interest"] == before
    trial.publish("press", {"a": 7, "b": 2})
    trial.settle()
    trial.judge()
    assert sum(trial.received().values()) == 3


def test_vir4_1_events_take_the_minimal_subtree_with_its_pure_forwarders() -> None:
    for event, brokers in (
        ({"a": 2, "b": 6}, {"b1"}),
        ({"a": 7, "b": 2}, {"b3", "b4"}),  # b1 and b2 are pure forwarders
        ({"a": 5, "b": 5}, set()),
    ):
        trial = figure_4_1()
        before = trial.messages()
        trial.publish("press", event)
        trial.settle()
        trial.judge()
        assert trial.takers(event) == brokers
        hops = (trial.messages() - before)["Forward"]
        assert hops == len(trial.subtree({"b0", *brokers})) == {1: 1, 2: 4, 0: 0}[len(brokers)]
