"""The rows of a history: operation, time and process. One schema for every driver.

Rules
- Times are seconds. A `sub` or `usub` row stands at the moment the subscriber knew that it took
  effect (its acknowledgement); a `pub` row at the moment the publisher issued it, so that the
  times of one source follow its counter; a `ntfy` row when the event was handed over.
- `outcome` is `ok`, `refused` (it had no effect) or `unknown` (no answer came: it may have
  happened or not). A retried operation is one more row.
- A durable subscription that stops listening without ending is a `usub` row with the reason
  `detach`; listening again is one more `sub` row under the same id.
- An event that may be handed over again on purpose, because the subscriber gave it back or its commit may be
  lost, is a `ntfy` row with the reason `redelivery`. A `nack` row says that a subscriber gave an event back,
  or left without committing it; a `suspect` row of a client, that it lost that broker.
- A `drop` or `dead` row names the subscription, the event and the reason.
- A row without a subscription id speaks of its process's only subscription.
- An absent value is None. The order of the rows has no meaning; their times have.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from tidings.model.event import Event
from tidings.model.filter import TIDINGS, Filter
from tidings.model.subscription import Position, SubscriptionId

VERSION: Final = 1  # of this schema; files carry it

Op: TypeAlias = Literal[
    "sub",
    "usub",
    "pub",
    "ntfy",
    "recv",
    "avail",
    "drop",
    "dead",
    "crash",
    "restart",
    "suspect",
    "view",
    "nack",
]
Outcome: TypeAlias = Literal["ok", "refused", "unknown"]

OPS: Final[frozenset[str]] = frozenset(get_args(Op))
OUTCOMES: Final[frozenset[str]] = frozenset(get_args(Outcome))

SUB: Final = "sub"
USUB: Final = "usub"
PUB: Final = "pub"
NTFY: Final = "ntfy"
RECV: Final = "recv"  # an event reached this broker or peer
AVAIL: Final = "avail"  # from now on this broker can deliver the event
DROP: Final = "drop"  # by a named policy
DEAD: Final = "dead"  # given up on, to dead letters
CRASH: Final = "crash"
RESTART: Final = "restart"
SUSPECT: Final = "suspect"
VIEW: Final = "view"  # this process installed a view of a group
NACK: Final = "nack"  # given back, or left uncommitted

OK: Final = "ok"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"

DETACH: Final = "detach"  # reason on usub: the durable subscription stays
REDELIVERY: Final = "redelivery"  # reason on ntfy: perhaps handed over again on purpose


class Row(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={"from_": "from"},
):
    """One row of a history; the fields are the columns, in their order in files."""

    run: str = ""
    time: float
    process: str
    op: Op
    subscription: str | None = None
    filter: str | None = None
    dialect: str | None = None
    event: str | None = None
    source: str | None = None
    sequence: int | None = None  # the publisher's counter
    attributes: dict[str, Any] | None = None
    topic: str | None = None
    type: tuple[str, ...] | None = None  # the lineage
    lifetime: float | None = None  # seconds; infinity is forever
    key: str | None = None
    expires: float | None = None  # absolute: the time when it ends for all subscribers
    position: str | None = None  # "log:offset"
    reason: str | None = None
    outcome: Outcome | None = None  # None counts as ok
    broker: str | None = None
    view: int | None = None
    members: tuple[str, ...] | None = None
    from_: str | None = None


COLUMNS: Final[tuple[str, ...]] = Row.__struct_encode_fields__


def sub_row(
    time: float,
    process: str,
    subscription: SubscriptionId | str,
    filter: Filter | str,
    *,
    run: str = "",
    outcome: Outcome = OK,
    dialect: str | None = None,
    broker: str | None = None,
) -> Row:
    """`process` subscribed. The dialect is the filter's own, or `tidings` for a text."""
    own = filter.dialect if isinstance(filter, Filter) else TIDINGS
    return Row(
        run=run,
        time=time,
        process=process,
        op=SUB,
        subscription=str(subscription),
        filter=filter.text if isinstance(filter, Filter) else filter,
        dialect=dialect or own,
        outcome=outcome,
        broker=broker,
    )


def usub_row(
    time: float,
    process: str,
    subscription: SubscriptionId | str,
    *,
    run: str = "",
    outcome: Outcome = OK,
    detach: bool = False,
    broker: str | None = None,
) -> Row:
    """`process` unsubscribed, or with `detach` only stopped listening."""
    return Row(
        run=run,
        time=time,
        process=process,
        op=USUB,
        subscription=str(subscription),
        reason=DETACH if detach else None,
        outcome=outcome,
        broker=broker,
    )


