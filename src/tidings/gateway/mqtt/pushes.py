"""Events of QoS 0 that are written to a client as they come.

Rules
- A plain subscription of QoS 0 has no queue here: the broker hands over its events, and their packets are
  written.
- It begins paused, so that no event comes before its SUBACK. When many bytes wait for the client, all of them
  pause, and go on one by one as the client reads: meanwhile their events wait in the broker's queues, which
  are bounded, count in the quota of the principal, and hold one copy of an event for all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tidings.errors import TidingsError
from tidings.gateway.mqtt.events import UnsendableEvent, has_expired, header_of, publish_of
from tidings.gateway.mqtt.packets import Packet
from tidings.gateway.mqtt.writing import write
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.runtime.bus import Bus
from tidings.runtime.listener import Listener
from tidings.runtime.local_clients import AHEAD

log = logging.getLogger("tidings.gateway")

CACHED = "mqtt"  # where an event keeps the packets that were made of it, by version and RETAIN
SMALL = 4096  # bytes of a packet that an event keeps: those that wait in queues stay small


def written(event: Event, version: int, *, retain: bool, legacy_before: float = 0.0) -> bytes | None:
    """The bytes of a PUBLISH of QoS 0, made once for all subscribers; None: the message has expired. Raises
    `UnsendableEvent`."""
    if event.expires is None:
        packets: dict[tuple[int, bool], bytes] = event.__dict__.setdefault(CACHED, {})
        known = packets.get((version, retain))
        if known is not None:
            return known
    else:
        packets = {}
    header = header_of(event, legacy_before)
    if has_expired(event, header):
        return None
    packet = publish_of(event, 0, retain=retain, with_properties=version == 5, header=header)
    data = write(packet, version)
    if len(data) <= SMALL:
        packets[version, retain] = data
    return data


class PushChannel:
    """A connection as its session sees it."""

    def __init__(
        self,
        send: Callable[[Packet], None],
        send_bytes: Callable[[bytes], None],
        drained: Callable[[], Awaitable[Any]],
        is_full: Callable[[], bool],
        *,
        version: int,
        largest: int,
        aliases: int,
    ) -> None:
        self.send = send
        self.send_bytes = send_bytes
        self.drained = drained  # wait until few bytes wait for the client
        self.is_full = is_full  # do many?
        self.version = version
        self.largest = largest  # bytes of a packet that the client takes; 0: any
        self.has_aliases = aliases > 0


class Pushes:
    """Those of one session."""

    def __init__(self, client_id: str, bus: Bus, legacy_before: float = 0.0) -> None:
        self._client_id = client_id
        self._legacy_before = legacy_before
        self._bus = bus
        self._outlet: PushChannel | None = None
        self._flowing: dict[Listener[Event], None] = {}
        self._paused: dict[Listener[Event], None] = {}
        self._resuming: asyncio.Task[None] | None = None

    def attach(self, outlet: PushChannel) -> None:
        self._outlet = outlet

    async def detach(self) -> None:
        self._outlet = None
        task, self._resuming = self._resuming, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def open(self, filter: Filter, options: dict[str, Any]) -> Listener[Event]:
        """Subscribe; events come after `start`."""
        began = datetime.now(UTC)
        push = lambda delivered: self._push(delivered.event, began)  # noqa: E731
        listener = await self._bus.subscribe_callback(filter, push, is_paused=True, **options)
        self._paused[listener] = None
        return listener

    def close(self, listener: Listener[Event]) -> None:
        """The subscription ends."""
        self._flowing.pop(listener, None)
        self._paused.pop(listener, None)

    def start(self) -> None:
        """Let events come as the client reads."""
        if self._paused and self._outlet is not None and (self._resuming is None or self._resuming.done()):
            self._resuming = asyncio.create_task(
                self._resume(self._outlet), name=f"mqtt {self._client_id} resumes"
            )

    async def _resume(self, outlet: PushChannel) -> None:
        while self._paused:
            await outlet.drained()
            if not self._paused:
                return
            listener = next(iter(self._paused))
            del self._paused[listener]
            self._flowing[listener] = None
            try:
                listener.allow(AHEAD)
            except TidingsError:
                return  # the session of the principal is over
            await asyncio.sleep(0)

    def _pause(self) -> None:
        for listener in self._flowing:
            listener.allow(0)
        self._paused |= self._flowing
        self._flowing.clear()
        self.start()

    def _push(self, event: Event, began: datetime) -> None:
        outlet = self._outlet
        if outlet is None:
            return
        is_old = event.lifetime > 0 and event.time is not None and event.time < began
        try:
            if outlet.has_aliases:
                header = header_of(event, self._legacy_before)
                if has_expired(event, header):
                    return
                outlet.send(publish_of(event, 0, retain=is_old, with_properties=True, header=header))
            else:
                data = written(event, outlet.version, retain=is_old, legacy_before=self._legacy_before)
                if data is None or (outlet.largest and len(data) > outlet.largest):
                    return
                outlet.send_bytes(data)
        except UnsendableEvent as error:
            log.warning("mqtt %s: event %s is dropped: %s", self._client_id, event.identity, error)
            return
        if self._flowing and outlet.is_full():
            self._pause()
