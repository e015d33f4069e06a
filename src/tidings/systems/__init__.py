"""Every system as a composition: one strategy in each slot, one entry each.

`tidings systems` prints this table. A new system is a new entry in the file of its family, made of
strategies; a new family is a new file here. `check_overlay` refuses graphs that a composition cannot work on.
"""

from __future__ import annotations

from difflib import get_close_matches

from tidings.errors import SettingsError
from tidings.systems import (
    brokers,
    distributors,
    epidemic,
    gossip,
    rendezvous,
    rivals,
    self_organising,
    surveyed,
)
from tidings.systems.system import ANY_GRAPH, MESH, NO_LINKS, PEERS, TREE, Site, System

__all__ = [
    "ANY_GRAPH",
    "MESH",
    "NO_LINKS",
    "PEERS",
    "SYSTEMS",
    "TREE",
    "Site",
    "System",
    "find_system",
    "system_names",
]

FAMILIES = (brokers, epidemic, self_organising, gossip, rivals, rendezvous, surveyed, distributors)

SYSTEMS: tuple[System, ...] = tuple(system for family in FAMILIES for system in family.SYSTEMS)


def system_names() -> list[str]:
    return [system.name for system in SYSTEMS]


def find_system(name: str) -> System:
    wanted = name.lower().replace(" ", "-").replace("_", "-")
    for system in SYSTEMS:
        if system.name == wanted:
            return system
    near = get_close_matches(wanted, system_names(), n=3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise SettingsError(
        f"no system is called {name!r}", hint=f"{meant}there are: {', '.join(system_names())}"
    )
