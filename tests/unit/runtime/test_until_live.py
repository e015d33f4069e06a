"""A subscription to what is available ends behind the last event, wherever its broker is."""

from __future__ import annotations

import asyncio

import pytest

import tidings
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, SecuritySettings


@pytest.mark.parametrize("count", [0, 1, 3, 2000])
def test_it_ends_when_the_last_event_is_acknowledged(count: int) -> None:
    """Over TCP credit comes in large parts: the acknowledgement of the last event has to end it."""

    async def test() -> None:
        settings = BrokerSettings(name="b1", listen="127.0.0.1:0", security=SecuritySettings(anonymous=True))
        async with (
            asyncio.timeout(60),
            Service(settings) as service,
            tidings.connect(service.server.address) as bus,
        ):
            await bus.publish_many([{"n": n} for n in range(count)], lifetime=60)
            news = await bus.subscribe("n >= 0", until_live=True)
            assert [event["n"] async for event in news] == list(range(count))

    asyncio.run(test())
