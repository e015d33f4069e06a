"""Records for the store's tests: events that use every kind of value, and small batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tidings.availability.records import Append, Record
from tidings.model.event import FOREVER, Event, make_event
from tidings.store.store import Store

Opener = Callable[[], Store]

ATTRIBUTES: dict[str, Any] = {
    "StockName": "IBM",
    "change": -4.5,
    "volume": 2**63 - 1,
    "halted": False,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "name": {"accuracy": 0.5, "deep": {"er": "λ"}},
}


def event(number: int, **options: Any) -> Event:
    attributes = {**ATTRIBUTES, "number": number}
    return make_event(attributes, source="exchange", id=f"x-{number}", **{"lifetime": 60, **options})


def append(offset: int, accepted: float = 100.0, **options: Any) -> Append:
    made = event(offset, **options)
    expires_at = None if made.expires is None else accepted + made.expires
    return Append(offset, made, accepted, sequence=offset, expires_at=expires_at)


def rich_event() -> Event:
    """An event with every field in use."""
    return make_event(
        ATTRIBUTES,
        source="exchange",
        id="x-1",
        topic="stocks/nyse",
        type=("Fall", "Quote"),
        time=datetime(2026, 5, 6, tzinfo=UTC),
        payload=b"\0\xff",
        content_type="application/octet-stream",
        lifetime=FOREVER,
        key="IBM",
        expires=5.5,
    )


def content(store: Store) -> tuple[list[Append], dict[str, dict[str, bytes]], int]:
    """Everything that a store holds, as plain values."""
    loaded = store.load()
    return store.fetch(0, 1_000_000, 1 << 40), loaded.tables, loaded.next_offset


def fill(store: Store, records: list[Record]) -> None:
    """One commit for each record."""
    for record in records:
        store.commit([record])
