"""Gossip in groups with other links than daMulticast's: two algorithms that it is compared with.

Rules
- Subscriber groups (Baehni et al. 2004, Figure 1, second pattern): a publisher sends the event into the
  groups of all supertopics as well, to every member that it knows there; no other peer sends from one group
  to another.
- Hierarchical gossip broadcast (5.5.2, approach c): clusters that know no topics. The peer that brings an
  event into a cluster, its publisher or the first receiver of a copy from another cluster, hands it to
  floor(ln N + c2) processes of all; several that are reached at once all do so, since none can tell that it
  is the first.
"""

from __future__ import annotations

import math

from tidings.protocol.messages import Envelope
from tidings.protocol.routing.topic_gossip import GossipEvents, GossipSettings, TopicGossip
from tidings.protocol.topic_graph import TopicGraph, into, over


class SubscriberGossip(TopicGossip):
    name = "gossip in subscriber groups"
    names_links = False

    def contacts(self, size: int) -> int:
        return max(1, self.settings.fan_out(size))

    def _elect(self, topic: str, size: int, envelope: Envelope, came: GossipEvents | None) -> None:
        if came is not None:
            return
        for up in self.graph.supers(topic):
            for name in self.members(over(topic, up)):
                self._hand_up(name, envelope)

    def _strange(self, topic: str) -> tuple[str, ...]:
        """Each group above that we neither belong to nor know from one that we do."""
        line = self.graph.above(topic)
        reached = {up for own in self.topics() if own in line for up in self.graph.above(own)}
        return tuple(into(each) for each in line if each not in reached)


class ClusterGossip(TopicGossip):
    name = "gossip in clusters"
    names_links = False

    def __init__(
        self, topics: tuple[str, ...], *, graph: TopicGraph, settings: GossipSettings | None, clusters: int,
        c2: float
    ) -> None:  # fmt: skip
        super().__init__(topics, graph=graph, settings=settings)
        self.across = max(1, math.floor(math.log(clusters) + c2)) if clusters > 1 else 0

    def _elect(self, topic: str, size: int, envelope: Envelope, came: GossipEvents | None) -> None:
        if came is None or came.is_entry:
            for name in self.sample(self.across):
                self._hand_up(name, envelope)
