"""VIR2-7:

Scribe, a rendezvous by the hash of the topic and a tree of reverse paths (Virgillito 2003, 2.5.2).
"""

from __future__ import annotations

import pytest

from tidings_lab.simulation.rendezvous import RendezvousNetwork

from ..simulation._trees import Forest


@pytest.mark.parametrize("count", [20, 100, 300])
def test_vir2_7_nineteen_routes_of_twenty_keep_to_the_bound_and_all_end_at_the_nearest_id(count: int) -> None:
    routes = RendezvousNetwork("scribe", count).routes(1000)
    assert routes.wrong == 0
    assert routes.within >= 0.95, (routes.bound, routes.mean)
    assert routes.mean > 0.5


@pytest.mark.parametrize("bits", [1, 2])
def test_vir2_7_the_bound_holds_for_other_digits(bits: int) -> None:
    routes = RendezvousNetwork("scribe", 200, overlay={"digit_bits": bits}).routes(1000)
    assert routes.wrong == 0
    assert routes.within >= 0.95, (routes.bound, routes.mean)


def test_vir2_7_all_routes_end_at_the_nearest_id_after_a_fifth_of_the_nodes_vanished() -> None:
    ring = RendezvousNetwork("scribe", 100, calm=False)
    ring.vanish(0.2)
    broken = ring.routes(500)
    assert broken.wrong > 25, "else nothing was to be mended"
    ring.run(30.0)
    routes = ring.routes(500)
    assert routes.wrong == 0
    assert routes.within >= 0.95


def test_vir2_7_a_tree_spans_subscribers_and_the_nodes_on_their_ways_to_the_root_and_nobody_else() -> None:
    ring = RendezvousNetwork("scribe", 150)
    ring.subscribe(60, groups=8)
    forest = Forest(ring)
    assert len(forest.names()) == 8
    for key in forest.names():
        members = forest.members(key)
        assert forest.roots(key) == [forest.responsible(key)]
        assert members == forest.ways(key) | forest.subscribers(key)
        for name in members - forest.subscribers(key):
            assert forest.children(key, name), f"{name} forwards to nobody"
        for name in members:
            for child in forest.children(key, name):
                assert forest.parent(key, child) == name, "both ends know the edge"
    assert any(forest.members(key) - forest.subscribers(key) for key in forest.names()), "some only forward"


def test_vir2_7_an_event_climbs_to_the_root_and_crosses_each_edge_of_the_tree_once() -> None:
    ring = RendezvousNetwork("scribe", 150)
    ring.subscribe(60, groups=1)
    forest = Forest(ring)
    (key,) = forest.names()
    delivered = ring.publish(10)
    assert delivered.is_exact
    assert delivered.messages["Descend"] == 10 * (len(forest.members(key)) - 1)
    quenched = 10  # at most one more climb each, until publishers know that nobody takes any topic
    assert delivered.messages["Climb"] <= 10 * 4 + quenched


def test_vir2_7_when_everybody_leaves_no_tree_is_left() -> None:
    ring = RendezvousNetwork("scribe", 60)
    ring.subscribe(40, groups=5)
    assert Forest(ring).names()
    for client in ring.filters:
        ring.world.unsubscribe(client, "n")
    ring.run(5.0)
    assert not Forest(ring).names()
