"""Systems: compositions of one strategy in each slot, found by name.

The product's own systems stand in the files beside this one; other distributions offer theirs through the
entry-point group `tidings.systems` (see `tidings.extensions`). `tidings systems` prints the table of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

import msgspec

from tidings.errors import ExtensionError, SettingsError
from tidings.extensions import load_all
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
def systems() -> tuple[System, ...]:
    """Every system: the product's own, then those of installed extensions in the order of their names."""
    found = {system.name: system for system in OWN}
    for name, offered in sorted(load_all(GROUP)):
        for system in (offered,) if isinstance(offered, System) else offered:
            if not isinstance(system, System):
                raise ExtensionError(
                    f"the entry point {name!r} of {GROUP} is {system!r}", hint="it has to be a System"
                )
            found.setdefault(system.name, system)
    return tuple(found.values())


def system_names() -> list[str]:
    return [system.name for system in systems()]


def find_system(name: str) -> System:
    """The system of that name; the product's own are found without loading any extension."""
    wanted = name.lower().replace(" ", "-").replace("_", "-")
    for system in _search():
        if system.name == wanted:
            return system
    near = get_close_matches(wanted, system_names(), n=3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    published = "" if any(each.name == "siena" for each in systems()) else PUBLISHED
    raise SettingsError(
        f"no system is called {name!r}", hint=f"{meant}there are: {', '.join(system_names())}{published}"
    )


PUBLISHED = "; `pip install tidings-lab` brings the published ones"


def _search() -> Iterable[System]:
    yield from OWN
    yield from systems()
