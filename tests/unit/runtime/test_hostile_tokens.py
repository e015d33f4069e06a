"""Tokens that no broker gave: with as many logs as it may name, and ahead of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.errors import RefusedError
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


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("name", [None, "reader"])
def test_a_token_ahead_of_the_log_is_refused(tmp_path: Path, has_store: bool, name: str | None) -> None:
    """A transient subscription with it would pass over all events up to there, without a word."""

    async def test() -> None:
        async with connect(path=tmp_path if has_store else None, names_log=True) as bus:
            receipt = await bus.publish({"n": 1}, lifetime=60)
            assert receipt.position is not None
            log, offset = receipt.position.log, receipt.position.offset
            with pytest.raises(RefusedError, match=f"entry {offset + 1} of the log"):
                await bus.subscribe("n > 0", name=name, since={"another": 9, log: offset + 1})
            async with bus.subscribe("n > 0", name=name, since={log: offset}) as events:
                await bus.publish({"n": 2}, lifetime=60)
                assert (await events.get())["n"] == 2

    asyncio.run(test())
