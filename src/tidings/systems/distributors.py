"""A group of brokers that agrees on its views and keeps one log; clients fail over by themselves.

Options: `group` is its name, `members` are those that found it; `detector`, `roaming` and `log` are tables of
knobs. The views are those of Mathur et al. 1995, with a log of the group's own instead of buffers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven
from tidings.protocol.delivery.grouped import GroupDelivery
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.membership.agreed import VIRTUAL, WEAK, AgreedViews, GroupSettings
from tidings.protocol.membership.failure_detector import DetectorSettings
from tidings.protocol.overlay.mesh import MeshOverlay
from tidings.protocol.recovery.group_log import GroupLog, GroupLogSettings
from tidings.systems.system import MESH, Site, System

GROUP = "group"


def one_of(site: Site, option: str, *known: str) -> str:
    value = str(site.options.get(option, known[0]))
    if value not in known:
        raise SettingsError(f"no {option} is called {value!r}", hint=f"there are: {', '.join(known)}")
    return value


def group_settings(site: Site) -> GroupSettings:
    detector = msgspec.convert(site.options.get("detector", {}), DetectorSettings)
    dials = bool(site.options.get("dials", True))
    return GroupSettings(detector=detector, dials=dials, synchrony=one_of(site, "synchrony", WEAK, VIRTUAL))


def _group(site: Site) -> dict[str, Any]:
    group = str(site.options.get("group", GROUP))
    founders = tuple(site.options.get("members", ())) or site.brokers
    settings = {
        **site.options.get("delivery", {}),
        "names_log": False,
        "shared_log": True,
        "allow_block": False,
    }
    delivery = msgspec.convert(settings, DeliverySettings)
    log = msgspec.convert(site.options.get("log", {}), GroupLogSettings)
    return {
        "delivery": GroupDelivery(MatchingEngine(), delivery, group=group),
        "assignment": AccessDriven(),
        "overlay": MeshOverlay(site.neighbours),
        "recovery": GroupLog(log),
        "membership": AgreedViews(founders, group, group_settings(site)),
    }


SYSTEMS: tuple[System, ...] = (
    System(
        name="tidings-group",
        contract="Tidings",
        model="content, topic, type",
        promise="the group's log on a majority before it is delivered; exactly once per named subscription, "
        "in order "
        "per publisher, at whichever member",
        graph=MESH,
        strategies=_group,
        options=("group", "members", "delivery", "detector", "log", "roaming", "dials"),
        networked=True,
        roams=True,
    ),
)
