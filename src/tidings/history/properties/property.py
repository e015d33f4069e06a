"""Definition of a property: a name, a sentence, its reference, and a function that finds its violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidings.history.relations import Table
from tidings.history.tables import Tables

NO_NOTIFICATIONS = "the history has no ntfy rows"


def always(tables: Tables) -> None:
    """Condition that holds for every history."""


def notified(tables: Tables) -> Table:
    """Instances of a property of notifications."""
    return tables.notices


class Property(msgspec.Struct, frozen=True):
    name: str
    says: str  # the definition in one sentence
    seed: str  # where it is defined
    violations: Callable[[Tables], Sequence[Table]]
    does_not_apply: Callable[[Tables], str | None] = always  # the reason, when it does not
    late: bool = False  # it asks for the largest delay, which only a pass over the whole history tells
    # the records that it speaks of: without any, it is not judged; None: not known
    instances: Callable[[Tables], Table] | None = None
    nothing: str = "the history has nothing that it speaks of"  # the reason then
