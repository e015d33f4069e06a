"""Events of QoS 0 that are written to a client as they come.

Rules
- A plain subscription of QoS 0 has no queue here: the broker hands over its events, and their packets are
  written. Packets of events that came together are made once for all subscribers of one version.
- It begins paused, so that no event comes before its SUBACK. When many bytes wait for the client, all of them
  pause, and go on one by one as the client reads: meanwhile their events wait in the broker's queues, which
  are bounded, count in the quota of the principal, and hold one copy of an event for all.
- Events of the log, the retained ones among them, come in slices, one in a turn of the loop: without a disk
  the broker would hand over all of them in one call, and other clients wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tidings.errors import TidingsError
from tidings.gateway.mqtt.events import (
    UnsendableEvent,
    has_expired,
    header_of,
    is_plain_header,
    publish_of,
    their_topic,
)
from tidings.gateway.mqtt.packets import Packet
from tidings.gateway.mqtt.writing import variable, write
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Notification
from tidings.runtime.bus import Bus
from tidings.runtime.listener import Listener
from tidings.runtime.local_clients import AHEAD, SLICE, take_directly

log = logging.getLogger("tidings.gateway")

CACHED = "mqtt"  # where an event keeps the packets that were made of it, by version and RETAIN
SHARED = 2**18  # bytes of the packets that are kept for the next subscriber
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


def _is_plain(event: Event) -> bool:
    """Is the event of the common kind: published by MQTT without properties, and not retained?"""
    return is_plain_header(event.headers) and (
        event.expires is None
        and not event.lifetime
        and event.content_type is None
        and event.payload is not None
        and event.topic is not None
    )


@lru_cache(maxsize=1024)
def _topic_field(topic: str) -> bytes:
    name = their_topic(topic).encode()
    return len(name).to_bytes(2, "big") + name


class PacketCache:
    """Packets of QoS 0 of the events that were delivered last, as the bytes that all subscribers of one
    version receive. One for all sessions of a listener."""

    def __init__(self) -> None:
        self._events: tuple[Event, ...] = ()
        self._packets: dict[int, bytes | None] = {}  # by version; None: each has to be looked at

    def packets(self, events: tuple[Event, ...], version: int) -> bytes | None:
        """The packets of these events, one behind the other; None: some of them depend on the subscriber, or
        cannot be sent."""
        known = self._events
        if events is not known and not (len(events) == len(known) == 1 and events[0] is known[0]):
            self._events, self._packets = events, {}
        elif version in self._packets:
            return self._packets[version]
        data: bytes | None = None
        if all(map(_is_plain, events)):
            none = b"\0" if version == 5 else b""
            parts: list[bytes] = []
            for event in events:
                topic, payload = _topic_field(event.topic or ""), event.payload or b""
                size = len(topic) + len(none) + len(payload)
                head = bytes((0x30, size)) if size < 0x80 else b"0" + variable(size)
                parts += (head, topic, none, payload)
            data = b"".join(parts)
        if data is None or len(data) <= SHARED:
            self._packets[version] = data
        else:
            self._events = ()
        return data


class PushChannel:
    """A connection as its session sees it."""

    def __init__(
        self,
        send: Callable[[Packet], None],
        send_bytes: Callable[[bytes, int], None],
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

    def __init__(self, client_id: str, bus: Bus, packets: PacketCache, legacy_before: float = 0.0) -> None:
        self._client_id = client_id
        self._packets = packets
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
        count = 0

        def push(delivered: Notification) -> None:
            nonlocal count
            self._push(delivered.event, began)
            count += 1
            if not count % SLICE and listener in self._flowing:
                self._pause([listener])

        listener = await self._bus.subscribe_callback(filter, push, is_paused=True, **options)
        take_directly(listener, lambda events: self._push_all(events, began))
        self._paused[listener] = None
        return listener

    def close(self, listener: Listener[Event]) -> None:
        """The subscription ends."""
        self._flowing.pop(listener, None)
        self._paused.pop(listener, None)
        take_directly(listener, None)

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

    def _pause_if_full(self, outlet: PushChannel) -> None:
        if self._flowing and outlet.is_full():
            self._pause(list(self._flowing))

    def _pause(self, listeners: list[Listener[Event]]) -> None:
        for listener in listeners:
            listener.allow(0)
            del self._flowing[listener]
            self._paused[listener] = None
        self.start()

    def _push_all(self, events: tuple[Event, ...], began: datetime) -> None:
        """Write live events that came together."""
        outlet = self._outlet
        if outlet is None:
            return
        data = None
        if not (outlet.has_aliases or outlet.largest):
            data = self._packets.packets(events, outlet.version)
        if data is None:
            for event in events:
                self._push(event, began)
            return
        outlet.send_bytes(data, len(events))
        self._pause_if_full(outlet)

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
                outlet.send_bytes(data, 1)
        except UnsendableEvent as error:
            log.warning("mqtt %s: event %s is dropped: %s", self._client_id, event.identity, error)
            return
        self._pause_if_full(outlet)
