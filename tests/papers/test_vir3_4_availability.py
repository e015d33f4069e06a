"""VIR3-4: the classes of persistence (Virgillito 2003, section 3.1.5; Baldoni et al. 2002, section 4.3).

The three examples of the papers, on the real broker with a clock that the tests move: stock quotes with
availability 0, the daily news published at 03:00 with a life of one day, the catalogue of a digital
library for ever. For each: who hears what, and how much the broker has to remember.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.protocol._stage import Stage

import tidings
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.testing import VirtualClock, collect

HOUR = 3600.0
DAY = 24 * HOUR


def entries(bus: tidings.BlockingBus) -> int:
    """How many events the broker remembers."""
    count = bus.figures()["entries"]
    assert isinstance(count, int)
    return count


def test_vir3_4_zero_only_those_who_are_subscribed_hear_and_nothing_is_remembered(
    bus: tidings.BlockingBus, clock: VirtualClock
) -> None:
    """Instant values of stock quotes: only who is subscribed at the very moment hears them."""
    early = bus.subscribe("StockName = 'IBM'")
    for second in range(100):
        bus.publish({"StockName": "IBM", "price": 100 + second})
        clock.advance(1)
    late = bus.subscribe("StockName = 'IBM'")
    assert len(collect(early)) == 100
    assert collect(late) == []
    assert entries(bus) == 0


def test_vir3_4_delta_exactly_those_younger_than_delta_are_heard(
    bus: tidings.BlockingBus, clock: VirtualClock
) -> None:
    """The daily news: published at 03:00, heard by whoever subscribes during the day."""
    clock.advance(3 * HOUR)
    for day in range(5):
        bus.publish({"issue": day}, topic="news/daily", lifetime=DAY)
        clock.advance(DAY)
    bus.publish({"issue": 5}, topic="news/daily", lifetime=DAY)
    assert entries(bus) <= 2, "rate times lifetime"
    clock.advance(20 * HOUR)
    with bus.subscribe(topic="news/#") as during_the_day:
        assert [event["issue"] for event in collect(during_the_day)] == [5]
    clock.advance(4 * HOUR)
    with bus.subscribe(topic="news/#") as too_late:
        assert collect(too_late) == []
    assert entries(bus) == 0


def test_vir3_4_forever_a_late_subscriber_builds_its_copy_of_the_catalogue(
    bus: tidings.BlockingBus, clock: VirtualClock
) -> None:
    """A digital library: catalogue updates stay available to every later subscriber."""
    for number in range(200):
        bus.publish({"title": number, "year": 1900 + number % 100}, lifetime=tidings.FOREVER)
        clock.advance(DAY)
    with bus.subscribe("year < 1950") as library:
        assert [event["title"] for event in collect(library)] == [n for n in range(200) if n % 100 < 50]
    assert entries(bus) == 200


@pytest.mark.parametrize("lifetime", [0.0, 5.0, 30.0])
def test_vir3_4_the_broker_remembers_at_most_rate_times_lifetime(lifetime: float) -> None:
    """One event a second, at random moments: never more than lifetime + 1 of them are remembered, plus
    what one step of forgetting may lag behind."""
    rng = Random(7)
    stage = Stage()
    stage.client("p")
    delivery = stage.node.slots["delivery"]
    assert isinstance(delivery, ExactlyOnce)
    most = 0
    for number in range(300):
        stage.published("p", {"n": number}, lifetime=lifetime)
        most = max(most, delivery.figures()["entries"])
        stage.wait(rng.uniform(0.9, 1.1))
    assert most <= (lifetime / 0.9 + 1 if lifetime else 0)
    stage.wait(lifetime + 1)
    assert delivery.figures()["entries"] == 0
    assert stage.disk.log == {}


def test_vir3_4_exactly_the_available_ones_whatever_the_moment() -> None:
    """Random lifetimes and a subscription at a random moment: it hears those with accepted <= t < end."""
    for seed in range(60):
        rng = Random(seed)
        stage = Stage()
        stage.client("p")
        stage.client("s")
        ends: dict[int, float] = {}
        for number in range(12):
            lifetime = rng.choice((0.0, 0.5, 2.0, 8.0, tidings.FOREVER))
            call = stage.publish("p", {"n": number}, lifetime=lifetime)
            stage.settle()
            accepted = next(time for time, _, m in stage.handled if getattr(m, "call", None) == call)
            ends[number] = accepted + lifetime
            stage.wait(rng.uniform(0, 1))
        ref = stage.subscribed("s")
        subscribed_at = next(time for time, sender, m in stage.handled if type(m).__name__ == "Subscribe")
        expected = [number for number, end in ends.items() if end > subscribed_at]
        assert stage.drain("s", ref) == expected, f"seed {seed}"
