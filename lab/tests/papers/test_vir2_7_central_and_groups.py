"""VIR2-7: the central notification service (2.4.4), and content over multicast groups (Virgillito 2003,
2.3.1, 6.1)."""

from __future__ import annotations

from random import Random

import pytest

from tidings.algebra.cells import GridCells
from tidings.errors import SettingsError
from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.simulation.topology import line
from tidings.testing.trial import Trial, everybody_leaves, random_trial
from tidings_lab.routing.groups import Clusters

CELLS = GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})


@pytest.mark.parametrize("system", ["notification-service", "multicast-groups"])
@pytest.mark.parametrize("seed", range(5))
def test_vir2_7_each_tells_exactly_those_who_want_it_and_forgets_who_leaves(system: str, seed: int) -> None:
    trial = random_trial(system, seed)
    trial.judge()
    everybody_leaves(trial)
    assert set(trial.routing_tables().values()) == {0}


def test_vir2_7_every_notification_passes_the_service_and_each_access_broker_is_sent_one_copy() -> None:
    trial = Trial("notification-service", line(6), cells=CELLS, service="b5")
    for client, broker in (("one", "b1"), ("two", "b1"), ("three", "b2"), ("press", "b3")):
        trial.client(client, broker)
    for client in ("one", "two", "three"):
        trial.subscribe(client, "n", "x BETWEEN 0.1 AND 0.2 AND y BETWEEN 0.1 AND 0.2")
    trial.settle()
    sent = trial.messages()
    assert sent["Refer"] == 3
    trial.publish("press", {"x": 0.15, "y": 0.15})
    trial.settle()
    after = trial.messages() - sent
    assert (after["ToTarget"], after["ToService"], after["ToAccess"]) == (1, 1, 2)
    trial.judge()
    service = dict(trial.world.nodes())["b5"].slots["routing"]
    others = [node.slots["routing"] for name, node in trial.world.nodes() if name != "b5"]
    assert service._places
    assert not any(routing._places for routing in others), "nobody else knows where subscribers are"


def test_vir2_7_an_event_is_matched_once_and_crosses_only_links_that_lead_to_its_groups() -> None:
    trial = Trial("multicast-groups", line(6), groups=2)
    trial.client("west", "b0")
    trial.client("press", "b2")
    trial.client("east", "b5")
    trial.subscribe("west", "n", "x BETWEEN 0 AND 0.25")
    trial.settle()
    trial.subscribe("east", "n", "x BETWEEN 0.5 AND 0.75")
    trial.settle()
    sent = trial.messages()["ToGroups"]
    trial.publish("press", {"x": 0.125, "y": 0})
    trial.settle()
    assert trial.messages()["ToGroups"] - sent == 2, "two links to the west, none to the east"
    trial.publish("press", {"x": 0.875, "y": 0})
    trial.settle()
    assert trial.messages()["ToGroups"] - sent == 2, "nobody's event goes nowhere"
    trial.judge()


def test_vir2_7_one_group_hears_what_anybody_in_it_wants() -> None:
    trial = Trial("multicast-groups", line(3), groups=1)
    for client, broker, filter in (("west", "b0", "x < 0.3"), ("east", "b2", "x > 0.7"), ("press", "b1", "")):
        trial.client(client, broker)
        if filter:
            trial.subscribe(client, "n", filter)
    trial.settle()
    trial.publish("press", {"x": 0.125, "y": 0})
    trial.settle()
    trial.judge()
    useless = {name: node.slots["routing"].useless for name, node in trial.world.nodes()}
    assert useless == {"b0": 0, "b1": 0, "b2": 1}


def test_vir2_7_a_newcomer_joins_the_group_whose_events_it_wants() -> None:
    clusters = Clusters(2, 50)
    rng = Random(1)
    for number in range(50):
        clusters.note(make_event({"x": rng.random()}, source="s", id=str(number + 1)))
    low, high = parse_filter("x < 0.4"), parse_filter("x > 0.6")
    one = clusters.choose(low, rng)
    clusters.change(low, one, "b0", +1)
    other = clusters.choose(high, rng)
    clusters.change(high, other, "b1", +1)
    assert {one, other} == {0, 1}
    assert clusters.choose(low, rng) == one
    assert clusters.choose(parse_filter("x < 0.35"), rng) == one
    assert clusters.choose(parse_filter("x > 0.7 AND x < 0.9"), rng) == other
    clusters.change(low, one, "b0", -1)
    assert clusters.choose(parse_filter("x = 5"), rng) == one, "a group that nobody is in is free again"
    with pytest.raises(SettingsError, match="0 multicast groups"):
        Clusters(0, 5)
