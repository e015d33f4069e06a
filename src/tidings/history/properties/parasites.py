"""No parasites: no peer receives what it did not ask for (Baehni et al. 2004, 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.history.acceptance import accepts_event
from tidings.history.deliveries import JudgedReceipt
from tidings.history.properties.property import Property
from tidings.history.publications import Publication
from tidings.history.relations import Table, Violation
from tidings.history.story import event_name, seconds, violation
from tidings.history.tables import EVENT, Tables


def parasites(
    of_one_event: Sequence[JudgedReceipt], publications: Sequence[Publication]
) -> Iterator[Violation]:
    """The receipts of one event: each peer published it itself, or has a filter that accepts it."""
    if not publications:
        return  # its content is unknown; a notification of it breaks validity
    publication = publications[0]
    content = publication.content()
    for each in of_one_event:
        if each.process == publication.process:
            continue
        if any(accepts_event(text, dialect, content) for text, dialect in each.filters):
            continue
        reason = "which none of its filters accepts" if each.filters else "but was subscribed to nothing"
        story = (
            f"At {seconds(each.time)} {each.process} received {event_name(each.source, each.event)}, "
            f"{reason}."
        )
        yield violation(each, each.time, story, filters=len(each.filters))


def _parasites(tables: Tables) -> Sequence[Table]:
    events = (tables.reached, EVENT), (tables.publications, EVENT)
    return (tables.engine.group(parasites, *events, output=Violation),)


def _no_receipts(tables: Tables) -> str | None:
    return "the history has no recv rows" if tables.engine.is_empty(tables.receipts) else None


NO_PARASITES = Property(
    "no_parasites",
    "No peer receives an event that none of its own filters accepts.",
    "Baehni et al. 2004, 3.2",
    _parasites,
    _no_receipts,
)
