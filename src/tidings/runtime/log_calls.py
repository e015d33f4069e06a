"""Calls of a bus about the broker's log: reading it, holding it, and publishing in two steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from tidings.model.event import Event
from tidings.model.filter import TIDINGS
from tidings.protocol import messages as msg
from tidings.protocol.inputs import ClientAsk, Input
from tidings.runtime.broker import Timeout
from tidings.runtime.coercion import filter_from
from tidings.runtime.options import Wanted

HOLD_SECONDS = 7 * 86_400.0


class LogCalls(ABC):
    """The calls of `Bus` that concern the broker's log."""

    @abstractmethod
    async def _request(self, make: Callable[[int], Input], *, timeout: Timeout = None) -> Any:
        """Hand an input to the client and wait for its answer."""

    async def read_log(
        self,
        wanted: Wanted | type[Any] | None = None,
        /,
        *,
        after: int = 0,
        limit: int = 256,
        log: str = "",
        superseded: bool = False,
        dialect: str = TIDINGS,
        timeout: Timeout = ...,
    ) -> msg.LogRead:
        """A page of the broker's own log: what the filter accepts beyond the offset `after`, in order.

        Go on from the page's `upto`; when that equals its `end`, there is no more for now. A `log` that
        is not the broker's is refused. `superseded`: also what a hold or a subscription keeps although a
        newer event has its key.
        """
        filter, _ = filter_from((wanted,), dialect=dialect)
        page = await self._question(
            lambda call: msg.ReadLog(call, filter, after, limit, log, superseded), timeout
        )
        assert isinstance(page, msg.LogRead)
        return page

    async def stage(
        self,
        query: str,
        batch: int,
        part: int,
        events: Iterable[Event],
        *,
        log: str = "",
        timeout: Timeout = ...,
    ) -> None:
        """Keep events to be published with the rest of their batch. Staging a part again replaces it."""
        stored = tuple(events)
        await self._question(lambda call: msg.StageEvents(call, query, batch, part, stored, log), timeout)

    async def commit_staged(
        self, query: str, batch: int, parts: int, *, log: str = "", timeout: Timeout = ...
    ) -> bool:
        """Publish all parts of a batch at once.

        False: it was committed before, and the call had no effect.
        """
        done = await self._question(lambda call: msg.CommitStaged(call, query, batch, parts, log), timeout)
        return bool(done.is_new)

    async def committed(self, query: str, *, timeout: Timeout = ...) -> int:
        """The last batch of this query that was committed here; -1: none."""
        done = await self._question(lambda call: msg.AskCommitted(call, query), timeout)
        return int(done.batch)

    async def commit_parts(
        self, query: str, batch: int, numbers: Iterable[int], *, log: str = "", timeout: Timeout = ...
    ) -> bool:
        """As `commit_staged`, of these very parts in this order; other parts of the batch are dropped."""
        parts = tuple(numbers)
        done = await self._question(lambda call: msg.CommitParts(call, query, batch, parts, log), timeout)
        return bool(done.is_new)

    async def hold_log(
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
    ) -> msg.LogHeld:
        """Have the broker keep in its log what the filter accepts, and forget no such entry beyond `upto`.

        For readers of the log: call it again under the same name to move the place on. It ends by itself
        without a call for `seconds`; its answer then says that it is new. With `superseding=False` an event
        is kept also when a newer one has its key (`read_log(superseded=True)` reads it).
        """
        filter, _ = filter_from((wanted,), dialect=dialect)
        hold = await self._question(
            lambda call: msg.HoldLog(
                call, name, filter, upto, seconds, releases, log, superseding=superseding
            ),
            timeout,
        )
        assert isinstance(hold, msg.LogHeld)
        return hold

    async def end_hold(self, name: str, *, timeout: Timeout = ...) -> None:
        """Let the log forget again."""
        await self._question(lambda call: msg.EndHold(call, name), timeout)

    async def _question(self, make: Callable[[int], msg.Message], timeout: Timeout) -> Any:
        return await self._request(lambda call: ClientAsk(call, make(call)), timeout=timeout)
