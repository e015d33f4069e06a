"""Distributors (Mathur et al. 1995): a group that agrees on its views, and clients that fail over by themselves.

Options: `mode` is `gap` or `no-gap`; `synchrony` is `weak` or `virtual`; `above` says by name whom a distributor of a
lower level is below of (it is no member of the group then); `detector`, `stability`, `roaming` and `log` are
tables of knobs. `tidings-group` is the same group with a log of its own instead of buffers: the third way
to be without gaps, and the one for processes (`group` is its name, `members` are those who found it).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven
from tidings.protocol.delivery.grouped import Grouped
from tidings.protocol.delivery.serving import serving
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.membership.agreed import VIRTUAL, WEAK, AgreedViews, GroupSettings
from tidings.protocol.membership.suspecting import DetectorSettings
from tidings.protocol.overlay.mesh import MeshOverlay
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.recovery.group_log import GroupLog, GroupLogSettings
from tidings.protocol.recovery.stability import GAP, NO_GAP, Stability, StabilitySettings
from tidings.protocol.routing.multicast import DistributorMulticast
from tidings.protocol.slots import Membership
from tidings.systems.system import MESH, Site, System

GROUP = "group"


def _one_of(site: Site, option: str, *known: str) -> str:
    value = str(site.options.get(option, known[0]))
    if value not in known:
        raise SettingsError(f"no {option} is called {value!r}", hint=f"there are: {', '.join(known)}")
    return value


def group_settings(site: Site) -> GroupSettings:
    detector = msgspec.convert(site.options.get("detector", {}), DetectorSettings)
    dials = bool(site.options.get("dials", True))
    return GroupSettings(detector=detector, dials=dials, synchrony=_one_of(site, "synchrony", WEAK, VIRTUAL))


def _uarc(site: Site) -> dict[str, Any]:
    levels: dict[str, Any] = site.options.get("above", {})
    above = tuple(levels.get(site.name, ()))
    founders = tuple(name for name in site.brokers if name not in levels)
    mode = _one_of(site, "mode", GAP, NO_GAP)
    stability = msgspec.convert({**site.options.get("stability", {}), "mode": mode}, StabilitySettings)
    membership = Membership() if above else AgreedViews(founders, GROUP, group_settings(site))
    return {
        "delivery": serving(MatchingEngine(), GROUP),
        "assignment": AccessDriven(),
        "routing": DistributorMulticast(above),
        "overlay": StaticOverlay(site.neighbours),
        "recovery": Stability(stability, above=above),
        "membership": membership,
    }


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
        "delivery": Grouped(MatchingEngine(), delivery, group=group),
        "assignment": AccessDriven(),
        "overlay": MeshOverlay(site.neighbours),
        "recovery": GroupLog(log),
        "membership": AgreedViews(founders, group, group_settings(site)),
    }


SYSTEMS: tuple[System, ...] = (
    System(
        name="uarc",
        contract="UARC, gap",
        model="content, topic",
        promise="once, FIFO, with or without gaps; an agreed group, clients that fail over",
        graph=MESH,
        strategies=_uarc,
        options=("mode", "synchrony", "above", "detector", "stability", "roaming"),
        roams=True,
    ),
    System(
        name="tidings-group",
        contract="Tidings",
        model="content, topic, type",
        promise="the group's log on a majority before it is told; exactly once per named subscription, in order "
        "per publisher, at whichever member",
        graph=MESH,
        strategies=_group,
        options=("group", "members", "delivery", "detector", "log", "roaming", "dials"),
        networked=True,
        roams=True,
    ),
)
