"""The systems of brokers that stand on given links: Tidings itself, SIENA and the plainer ones."""

from __future__ import annotations

from typing import Any

from tidings.algebra.cells import GridCells
from tidings.language import parse_filter
from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven, AllBrokers, FilterDriven
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Channel
from tidings.protocol.overlay.healing import HealingOverlay
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.recovery.acknowledged import Acknowledged, AcknowledgedSettings
from tidings.protocol.routing.covering import Covering, SubscriptionForwarding
from tidings.protocol.routing.diffusion_trees import DiffusionTrees
from tidings.protocol.routing.direct import MatchAtTarget, MatchFirst
from tidings.protocol.routing.flooding import Flooding
from tidings.protocol.slots import Assignment, Routing
from tidings.systems.system import ANY_GRAPH, NO_LINKS, TREE, Site, System

RESENDS = 1024  # events of each link that are held to be sent again where they travel by datagram
HEALING_ROUNDS = 10  # in which the neighbours of a lost broker find one another, some being away too


def plain_delivery(**settings: Any) -> ExactlyOnce:
    return ExactlyOnce(MatchingEngine(), DeliverySettings(**settings))


def event_channel(site: Site) -> Channel:
    """How events travel between brokers: on the links, or by datagrams, which may be lost."""
    return Channel.DATAGRAM if site.options.get("datagrams") else Channel.LINK


def broker_slots(site: Site, routing: Routing, assignment: Assignment | None = None) -> dict[str, Any]:
    """What every network of brokers here has, around its own routing and assignment."""
    return {
        "delivery": plain_delivery(allow_block=False),
        "assignment": assignment or AccessDriven(),
        "routing": routing,
        "overlay": StaticOverlay(site.neighbours, site.parent()),
    }


def _tidings(site: Site) -> dict[str, Any]:
    knobs = site.options.get("advertising", {})
    routing = Covering(
        advertisements=True, acknowledged=True, remember_links=True, numbered=False,
        channel=event_channel(site), **knobs,
    )  # fmt: skip
    heal_seconds = float(site.options.get("heal_seconds", 0.0))
    overlay = JoinedOverlay(site.neighbours, site.parent())
    if heal_seconds > 0:
        overlay = HealingOverlay(site.neighbours, site.parent(), heal_seconds=heal_seconds)
    patience = max(AcknowledgedSettings().orphan_seconds, HEALING_ROUNDS * heal_seconds)
    resends = RESENDS if event_channel(site) is Channel.DATAGRAM else 0
    return {
        **broker_slots(site, routing),
        "overlay": overlay,
        "delivery": plain_delivery(
            **{**site.options.get("delivery", {}), "allow_block": False, "names_log": True}
        ),
        "recovery": Acknowledged(
            AcknowledgedSettings(orphan_seconds=patience, resends=resends),
            recalls=not site.neighbours,
            is_joining=bool(site.options.get("joins", False)),
        ),
    }


def _intermediary(_site: Site) -> dict[str, Any]:
    return {"delivery": plain_delivery()}


def _network_of_servers(site: Site) -> dict[str, Any]:
    return broker_slots(site, Flooding(fifo=site.options.get("fifo", False)))


def _siena(site: Site) -> dict[str, Any]:
    advertisements = site.options.get("advertisements", False)
    return broker_slots(
        site, Covering(advertisements=advertisements, reduce=site.options.get("reduce", "covering"))
    )


def _siena_hierarchical(site: Site) -> dict[str, Any]:
    return broker_slots(site, Covering(hierarchical=True, parent=site.parent()))


def _forwarding(site: Site) -> dict[str, Any]:
    return broker_slots(site, SubscriptionForwarding())


def _all_brokers(site: Site) -> dict[str, Any]:
    return broker_slots(site, MatchFirst(), AllBrokers(site.brokers))


def _partitioned(site: Site) -> dict[str, Any]:
    cells = site.options.get("cells") or GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
    return broker_slots(site, MatchAtTarget(), FilterDriven(cells, site.brokers))


def _qns(site: Site) -> dict[str, Any]:
    options = site.options
    produces = {name: parse_filter(text) for name, text in options.get("produces", {}).items()}
    routing = DiffusionTrees(
        site.brokers, produces=produces, capability=options.get("capability"),
        reduce=options.get("reduce", "covering"),
    )  # fmt: skip
    return broker_slots(site, routing)


SYSTEMS: tuple[System, ...] = (
    System(
        name="tidings",
        contract="Tidings",
        model="content, topic, type",
        promise="log at the publisher's broker; exactly once per named subscription, in order per publisher, "
        "availability 0 / Δ / ∞",
        graph=TREE,
        strategies=_tidings,
        options=("delivery", "advertising", "datagrams", "heal_seconds", "joins"),
        networked=True,
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
    System(
        name="qns",
        contract="QNS",
        model="quality triple, as content",
        promise="best effort; organisations send by diffusion trees",
        graph=ANY_GRAPH,
        strategies=_qns,
        options=("produces", "capability", "reduce"),
    ),
)
