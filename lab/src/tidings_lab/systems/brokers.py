"""Published systems of brokers on given links: SIENA, and the plainer ones that it is compared with."""

from __future__ import annotations

from typing import Any

from tidings.algebra.cells import GridCells
from tidings.protocol.assignment.policies import AllBrokers, FilterDriven
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.routing.covering import CoveringRouting, SubscriptionForwarding
from tidings.systems.brokers import broker_slots
from tidings.systems.system import ANY_GRAPH, TREE, Site, System
from tidings_lab.routing.direct import MatchAtTarget, MatchFirst
from tidings_lab.routing.flooding import Flooding


def _network_of_servers(site: Site) -> dict[str, Any]:
    return broker_slots(site, Flooding(fifo=site.options.get("fifo", False)))


def _siena(site: Site) -> dict[str, Any]:
    advertisements = site.options.get("advertisements", False)
    routing = CoveringRouting(advertisements=advertisements, reduce=site.options.get("reduce", "covering"))
    return {**broker_slots(site, routing), "overlay": JoinedOverlay(site.neighbours, site.parent())}


def _siena_hierarchical(site: Site) -> dict[str, Any]:
    return broker_slots(site, CoveringRouting(hierarchical=True, parent=site.parent()))


def _forwarding(site: Site) -> dict[str, Any]:
    return broker_slots(site, SubscriptionForwarding())


def _all_brokers(site: Site) -> dict[str, Any]:
    return broker_slots(site, MatchFirst(), AllBrokers(site.brokers))


def _partitioned(site: Site) -> dict[str, Any]:
    cells = site.options.get("cells") or GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
    return broker_slots(site, MatchAtTarget(), FilterDriven(cells, site.brokers))


SYSTEMS: tuple[System, ...] = (
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
        networked=True,
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
