"""Overlays and networks: connected, bounded, the same for the same seed."""

from __future__ import annotations

from random import Random

import pytest

from tidings.errors import SettingsError
from tidings.simulation.topology import (
    NETWORKS,
    OVERLAYS,
    hops_from,
    line,
    link_latencies,
    minimal_subtree,
    placed,
    random_tree,
    ring,
)


@pytest.mark.parametrize("name", sorted(OVERLAYS))
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_every_overlay_is_connected_and_named_by_its_seed(name: str, count: int) -> None:
    overlay = OVERLAYS[name](count, Random(7), 4)
    assert len(overlay.brokers) == count
    assert overlay.is_connected
    assert overlay == OVERLAYS[name](count, Random(7), 4)
    assert len(set(overlay.links)) == len(overlay.links)


def test_a_random_tree_keeps_the_fan_out_bound() -> None:
    tree = random_tree(200, Random(3), fan_out=4)
    assert tree.is_tree
    assert max(len(links) for links in tree.neighbours().values()) <= 4


def test_vir4_10_join_at_random_trees_have_a_diameter_of_about_14() -> None:
    diameters = [random_tree(100, Random(seed), fan_out=10).diameter() for seed in range(60)]
    assert 13.0 < sum(diameters) / len(diameters) < 16.0  # the thesis says about 16


def test_an_impossible_fan_out_is_refused() -> None:
    with pytest.raises(SettingsError, match="fan-out of 1"):
        random_tree(5, Random(1), fan_out=1)
    with pytest.raises(SettingsError, match="0 brokers"):
        line(0)


def test_a_ring_is_no_tree_and_a_line_is() -> None:
    assert line(5).is_tree
    assert not ring(5).is_tree
    assert line(5).diameter() == 4


def test_the_minimal_subtree_joins_its_ends_and_no_more() -> None:
    tree = random_tree(30, Random(5), fan_out=3)
    ends = ["b3", "b17", "b29"]
    edges = minimal_subtree(tree, ends)
    table: dict[str, list[str]] = {}
    for a, b in edges:
        table.setdefault(a, []).append(b)
        table.setdefault(b, []).append(a)
    reached = set(hops_from(table, "b3"))
    assert set(ends) <= reached
    leaves = {name for name, near in table.items() if len(near) == 1}
    assert leaves <= set(ends)
    assert minimal_subtree(tree, []) == set()
    assert minimal_subtree(tree, ["b4"]) == set()


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_latencies_are_those_of_shortest_paths(name: str) -> None:
    network = NETWORKS[name](60, Random(2))
    far = network.latencies_from(0)
    assert all(0 <= seconds < float("inf") for seconds in far)
    for a, b, seconds in network.wires:
        assert abs(far[a] - far[b]) <= seconds + 1e-12
    overlay = random_tree(20, Random(2))
    positions = placed(overlay, network, Random(4))
    assert len(set(positions.values())) == 20
    assert set(link_latencies(overlay, network, positions)) == set(overlay.links)


def test_wires_between_transit_domains_are_longer_than_those_inside_a_stub() -> None:
    network = NETWORKS["transit-stub"](100, Random(1))  # two domains of two transit nodes each
    between = [seconds for a, b, seconds in network.wires if a < 2 <= b < 4]
    stub = [seconds for a, b, seconds in network.wires if a >= 4]
    assert between
    assert min(between) > max(stub)


def test_a_larger_transit_stub_network_is_a_slower_one() -> None:
    def mean(hosts: int) -> float:
        far = NETWORKS["transit-stub"](hosts, Random(3)).latencies_from(hosts - 1)
        return sum(far) / len(far)

    assert mean(60) < mean(250) < mean(1000)
