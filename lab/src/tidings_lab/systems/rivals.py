"""Rivals of daMulticast (Baehni et al. 2004, 5.5), as systems of peers.

Options are those of daMulticast, and: `hierarchy`, the topics that there are, for publisher groups;
`clusters` and `c2` for hierarchical gossip; `tree` (arity, depth, delegates) for PMcast and hpcast, whose
peers all have to be known: `peers` names them in order, where the simulator does not. PMcast's interests are
those given by `topics`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from tidings.matching.engine import MatchingEngine
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.routing.topic_gossip import GossipSettings
from tidings.protocol.topic_graph import AllAbove, ClusterGroup, PublisherGroups, TopicGraph
from tidings.systems.gossip import OPTIONS, own_topics, peer
from tidings.systems.system import PEERS, Site, System
from tidings_lab.membership.delegate_tree import DelegateTree
from tidings_lab.membership.delegates import DelegateTables
from tidings_lab.routing.delegate_gossip import DelegateGossip, DelegateSettings
from tidings_lab.routing.rival_gossip import ClusterGossip, SubscriberGossip

CONTACTS = 12  # of each group above, where publishers send to all of them
CLUSTERS = 3


def _publisher_groups(site: Site) -> dict[str, Any]:
    given = site.options.get("topics", {})
    topics = [*site.options.get("hierarchy", ()), *(topic for own in given.values() for topic in own)]
    graph = PublisherGroups(topics, site.options.get("supers"))
    own = tuple(dict.fromkeys(group for topic in own_topics(site) for group in graph.joins(topic)))
    return peer(site, graph, own)


def _subscriber_groups(site: Site) -> dict[str, Any]:
    return peer(
        site, AllAbove(site.options.get("supers")), own_topics(site), SubscriberGossip, {"z": CONTACTS}
    )


def _hierarchical(site: Site) -> dict[str, Any]:
    clusters = int(site.options.get("clusters", CLUSTERS))
    own = f"cluster-{_cluster_of(site, clusters)}"

    def routing(topics: tuple[str, ...], *, graph: TopicGraph, settings: GossipSettings) -> ClusterGossip:
        c2 = float(site.options.get("c2", 5.0))
        return ClusterGossip(topics, graph=graph, settings=settings, clusters=clusters, c2=c2)

    return peer(site, ClusterGroup(own), (own,), routing)


def _cluster_of(site: Site, clusters: int) -> int:
    """By its place among all, or where these are not known by its name."""
    if site.name in site.brokers:
        position, count = site.brokers.index(site.name), len(site.brokers)
        return ((position + 1) * clusters - 1) // count
    return int.from_bytes(blake2b(site.name.encode(), digest_size=8).digest(), "little") % clusters


def _delegates(site: Site, wants: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    order = tuple(site.options.get("peers") or site.brokers)
    if site.name not in order:
        order = (*order, site.name)
    tree = DelegateTree.of(len(order), **site.options.get("tree", {}))
    graph = TopicGraph(site.options.get("supers"))
    settings = DelegateSettings(**site.options.get("gossip", {}))
    return {
        "delivery": ExactlyOnce(MatchingEngine(), DeliverySettings(allow_block=False)),
        "membership": DelegateTables(site.name, order, tree, graph, wants),
        "routing": DelegateGossip(
            order.index(site.name), tree, topics=own_topics(site), graph=graph, settings=settings
        ),
    }


def _pmcast(site: Site) -> dict[str, Any]:
    return _delegates(site, dict(site.options.get("topics", {})))


def _hpcast(site: Site) -> dict[str, Any]:
    return _delegates(site, {})


TREE_OPTIONS = ("topics", "supers", "gossip", "tree", "peers", "join")

SYSTEMS: tuple[System, ...] = (
    System(
        name="publisher-groups",
        contract="Gossip multicast",
        model="topics in a hierarchy that is known",
        promise="probabilistic; no parasites",
        graph=PEERS,
        strategies=_publisher_groups,
        options=(*OPTIONS, "hierarchy"),
    ),
    System(
        name="subscriber-groups",
        contract="Gossip multicast",
        model="topics in a hierarchy",
        promise="probabilistic; no parasites",
        graph=PEERS,
        strategies=_subscriber_groups,
        options=OPTIONS,
    ),
    System(
        name="hierarchical-gossip",
        contract="Hierarchical gossip",
        model="none: every peer receives everything",
        promise="probabilistic",
        graph=PEERS,
        strategies=_hierarchical,
        options=(*OPTIONS, "clusters", "c2"),
    ),
    System(
        name="pmcast",
        contract="PMcast",
        model="topics that are given",
        promise="probabilistic",
        graph=PEERS,
        strategies=_pmcast,
        options=TREE_OPTIONS,
    ),
    System(
        name="hpcast",
        contract="PMcast",
        model="none: every peer receives everything",
        promise="probabilistic",
        graph=PEERS,
        strategies=_hpcast,
        options=TREE_OPTIONS,
    ),
)
