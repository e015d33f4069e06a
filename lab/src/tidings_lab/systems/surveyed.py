"""The systems that Virgillito 2003 surveys in chapter 2, beyond those that have families of their own."""

from __future__ import annotations

from typing import Any

from tidings.algebra.cells import GridCells
from tidings.protocol.assignment.policies import AccessDriven, AllBrokers, FilterDriven
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery
from tidings.systems.brokers import broker_slots, plain_delivery
from tidings.systems.system import ANY_GRAPH, PEERS, TREE, Site, System
from tidings_lab.lans import LAN_SIZE, lan_of
from tidings_lab.overlay.two_levels import TwoLevels
from tidings_lab.routing.central import CentralNotification
from tidings_lab.routing.groups import GroupMulticast
from tidings_lab.routing.link_matching import LinkMatching
from tidings_lab.routing.quenching import Quenching
from tidings_lab.routing.subjects import REFRESH, SubjectRouting

DEFAULT_CELLS = GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})


def _names(site: Site, option: str) -> tuple[str, ...]:
    """An option that is a list of names, or text with commas."""
    given = site.options.get(option, ())
    return tuple(given.split(",")) if isinstance(given, str) else tuple(given)


def _gryphon(site: Site) -> dict[str, Any]:
    routing = LinkMatching(factored=_names(site, "factored"))
    delivery = {**site.options.get("delivery", {}), "allow_block": False, "names_log": True}
    return {
        **broker_slots(site, routing, AllBrokers(site.brokers)),
        "overlay": JoinedOverlay(site.neighbours, site.parent()),
        "delivery": plain_delivery(**delivery),
        "recovery": AcknowledgedRecovery(),
    }


def _elvin(site: Site) -> dict[str, Any]:
    return broker_slots(site, Quenching(), AllBrokers(site.brokers))


def _notification_service(site: Site) -> dict[str, Any]:
    cells = site.options.get("cells") or DEFAULT_CELLS
    service = site.options.get("service") or site.brokers[0]
    return broker_slots(site, CentralNotification(service), FilterDriven(cells, site.brokers))


def _multicast_groups(site: Site) -> dict[str, Any]:
    knobs = {name: int(site.options[name]) for name in ("groups", "sample") if name in site.options}
    return broker_slots(site, GroupMulticast(**knobs), AllBrokers(site.brokers))


def _tib_rv(site: Site) -> dict[str, Any]:
    options = site.options
    lan = options.get("lan")  # where it is said outright
    if lan is None:
        lan = lan_of(site.name, site.brokers, options.get("lans"), int(options.get("lan_size", LAN_SIZE)))
    routing = SubjectRouting(
        lan, cache=int(options.get("cache", 0)), fan_out=int(options.get("fan_out", 3)),
        refresh=float(options.get("refresh", REFRESH)),
    )  # fmt: skip
    return {
        "delivery": plain_delivery(allow_block=False),
        "assignment": AccessDriven(),
        "routing": routing,
        "overlay": TwoLevels(lan),
    }


SYSTEMS: tuple[System, ...] = (
    System(
        name="tib-rv",
        contract="TIB/RV",
        model="topic",
        promise="best effort; with the option `cache` newcomers hear the last n of each subject",
        graph=PEERS,
        strategies=_tib_rv,
        options=("lan", "lans", "lan_size", "cache", "fan_out", "refresh"),
        datagrams=True,
    ),
    System(
        name="gryphon",
        contract="Gryphon",
        model="content",
        promise="log at the publisher's broker, acknowledged; exactly once per named subscription, in "
        "order per "
        "publisher",
        graph=TREE,
        strategies=_gryphon,
        options=("factored", "delivery"),
        networked=True,
    ),
    System(
        name="elvin",
        contract="SIENA",
        model="content",
        promise="best effort; publishers learn that nobody wants what they advertise, and hold it back",
        graph=TREE,
        strategies=_elvin,
    ),
    System(
        name="notification-service",
        contract="SIENA",
        model="content",
        promise="best effort; brokers match, one service tells",
        graph=ANY_GRAPH,
        strategies=_notification_service,
        options=("cells", "service"),
    ),
    System(
        name="multicast-groups",
        contract="SIENA",
        model="content, clustered",
        promise="best effort; recipients filter what their group hears",
        graph=TREE,
        strategies=_multicast_groups,
        options=("groups", "sample"),
    ),
)
