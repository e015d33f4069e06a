"""Distributors (Mathur et al. 1995): a group that agrees on its views, and clients that fail over by
themselves.

Options: `mode` is `gap` or `no-gap`; `synchrony` is `weak` or `virtual`; `above` names the distributors above
a distributor of a lower level (it is no member of the group then); `detector`, `stability` and `roaming` are
tables of knobs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.matching.engine import MatchingEngine
from tidings.protocol.assignment.policies import AccessDriven
from tidings.protocol.delivery.serving import serving
from tidings.protocol.membership.agreed import AgreedViews
from tidings.protocol.overlay.mesh import MeshOverlay
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.slots import Membership
from tidings.systems.distributors import GROUP, group_settings, one_of
from tidings.systems.system import MESH, Site, System
from tidings_lab.recovery.stability import GAP, NO_GAP, Stability, StabilitySettings
from tidings_lab.recovery.streams import StreamProgress
from tidings_lab.routing.multicast import DistributorMulticast


def _uarc(site: Site) -> dict[str, Any]:
    levels: dict[str, Any] = site.options.get("above", {})
    above = tuple(levels.get(site.name, ()))
    founders = tuple(site.options.get("members", ())) or tuple(
        name for name in site.brokers if name not in levels
    )
    mode = one_of(site, "mode", GAP, NO_GAP)
    stability = msgspec.convert({**site.options.get("stability", {}), "mode": mode}, StabilitySettings)
    membership = Membership() if above else AgreedViews(founders, GROUP, group_settings(site))
    return {
        "delivery": serving(MatchingEngine(), GROUP),
        "assignment": AccessDriven(),
        "routing": DistributorMulticast(above),
        "overlay": StaticOverlay(site.neighbours)
        if above or len(site.brokers) > 1
        else MeshOverlay(site.neighbours),
        "recovery": Stability(stability, above=above),
        "membership": membership,
    }


SYSTEMS: tuple[System, ...] = (
    System(
        name="uarc",
        contract="UARC, gap",
        model="content, topic",
        promise="once, FIFO, with or without gaps; an agreed group, clients that fail over",
        graph=MESH,
        strategies=_uarc,
        options=("members", "mode", "synchrony", "above", "detector", "stability", "roaming"),
        networked=True,
        roams=True,
        reports_received=lambda options: StreamProgress if options.get("mode") == NO_GAP else None,
    ),
)
