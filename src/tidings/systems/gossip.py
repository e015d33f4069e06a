"""The systems of peers: daMulticast, and gossip that knows no topics.

Options: `topics` says by peer's name which topics it belongs to from the start (subscriptions add others),
`join` names the contacts of newcomers, `supers` further supertopics by topic, `gossip` and `tables` the
constants.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tidings.matching.engine import MatchingEngine
from tidings.model.topic import ROOT
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.membership.peer_discovery import PeerDiscoverySettings
from tidings.protocol.membership.probing import ProbeSettings
from tidings.protocol.membership.topics import TableSettings, TopicTables
from tidings.protocol.routing.topic_gossip import GossipSettings, TopicGossip
from tidings.protocol.topic_graph import OneGroup, TopicGraph
from tidings.systems.system import PEERS, Site, System

OPTIONS = ("topics", "join", "supers", "gossip", "tables", "membership")


def own_topics(site: Site) -> tuple[str, ...]:
    return tuple(site.options.get("topics", {}).get(site.name, ()))


def peer(
    site: Site,
    graph: TopicGraph,
    topics: tuple[str, ...],
    routing: Callable[..., TopicGossip] = TopicGossip,
    defaults: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The slots of a peer that gossips in the groups of a graph; `defaults` are of its tables."""
    options = site.options
    tables = {**(defaults or {}), **options.get("tables", {})}
    tables["probe"] = ProbeSettings(**tables.get("probe", {}))
    if "quest" in tables:
        warnings.warn("tables.quest is tables.discovery now", DeprecationWarning, stacklevel=2)
        tables.setdefault("discovery", tables.pop("quest"))
    tables["discovery"] = PeerDiscoverySettings(**tables.get("discovery", {}))
    given = options.get("membership")
    membership = given(site.name) if given else TopicTables(
        contacts=options.get("join") or site.brokers[:3], topics=topics, graph=graph,
        settings=TableSettings(**tables),
    )  # fmt: skip
    return {
        "delivery": ExactlyOnce(MatchingEngine(), DeliverySettings(allow_block=False)),
        "membership": membership,
        "routing": routing(topics, graph=graph, settings=GossipSettings(**options.get("gossip", {}))),
    }


def _damulticast(site: Site) -> dict[str, Any]:
    return peer(site, TopicGraph(site.options.get("supers")), own_topics(site))


def _gossip_broadcast(site: Site) -> dict[str, Any]:
    return peer(site, OneGroup(), (ROOT,))


SYSTEMS: tuple[System, ...] = (
    System(
        name="damulticast",
        contract="daMulticast",
        model="topics in a hierarchy",
        promise="probabilistic: validity, integrity, agreement; no parasites",
        graph=PEERS,
        strategies=_damulticast,
        options=OPTIONS,
    ),
    System(
        name="gossip-broadcast",
        contract="Gossip broadcast",
        model="none: every peer receives everything",
        promise="probabilistic",
        graph=PEERS,
        strategies=_gossip_broadcast,
        options=OPTIONS,
    ),
)
