"""Legality and validity: no wrong event is delivered (Virgillito 2003, 3.1.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.history.deliveries import JudgedNotification
from tidings.history.properties.property import NO_NOTIFICATIONS, Property, notified
from tidings.history.relations import Table, Violation
from tidings.history.story import event_name, on_behalf, seconds, violation
from tidings.history.tables import Tables


def unlawful(notification: JudgedNotification) -> Iterator[Violation]:
    """P1: a notification lies in an interval of its subscription, and the filter accepts it."""
    if notification.lawful:
        return
    yield violation(
        notification,
        notification.time,
        f"{delivered_sentence(notification)}, but {_reason(notification)}.",
        start=notification.start,
        end=notification.end,
        accepted=notification.accepted,
    )


def invalid(notification: JudgedNotification) -> Iterator[Violation]:
    """P2: a notification follows the publication of its event."""
    if notification.published is not None and notification.published <= notification.time:
        return
    if notification.published is not None:
        reason = f"it was published only at {seconds(notification.published)}"
    else:
        reason = "its publication was refused" if notification.refused else "it was never published"
    yield violation(
        notification,
        notification.time,
        f"{delivered_sentence(notification)}, but {reason}.",
        published=notification.published,
        refused=notification.refused,
    )


def delivered_sentence(notification: JudgedNotification) -> str:
    who = on_behalf(notification.process, notification.subscription)
    event = event_name(notification.source, notification.event)
    return f"At {seconds(notification.time)} {who} received {event}"


def _reason(notification: JudgedNotification) -> str:
    if notification.inside:
        return "the filter in force does not accept it"
    if notification.start is None or notification.end is None:
        return "had no such subscription"
    if notification.time < notification.start:
        return f"subscribed only at {seconds(notification.start)}"
    return f"had unsubscribed at {seconds(notification.end)}"


def _unlawful(tables: Tables) -> Sequence[Table]:
    return (tables.engine.each(unlawful, tables.judged, output=Violation),)


def _invalid(tables: Tables) -> Sequence[Table]:
    return (tables.engine.each(invalid, tables.judged, output=Violation),)


LEGALITY = Property(
    "legality",
    "Every notification lies in an interval of its subscription, and the filter accepts the event.",
    "Virgillito 2003, 3.1.2, P1",
    _unlawful,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)
VALIDITY = Property(
    "validity",
    "Every notification follows the publication of its event; a refused event is never delivered.",
    "Virgillito 2003, 3.1.2, P2",
    _invalid,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)
