"""VIR2-7:

TIB/RV, daemons that broadcast at home and routers with a tree per subject (Virgillito 2003, 2.5.1).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tidings.errors import SettingsError
from tidings.language import parse_filter
from tidings.protocol.inputs import Received
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, broker_names
from tidings.simulation.world import World
from tidings_lab.lans import Lan, lan_of
from tidings_lab.routing.subjects import covers_subject, subjects_of

LANS = 8  # of three hosts each; b0, b3, b6 … are the routers


class Offices:
    """Networks of three hosts, and a client at each host."""

    def __init__(self, **options: Any) -> None:
        overlay = OverlayGraph(broker_names(3 * LANS), ())
        self.world = World(
            "tib-rv", overlay, options={"lan_size": 3, **options}, settings=SimulationSettings(check=True)
        )
        self.heard_at: Counter[tuple[str, int]] = Counter()  # by message and network
        self.world.simulation.on_handled = self._note
        for broker in overlay.brokers:
            self.world.add_client(f"at-{broker}", broker)
        self.world.run(1.0)

    def _note(self, name: str, item: Any, _now: float) -> None:
        if type(item) is Received and name.startswith("b"):
            self.heard_at[type(item.message).__name__, int(name[1:]) // 3] += 1

    def subscribe(self, host: int, filter: str, name: str = "n") -> None:
        self.world.subscribe(f"at-b{host}", name, filter)
        self.settle()

    def publish(self, host: int, topic: str | None, **attributes: Any) -> None:
        self.world.publish(f"at-b{host}", attributes, topic=topic)
        self.settle()

    def settle(self) -> None:
        self.world.run(self.world.simulation.now + 3.0)

    def received(self, host: int) -> list[Any]:
        return [n.event.attributes["n"] for n in self.world.applications[f"at-b{host}"].received]

    def at(self, message: str) -> dict[int, int]:
        """By network: how often its hosts heard such messages, since the last time."""
        found = {lan: count for (kind, lan), count in self.heard_at.items() if kind == message}
        self.heard_at.clear()
        return found


def test_vir2_7_tib_rv_nothing_crosses_to_a_network_without_a_subscriber() -> None:
    offices = Offices()
    offices.subscribe(1, "topic = 'news'")
    offices.subscribe(4, "topic = 'news'")
    offices.subscribe(10, "topic = 'sport'")
    offices.at("Subject")
    offices.publish(2, "news", n=1)
    assert offices.received(1) == offices.received(4) == [1]
    assert offices.received(10) == []
    assert {lan for _, lan in offices.heard_at} == {0, 1}, (
        "the publisher's network and that of the subscriber"
    )
    assert offices.at("OnLan") == {0: 2, 1: 2}, "one broadcast in each; two other hosts hear it"
    offices.publish(2, "weather", n=2)
    assert {lan for _, lan in offices.heard_at} == {0}


@pytest.mark.parametrize("fan_out", [1, 2, 5])
def test_vir2_7_tib_rv_wan_messages_are_the_edges_of_the_subjects_tree(fan_out: int) -> None:
    offices = Offices(fan_out=fan_out)
    wanting = [1, 2, 4, 5, 7]  # networks
    for lan in wanting:
        offices.subscribe(3 * lan + 1, "topic = 'news'")
    offices.heard_at.clear()
    offices.publish(3 * 4 + 2, "news", n=1)  # in one of them
    assert offices.at("ToRouters") == {1: 1, 2: 1, 5: 1, 7: 1}, "each other router of the tree once"
    assert all(offices.received(3 * lan + 1) == [1] for lan in wanting)


def test_vir2_7_tib_rv_wildcards_and_filters_that_name_no_topic() -> None:
    offices = Offices()
    offices.subscribe(1, "topic MATCHES 'quotes/+' AND price < 10")
    offices.subscribe(4, "topic MATCHES 'quotes/#'")
    offices.subscribe(7, "price < 10")
    offices.subscribe(10, "topic IN ('quotes/ibm', 'news') OR n = 5")
    events = [
        ("quotes/ibm", 7),
        ("quotes/ibm", 70),
        ("quotes", 1),
        ("quotes/ibm/last", 1),
        (None, 5),
        ("news", 99),
    ]
    for number, (topic, price) in enumerate(events):
        offices.publish(20, topic, n=number, price=price)
    assert offices.received(1) == [0]
    assert offices.received(4) == [0, 1, 2, 3]
    assert offices.received(7) == [0, 2, 3, 4]
    assert offices.received(10) == [0, 1, 5]


def test_vir2_7_tib_rv_a_network_that_lost_its_last_subscriber_is_left_out_again() -> None:
    offices = Offices()
    for host in (4, 5):
        offices.subscribe(host, "topic = 'news'")
    offices.world.unsubscribe("at-b4", "n")
    offices.settle()
    offices.publish(0, "news", n=1)
    assert (offices.received(4), offices.received(5)) == ([], [1])
    offices.world.unsubscribe("at-b5", "n")
    offices.settle()
    offices.heard_at.clear()
    offices.publish(0, "news", n=2)
    assert offices.at("ToRouters") == {}
    assert all(node.slots["routing"].table_size() == 0 for _, node in offices.world.nodes())


@pytest.mark.parametrize("router", [0, 3])
def test_vir2_7_tib_rv_a_router_that_begins_again_asks_what_is_wanted(router: int) -> None:
    """That of the publisher's network, and that of the subscriber's."""
    offices = Offices()
    offices.subscribe(4, "topic = 'news'")
    offices.world.simulation.crash(f"b{router}")
    offices.settle()
    offices.world.simulation.restart(f"b{router}")
    offices.settle()
    offices.publish(1, "news", n=1)
    assert offices.received(4) == [1]


def test_vir2_7_tib_rv_a_wish_that_was_lost_is_told_again() -> None:
    offices = Offices(refresh=20)
    offices.world.simulation.plan(FaultPlan(Rates(loss=1.0), rates_until=offices.world.simulation.now + 5.0))
    offices.subscribe(4, "topic = 'news'")
    offices.world.run(10.0)
    offices.publish(1, "news", n=1)
    assert offices.received(4) == []
    offices.world.run(70.0)  # the host tells its router, and that the others
    offices.publish(1, "news", n=2)
    assert offices.received(4) == [2]
    offices.world.simulation.crash("b4")
    offices.world.run(200.0)
    assert all(node.slots["routing"].table_size() == 0 for _, node in offices.world.nodes())


def test_vir2_7_tib_rv_newcomers_hear_the_last_n_of_each_subject_once() -> None:
    offices = Offices(cache=2)
    for number in range(4):
        offices.publish(1, "quotes/ibm", n=number)
    offices.publish(7, "quotes/sun", n=9)
    offices.publish(7, "weather", n=8)
    offices.subscribe(22, "topic MATCHES 'quotes/+'")
    offices.publish(1, "quotes/ibm", n=10)
    assert sorted(offices.received(22)) == [2, 3, 9, 10]
    offices.subscribe(0, "topic = 'quotes/ibm' AND n > 5")  # at a router
    assert offices.received(0) == [10]


def test_vir2_7_tib_rv_what_comes_live_while_the_cache_is_asked_is_told_once() -> None:
    offices = Offices(cache=5)
    world = offices.world
    world.subscribe("at-b22", "n", "topic = 'news'")
    for number in range(20):
        world.run(world.simulation.now + 0.01)
        world.publish("at-b1", {"n": number}, topic="news")
    offices.settle()
    received = offices.received(22)
    assert len(received) == len(set(received))
    assert set(range(10, 20)) <= set(received)


def test_vir2_7_tib_rv_subjects_of_filters() -> None:
    found = {
        "topic = 'a/b' AND x > 1": ("a/b",),
        "topic MATCHES 'a/+'": ("a/+",),
        "topic = 'a' OR topic = 'b'": ("a", "b"),
        "x > 1": ("#",),
        "topic != 'a'": ("#",),
        "topic MATCHES 'a/#' AND topic IN ('a/b', 'a/c')": ("a/b", "a/c"),
    }
    for text, subjects in found.items():
        assert set(subjects_of(parse_filter(text))) == set(subjects), text
    assert covers_subject("#", None)
    assert not covers_subject("a", None)
    assert covers_subject("a/+", "a/b")
    assert not covers_subject("a/b", "a/c")


def test_vir2_7_tib_rv_every_host_has_a_network_and_its_first_host_is_the_router() -> None:
    brokers = ("b0", "b1", "b2", "b3", "b4")
    assert lan_of("b3", brokers, None, 2) == Lan("lan1", "b2", ("b0", "b2", "b4"))
    named = {"b0": "x", "b1": "y", "b2": "x", "b3": "y", "b4": "y"}
    assert lan_of("b4", brokers, named) == Lan("y", "b1", ("b0", "b1"))
    with pytest.raises(SettingsError, match="b4 is on no local network"):
        lan_of("b0", brokers, {"b0": "x", "b1": "y", "b2": "x", "b3": "y"})
    with pytest.raises(SettingsError, match="0 hosts"):
        lan_of("b0", brokers, None, 0)
