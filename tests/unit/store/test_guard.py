"""Stored entries: a rich event that a member of 0.1 copied has its mark again when it is read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tidings.availability.records import Append
from tidings.model.event import make_event
from tidings.store.guard import append_from, stored_entry

RICH: list[dict[str, Any]] = [
    {"x": []}, {"x": b""}, {"x": Decimal(1)}, {"x": {"y": {"z": date(2026, 3, 1)}}}, {"id": 1},
    {"type": {"a": 1}},
]  # fmt: skip
FLAT: list[dict[str, Any]] = [
    {}, {"x": 1, "y": "a", "z": True, "n": None}, {"x": {"y": 1.5}}, {"at": datetime(2026, 3, 1, tzinfo=UTC)},
]  # fmt: skip


@pytest.mark.parametrize("body", RICH + FLAT)
def test_the_mark_of_a_rich_body_is_found_again(body: dict[str, Any]) -> None:
    event = make_event(body, source="s", id="1")
    assert event.rich is (body in RICH)
    copied = msgspec.structs.replace(event, rich=False)
    key, _, value = stored_entry(Append(1, copied, 0.0))
    read = append_from(key, value, "b1").event
    assert read == event
    assert read.attributes == body