def pub_row(
    time: float,
    process: str,
    event: Event,
    *,
    run: str = "",
    sequence: int | None = None,
    outcome: Outcome = OK,
    broker: str | None = None,
) -> Row:
    """`process` published. The event's own `time` travels among the attributes, where no
    attribute can have that name."""
    attributes = event.shared_attributes
    if event.rich and "time" in attributes:
        attributes = {"data.time" if name == "time" else name: value for name, value in attributes.items()}
    if event.time is not None:
        attributes = {**attributes, "time": event.time}
    return Row(
        run=run,
        time=time,
        process=process,
        op=PUB,
        event=event.id,
        source=event.source,
        sequence=sequence,
        attributes=attributes,
        topic=event.topic,
        type=event.type or None,
        lifetime=event.lifetime,
        key=event.key,
        expires=None if event.expires is None else time + event.expires,
        outcome=outcome,
        broker=broker,
    )


def ntfy_row(
    time: float,
    process: str,
    subscription: SubscriptionId | str,
    event: Event,
    *,
    run: str = "",
    sequence: int | None = None,
    position: Position | None = None,
    redelivery: bool = False,
    broker: str | None = None,
) -> Row:
    """The event was handed to `process` for that subscription."""
    return Row(
        run=run,
        time=time,
        process=process,
        op=NTFY,
        subscription=str(subscription),
        event=event.id,
        source=event.source,
        sequence=sequence,
        position=None if position is None else f"{position.log}:{position.offset}",
        reason=REDELIVERY if redelivery else None,
        broker=broker,
    )


def nack_row(
    time: float, process: str, subscription: SubscriptionId | str, event: Event, *, run: str = ""
) -> Row:
    """`process` gave the event back, or left that subscription without committing it."""
    return Row(
        run=run,
        time=time,
        process=process,
        op=NACK,
        subscription=str(subscription),
        event=event.id,
        source=event.source,
    )


def recv_row(time: float, process: str, event: Event, from_: str | None = None, *, run: str = "") -> Row:
    """The event reached the broker or peer `process`, from that neighbour."""
    return Row(run=run, time=time, process=process, op=RECV, event=event.id, source=event.source, from_=from_)


def avail_row(time: float, process: str, event: Event, *, run: str = "") -> Row:
    """From now on the broker `process` can deliver the event to its subscribers."""
    return Row(run=run, time=time, process=process, op=AVAIL, event=event.id, source=event.source)


def drop_row(
    time: float, process: str, subscription: SubscriptionId | str, event: Event, reason: str, *, run: str = ""
) -> Row:
    """The event will not reach the subscription: dropped by the named policy or bound."""
    return _lost(DROP, time, process, subscription, event, reason, run)


def dead_row(
    time: float, process: str, subscription: SubscriptionId | str, event: Event, reason: str, *, run: str = ""
) -> Row:
    """The subscription gave up on the event; it went to dead letters."""
    return _lost(DEAD, time, process, subscription, event, reason, run)


def _lost(
    op: Literal["drop", "dead"],
    time: float,
    process: str,
    subscription: SubscriptionId | str,
    event: Event,
    reason: str,
    run: str,
) -> Row:
    return Row(
        run=run,
        time=time,
        process=process,
        op=op,
        subscription=str(subscription),
        event=event.id,
        source=event.source,
        reason=reason,
    )


def crash_row(time: float, process: str, *, run: str = "") -> Row:
    return Row(run=run, time=time, process=process, op=CRASH)


def restart_row(time: float, process: str, *, run: str = "") -> Row:
    return Row(run=run, time=time, process=process, op=RESTART)


def suspect_row(time: float, process: str, suspected: str, *, run: str = "") -> Row:
    """`process` believes that `suspected` (in column `from`) is down."""
    return Row(run=run, time=time, process=process, op=SUSPECT, from_=suspected)


def view_row(
    time: float,
    process: str,
    view: int,
    members: tuple[str, ...],
    *,
    run: str = "",
    topic: str | None = None,
) -> Row:
    """`process` installed view number `view` of the group (of that topic, when there are several)."""
    return Row(run=run, time=time, process=process, op=VIEW, view=view, members=members, topic=topic)
