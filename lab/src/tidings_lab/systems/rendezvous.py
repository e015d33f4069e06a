"""The systems of rendezvous on a prefix overlay: Scribe, Hermes, and partitioning over brokers that come and
go.

Options: `join` names the brokers that newcomers ask for a place (else the first brokers), `overlay` and
`trees` are tables of the knobs in `PrefixSettings` and `TreeSettings`; without `datagrams` brokers make links
to their receivers; Hermes' `filters` is `recipients` (as first published) or `path` (its later form); `cells`
is the partition of the attribute space.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tidings.algebra.cells import GridCells
from tidings.errors import SettingsError
from tidings.protocol.slots import Assignment, Routing
from tidings.systems.brokers import plain_delivery
from tidings.systems.system import PEERS, Site, System
from tidings_lab.assignment.rendezvous import ANY, ByCell, ByTopic, ByType
from tidings_lab.overlay.prefix import PrefixOverlay, PrefixSettings
from tidings_lab.routing.keyed import TreeSettings
from tidings_lab.routing.match_at_rendezvous import MatchAtRendezvous
from tidings_lab.routing.rendezvous import RendezvousTrees

CONTACTS = 3  # of the first brokers, which newcomers ask
RECIPIENTS, PATH = "recipients", "path"
OPTIONS = ("join", "overlay", "trees", "datagrams", "delivery")

Knobs = TypeVar("Knobs", PrefixSettings, TreeSettings)


def _knobs(kind: type[Knobs], site: Site, name: str) -> Knobs:
    given = site.options.get(name, {})
    for knob in given:
        if knob not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__)
            raise SettingsError(f"{name} has no knob {knob!r}", hint=f"there are: {known}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name}: {error}") from None


def _slots(site: Site, assignment: Assignment, routing: Routing) -> dict[str, Any]:
    contacts = site.options.get("join") or site.brokers[:CONTACTS]
    linked = not site.options.get("datagrams", True)
    if site.options.get("datagrams") and set(contacts) <= {site.name}:
        raise SettingsError(
            "nobody is named whom datagrams could reach",
            hint="leave `datagrams` out: links are made as they are needed",
        )
    return {
        "delivery": plain_delivery(**{**site.options.get("delivery", {}), "allow_block": False}),
        "assignment": assignment,
        "routing": routing,
        "overlay": PrefixOverlay(contacts, _knobs(PrefixSettings, site, "overlay"), linked=linked),
    }


def _scribe(site: Site) -> dict[str, Any]:
    return _slots(site, ByTopic(), RendezvousTrees(_knobs(TreeSettings, site, "trees"), quenched=(ANY,)))


def _hermes(site: Site) -> dict[str, Any]:
    filters = site.options.get("filters", RECIPIENTS)
    if filters not in (RECIPIENTS, PATH):
        raise SettingsError(f"filters is {filters!r}", hint=f"{RECIPIENTS} or {PATH}")
    settings = _knobs(TreeSettings, site, "trees")
    on_path = filters == PATH
    routing = RendezvousTrees(settings, on_path=on_path, enrolled=not on_path, quenched=(ANY,))
    return _slots(site, ByType(), routing)


def _hermes_path(site: Site) -> dict[str, Any]:
    return _hermes(msgspec.structs.replace(site, options={**site.options, "filters": PATH}))


def _partitioned(site: Site) -> dict[str, Any]:
    cells = site.options.get("cells") or GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
    return _slots(site, ByCell(cells), MatchAtRendezvous(_knobs(TreeSettings, site, "trees")))


SYSTEMS: tuple[System, ...] = (
    System(
        name="scribe",
        contract="Scribe",
        model="topic",
        promise="best effort; trees and overlay mend themselves",
        graph=PEERS,
        strategies=_scribe,
        options=OPTIONS,
        networked=True,
    ),
    System(
        name="hermes",
        contract="Hermes",
        model="type and filter",
        promise="best effort; filters at recipients, one copy of each subscription at its type's broker",
        graph=PEERS,
        strategies=_hermes,
        options=(*OPTIONS, "filters"),
        networked=True,
    ),
    System(
        name="hermes-path",
        contract="Hermes",
        model="type and filter",
        promise="best effort; filters on the path, as in the later Hermes",
        graph=PEERS,
        strategies=_hermes_path,
        options=OPTIONS,
        networked=True,
    ),
    System(
        name="partitioned-elastic",
        contract="Partitioned",
        model="content",
        promise="best effort; zones move as brokers come and go",
        graph=PEERS,
        strategies=_partitioned,
        options=(*OPTIONS, "cells"),
        networked=True,
    ),
)
