"""The properties of the seeds, each one named definition; `PROPERTIES` has them in the order of the map."""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from tidings.extensions import blamed, collect, pass_over
from tidings.history.properties.delivery import COMPLETENESS, LIVENESS
from tidings.history.properties.groups import VIEW_AGREEMENT
from tidings.history.properties.local import LP1, LP2, LP3, LP4
from tidings.history.properties.once import MINIMALITY
from tidings.history.properties.order import FIFO, GAP_FREEDOM
from tidings.history.properties.parasites import NO_PARASITES
from tidings.history.properties.property import Property
from tidings.history.properties.safety import LEGALITY, VALIDITY

PROPERTIES: Final[dict[str, Property]] = {
    each.name: each
    for each in (
        *(LEGALITY, VALIDITY, LIVENESS, COMPLETENESS, MINIMALITY, LP1, LP2, LP3, LP4),
        *(FIFO, GAP_FREEDOM, VIEW_AGREEMENT, NO_PARASITES),
    )
}

GROUP = "tidings.properties"

__all__ = ["PROPERTIES", "Property", "known_properties"]


@cache
def known_properties() -> dict[str, Property]:
    """The product's own properties, then those of the entry-point group `tidings.properties`."""
    found = collect(GROUP, PROPERTIES, lambda each: each.name)
    for name, entry in found.entries.items():
        each = found.objects[name]
        found.objects[name] = msgspec.structs.replace(
            each,
            violations=blamed(GROUP, entry, each.violations),
            does_not_apply=blamed(GROUP, entry, each.does_not_apply),
        )
    pass_over(*found.errors.values())
    return found.objects
