"""Every system as a composition: one strategy in each slot, one entry each.

`tidings systems` prints this table. A new system is a new entry here, made of strategies that exist;
`check_overlay` refuses compositions on graphs that they cannot work on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from tidings.algebra.cells import GridCells
from tidings.errors import SettingsError
from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven, AllBrokers, FilterDriven
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.node import Node
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.recovery.acknowledged import Acknowledged
from tidings.protocol.routing.covering import Covering, SubscriptionForwarding
from tidings.protocol.routing.direct import MatchAtTarget, MatchFirst
from tidings.protocol.routing.flooding import Flooding
from tidings.protocol.slots import Assignment, Routing, Strategy

NO_LINKS, ANY_GRAPH, TREE = "none", "any graph", "tree"


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker stands: what it is told when it is put together."""

    name: str
    neighbours: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    options: dict[str, Any] = {}  # a system's own knobs
    recording: bool = False
    stable: bool = True  # its disk survives it

    def parent(self) -> str | None:
        """The neighbour toward the first broker, for hierarchies."""
        table: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for a, b in self.links:
            table[a].append(b)
            table[b].append(a)
        parents: dict[str, str | None] = {self.brokers[0]: None} if self.brokers else {}
        order = list(parents)
        for broker in order:
            for other in table[broker]:
                if other not in parents:
                    parents[other] = broker
                    order.append(other)
        return parents.get(self.name)


class System(msgspec.Struct, frozen=True, kw_only=True):
    """A composition with what it promises."""

    name: str
    model: str  # of subscription
    promise: str  # recovery and delivery, in words
    graph: str  # what overlays it works on
    strategies: Callable[[Site], dict[str, Any]]
    contract: str  # the set of properties that it is judged by
    options: tuple[str, ...] = ()  # knobs that it takes

    def build(self, site: Site, rng: Random) -> Node:
        """A broker of this system."""
        for option in site.options:
            if option not in self.options:
                known = ", ".join(self.options) or "none"
                raise SettingsError(f"{self.name} has no option {option!r}", hint=f"its options: {known}")
        slots = self.strategies(site)
        return Node(site.name, rng=rng, recording=site.recording, stable=site.stable, **slots)

    def check_overlay(self, brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> None:
        count, wires = len(list(brokers)), len(list(links))
        if self.graph == NO_LINKS and count > 1:
            raise SettingsError(f"{self.name} is one broker, not {count}", hint="use --brokers 1")
        if self.graph == TREE and wires != count - 1:
            raise SettingsError(
                f"{self.name} needs an overlay without cycles; this one has {count} brokers and {wires} links",
                hint="use a tree, a line, a star or a hierarchy",
            )

    def row(self) -> dict[str, str]:
        """The system's line in the table of systems."""
        site = Site(name="b0", neighbours=("b1",), brokers=("b0", "b1"), links=(("b0", "b1"),))
        slots: dict[str, Strategy] = self.strategies(site)
        named = {kind: strategy.name for kind, strategy in slots.items()}
        return {
            "system": self.name,
            "subscription model": self.model,
            "assignment": named.get("assignment", "itself"),
            "routing": named.get("routing", "none"),
            "overlay": f"{named['overlay']}, {self.graph}" if "overlay" in named else "none",
            "recovery": named.get("recovery", "none"),
            "promise": self.promise,
        }


def _delivery(**settings: Any) -> ExactlyOnce:
    return ExactlyOnce(MatchingEngine(), DeliverySettings(**settings))


def _brokers(site: Site, routing: Routing, assignment: Assignment | None = None) -> dict[str, Any]:
    """What every network of brokers here has, around its own routing and assignment."""
    return {
        "delivery": _delivery(allow_block=False),
        "assignment": assignment or AccessDriven(),
        "routing": routing,
        "overlay": StaticOverlay(site.neighbours, site.parent()),
    }


def _tidings(site: Site) -> dict[str, Any]:
    knobs = site.options.get("advertising", {})
    routing = Covering(advertisements=True, acknowledged=True, remember_links=True, numbered=False, **knobs)
    return {
        **_brokers(site, routing),
        "overlay": JoinedOverlay(site.neighbours, site.parent()),
        "delivery": _delivery(
            **{**site.options.get("delivery", {}), "allow_block": False, "names_log": True}
        ),
        "recovery": Acknowledged(),
    }


def _intermediary(_site: Site) -> dict[str, Any]:
    return {"delivery": _delivery()}


def _network_of_servers(site: Site) -> dict[str, Any]:
    return _brokers(site, Flooding(fifo=site.options.get("fifo", False)))


def _siena(site: Site) -> dict[str, Any]:
    advertisements = site.options.get("advertisements", False)
    return _brokers(
        site, Covering(advertisements=advertisements, reduce=site.options.get("reduce", "covering"))
    )


def _siena_hierarchical(site: Site) -> dict[str, Any]:
    return _brokers(site, Covering(hierarchical=True, parent=site.parent()))


def _forwarding(site: Site) -> dict[str, Any]:
    return _brokers(site, SubscriptionForwarding())


def _all_brokers(site: Site) -> dict[str, Any]:
    return _brokers(site, MatchFirst(), AllBrokers(site.brokers))


def _partitioned(site: Site) -> dict[str, Any]:
    cells = site.options.get("cells") or GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
    return _brokers(site, MatchAtTarget(), FilterDriven(cells, site.brokers))


SYSTEMS: tuple[System, ...] = (
    System(
        name="tidings",
        contract="Tidings",
        model="content, topic, type",
        promise="log at the publisher's broker; exactly once per named subscription, in order per publisher, "
        "availability 0 / Δ / ∞",
        graph=TREE,
        strategies=_tidings,
        options=("delivery", "advertising"),
    ),
    System(
        name="intermediary",
        contract="Intermediary",
        model="content",
        promise="exactly once, availability 0 / Δ / ∞",
        graph=NO_LINKS,
        strategies=_intermediary,
    ),
    System(
        name="network-of-servers",
        contract="Network of servers",
        model="content",
        promise="duplicates dropped by number",
        graph=ANY_GRAPH,
        strategies=_network_of_servers,
        options=("fifo",),
    ),
    System(
        name="siena",
        contract="SIENA",
        model="content",
        promise="best effort",
        graph=TREE,
        strategies=_siena,
        options=("advertisements", "reduce"),
    ),
    System(
        name="siena-hierarchical",
        contract="SIENA",
        model="content",
        promise="best effort",
        graph=TREE,
        strategies=_siena_hierarchical,
    ),
    System(
        name="subscription-forwarding",
        contract="SIENA",
        model="content",
        promise="best effort; what the epidemic algorithms stand on",
        graph=TREE,
        strategies=_forwarding,
    ),
    System(
        name="all-brokers",
        contract="SIENA",
        model="content",
        promise="best effort",
        graph=TREE,
        strategies=_all_brokers,
    ),
    System(
        name="partitioned",
        contract="SIENA",
        model="content",
        promise="best effort",
        graph=ANY_GRAPH,
        strategies=_partitioned,
        options=("cells",),
    ),
)


def system_names() -> list[str]:
    return [system.name for system in SYSTEMS]


def find_system(name: str) -> System:
    wanted = name.lower().replace(" ", "-").replace("_", "-")
    for system in SYSTEMS:
        if system.name == wanted:
            return system
    raise SettingsError(f"no system is called {name!r}", hint=f"there are: {', '.join(system_names())}")
