"""The systems that Virgillito 2003 surveys in chapter 2, beyond those that have families of their own."""

from __future__ import annotations

from typing import Any

from tidings.protocol.assignment.policies import AllBrokers
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.recovery.acknowledged import Acknowledged
from tidings.protocol.routing.link_matching import LinkMatching
from tidings.systems.brokers import broker_slots, plain_delivery
from tidings.systems.system import TREE, Site, System


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
        "recovery": Acknowledged(),
    }


SYSTEMS: tuple[System, ...] = (
    System(
        name="gryphon",
        contract="Gryphon",
        model="content",
        promise="log at the publisher's broker, acknowledged; exactly once per named subscription, in order per "
        "publisher",
        graph=TREE,
        strategies=_gryphon,
        options=("factored", "delivery"),
        networked=True,
    ),
)
