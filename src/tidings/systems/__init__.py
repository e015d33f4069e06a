"""Systems: compositions of one strategy in each slot, found by name.

The product's own systems stand in the files beside this one; other distributions offer theirs through the
entry-point group `tidings.systems` (see `tidings.extensions`). `tidings systems` prints the table of all.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.extensions import Collected, blaming, collect, pass_over
from tidings.protocol.slots import KINDS, Strategy
from tidings.systems import brokers, distributors, gossip, self_organising
from tidings.systems.choosing import CHOICES
from tidings.systems.system import ANY_GRAPH, MESH, NO_LINKS, PEERS, TREE, Choice, Site, System

__all__ = [
    "ANY_GRAPH",
    "GROUP",
    "MESH",
    "NO_LINKS",
    "OWN",
    "PEERS",
    "TREE",
    "Choice",
    "Site",
    "System",
    "find_system",
    "system_names",
    "systems",
]

GROUP = "tidings.systems"
OWN: tuple[System, ...] = tuple(
    msgspec.structs.replace(system, choice=CHOICES[system.name])
    for family in (brokers, self_organising, gossip, distributors)
    for system in family.SYSTEMS
)


@cache
def _collected() -> Collected[System]:
    """Every system by its plain name; those of extensions with errors that name their package."""
    found = collect(GROUP, _BY_NAME, lambda system: _plain(system.name))
    for name, entry in found.entries.items():
        found.objects[name] = _blamed(entry, found.objects[name])
    return found


@cache
def systems() -> tuple[System, ...]:
    """Every system: the product's own, then those of installed extensions in the order of their names."""
    pass_over(*_collected().errors.values())
    return tuple(_collected().objects.values())


def system_names() -> list[str]:
    return [system.name for system in systems()]


def find_system(name: str) -> System:
    """The system of that name; the product's own are found without loading any extension."""
    wanted = _plain(name)
    found = _BY_NAME.get(wanted) or _collected().objects.get(wanted)
    if found is not None:
        return found
    for broken, error in _collected().errors.items():
        if _plain(broken) == wanted:
            raise error
    near = get_close_matches(name.lower(), system_names(), n=3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    published = "" if any(each.name == "siena" for each in systems()) else PUBLISHED
    raise SettingsError(
        f"no system is called {name!r}", hint=f"{meant}there are: {', '.join(system_names())}{published}"
    )


PUBLISHED = "; the package tidings-lab brings the published ones"


def _plain(name: str) -> str:
    """Case, blanks, underlines and hyphens do not matter."""
    return _SIGNS.sub("", name.lower())


_SIGNS = re.compile(r"[\s_-]")
_BY_NAME = {_plain(system.name): system for system in OWN}


def _blamed(entry: str, system: System) -> System:
    def strategies(site: Site) -> dict[str, Any]:
        with blaming(GROUP, entry):
            slots = system.strategies(site)
            if not isinstance(slots, dict) or "delivery" not in slots:
                raise TypeError(f"the strategies of {system.name} fill no slot `delivery`")
            for slot, strategy in slots.items():
                if not isinstance(strategy, Strategy):
                    raise TypeError(f"{system.name} has {strategy!r} in the slot {slot}")
                if slot not in KINDS:
                    raise TypeError(f"{system.name} has a slot {slot!r}; there are: {', '.join(KINDS)}")
                if strategy.kind != slot:
                    raise TypeError(f"{system.name} has {strategy!r} ({strategy.kind}) in the slot {slot}")
        return slots

    return msgspec.structs.replace(system, strategies=strategies)
