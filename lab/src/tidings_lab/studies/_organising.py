"""Self-organising brokers on a tree that is counted, not simulated: the same rules, no messages.

`FastNetwork` lets one subscription after the other arrive, with time for the overlay to come to rest in
between, as in the simulations of Virgillito 2003, 4.5. It uses the functions of
`protocol/overlay/choosing.py` and counts the messages that the protocol would send; a test runs the same
subscriptions through the real protocol and finds the same trees and the same numbers of messages.

Hops are exact means, not samples of runs: a link carries what is published on one side of it and wanted on
the other, and publishers are spread evenly. Events are `POINTS` points that are drawn evenly and are not
those by which brokers measure their zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.language import parse_filter
from tidings.model.filter import Filter
from tidings.protocol.overlay import choosing
from tidings.protocol.overlay.choosing import NEVER_ENDS, Hop, LinkOffer
from tidings.protocol.overlay.measures import Measure, SampledMeasure, weight
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings.simulation.workloads import Rectangles
from tidings_lab.overlay.spanning import heaviest_tree

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
POINTS = 2048  # events that hops are counted on
TABLES = (
    5  # messages for each link of a swap's path that tell what is wanted where now; measured, in the mean
)
MEASURED = 1024  # points by which brokers measure zones


class OrganisingVariant(msgspec.Struct, frozen=True, kw_only=True):
    """Strategy of self-organisation; as the settings of the protocol."""

    name: str = "SOCBR"
    fan_out: int = 10
    ttl: int = NEVER_ENDS  # 0: plain content-based routing
    weigh: str = "associativity"
    bound: float | None = None  # on the distance
    keep_alpha: bool = False
    events_per_change: float | None = None  # not None: the TTL adapts to it
    trigger: str = choosing.PRINTED  # of `choosing.TRIGGERS`
    forwarding: str = choosing.PRINTED  # of `choosing.FORWARDINGS`


@cache
def judge() -> SampledMeasure:
    """Judge by whose points events are counted."""
    return SampledMeasure(SQUARE, points=POINTS, seed=77)


@cache
def measure() -> SampledMeasure:
    return SampledMeasure(SQUARE, points=MEASURED)


class FastNetwork:
    def __init__(
        self,
        overlay: OverlayGraph,
        way: OrganisingVariant,
        *,
        by: Measure | None = None,
        distance: Callable[[str, str], float] | None = None,
    ) -> None:
        self.brokers = overlay.brokers
        self.way = way
        self.by: Measure = by or measure()
        self.distance = distance
        self.links: dict[str, dict[str, None]] = {
            broker: dict.fromkeys(others) for broker, others in overlay.neighbours().items()
        }
        self.zones: dict[str, Any] = dict.fromkeys(self.brokers, self.by.empty)
        self.wanted: dict[str, int] = dict.fromkeys(self.brokers, 0)  # by the judge's points
        self.sent: Counter[str] = Counter()
        self.announced = 0  # messages that take subscriptions to all brokers, as the thesis has it
        self.swaps: list[tuple[int, int]] = []  # length of the path, which link of it went
        self._behind: dict[tuple[str, str], Any] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._deepest = 4

    # -- subscriptions --------------------------------------------------------------------------

    def subscribe(self, broker: str, filter: Filter) -> None:
        """A subscription arrives, and the overlay comes to rest."""
        by = self.by
        old = self.zones[broker]
        new = by.join(old, by.of([filter]))
        self.zones[broker] = new
        self.announced += (len(self.brokers) - 1) * (by.size(new) > by.size(old))
        self.wanted[broker] |= judge().of([filter])
        if self._ttl() < 1:
            return
        self._look()
        behind = {n: self._behind[broker, n] for n in self.links[broker]}
        links = choosing.worth_asking(by, old, new, behind, self.way.trigger)
        self._forget()
        offers = [self._request(broker, link, new) for link in links]
        for offer in offers:
            if offer is not None:
                self._deepest = max(self._deepest, len(offer.hops) - 1)
                self._consider(offer, new)

    def _ttl(self) -> int:
        if self.way.events_per_change is None:
            return self.way.ttl
        return choosing.adaptive_ttl(self.way.events_per_change, self._deepest)

    def _request(self, broker: str, link: str, zone: Any) -> LinkOffer | None:
        if not self._behind:
            self._look()
        hop = self._hop(broker, None, 0.0, (broker, link))
        return self._visit(link, broker, (hop,), zone, self._ttl() - 1)

    def _hop(self, broker: str, before: str | None, link_weight: float, on_path: tuple[str, ...]) -> Hop:
        zone, rate = b"", 0.0
        if self.way.weigh == "hops" or self.way.keep_alpha:
            hanging, rate = self.zones[broker], 1.0
            for other in self.links[broker]:
                if other not in on_path:
                    hanging = self.by.join(hanging, self._behind[broker, other])
                    rate += self._sizes[broker, other]
            zone = self.by.pack(hanging)
        seconds = None if before is None or self.distance is None else self.distance(before, broker)
        return Hop(broker, link_weight, seconds, None, zone, rate)

    def _away(self, hop: Hop, requester: str) -> Hop:
        if self.distance is None:
            return hop
        return msgspec.structs.replace(hop, away=self.distance(requester, hop.broker))

    def _visit(
        self, broker: str, before: str, hops: tuple[Hop, ...], requested: Any, ttl: int
    ) -> LinkOffer | None:
        """Answer of this broker: the best of itself and of those behind it."""
        by, own, requester = self.by, self.zones[broker], hops[0].broker
        self.sent["DiscoveryRequest"] += 1
        self.sent["DiscoveryReply"] += 1
        self.sent["probe"] += 2 * (self.way.bound is not None or self.way.keep_alpha)
        behind = (
            {other: self._behind[broker, other] for other in self.links[broker] if other != before}
            if ttl > 0
            else {}
        )
        link_weight = weight(by, self.zones[before], own)
        offers = [self._offer(broker, before, hops, requested, link_weight)]
        for other in choosing.worth_passing(by, requested, own, behind, self.way.forwarding):
            hop = self._away(self._hop(broker, before, link_weight, (before, other)), requester)
            offers.append(self._visit(other, broker, (*hops, hop), requested, ttl - 1))
        return choosing.best(offers)

    def _offer(
        self, broker: str, before: str, hops: tuple[Hop, ...], requested: Any, link_weight: float
    ) -> LinkOffer | None:
        requester = hops[0].broker
        bound = self.way.bound
        if bound is not None and self.distance is not None and self.distance(requester, broker) > bound:
            return None
        hop = self._away(self._hop(broker, before, link_weight, (before,)), requester)
        whole = (*hops, hop)
        value = self.by.common(requested, self.zones[broker])
        if self.way.weigh == "hops":
            if len(whole) < 3:
                return None
            value = choosing.saving_cut(self.by, whole, 1, self._free(broker))[1]
        return LinkOffer(value, self.by.pack(self.zones[broker]), self._free(broker), whole)

    def _free(self, broker: str) -> int:
        return max(0, self.way.fan_out - len(self.links[broker]))

    def _consider(self, offer: LinkOffer, zone: Any) -> None:
        first, last, hops = offer.hops[0].broker, offer.broker, offer.hops
        if last in self.links[first] or len(hops) < 3 or not self._is_path(hops):
            return
        own_free = self._free(first)
        may = self._keeps_alpha(hops) if self.way.keep_alpha else choosing.any_cut
        if self.way.weigh == "hops":
            cut = choosing.saving_cut(self.by, hops, own_free, offer.free, may)[0]
        else:
            gain = weight(self.by, zone, self.zones[last])
            rule = choosing.lightest_cut if self.way.bound is None else choosing.farthest_cut
            cut = rule(hops, own_free, offer.free, gain, may)
        if cut is not None:
            self._swap(hops, cut)

    def _keeps_alpha(self, hops: Sequence[Hop]) -> Callable[[int], bool]:
        return lambda cut: not choosing.slows_diffusion(hops, hops[-1].away or 0.0, cut)

    def _is_path(self, hops: Sequence[Hop]) -> bool:
        """Two links were asked, and the first answer changed the tree: the second path may be stale."""
        return all(hops[k].broker in self.links[hops[k - 1].broker] for k in range(1, len(hops)))

    def _swap(self, hops: Sequence[Hop], cut: int) -> None:
        first, last = hops[0].broker, hops[-1].broker
        near, far = hops[cut - 1].broker, hops[cut].broker
        del self.links[near][far], self.links[far][near]
        self.links[first][last] = self.links[last][first] = None
        length = len(hops) - 1
        self.swaps.append((length, cut))
        for kind, count in (
            ("Lock", length), ("LockAnswer", length), ("TablesTold", 2), ("Close", length - 1),
            ("Closing", 1), ("LinkClosed", 1), ("Unlock", length - 1), ("tables", TABLES * length),
            ("Crowd", 2 * length * self.way.keep_alpha),
        ):  # fmt: skip
            self.sent[kind] += count
        self._forget()

    # -- the tree -----------------------------------------------------------------------------

    def _forget(self) -> None:
        self._behind.clear()

    def _look(self) -> None:
        """Interest behind each link, and the number of its brokers: up the tree, and down again."""
        order, parent = self._rooted()
        by, behind, sizes = self.by, self._behind, self._sizes
        sizes.clear()
        inside = dict(self.zones)
        count = dict.fromkeys(self.brokers, 1)
        for broker in reversed(order[1:]):
            up = parent[broker]
            behind[up, broker], sizes[up, broker] = inside[broker], count[broker]
            inside[up] = by.join(inside[up], inside[broker])
            count[up] += count[broker]
        for broker in order:
            outside = [self.zones[broker]] + [behind[broker, other] for other in self.links[broker]
                                              if (broker, other) in behind]  # fmt: skip
            children = [other for other in self.links[broker] if parent.get(other) == broker]
            above = outside[0]
            if broker != order[0]:
                above = by.join(above, behind[broker, parent[broker]])
            self._spread(broker, children, above)

    def _spread(self, broker: str, children: list[str], above: Any) -> None:
        """Each child learns what is wanted above it and behind its siblings."""
        by = self.by
        left = [above]
        for child in children:
            left.append(by.join(left[-1], self._behind[broker, child]))
        right = by.empty
        for position in range(len(children) - 1, -1, -1):
            child = children[position]
            self._behind[child, broker] = by.join(left[position], right)
            self._sizes[child, broker] = len(self.brokers) - self._sizes[broker, child]
            right = by.join(right, self._behind[broker, child])

    def _rooted(self) -> tuple[list[str], dict[str, str]]:
        order, parent = [self.brokers[0]], {self.brokers[0]: ""}
        for broker in order:
            for other in self.links[broker]:
                if other not in parent:
                    parent[other] = broker
                    order.append(other)
        return order, parent

    @property
    def overlay(self) -> OverlayGraph:
        links = {(a, b) if a < b else (b, a) for a in self.links for b in self.links[a]}
        return OverlayGraph(self.brokers, tuple(sorted(links)))

    # -- figures --------------------------------------------------------------------------------

    def hops(self) -> float:
        """Links that an event crosses, in the mean over events and publishers."""
        return tree_hops(self.links, self.wanted)

    def ideal(self) -> float:
        return ideal_hops(self.wanted)

    def associativity(self) -> float:
        links = self.overlay.links
        return sum(weight(self.by, self.zones[a], self.zones[b]) for a, b in links) / len(self.brokers)

    def heaviest(self) -> list[tuple[str, str]]:
        return heaviest_tree(self.brokers, lambda a, b: weight(self.by, self.zones[a], self.zones[b]))

    def most_associativity(self) -> float:
        return sum(weight(self.by, self.zones[a], self.zones[b]) for a, b in self.heaviest()) / len(
            self.brokers
        )

    def best_tree(self) -> dict[str, dict[str, None]]:
        """Links of the tree of most associativity, without a bound on its fan-out."""
        links: dict[str, dict[str, None]] = {broker: {} for broker in self.brokers}
        for a, b in self.heaviest():
            links[a][b] = links[b][a] = None
        return links

    def best_tree_hops(self) -> float:
        return tree_hops(self.best_tree(), self.wanted)

    def organising_messages(self) -> int:
        return sum(self.sent.values())

    def discovery_messages(self) -> int:
        return self.sent["DiscoveryRequest"] + self.sent["DiscoveryReply"] + self.sent["probe"]


def ideal_hops(wanted: dict[str, int]) -> float:
    """Hops without a single pure forwarder: one for each broker that wants it and did not publish it."""
    takers = sum(bits.bit_count() for bits in wanted.values()) / POINTS
    return takers * (1 - 1 / len(wanted))


def tree_hops(links: dict[str, dict[str, None]], wanted: dict[str, int]) -> float:
    brokers = list(links)
    parent, order = {brokers[0]: ""}, [brokers[0]]
    for broker in order:
        for other in links[broker]:
            if other not in parent:
                parent[other] = broker
                order.append(other)
    inside, count = dict(wanted), dict.fromkeys(brokers, 1)
    for broker in reversed(order[1:]):
        inside[parent[broker]] |= inside[broker]
        count[parent[broker]] += count[broker]
    outside = {brokers[0]: 0}
    total = 0
    for broker in order:
        children = [other for other in links[broker] if parent.get(other) == broker]
        left = [outside[broker] | wanted[broker]]
        for child in children:
            left.append(left[-1] | inside[child])
        right = 0
        for position in range(len(children) - 1, -1, -1):
            child = children[position]
            outside[child] = left[position] | right
            right |= inside[child]
            below = count[child]
            total += below * outside[child].bit_count() + (len(brokers) - below) * inside[child].bit_count()
    return total / (POINTS * len(brokers))


def latencies(
    network: FastNetwork,
    seconds: Callable[[str, str], float],
    events: int = 256,
    links: Mapping[str, Mapping[str, object]] | None = None,
) -> NDArray[np.float64]:
    """From publisher to last taker, for every publisher and some of the judge's events with a subscriber;
    over the network's own links, or others."""
    table = network.links if links is None else links
    brokers = list(network.brokers)
    position = {name: number for number, name in enumerate(brokers)}
    far = np.zeros((len(brokers), len(brokers)))
    for start in brokers:
        reached = [start]
        seen = {start}
        for broker in reached:
            for other in table[broker]:
                if other not in seen:
                    seen.add(other)
                    reached.append(other)
                    far[position[start], position[other]] = far[position[start], position[broker]] + seconds(
                        broker, other
                    )
    found = []
    for point in range(0, POINTS, max(1, POINTS // events)):
        takers = [position[b] for b, bits in network.wanted.items() if bits >> point & 1]
        if takers:
            found.append(far[:, takers].max(axis=1))
    return np.array(found).ravel() if found else np.zeros(1)


def drawn(seed: int, subscriptions: int, widest: float, brokers: Sequence[str]) -> list[tuple[str, Filter]]:
    """Subscriptions by broker, in order."""
    rng = Random(f"{seed}/{widest}")
    content = Rectangles(widest)
    return [(rng.choice(brokers), parse_filter(content.filter(rng))) for _ in range(subscriptions)]


def start(seed: int, brokers: int = 100, fan_out: int = 10) -> OverlayGraph:
    return random_tree(brokers, Random(f"{seed}/overlay"), fan_out)
