"""Publishes of MQTT clients with a still unknown outcome.

Rules
- A publish that waits for a full disk may be kept later, so it has no answer: the connection ends, and the
  client sends the message again. The resend (DUP) is published under the identity of the first copy, also in
  a new session of the client: the broker answers for both.
- A message is known by its client, its packet id and its content. Bounded: of more than a client may have in
  flight at once the oldest go, and a resend of those is answered like a message without a first copy.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from tidings.gateway.mqtt.packets import PublishPacket

Client = tuple[str, ...]  # tenant, user and client id
Message = tuple[Client, int, bytes]


class UnconfirmedPublishes:
    """The ids of their events, for all clients of one listener."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: OrderedDict[Message, str] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def id_of(self, client: Client, packet: PublishPacket) -> str | None:
        """The id of the first copy; None when this is no resend, or its first copy is unknown."""
        return self._ids.get(_message(client, packet)) if packet.dup and self._ids else None

    def note(self, client: Client, packet: PublishPacket, id: str) -> None:
        """Record a publish that may be kept, or not."""
        self._ids[_message(client, packet)] = id
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def decided(self, client: Client, packet: PublishPacket) -> None:
        if self._ids:
            self._ids.pop(_message(client, packet), None)


def _message(client: Client, packet: PublishPacket) -> Message:
    content = blake2b(packet.topic.encode() + b"\0" + packet.payload, digest_size=16)
    return client, packet.packet_id, content.digest()
