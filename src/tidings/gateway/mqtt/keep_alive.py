"""Keep-alive of an MQTT connection: it ends when its client was silent for too long (MQTT-3.1.2-22).

Rules
- The silence of a client that is not read from says nothing. While the broker is behind with what a client
  sent, the client is spared.
- A client that does not read is not read from either. It is alive as long as it takes bytes: a slow one may
  need long for what waits, and one that hangs takes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidings.gateway.mqtt.packets import Reason
from tidings.gateway.mqtt.stream import ByteStream

LOOKS = 4  # at a client that does not read, in the time that it may be silent


class KeepAlive:
    """Watch over one connection, which `end` ends; `seconds` of 0: no silence is too long."""

    def __init__(
        self,
        stream: ByteStream,
        seconds: float,
        read_at: Callable[[], float],
        written: Callable[[], int],
        end: Callable[[Reason], None],
    ) -> None:
        self._stream = stream
        self._seconds = seconds
        self._read_at = read_at  # when bytes came last, of the loop's clock
        self._written = written  # bytes so far
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._alive_at = 0.0  # the last sign of life beside bytes that came
        self._taken = 0  # bytes, at the last look at a client that did not read
        self._pauses = stream.pauses  # at the last look
        self._timer: asyncio.TimerHandle | None = None
        if seconds:
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        now, stream = self._loop.time(), self._stream
        if stream.is_full:
            taken = self._written() - stream.unsent()
            if taken != self._taken:
                self._taken, self._alive_at = taken, now
        elif stream.sink is None or stream.is_paused or stream.pauses != self._pauses:
            self._alive_at = now
        self._pauses = stream.pauses
        left = max(self._read_at(), self._alive_at) + self._seconds - now
        if left <= 0:
            self._end(Reason.KEEP_ALIVE)
            return
        if stream.is_full:
            left = min(left, self._seconds / LOOKS)
        self._timer = self._loop.call_later(left, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
