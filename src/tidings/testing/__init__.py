"""For users' own tests: the same broker object, not a double.

The pytest fixtures `bus`, `clock`, `async_bus`, `run_async` and `broker` come with the package
(`plugin.py`):

    def test_late_subscribers_hear_the_news(bus, clock):
        bus.publish({"price": 7}, lifetime=60)
        clock.advance(30)
        with bus.subscribe("price > 5") as news:
            assert [event["price"] for event in collect(news)] == [7]

Tests that await use `async_bus` with a plugin such as anyio, or `run_async` without one:

    def test_the_news(run_async):
        async def play(bus):
            async with bus.subscribe("price > 5") as news: ...

        run_async(play)
"""

from __future__ import annotations

from tidings.testing.clock import VirtualClock
from tidings.testing.collect import collect

__all__ = ["VirtualClock", "collect"]
