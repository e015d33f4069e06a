"""Redis streams: both directions exactly once, since a stream has offsets and a transaction can hold ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError, ResponseError

from tidings.errors import SettingsError
from tidings.gateway.bridges.bridge import AwayError, Incoming, RouteSettings, body_of, read_event, shown
from tidings.model.event import Event
from tidings.model.subscription import Position

MANY = 256  # entries in one reading
BLOCK_MILLISECONDS = 1000
BODY = b"event"  # the field that holds an event of ours


class _RedisBridgeClient:
    def __init__(self, address: str, route: RouteSettings, name: str) -> None:
        if not route.stream:
            raise SettingsError(f"the route {name} needs a stream")
        self._dialled = address  # may hold a password
        self._address = shown(address)
        self._route = route
        self._name = name
        self._redis: Any = None

    async def open(self) -> None:
        self._redis = redis.from_url(self._dialled)
        try:
            await self._redis.ping()
        except (RedisError, OSError) as error:
            await self.close()
            raise AwayError(f"{self._address} does not answer: {error}") from None

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()


class RedisGiver(_RedisBridgeClient):
    """Entries of a stream, by a consumer group of our name."""

    def __init__(self, route: RouteSettings, name: str) -> None:
        super().__init__(route.from_, route, name)

    async def events(self) -> AsyncIterator[Incoming]:
        stream = self._route.stream
        try:
            await self._begin()
            after = "0"  # what was given to us and not acknowledged comes first
            while True:
                answer = await self._redis.xreadgroup(
                    self._name, "bridge", {stream: after}, count=MANY, block=BLOCK_MILLISECONDS
                )
                entries = _entries(answer)
                if not entries:
                    after = ">"
                for id, fields in entries:
                    after = id if after != ">" else ">"
                    yield Incoming(self._event(id, fields), self._done(id))
        except (RedisError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None

    async def _begin(self) -> None:
        try:
            await self._redis.xgroup_create(self._route.stream, self._name, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def _done(self, id: str) -> Any:
        async def done() -> None:
            await self._redis.xack(self._route.stream, self._name, id)

        return done

    def _event(self, id: str, fields: dict[bytes, bytes]) -> Event:
        route = self._route
        body = fields.get(BODY)
        event = read_event(
            body or b"",
            source=f"redis:{route.stream}",
            id=id,
            topic=route.topic or None,
            lifetime=route.lifetime,
        )
        if body is None:
            named = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in fields.items()}
            event = _of_fields(event, named)
        return event


def _of_fields(event: Event, fields: dict[str, str]) -> Event:
    """An entry that is no event of ours: its fields are attributes, as texts."""
    from tidings.model.event import RESERVED, checked_event

    kept = {k: v for k, v in fields.items() if k and k.partition(".")[0] not in RESERVED}
    return checked_event(
        Event(source=event.source, id=event.id, body=kept, topic=event.topic, lifetime=event.lifetime)
    )


def _entries(answer: Any) -> list[tuple[str, dict[bytes, bytes]]]:
    """However this version of the protocol shapes them."""
    listed = answer.values() if isinstance(answer, dict) else [entries for _, entries in answer or ()]
    found: list[tuple[str, dict[bytes, bytes]]] = []
    for entries in listed:
        flat = entries[0] if entries and isinstance(entries[0], list) else entries
        found += [(id.decode() if isinstance(id, bytes) else id, fields or {}) for id, fields in flat]
    return found


class RedisTaker(_RedisBridgeClient):
    """To a stream; the position is written in the same transaction, so no entry is added twice."""

    def __init__(self, route: RouteSettings, name: str) -> None:
        super().__init__(route.to, route, name)
        self._key = f"tidings:{name}:{route.stream}"

    async def reached(self) -> dict[str, int]:
        try:
            known = await self._redis.hgetall(self._key)
        except (RedisError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None
        return {log.decode(): int(offset) for log, offset in known.items()}

    async def send(self, event: Event, position: Position | None) -> None:
        fields = {BODY: body_of(event), b"source": event.source, b"id": event.id, b"topic": event.topic or ""}
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.xadd(self._route.stream, fields)
                if position is not None:
                    pipe.hset(self._key, position.log, position.offset)
                await pipe.execute()
        except (RedisError, OSError) as error:
            raise AwayError(f"{self._address}: {error!r}") from None
