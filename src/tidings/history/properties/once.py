"""Minimality: no event is delivered twice (Baldoni et al. 2002, 4.2, definition 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from tidings.history.deliveries import JudgedNotification
from tidings.history.properties.property import NO_NOTIFICATIONS, Property, notified
from tidings.history.relations import Table, Violation
from tidings.history.story import event_name, on_behalf, seconds, violation
from tidings.history.tables import Tables


def delivered_again(of_one_receiver: Sequence[JudgedNotification]) -> Iterator[Violation]:
    """The notifications of one event to one receiver: one, and redeliveries that the history
    bears out (`repeats.py`)."""
    if len(of_one_receiver) == 1:
        return
    unasked = sorted(
        (each for each in of_one_receiver if not each.repeated),
        key=attrgetter("time", "process", "subscription"),
    )
    for again in unasked[1:]:
        first = unasked[0].time
        story = (
            f"At {seconds(again.time)} {on_behalf(again.process, again.subscription)} received "
            f"{event_name(again.source, again.event)}, which it had received at {seconds(first)}."
        )
        yield violation(again, again.time, story, first_told=first)


def _delivered_again(tables: Tables) -> Sequence[Table]:
    return (tables.engine.group(delivered_again, (tables.judged, tables.receiver), output=Violation),)


MINIMALITY = Property(
    "minimality",
    "Each event is delivered at most once to each subscription (to each process, where a contract says so).",
    "Baldoni et al. 2002, 4.2, definition 2",
    _delivered_again,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)
