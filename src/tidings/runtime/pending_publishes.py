"""Publishes that no call awaits: `publish_nowait` hands them over, `flush` waits for their acknowledgements.

Rules
- They leave in the order of the calls, among those of `publish`.
- At most `most` of them are unanswered; then `publish_nowait` raises `PublishBufferFullError` at once.
- An event that the broker refuses is remembered until the next `flush`, which raises the error of the first
  one. A bus that is closed without a flush logs it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tidings.errors import PublishBufferFullError, TidingsError, TimedOutError
from tidings.model.subscription import Policy
from tidings.protocol import effects as fx
from tidings.runtime.broker import Timeout
from tidings.runtime.failures import error_of

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.client")


class PendingPublishes:
    """The unanswered publishes of one bus, in order, and how many of the answered ones were refused."""

    def __init__(self, bus: Bus, most: int) -> None:
        self.most = most
        self.calls: dict[int, None] = {}  # in the order of publishing
        self._bus = bus
        self._error: TidingsError | None = None  # of the first one that was refused since the last flush
        self._refused = 0

    def require_room(self) -> None:
        if len(self.calls) >= self.most:
            raise PublishBufferFullError(
                f"{self.most} publishes wait for their acknowledgements",
                hint="await bus.flush() now and then, or publish with `await bus.publish(...)`",
            )

    def answer(self, call: int, value: Any) -> None:
        """Note the answer of a call: its receipt, or the failure."""
        self.calls.pop(call, None)
        if type(value) is fx.CallFailed:
            self._refuse(error_of(value.code, value.reason, value.id))

    def fail(self, error: TidingsError) -> None:
        """The connection is over for good: no call will be answered."""
        while self.calls:
            self.calls.popitem()
            self._refuse(error)

    async def flush(self, timeout: Timeout) -> None:
        """Wait until every call is answered; raise the error of the first one that was refused."""
        bus, seconds = self._bus, self._bus._seconds(timeout)
        try:
            async with asyncio.timeout(seconds):
                while self.calls:
                    await self._wait_for_first(bus)
        except TimeoutError as error:
            if isinstance(error, TidingsError):
                raise
            late = bus._late(None, seconds)
            raise TimedOutError(
                f"{len(self.calls)} publishes are unanswered: {late}", hint=late.hint
            ) from None
        first, self._error = self._error, None
        refused, self._refused = self._refused, 0
        if first is not None:
            if refused > 1:
                first.add_note(f"{refused} publishes failed since the last flush; this is the first")
            raise first

    async def _wait_for_first(self, bus: Bus) -> None:
        """Wait for the oldest call; those behind it are mostly answered in the same turn."""
        first, last = next(iter(self.calls)), next(reversed(self.calls))
        del self.calls[first]
        blocks = bus._broker.policy is Policy.BLOCK
        try:
            self.answer(first, await bus._answer_of(first, blocks=blocks, calls=last - first + 1))
        except asyncio.CancelledError:
            self.calls = {first: None, **self.calls}
            raise
        except TidingsError as error:  # a deadlock, or the end of the connection
            self._refuse(error)

    def _refuse(self, error: TidingsError) -> None:
        self._refused += 1
        if self._error is None:
            self._error = error

    def report(self) -> None:
        """Log what the last flush did not tell: the bus is closed."""
        if self._error is not None:
            log.warning("%d publishes failed and were not flushed; the first: %s", self._refused, self._error)
        if self.calls:
            log.warning("the bus was closed while %d publishes were unanswered", len(self.calls))
            self.calls.clear()
