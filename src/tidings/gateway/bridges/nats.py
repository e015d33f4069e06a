"""NATS: subjects as they come, or streams of JetStream, which can replay."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from tidings.errors import EventError, SettingsError
from tidings.gateway.bridges.bridge import AwayError, Incoming, RouteSettings, body_of, read_event, shown
from tidings.model.event import Event
from tidings.model.subscription import Position
from tidings.model.topic import check_topic

PULL = 256  # events in one request
PULL_SECONDS = 1.0
MOST_OPEN = 4096  # given to us and not acknowledged


class _NatsBridgeClient:
    def __init__(self, address: str) -> None:
        self._dialled = address  # may hold a password
        self._address = shown(address)
        self._connection: Any = None

    async def open(self) -> None:
        try:
            self._connection = await nats.connect(
                self._dialled, allow_reconnect=False, connect_timeout=5, max_reconnect_attempts=1
            )
        except (NatsError, OSError) as error:
            raise AwayError(f"{self._address} does not answer: {error}") from None

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class NatsGiver(_NatsBridgeClient):
    """Events of a stream (each once), or of a subject (what comes while we listen)."""

    def __init__(self, route: RouteSettings, name: str) -> None:
        super().__init__(route.from_)
        if not route.stream and not route.subject:
            raise SettingsError(f"the route {name} needs a stream or a subject")
        self._route = route
        self._name = name

    async def events(self) -> AsyncIterator[Incoming]:
        try:
            if self._route.stream:
                async for incoming in self._of_stream():
                    yield incoming
            else:
                subscription = await self._connection.subscribe(self._route.subject)
                async for message in subscription.messages:
                    yield Incoming(self._event(message, None), _nothing)
        except NotFoundError:
            raise SettingsError(f"{self._address} has no stream {self._route.stream!r}") from None
        except (NatsError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None

    async def _of_stream(self) -> AsyncIterator[Incoming]:
        stream = self._connection.jetstream()
        durable = await self._consumer(stream)
        pull = await stream.pull_subscribe_bind(consumer=durable, stream=self._route.stream)
        while True:
            try:
                messages = await pull.fetch(PULL, timeout=PULL_SECONDS)
            except NatsTimeout:
                if self._connection.is_closed:
                    raise AwayError(f"{self._address} is gone") from None
                continue
            for message in messages:
                yield Incoming(self._event(message, message.metadata.sequence.stream), message.ack)

    async def _consumer(self, stream: Any) -> str:
        """A consumer that begins behind what was acknowledged: so what was given to an earlier bridge and
        not acknowledged comes again at once, and in order. The new one stands before the old ones go."""
        name, floor = self._route.stream, 0
        old = [c for c in await stream.consumers_info(name) if c.name.startswith(f"{self._name}-at-")]
        for consumer in old:
            floor = max(floor, consumer.ack_floor.stream_seq if consumer.ack_floor else 0)
            floor = max(floor, int(consumer.name.rpartition("-")[2]))
        durable = f"{self._name}-at-{floor}"
        stale = [c.name for c in old if c.name != durable]
        if any(c.name == durable for c in old):  # a consumer without an acknowledgement since it was made
            await stream.delete_consumer(name, durable)
        wanted = ConsumerConfig(
            durable_name=durable,
            ack_policy=AckPolicy.EXPLICIT,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=floor + 1,
            filter_subject=self._route.subject or None,
            max_ack_pending=MOST_OPEN,
        )
        await stream.add_consumer(name, wanted)
        for consumer in stale:
            await stream.delete_consumer(name, consumer)
        return durable

    def _event(self, message: Any, sequence: int | None) -> Event:
        route = self._route
        source = f"nats:{route.stream or route.subject}"
        id = str(sequence) if sequence is not None else f"{message.subject}:{id_of(message)}"
        return read_event(
            message.data,
            source=source,
            id=id,
            topic=route.topic or topic_of(message.subject),
            lifetime=route.lifetime,
        )


class NatsTaker(_NatsBridgeClient):
    """To a stream, where the id of an event keeps it from being there twice; or to a subject."""

    def __init__(self, route: RouteSettings) -> None:
        super().__init__(route.to)
        self._route = route

    async def reached(self) -> dict[str, int]:
        return {}

    async def send(self, event: Event, position: Position | None) -> None:
        del position
        subject = self._route.subject or subject_of(event.topic)
        headers = {"Nats-Msg-Id": f"{event.source}/{event.id}"}
        try:
            if self._route.stream:
                await self._connection.jetstream().publish(
                    subject, body_of(event), stream=self._route.stream, headers=headers
                )
            else:
                await self._connection.publish(subject, body_of(event), headers=headers)
                await self._connection.flush()
        except (NatsError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None


async def _nothing() -> None:
    """The other side does not ask."""


def id_of(message: Any) -> str:
    return str((message.headers or {}).get("Nats-Msg-Id") or secrets.token_hex(8))


def topic_of(subject: str) -> str | None:
    """orders.eu is orders/eu; a subject that cannot be a topic has none."""
    try:
        return check_topic(subject.replace(".", "/"))
    except EventError:
        return None


def subject_of(topic: str | None) -> str:
    return (
        "tidings" if topic is None else topic.strip("/").replace(".", "_").replace("/", ".").replace(" ", "_")
    )
