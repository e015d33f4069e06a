"""A token that names as many logs as it may: one look at each."""

from __future__ import annotations

import asyncio

import pytest

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.connect import connect


def test_a_token_is_taken_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[DeliveredRanges] = []
    add_all = DeliveredRanges.add_all

    def counted(delivered: DeliveredRanges, filter: object, stretches: object) -> None:
        calls.append(delivered)
        add_all(delivered, filter, stretches)  # type: ignore[arg-type]

    monkeypatch.setattr(DeliveredRanges, "add_all", counted)

    async def test() -> None:
        since = {f"log {number}": number for number in range(DEFAULT_LIMITS.client.logs)}
        async with connect() as bus, bus.subscribe("n < 0", since=since):
            assert len(calls) == 1

    asyncio.run(test())
