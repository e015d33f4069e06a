"""The properties of the seeds, each one named definition; `PROPERTIES` has them in the order of the map."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from tidings.extensions import blamed, blaming, collect, pass_over, refused
from tidings.history.properties.delivery import COMPLETENESS, LIVENESS
from tidings.history.properties.groups import VIEW_AGREEMENT
from tidings.history.properties.local import LP1, LP2, LP3, LP4
from tidings.history.properties.once import MINIMALITY
from tidings.history.properties.order import FIFO, GAP_FREEDOM
from tidings.history.properties.parasites import NO_PARASITES
from tidings.history.properties.property import Property
from tidings.history.properties.safety import LEGALITY, VALIDITY
from tidings.history.relations import Table, Violation
from tidings.history.tables import Tables

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
            violations=_checked(entry, blamed(GROUP, entry, each.violations)),
            does_not_apply=blamed(GROUP, entry, each.does_not_apply),
        )
    pass_over(*found.errors.values())
    return found.objects


def _checked(entry: str, violations: Callable[[Tables], Any]) -> Callable[[Tables], Sequence[Table]]:
    """The violations of another package's property, which have to be tables."""

    def found(tables: Tables) -> Sequence[Table]:
        value = violations(tables)
        with blaming(GROUP, entry):
            given = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
        if inspect.iscoroutine(value):
            value.close()  # nothing awaits it
        if given is None or any(isinstance(each, str | Violation) for each in given):
            shown = repr(value) if given is None or not given else f"a {type(value).__name__} of no tables"
            why = f"whose violations gave {shown} and have to give a sequence of tables of Violation"
            raise refused(GROUP, entry, f"{why}: return (tables.engine.each(...),)")
        for table in given:
            wrong = [each for each in table if not isinstance(each, Violation)] if type(table) is list else []
            if wrong:  # a list is a table of the engine in memory
                raise refused(GROUP, entry, f"whose violations hold {wrong[0]!r}, which is no Violation")
        return given

    return found
