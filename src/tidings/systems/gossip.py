"""The systems of peers: daMulticast, and gossip that knows no topics.

Options: `topics` says by peer's name which topics it belongs to from the start (subscriptions add others), `join`
whom newcomers ask, `supers` further supertopics by topic, `gossip` and `tables` the constants.
"""

from __future__ import annotations

from typing import Any

from tidings.matching.engine import MatchingEngine
from tidings.model.topic import ROOT
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.membership.probing import ProbeSettings
from tidings.protocol.membership.quests import QuestSettings
from tidings.protocol.membership.topics import TableSettings, TopicTables
from tidings.protocol.routing.topic_gossip import GossipSettings, TopicGossip
from tidings.protocol.topic_graph import TopicGraph
from tidings.systems.system import PEERS, Site, System

OPTIONS = ("topics", "join", "supers", "gossip", "tables", "membership")


def _peer(site: Site, graph: TopicGraph, topics: tuple[str, ...]) -> dict[str, Any]:
    options = site.options
    tables = dict(options.get("tables", {}))
    tables["probe"] = ProbeSettings(**tables.get("probe", {}))
    tables["quest"] = QuestSettings(**tables.get("quest", {}))
    given = options.get("membership")
    membership = given(site.name) if given else TopicTables(
        contacts=options.get("join") or site.brokers[:3], topics=topics, graph=graph,
        settings=TableSettings(**tables),
    )  # fmt: skip
    return {
        "delivery": ExactlyOnce(MatchingEngine(), DeliverySettings(allow_block=False)),
        "membership": membership,
        "routing": TopicGossip(topics, graph=graph, settings=GossipSettings(**options.get("gossip", {}))),
    }


def _damulticast(site: Site) -> dict[str, Any]:
    graph = TopicGraph(site.options.get("supers"))
    return _peer(site, graph, tuple(site.options.get("topics", {}).get(site.name, ())))


class _OneGroup(TopicGraph):
    """Everybody is of the root's group, and every topic is the root's."""

    def supers(self, topic: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def above(self, topic: str) -> tuple[str, ...]:  # noqa: ARG002
        return (ROOT,)


def _gossip_broadcast(site: Site) -> dict[str, Any]:
    return _peer(site, _OneGroup(), (ROOT,))


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
        model="none: everybody hears everything",
        promise="probabilistic",
        graph=PEERS,
        strategies=_gossip_broadcast,
        options=OPTIONS,
    ),
)
