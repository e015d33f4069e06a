"""Assignment policies: where a subscription lives and an event is matched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidings.algebra.cells import GridCells
from tidings.model.event import make_event
from tidings.protocol.assignment.policies import AccessDriven, AllBrokers, FilterDriven
from tidings.testing.ports import subscription

BROKERS = ("b0", "b1", "b2")
EVENT = make_event({"x": 0.1, "y": 0.9}, source="s", id="1")


def at(policy: Any, broker: str = "b2") -> Any:
    policy.ports = SimpleNamespace(name=broker)
    return policy


def test_access_driven_stays_where_it_came() -> None:
    policy = at(AccessDriven())
    assert policy.assign(subscription("x > 0")) == ("b2",)
    assert policy.resolve(EVENT) is None, "wherever routing leads"


def test_all_brokers_hold_and_the_publishers_matches() -> None:
    policy = at(AllBrokers(BROKERS))
    assert policy.assign(subscription("x > 0")) == BROKERS
    assert policy.resolve(EVENT) == ("b2",)


def test_filter_driven_goes_by_cells_each_broker_once() -> None:
    policy = at(FilterDriven(GridCells.regular({"x": (0.0, 1.0, 2), "y": (0.0, 1.0, 2)}), BROKERS))
    everywhere = policy.assign(subscription("x >= 0"))
    assert sorted(everywhere) == list(BROKERS), "four cells, three brokers, none twice"
    (target,) = policy.resolve(EVENT)
    assert target in policy.assign(subscription("x < 0.4 AND y > 0.6"))
    assert len(policy.assign(subscription("x < 0.4 AND y > 0.6"))) == 1
