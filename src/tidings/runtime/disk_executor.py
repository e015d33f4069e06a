"""Disks for the embedded driver: they perform `Persist` and `Fetch`, and report back.

`InlineExecutor` works at once, for a store in memory. `ThreadedExecutor` has a thread that commits in groups
and others that read, so that a slow disk never stops the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from tidings.availability.records import Append, Record
from tidings.errors import ClosedError, ExtensionError, StoreError, StoreFullError, TidingsError
from tidings.protocol.effects import Fetch, Persist
from tidings.protocol.inputs import DiskFull, Fetched, FetchFailed, Input, Persisted, PersistFailed
from tidings.store.committer import Committer
from tidings.store.store import Store

Report = Callable[[Input], None]
log = logging.getLogger("tidings.store")

READERS = 2  # threads that read; more helps only when many slow subscriptions replay at once


class DiskExecutor(Protocol):
    def persist(self, effect: Persist) -> None: ...
    def fetch(self, effect: Fetch) -> None: ...
    async def close(self) -> None:
        """Commit what waits and give the store up."""


class InlineExecutor:
    def __init__(self, store: Store, report: Report) -> None:
        self._store = store
        self._report = report

    def persist(self, effect: Persist) -> None:
        try:
            self._store.commit(effect.records)
        except Exception as error:  # the machine must learn of every error
            self._report(PersistFailed(effect.token, *_failure(error)))
        else:
            self._report(Persisted(effect.token))

    def fetch(self, effect: Fetch) -> None:
        self._report(_read(self._store, effect))

    async def close(self) -> None:
        self._store.close()


class ThreadedExecutor:
    """Reports always come on the event loop of its bus. Records are handed over once in a turn of the loop:
    otherwise the first of many would pay for a sync of its own, and the others wait for it."""

    def __init__(self, store: Store, report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._report = report
        self._loop = loop
        self._kept = 0
        self._gathered: list[tuple[int, Sequence[Record]]] = []
        self._is_closing = False
        self._is_full = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="tidings-reader")
        self._committer = Committer(
            store, on_kept=self._on_kept, on_failed=self._on_failed, on_stalled=self._on_stalled
        )

    def persist(self, effect: Persist) -> None:
        if self._is_closing:
            return  # no caller waits for an answer
        if not self._gathered:
            self._loop.call_soon(self._submit)
        self._gathered.append((effect.token, effect.records))

    def _submit(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            with suppress(ClosedError):  # the disk has failed meanwhile, and the machine is being told
                self._committer.submit_all(gathered)

    def _on_kept(self, token: int) -> None:
        self._kept = token
        if self._is_full:
            self._is_full = False
            log.warning("there is room on the disk again; publishes are accepted")
        self._loop.call_soon_threadsafe(self._report, Persisted(token))

    def _on_stalled(self, error: StoreFullError) -> None:
        self._is_full = True
        log.error("the disk is full, publishes that need it are refused until there is room: %s", error)
        self._loop.call_soon_threadsafe(self._report, DiskFull(error.message))

    def _on_failed(self, error: Exception) -> None:
        failure = PersistFailed(self._kept + 1, *_failure(error))
        self._loop.call_soon_threadsafe(self._report, failure)

    def fetch(self, effect: Fetch) -> None:
        if not self._is_closing:
            self._readers.submit(self._fetch, effect)

    def _fetch(self, effect: Fetch) -> None:
        self._loop.call_soon_threadsafe(self._report, _read(self._store, effect))

    async def close(self) -> None:
        self._submit()
        self._is_closing = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._committer.close()
        self._readers.shutdown()
        self._store.close()


def _read(store: Store, effect: Fetch) -> Fetched | FetchFailed:
    try:
        found: list[Append] = store.fetch(effect.from_offset, effect.limit, effect.max_bytes)
        return Fetched(effect.request, tuple(found))
    except Exception as error:  # the machine waits for an answer to each request
        return FetchFailed(effect.request, *_failure(error, "read"))


def _failure(error: Exception, what: str = "written to") -> tuple[str, str]:
    """Code and reason of an error of the store, which is logged (see also `checked.py`)."""
    if isinstance(error, ExtensionError):
        return StoreError.code, error.message
    if isinstance(error, TidingsError):
        log.error("the store cannot be %s: %s", what, error)
        return error.code, str(error)
    log.error("the store cannot be %s: %s", what, error, exc_info=error)
    return StoreError.code, str(error) or type(error).__name__
