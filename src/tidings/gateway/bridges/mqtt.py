"""Another MQTT broker. It cannot replay, so what comes is at least once (QoS 1, a lasting session, and PUBACK
when the event is kept here)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiomqtt

from tidings.errors import SettingsError
from tidings.gateway.bridges.bridge import AwayError, Incoming, RouteSettings, body_of, read_event, shown
from tidings.gateway.mqtt.events import our_topic, their_topic
from tidings.model.event import Event
from tidings.model.subscription import Position


class _MqttBridgeClient:
    def __init__(self, address: str, name: str) -> None:
        parts = urlsplit(address)
        if not parts.hostname:
            raise SettingsError(f"{shown(address)} names no host", hint="mqtt://host:1883")
        secure = parts.scheme == "mqtts"
        self._address = shown(address)
        self._client: Any = aiomqtt.Client(
            parts.hostname,
            parts.port or (8883 if secure else 1883),
            identifier=name,
            username=parts.username,
            password=parts.password,
            tls_params=aiomqtt.TLSParameters() if secure else None,
            clean_session=False,
            protocol=aiomqtt.ProtocolVersion.V311,
            max_inflight_messages=256,
        )

    async def open(self) -> None:
        try:
            await self._client.__aenter__()
        except (aiomqtt.MqttError, OSError) as error:
            raise AwayError(f"{self._address} does not answer: {error}") from None

    async def close(self) -> None:
        try:
            await self._client.__aexit__(None, None, None)
        except (aiomqtt.MqttError, OSError) as error:
            del error  # it was gone before


class MqttGiver(_MqttBridgeClient):
    def __init__(self, route: RouteSettings, name: str) -> None:
        super().__init__(route.from_, name)
        if not route.topic:
            raise SettingsError(f"the route {name} needs a topic, as a topic filter of MQTT")
        self._route = route
        self._source = f"mqtt:{urlsplit(route.from_).hostname}"
        self._life = secrets.token_hex(6)  # MQTT has no offsets: the ids are ours
        self._count = 0
        self._client._client.manual_ack_set(True)  # else PUBACK leaves before the event is kept here

    async def events(self) -> AsyncIterator[Incoming]:
        try:
            await self._client.subscribe(self._route.topic, qos=1)
            async for message in self._client.messages:
                self._count += 1
                event = read_event(
                    bytes(message.payload),
                    source=self._source,
                    id=f"{self._life}-{self._count}",
                    topic=our_topic(str(message.topic)),
                    lifetime=self._route.lifetime,
                )
                yield Incoming(event, self._done(message))
        except (aiomqtt.MqttError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None

    def _done(self, message: Any) -> Callable[[], Awaitable[None]]:
        async def done() -> None:
            if message.qos:
                self._client._client.ack(message.mid, message.qos)

        return done


class MqttTaker(_MqttBridgeClient):
    def __init__(self, route: RouteSettings, name: str) -> None:
        super().__init__(route.to, name)
        self._route = route

    async def reached(self) -> dict[str, int]:
        return {}

    async def send(self, event: Event, position: Position | None) -> None:
        del position
        topic = self._route.topic or their_topic(event.topic)
        try:
            await self._client.publish(topic, body_of(event), qos=1)
        except (aiomqtt.MqttError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None
