"""Wills of MQTT clients that wait for their delay (MQTT 5.0, 3.1.3.2.2 and 4.1).

Rules
- A will is published when its delay has passed or the session ends, whichever happens first. The first
  happening is also a clean start, an expiry of the session, and a takeover with a clean start.
- A connection that carries the session on cancels the will. The will of that connection is another one.
- A will is session state (4.1): it is written down before CONNACK, that of a session that ends with its
  connection too. The next life of a broker that was killed publishes it: the connection was closed without
  DISCONNECT (3.1.2.5). A delay begins with that life, or goes on if it had begun.
- The stop of a broker never waits for a delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from tidings.gateway.mqtt.packets import ALLOWED, V5, Will
from tidings.gateway.mqtt.reading import read_properties
from tidings.gateway.mqtt.writing import write_properties

Key = tuple[str, str, str]  # tenant, user and client id of a session


class StoredWill(msgspec.Struct, omit_defaults=True):
    """A will as the file of sessions holds it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: bytes  # as MQTT 5 writes them
    at: float | None  # when it is due; None: its client is connected

    @classmethod
    def of(cls, will: Will, at: float | None = None) -> StoredWill:
        properties = write_properties(will.properties, V5)
        return cls(will.topic, will.payload, will.qos, will.retain, properties, at)

    def will(self) -> Will:
        properties = read_properties(self.properties, ALLOWED["will"])
        return Will(self.topic, self.payload, self.qos, self.retain, properties)


def delay_of(will: Will, session_expiry: int) -> int:
    """Seconds from the end of the connection until the will is published, or the end of its session."""
    return min(int(will.properties.get("will_delay", 0)), session_expiry)


class WaitingWill(NamedTuple):
    owner: Any  # the principal
    will: Will
    at: float
    timer: asyncio.TimerHandle


class PendingWills:
    """The wills that wait, by session. `publish` publishes one with the rights of its principal."""

    def __init__(
        self, now: Callable[[], float], publish: Callable[[Any, Key, Will], Awaitable[None]]
    ) -> None:
        self._now = now
        self._publish = publish
        self._waiting: dict[Key, WaitingWill] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, owner: Any, key: Key, will: Will, at: float) -> None:
        """Publish this will at that time, unless the session goes on before."""
        self.cancel(key)
        timer = asyncio.get_running_loop().call_later(max(at - self._now(), 0.0), self._on_time, key)
        self._waiting[key] = WaitingWill(owner, will, at, timer)

    def stored(self, key: Key) -> StoredWill | None:
        """The will of this session, to be written down."""
        waiting = self._waiting.get(key)
        return None if waiting is None else StoredWill.of(waiting.will, waiting.at)

    def cancel(self, key: Key) -> WaitingWill | None:
        """The session goes on: its will is not published."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()
        return waiting

    async def session_ended(self, key: Key) -> None:
        """The session is over before the delay is: the will is published now."""
        waiting = self.cancel(key)
        if waiting is not None:
            await self._publish(waiting.owner, key, waiting.will)

    def _on_time(self, key: Key) -> None:
        task = asyncio.create_task(self.session_ended(key), name=f"mqtt {key[2]} will")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """The broker stops: wills that wait are in the file of sessions."""
        for key in list(self._waiting):
            self.cancel(key)
        await asyncio.gather(*self._tasks, return_exceptions=True)
