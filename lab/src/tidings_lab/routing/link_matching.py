"""Gryphon's routing: every broker holds every subscription, and each hop decides only which links lead on.

Filters spread to all brokers as in subscription forwarding: on a tree, each broker then knows each filter
with the links behind which it is wanted, which is all that link matching needs. An event is matched by the
annotated search tree (`matching/link_tree.py`) with the link that it came from shut, so a broker does that
part of the matching which its own links ask for, and the next one goes on (Virgillito 2003, 2.5.3). The
option `factored` names attributes that are looked up before the tree is searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.interest import Match
from tidings.protocol.routing.covering import SubscriptionRouting
from tidings.protocol.routing.diffusion import LOCAL
from tidings_lab.matching.link_tree import LinkTree


class LinkMatching(SubscriptionRouting):
    name = "link matching"

    def __init__(self, *, factored: tuple[str, ...] = (), recovered: bool = True) -> None:
        super().__init__(
            reduce="identical", acknowledged=recovered, remember_links=recovered, numbered=not recovered
        )
        self.tree = LinkTree(factored=factored)

    def _subscription_changed(self, filter: Filter, source: str, came: bool) -> None:
        if source == LOCAL:
            return
        if came:
            self.tree.put(filter, source)
        else:
            self.tree.take(filter, source)

    def _wanting_each(
        self, events: Sequence[Event], matches: Sequence[Match], but: str | None = None
    ) -> list[frozenset[str]]:
        return [self._wanted(event, but) for event in events]

    def _wanted(self, event: Event, but: str | None) -> frozenset[str]:
        peers = self._peers()
        if not peers:
            return frozenset()
        wanted = self.tree.links(event, (link for link in peers if link != but))
        if self.remember_links:
            wanted.update(link for link in peers if self._is_open(link, event))
        return frozenset(wanted)

    def check(self) -> None:
        self._subs.check()
        wanted = sum(source != LOCAL for sources in self._subs.sources.values() for source in sources)
        assert wanted == len(self.tree), "tree and table differ"
        self.tree.check()
