"""The systems of brokers on given links:

Tidings itself, and the single broker that is embedded in a process.
"""

from __future__ import annotations

from typing import Any

from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Channel
from tidings.protocol.overlay.healing import HealingOverlay
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery
from tidings.protocol.recovery.settings import AcknowledgedSettings
from tidings.protocol.routing.covering import CoveringRouting
from tidings.protocol.slots import Assignment, Routing
from tidings.systems.system import NO_LINKS, TREE, Site, System

RESENDS = 1024  # events of each link that are held to be sent again where they travel by datagram
HEALING_ROUNDS = 10  # in which the neighbours of a lost broker find one another, some being away too


def plain_delivery(**settings: Any) -> ExactlyOnce:
    return ExactlyOnce(MatchingEngine(), DeliverySettings(**settings))


def event_channel(site: Site) -> Channel:
    """Transport of events between brokers: on the links, or by datagrams, which may be lost."""
    return Channel.DATAGRAM if site.options.get("datagrams") else Channel.LINK


def broker_slots(site: Site, routing: Routing, assignment: Assignment | None = None) -> dict[str, Any]:
    """Parts common to all networks of brokers here, around their own routing and assignment."""
    return {
        "delivery": plain_delivery(allow_block=False),
        "assignment": assignment or AccessDriven(),
        "routing": routing,
        "overlay": StaticOverlay(site.neighbours, site.parent()),
    }


def _tidings(site: Site) -> dict[str, Any]:
    knobs = site.options.get("advertising", {})
    routing = CoveringRouting(
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
        "recovery": AcknowledgedRecovery(
            AcknowledgedSettings(orphan_seconds=patience, resends=resends),
            recalls=not site.neighbours,
            is_joining=bool(site.options.get("joins", False)),
        ),
    }


def _intermediary(_site: Site) -> dict[str, Any]:
    return {"delivery": plain_delivery()}


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
)
