"""Bytes of web connections, parsed in slices: parsing is work for the broker like any other.

Before a request is complete nobody knows whose it is, and some bytes cost far more than others: a chunk or a
frame of one byte is handled by itself. Rules
- What came is parsed a slice at a time. The time of a slice is charged to the address of the client
  (`runtime/fairness.py`), over all its connections, so that others get their turns.
- An address parses for one quantum in a turn of the loop, also when no other is active: a connection that
  comes to a turn when that is used up parses in a later one.
- A connection with bytes that wait is not read from, so that at most one read waits.
- A parser that raises ends its own connection, and no other work of the turn.
- A slice is smaller after one that took long, and twice as large after one that did not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidings.runtime.fairness import Fairness

log = logging.getLogger("tidings.broker")

FIRST_SLICE = 4096  # bytes
LARGEST_SLICE = 16_384  # bytes; more is cheaper for large bodies, and longer when a chunk is a byte
SHORT_SECONDS = 0.001  # that a slice takes before the next one is larger
LONG_SECONDS = 0.004  # ... smaller


class PacedReading:
    """The bytes of one connection on their way to its parser."""

    def __init__(
        self,
        fairness: Fairness,
        address: str,
        transport: asyncio.Transport,
        parse: Callable[[bytes], None],
        may_read: Callable[[], bool],
    ) -> None:
        self.parse = parse  # another one from the moment at which the connection becomes a WebSocket
        self.may_read = may_read  # False: the parser wants no more for now
        self._fairness = fairness
        self._share = fairness.join(address)
        self._transport = transport
        self._waiting = bytearray()
        self._slice = FIRST_SLICE
        self._is_queued = False
        self._is_over = False

    def feed(self, data: bytes) -> None:
        """Take what came."""
        self._waiting += data
        if not self._is_queued:
            self._go_on()

    def close(self) -> None:
        """The connection is gone, and what waits with it."""
        if not self._is_over:
            self._is_over = True
            self._waiting.clear()
            self._fairness.leave(self._share)

    def _begin_turn(self) -> None:
        self._is_queued = False
        if not self._is_over:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._fairness.has_time(self._share):
            piece = bytes(self._waiting[: self._slice])
            del self._waiting[: self._slice]
            began = self._fairness.clock()
            try:
                self.parse(piece)
            except Exception as error:  # h11, of bytes behind a request that it has refused
                log.debug("a connection of %s ended: %s", self._share.owner, error)
                self._waiting.clear()
                self._transport.abort()
            took = self._fairness.clock() - began
            if took > LONG_SECONDS:
                self._slice = max(1, self._slice // 4)
            elif took < SHORT_SECONDS:
                self._slice = min(LARGEST_SLICE, 2 * self._slice)
            self._fairness.charge(self._share, took)
        if self._is_over:
            return
        if self._waiting:
            self._is_queued = True
            self._fairness.queue(self._share, self._begin_turn)
        if not self._transport.is_closing():
            if self._is_queued or not self.may_read():
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
