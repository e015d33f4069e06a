"""For users' own tests: the same broker object, not a double.

The pytest fixtures `bus` and `clock` come with the package:

    def test_late_subscribers_hear_the_news(bus, clock):
        bus.publish({"price": 7}, lifetime=60)
        clock.advance(30)
        with bus.subscribe("price > 5") as news:
            assert [event["price"] for event in collect(news)] == [7]

Tests that await use `tidings.connect(clock=VirtualClock())` themselves.
"""

from __future__ import annotations

from tidings.testing.clock import VirtualClock
from tidings.testing.collect import collect

__all__ = ["VirtualClock", "collect"]
