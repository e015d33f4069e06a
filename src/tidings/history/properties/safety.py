"""Legality and validity: no wrong event is delivered (Virgillito 2003, 3.1.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.history.deliveries import JudgedNotification
from tidings.history.properties.property import Property
from tidings.history.relations import Table, Violation
from tidings.history.story import event_name, on_behalf, seconds, violation
from tidings.history.tables import Tables


def unlawful(told: JudgedNotification) -> Iterator[Violation]:
    """P1: a notification lies in an interval of its subscription, and the filter accepts it."""
    if told.lawful:
        return
    yield violation(
        told,
        told.time,
        f"{told_sentence(told)}, but {_reason(told)}.",
        start=told.start,
        end=told.end,
        accepted=told.accepted,
    )


def invalid(told: JudgedNotification) -> Iterator[Violation]:
    """P2: a notification follows the publication of its event."""
    if told.published is not None and told.published <= told.time:
        return
    if told.published is not None:
        reason = f"it was published only at {seconds(told.published)}"
    else:
        reason = "its publication was refused" if told.refused else "it was never published"
    yield violation(
        told,
        told.time,
        f"{told_sentence(told)}, but {reason}.",
        published=told.published,
        refused=told.refused,
    )


def told_sentence(told: JudgedNotification) -> str:
    who = on_behalf(told.process, told.subscription)
    return f"At {seconds(told.time)} {who} received {event_name(told.source, told.event)}"


def _reason(told: JudgedNotification) -> str:
    if told.inside:
        return "the filter in force does not accept it"
    if told.start is None or told.end is None:
        return "had no such subscription"
    if told.time < told.start:
        return f"subscribed only at {seconds(told.start)}"
    return f"had unsubscribed at {seconds(told.end)}"


def _unlawful(tables: Tables) -> Sequence[Table]:
    return (tables.engine.each(unlawful, tables.told, output=Violation),)


def _invalid(tables: Tables) -> Sequence[Table]:
    return (tables.engine.each(invalid, tables.told, output=Violation),)


LEGALITY = Property(
    "legality",
    "Every notification lies in an interval of its subscription, and the filter accepts the event.",
    "Virgillito 2003, 3.1.2, P1",
    _unlawful,
)
VALIDITY = Property(
    "validity",
    "Every notification follows the publication of its event; a refused event is never delivered.",
    "Virgillito 2003, 3.1.2, P2",
    _invalid,
)
