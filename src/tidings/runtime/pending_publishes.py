"""Publishes that no call awaits: `publish_nowait` hands them over, `flush` waits for their acknowledgements.

Rules
- They leave in the order of the calls, among those of `publish`: events of one turn of the event loop are one
  batch, which leaves at the end of the turn or before the next call of another kind.
- At most `most` of them are unanswered; then `publish_nowait` raises `PublishBufferFullError` at once.
- An event that the broker refuses is remembered until the next `flush`, which raises the error of the first
  one. A bus that is closed without a flush logs it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tidings.errors import PublishBufferFullError, TidingsError, TimedOutError
from tidings.model.event import Event
from tidings.model.subscription import Policy
from tidings.protocol import effects as fx
from tidings.protocol.inputs import ClientPublishAll
from tidings.protocol.messages import AckMode
from tidings.runtime.broker import Timeout
from tidings.runtime.failures import error_of
from tidings.runtime.listener import LATER

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.client")
TOGETHER = 512  # events of one batch: more makes the first wait for the last


class PendingPublishes:
    """The unanswered publishes of one bus, in order, and how many of the answered ones were refused."""

    def __init__(self, bus: Bus, most: int) -> None:
        self.most = most
        self.calls: dict[int, int] = {}  # how many events each batch that was sent has, in order
        self.events: list[Event] = []  # of this turn, not sent yet ...
        self._numbered: list[bool] = []  # ... whether the client numbers each ...
        self._mode = AckMode.AUTO  # ... and how all of them are acknowledged
        self._bus = bus
        self._unanswered = 0  # events of the batches that were sent
        self._error: TidingsError | None = None  # of the first one that was refused since the last flush
        self._refused = 0
        self._flushing = asyncio.Lock()  # one flush waits for the answers, others wait for that flush

    def add(self, event: Event, is_numbered: bool, mode: AckMode) -> None:
        """Add an event to the batch of this turn."""
        if self._unanswered + len(self.events) >= self.most:
            raise PublishBufferFullError(
                f"{self.most} publishes wait for their acknowledgements",
                hint="await bus.flush() now and then, or publish with `await bus.publish(...)`",
            )
        if self.events and (mode is not self._mode or len(self.events) >= TOGETHER):
            self.send()
        if not self.events:
            self._mode = mode
            asyncio.get_running_loop().call_soon(self.send)
        self.events.append(event)
        self._numbered.append(is_numbered)

    def send(self) -> None:
        """Hand over the batch of this turn."""
        if not self.events:
            return
        bus = self._bus
        events, numbered = tuple(self.events), tuple(self._numbered)
        self.events, self._numbered = [], []
        call = bus._last_call + 1
        bus._last_call += len(events)
        self.calls[call] = len(events)
        self._unanswered += len(events)
        try:
            answer = bus._submit(call, ClientPublishAll(call, events, numbered, self._mode))
        except TidingsError as error:  # the bus was closed in this turn
            answer = [error] * len(events)
        if answer is not LATER:
            self.answer(call, answer)

    def answer(self, call: int, value: Any) -> None:
        """Note the answer of a batch: the receipt or failure of each event."""
        count = self.calls.pop(call)
        self._unanswered -= count
        for result in value if type(value) is list else [value] * count:
            if type(result) is fx.CallFailed:
                self._refuse(error_of(result.code, result.reason, result.id))
            elif isinstance(result, TidingsError):
                self._refuse(result)

    def fail(self, error: TidingsError) -> None:
        """The connection is over for good: no call will be answered."""
        for call in list(self.calls):
            self.answer(call, error)

    async def flush(self, timeout: Timeout) -> None:
        """Wait until every call is answered; raise the error of the first one that was refused."""
        bus, seconds = self._bus, self._bus._seconds(timeout)
        self.send()
        try:
            async with asyncio.timeout(seconds), self._flushing:
                while self.calls:
                    await self._wait_for_first(bus)
        except TimeoutError as error:
            if isinstance(error, TidingsError):
                raise
            late = bus._late(None, seconds)
            raise TimedOutError(
                f"{self._unanswered} publishes are unanswered: {late}", hint=late.hint
            ) from None
        first, self._error = self._error, None
        refused, self._refused = self._refused, 0
        if first is not None:
            if refused > 1:
                first.add_note(f"{refused} publishes failed since the last flush; this is the first")
            raise first

    async def _wait_for_first(self, bus: Bus) -> None:
        """Wait for the oldest batch; those behind it are mostly answered in the same turn."""
        first, last = next(iter(self.calls)), next(reversed(self.calls))
        blocks, span = bus._broker.policy is Policy.BLOCK, last + self.calls[last] - first
        try:
            answer: Any = await bus._answer_of(first, blocks=blocks, calls=span)
        except TidingsError as error:  # a deadlock, or the end of the connection
            answer = error
        if first in self.calls:
            self.answer(first, answer)

    def _refuse(self, error: TidingsError) -> None:
        self._refused += 1
        if self._error is None:
            self._error = error

    def report(self) -> None:
        """Log what the last flush did not tell: the bus is closed."""
        if self._error is not None:
            log.warning("%d publishes failed and were not flushed; the first: %s", self._refused, self._error)
        if self.calls:
            log.warning("the bus was closed while %d publishes were unanswered", self._unanswered)
            self.calls.clear()
