"""A history taken apart: one small record for each kind of row, so that a check holds little.

The first tables of a check. Ids are shared, absent sources are empty text, a row without a
subscription speaks of its process's only one. A row that cannot be judged is an error here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from sys import intern
from typing import Any, Final, TypeAlias

import msgspec

from tidings.errors import HistoryError
from tidings.history.schema import (
    AVAIL,
    CRASH,
    DEAD,
    DETACH,
    DROP,
    NACK,
    NTFY,
    OK,
    PUB,
    RECV,
    REDELIVERY,
    SUB,
    SUSPECT,
    USUB,
    VIEW,
    Row,
)
from tidings.model.filter import TIDINGS


class Operation(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An operation of a subscriber: `sub`, `usub`, a crash (then for all its subscriptions), or that it lost
    the broker."""

    run: str
    process: str
    time: float
    op: str
    subscription: str
    filter: str | None
    dialect: str
    outcome: str
    detach: bool
    broker: str


class PublishAttempt(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One try to publish an event."""

    run: str
    source: str
    event: str
    time: float
    process: str
    outcome: str
    sequence: int | None
    attributes: dict[str, Any]
    topic: str | None
    type: tuple[str, ...]
    lifetime: float
    key: str | None
    expires: float  # absolute; infinite when it has no end


class Notice(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event was handed to a subscriber."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float
    labelled: bool  # as a redelivery
    sequence: int | None
    broker: str


class ReturnFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscriber gave an event back, or left without committing it."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float


class ReceiptFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event reached a broker or peer."""

    run: str
    process: str
    source: str
    event: str
    time: float


class ArrivalFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """From this time on a broker can deliver the event."""

    run: str
    broker: str
    source: str
    event: str
    time: float


class LossFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event was dropped by a named policy, or became a dead letter."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    reason: str


class ViewFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A process installed a view of its group."""

    run: str
    group: str
    process: str
    time: float
    view: int
    members: tuple[str, ...]


Fact: TypeAlias = (
    Operation | PublishAttempt | Notice | ReturnFact | ReceiptFact | ArrivalFact | LossFact | ViewFact
)
FACTS: Final[tuple[type[Fact], ...]] = (
    Operation,
    PublishAttempt,
    Notice,
    ReturnFact,
    ReceiptFact,
    ArrivalFact,
    LossFact,
    ViewFact,
)


def fact_of(row: Row) -> Fact | None:
    """The fact of a row, or None when no property uses it."""
    if not math.isfinite(row.time):
        raise HistoryError(f"its time is {row.time!r}", hint="times are seconds")
    make = _MAKERS.get(row.op)
    return None if make is None else make(row)


def facts_of(rows: Iterable[Row]) -> dict[type[Fact], list[Any]]:
    """All facts of a history by kind; an error names the row by its place, from 1."""
    facts: dict[type[Fact], list[Any]] = {kind: [] for kind in FACTS}
    for number, row in enumerate(rows, 1):
        try:
            fact = fact_of(row)
        except HistoryError as error:
            raise HistoryError(f"row {number} ({row.op}): {error.message}", hint=error.hint) from None
        if fact is not None:
            facts[type(fact)].append(fact)
    return facts


def _operation(row: Row) -> Operation:
    return Operation(
        intern(row.run),
        intern(row.process),
        row.time,
        row.op,
        "" if row.op in (CRASH, SUSPECT) else _subscription(row),
        row.filter,
        row.dialect or TIDINGS,
        row.outcome or OK,
        row.op == USUB and row.reason == DETACH,
        (row.from_ if row.op == SUSPECT else row.broker) or "",
    )


def _publishing(row: Row) -> PublishAttempt:
    lifetime = row.lifetime or 0.0
    if not lifetime >= 0:
        raise HistoryError(f"its lifetime is {lifetime!r}", hint="seconds, 0, or forever")
    return PublishAttempt(
        intern(row.run),
        _source(row),
        _event(row),
        row.time,
        intern(row.process),
        row.outcome or OK,
        row.sequence,
        row.attributes or {},
        row.topic,
        row.type or (),
        lifetime,
        row.key,
        math.inf if row.expires is None else row.expires,
    )


def _notice(row: Row) -> Notice:
    return Notice(
        intern(row.run),
        intern(row.process),
        _subscription(row),
        _source(row),
        _event(row),
        row.time,
        row.reason == REDELIVERY,
        row.sequence,
        intern(row.broker or ""),
    )


def _return(row: Row) -> ReturnFact:
    return ReturnFact(
        intern(row.run), intern(row.process), _subscription(row), _source(row), _event(row), row.time
    )


def _receipt(row: Row) -> ReceiptFact:
    return ReceiptFact(intern(row.run), intern(row.process), _source(row), _event(row), row.time)


def _arrival(row: Row) -> ArrivalFact:
    return ArrivalFact(intern(row.run), intern(row.process), _source(row), _event(row), row.time)


def _loss(row: Row) -> LossFact:
    if not row.reason:
        raise HistoryError("it has no reason", hint="name the policy or bound that dropped the event")
    return LossFact(
        intern(row.run), intern(row.process), _subscription(row), _source(row), _event(row), row.reason
    )


def _install(row: Row) -> ViewFact:
    if row.view is None or row.members is None:
        raise HistoryError("it has no view number or no members")
    members = tuple(sorted(row.members))
    return ViewFact(row.run, row.topic or "", row.process, row.time, row.view, members)


def _subscription(row: Row) -> str:
    return intern(row.process if row.subscription is None else row.subscription)


def _source(row: Row) -> str:
    return "" if row.source is None else intern(row.source)


def _event(row: Row) -> str:
    if row.event is None:
        raise HistoryError("it names no event")
    return intern(row.event)


_MAKERS: Final[Mapping[str, Callable[[Row], Fact]]] = {
    SUB: _operation,
    USUB: _operation,
    CRASH: _operation,
    SUSPECT: _operation,
    PUB: _publishing,
    NTFY: _notice,
    NACK: _return,
    RECV: _receipt,
    AVAIL: _arrival,
    DROP: _loss,
    DEAD: _loss,
    VIEW: _install,
}
