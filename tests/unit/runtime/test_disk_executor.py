"""Errors of a store reach the machine, whatever class they have, and are logged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tidings.availability.records import Append, Record
from tidings.errors import CorruptionError
from tidings.protocol.effects import Fetch, Persist
from tidings.protocol.inputs import FetchFailed, Input, PersistFailed
from tidings.runtime.disk_executor import InlineExecutor, ThreadedExecutor
from tidings.store.memory import MemoryStore


class Failing(MemoryStore):
    error: Exception

    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        raise self.error

    def commit(self, records: Sequence[Record]) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (ValueError("odd"), "store", "odd"),
        (KeyError(), "store", "KeyError"),
        (CorruptionError("entry 7 is damaged"), "corrupt", "entry 7 is damaged"),
    ],
)
@pytest.mark.parametrize("is_threaded", [False, True])
def test_an_error_of_the_store_is_reported_and_logged(
    error: Exception, code: str, reason: str, is_threaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = Failing()
    store.error = error

    async def reports() -> list[Input]:
        found: list[Input] = []
        arrived = asyncio.Event()

        def report(input: Input) -> None:
            found.append(input)
            if len(found) == 2:
                arrived.set()

        executor: Any = (
            ThreadedExecutor(store, report, asyncio.get_running_loop())
            if is_threaded
            else InlineExecutor(store, report)
        )
        executor.fetch(Fetch(5, 1, 10, 100))
        executor.persist(Persist(1, ()))
        async with asyncio.timeout(120):
            await arrived.wait()
        await executor.close()
        return found

    found = sorted(asyncio.run(reports()), key=lambda each: type(each).__name__)
    assert found == [FetchFailed(5, code, reason), PersistFailed(1, code, reason)]
    said = [each.getMessage() for each in caplog.records]
    assert sorted(said) == [f"the store cannot be {what}: {error}" for what in ("read", "written to")]
