"""VIR2-5: where subscriptions live and events are matched (Virgillito 2003, 2.4.3, Figure 2.4)."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tidings.algebra.cells import GridCells
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.assignment.policies import AccessDriven, AllBrokers, FilterDriven
from tidings.protocol.slots import Assignment
from tidings.simulation.topology import line
from tidings.testing.trial import Trial, drawn_event, drawn_filter

BROKERS = ("b0", "b1", "b2", "b3", "b4")
CELLS = GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
POLICIES = {
    "access-driven": AccessDriven,
    "all brokers": lambda: AllBrokers(BROKERS),
    "filter-driven": lambda: FilterDriven(CELLS, BROKERS),
}


def at(policy: Any, broker: str) -> Assignment:
    made: Assignment = policy()
    made.ports = SimpleNamespace(name=broker)  # type: ignore[assignment]
    return made


def subscription(text: str) -> Subscription:
    return Subscription(SubscriptionId("s", "n"), parse_filter(text), DeliveryOptions())


@pytest.mark.parametrize("name", POLICIES)
def test_vir2_5_assign_and_resolve_meet_whenever_the_event_matches(name: str) -> None:
    rng = Random(name)
    met = 0
    for _ in range(1500):
        access, publisher = rng.choice(BROKERS), rng.choice(BROKERS)
        text, event = drawn_filter(rng), make_event(drawn_event(rng), source="p", id="1")
        if not accepts(parse_filter(text), event):
            continue
        stored = set(at(POLICIES[name], access).assign(subscription(text)))
        resolved = at(POLICIES[name], publisher).resolve(event)
        assert stored & set(BROKERS if resolved is None else resolved), (text, event.attributes)
        met += 1
    assert met > 150


def test_vir2_5_figure_2_4_x_lives_at_b1_by_its_zone_and_at_b0_by_its_access_point() -> None:
    zones = GridCells.regular({"x": (0.0, 1.0, 2), "y": (0.0, 1.0, 2)})
    inside = "x BETWEEN 0.1 AND 0.3 AND y BETWEEN 0.6 AND 0.8"  # the zone of b1
    overlay = line(4)
    partitioned = Trial("partitioned", overlay, cells=zones)
    (zone,) = zones.assign(parse_filter(inside))
    assert overlay.brokers[zone] == "b1"
    for trial, holder in ((partitioned, "b1"), (Trial("network-of-servers", overlay), "b0")):
        trial.client("s1", "b0")
        trial.subscribe("s1", "X", inside)
        trial.settle()
        if trial is partitioned:
            assert trial.routing_tables() == {"b0": 0, "b1": 1, "b2": 0, "b3": 0}
        else:
            holding = [name for name, node in trial.world.nodes() if node.slots["delivery"].subscriptions()]
            assert holding == [holder]
        trial.client("press", "b3")
        trial.publish("press", {"x": 0.2, "y": 0.7})
        trial.publish("press", {"x": 0.9, "y": 0.7})
        trial.settle()
        trial.judge()
        assert sum(trial.received().values()) == 1


def test_vir2_5_filter_driven_assignment_needs_brokers() -> None:
    from tidings.errors import SettingsError

    with pytest.raises(SettingsError, match="without brokers"):
        FilterDriven(CELLS, ())
