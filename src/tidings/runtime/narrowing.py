"""The notice to a client of a subscription that its rights narrow.

Rules
- It is told the filter that holds: what its own filter and its rights have in common, and no other part of
  the rules.
- The condition on the tenant is left out. The broker writes that attribute into events, so a publisher's
  record of an event does not have it.
"""

from __future__ import annotations

import msgspec

from tidings.language.printer import print_filter
from tidings.model.event import TENANT
from tidings.model.filter import Filter

NARROWED = "your rights allow a part of this filter: other events are not delivered to you"


def shown(filter: Filter) -> str:
    """The filter that holds, for the client's record."""
    parts = [
        msgspec.structs.replace(
            part, constraints=tuple([c for c in part.constraints if c.attribute != TENANT])
        )
        for part in filter.conjunctions
    ]
    return print_filter(Filter("", tuple(parts), filter.dialect))
