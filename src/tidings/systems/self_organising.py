"""Brokers that rearrange their links: SOCBR, pbSOCBR (Virgillito 2003, chapter 4), and by expected hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidings.errors import SettingsError
from tidings.protocol.assignment.policies import AccessDriven
from tidings.protocol.routing.covering import CoveringRouting
from tidings.systems.brokers import plain_delivery
from tidings.systems.system import TREE, Site, System

if TYPE_CHECKING:
    from tidings.protocol.overlay.measures import Measure

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}  # the space of the thesis' simulations
KNOBS = (
    "fan_out", "trigger", "ttl", "adaptive_ttl", "bound_seconds", "keep_alpha", "on_unsubscribe",
    "again_seconds",
    "patience_seconds", "locks",
)  # fmt: skip
OPTIONS = ("space", "measure", "points", *KNOBS)
NEEDS = ("numpy",)  # zones are measured with it
BOUND_SECONDS = 0.1  # half of the longest way in the thesis' networks


def measure_of(options: dict[str, Any]) -> Measure:
    from tidings.protocol.overlay.measures import ExactMeasure, SampledMeasure

    space = {name: (float(low), float(high)) for name, (low, high) in options.get("space", SQUARE).items()}
    name = options.get("measure", "sampled")
    if name == "exact":
        return ExactMeasure(space)
    if name != "sampled":
        raise SettingsError(f"no measure is called {name!r}", hint="there are: exact, sampled")
    return SampledMeasure(space, points=options.get("points", 1024))


def _slots(site: Site, kind: str, **fixed: Any) -> dict[str, Any]:
    from tidings.protocol.overlay import self_organising as overlays

    knobs = {name: site.options[name] for name in KNOBS if name in site.options}
    settings = msgspec.convert({**fixed, **knobs}, overlays.OrganisingSettings, strict=False)
    return {
        "delivery": plain_delivery(allow_block=False),
        "assignment": AccessDriven(),
        "routing": CoveringRouting(),
        "overlay": getattr(overlays, kind)(site.neighbours, measure_of(site.options), settings),
    }


def _socbr(site: Site) -> dict[str, Any]:
    return _slots(site, "SelfOrganisingOverlay")


def _pbsocbr(site: Site) -> dict[str, Any]:
    return _slots(site, "NearOverlay", bound_seconds=BOUND_SECONDS)


def _fewer_hops(site: Site) -> dict[str, Any]:
    return _slots(site, "FewerHopsOverlay", weigh="hops")


SYSTEMS: tuple[System, ...] = (
    System(
        name="socbr",
        contract="SIENA",
        model="content",
        promise="best effort; nothing lost in reconfiguration",
        graph=TREE,
        networked=True,
        strategies=_socbr,
        options=OPTIONS,
        needs=NEEDS,
    ),
    System(
        name="pbsocbr",
        contract="SIENA",
        model="content",
        promise="best effort; nothing lost in reconfiguration; new links are near",
        graph=TREE,
        networked=True,
        strategies=_pbsocbr,
        options=OPTIONS,
        needs=NEEDS,
    ),
    System(
        name="fewer-hops",
        contract="SIENA",
        model="content",
        promise="best effort; nothing lost in reconfiguration; swaps save hops",
        graph=TREE,
        networked=True,
        strategies=_fewer_hops,
        options=OPTIONS,
        needs=NEEDS,
    ),
)
