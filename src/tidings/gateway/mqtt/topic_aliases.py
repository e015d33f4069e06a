"""Topic aliases of one MQTT 5 connection: numbers that stand for topics, one table for each direction."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import Malformed, Reason

ALIASES = 32  # that a client may use, and that we use at most


class TopicAliases:
    """Aliases of one connection; numbers of one direction mean nothing in the other."""

    def __init__(self) -> None:
        self.most = 0  # that the client allows us
        self._of_client: dict[int, str] = {}
        self._ours: dict[str, int] = {}

    def shorten(self, packet: mq.PublishPacket) -> mq.PublishPacket:
        """The packet with an alias, for the first topics that there are numbers for. A topic whose alias the
        client knows is left out."""
        alias = self._ours.get(packet.topic)
        if alias is not None:
            return msgspec.structs.replace(
                packet, topic="", properties=packet.properties | {"topic_alias": alias}
            )
        if len(self._ours) >= self.most:
            return packet
        alias = self._ours[packet.topic] = len(self._ours) + 1
        return msgspec.structs.replace(packet, properties=packet.properties | {"topic_alias": alias})

    def topic_of(self, packet: mq.PublishPacket) -> str:
        """The topic of a packet of the client, by its alias if it has one; the alias is taken out."""
        alias: Any = packet.properties.pop("topic_alias", None)
        if alias is None:
            return packet.topic
        if alias > ALIASES:
            raise Malformed(f"topic alias {alias}", Reason.TOPIC_ALIAS)
        if packet.topic:
            self._of_client[alias] = packet.topic
        elif alias not in self._of_client:
            raise Malformed(f"topic alias {alias} stands for nothing", Reason.PROTOCOL)
        return self._of_client[alias]
