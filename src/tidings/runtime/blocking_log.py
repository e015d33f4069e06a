"""Calls of a blocking bus about the broker's log, as those of `LogCalls`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidings.model.event import Event
from tidings.model.filter import TIDINGS
from tidings.protocol.messages import LogHeld, LogRead
from tidings.runtime.broker import Timeout
from tidings.runtime.log_calls import HOLD_SECONDS
from tidings.runtime.loop_thread import LoopThread
from tidings.runtime.options import Wanted

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus


class BlockingLogCalls:
    """The calls of `BlockingBus` that concern the broker's log."""

    _bus: Bus
    _loop: LoopThread

    def read_log(
        self,
        wanted: Wanted | type[Any] | None = None,
        /,
        *,
        after: int = 0,
        limit: int = 256,
        log: str = "",
        dialect: str = TIDINGS,
        timeout: Timeout = ...,
    ) -> LogRead:
        """As `Bus.read_log`."""
        read = self._bus.read_log
        return self._loop.call(
            lambda: read(wanted, after=after, limit=limit, log=log, dialect=dialect, timeout=timeout)
        )

    def stage(
        self,
        query: str,
        batch: int,
        part: int,
        events: Iterable[Event],
        *,
        log: str = "",
        timeout: Timeout = ...,
    ) -> None:
        """As `Bus.stage`."""
        self._loop.call(lambda: self._bus.stage(query, batch, part, events, log=log, timeout=timeout))

    def commit_staged(
        self, query: str, batch: int, parts: int, *, log: str = "", timeout: Timeout = ...
    ) -> bool:
        """As `Bus.commit_staged`."""
        return self._loop.call(lambda: self._bus.commit_staged(query, batch, parts, log=log, timeout=timeout))

    def committed(self, query: str, *, timeout: Timeout = ...) -> int:
        """As `Bus.committed`."""
        return self._loop.call(lambda: self._bus.committed(query, timeout=timeout))

    def commit_parts(
        self, query: str, batch: int, numbers: Iterable[int], *, log: str = "", timeout: Timeout = ...
    ) -> bool:
        """As `Bus.commit_parts`."""
        commit = self._bus.commit_parts
        return self._loop.call(lambda: commit(query, batch, numbers, log=log, timeout=timeout))

    def hold_log(
        self,
        name: str,
        wanted: Wanted | type[Any] | None = None,
        /,
        *,
        upto: int = 0,
        seconds: float = HOLD_SECONDS,
        releases: bool = False,
        superseding: bool = True,
        log: str = "",
        dialect: str = TIDINGS,
        timeout: Timeout = ...,
    ) -> LogHeld:
        """As `Bus.hold_log`."""
        hold = self._bus.hold_log
        return self._loop.call(
            lambda: hold(
                name, wanted, upto=upto, seconds=seconds, releases=releases, superseding=superseding,
                log=log, dialect=dialect, timeout=timeout,
            )
        )  # fmt: skip

    def end_hold(self, name: str, *, timeout: Timeout = ...) -> None:
        """As `Bus.end_hold`."""
        self._loop.call(lambda: self._bus.end_hold(name, timeout=timeout))
