"""`tidings bench broker`: one broker process of ours beside mosquitto, NATS, Redis and amqtt.

Every broker runs as a process on loopback and is driven by a load generator in C, so that what is measured is
the broker; two cores are shared by the two. A run with something lost, repeated or out of order does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.bench.broker.rows import Row


def run(*, quick: bool = False) -> Iterator[Row]:
    """Rows of every work: content, topic, latency, durable."""
    from tidings.bench.broker.works import FULL, QUICK, content, durable, latency, topic

    scale = QUICK if quick else FULL
    highest: dict[str, float] = {}
    yield from content(scale)
    yield from topic(scale, highest)
    yield from latency(scale, highest)
    yield from durable(scale)
