"""The act of the demonstration with three broker processes: the one in between is killed.

The expected deliveries are the publishes that were acknowledged; the act claims only results that agree.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import tidings
from tidings.cli.stage import Stage
from tidings.runtime.cluster import Cluster

EVENTS = 150
KILLED_AFTER = 50  # acknowledged events
BACK_AFTER = 100
PATIENCE = 60.0  # seconds to wait for an event that is owed, on a loaded machine
SILENCE = 0.5  # seconds without an event, after which a subscriber counts as drained
MIDDLE, NEAR, FAR = 0, 1, 2  # the tree is b2 - b1 - b3


async def network(stage: Stage, folder: Path) -> None:
    stage.act(
        "A network, and a kill in the middle of it",
        "Three brokers are started as processes: b2 - b1 - b3. A subscriber is at b2, a publisher at b3.",
        gain="Lose a broker and no event: a network heals around a broker that is killed",
    )
    async with Cluster(3, store=folder / "brokers", log="error") as cluster:
        near, far = (cluster.members[number].address for number in (NEAR, FAR))
        async with (
            tidings.connect(near, name="desk") as session,
            tidings.connect(far, name="market") as market,
            session.subscribe("change < 0", name="falls", durable=True) as listener,
        ):
            subscription = asyncio.create_task(_received(listener))
            acknowledged = await _published(stage, cluster, market)
            received = await subscription
    counts = Counter(received)
    wanted = [id for id, change in acknowledged if change < 0]
    stage.say(f"{len(acknowledged)} events acknowledged, {len(wanted)} asked for, {len(received)} received")
    stage.claim(
        f"kill -9 of the broker in between lost none of {len(wanted)} events that were asked for",
        len(acknowledged) == EVENTS and not set(wanted) - set(received),
        short=f"{len(wanted)} events crossed a broker that was killed in between",
    )
    stage.claim(
        "each was received once, in the order of its publisher, and nothing else was",
        received == wanted and max(counts.values(), default=0) == 1,
    )


async def _published(stage: Stage, cluster: Cluster, market: tidings.Bus) -> list[tuple[str, int]]:
    """Publish events, every third without a subscriber; the broker in between stops and restarts."""
    acknowledged: list[tuple[str, int]] = []
    for n in range(1, EVENTS + 1):
        change = n if n % 3 == 0 else -n
        receipt = await market.publish({"change": change, "last": n >= EVENTS - 1}, lifetime=3600)
        acknowledged.append((receipt.id, change))
        if n == KILLED_AFTER:
            await cluster.kill(MIDDLE)
            stage.say(f"b1 was killed after {n} acknowledged events; the publisher goes on at b3")
        if n == BACK_AFTER:
            await cluster.restart(MIDDLE)
            stage.say(f"b1 is back with its disk after {n}")
    return acknowledged


async def _received(listener: tidings.Listener[tidings.Event]) -> list[str]:
    """Every event up to the last that is owed, and any event behind it."""
    received: list[str] = []
    is_last = False
    while True:
        try:
            event = await listener.get(timeout=SILENCE if is_last else PATIENCE)
        except TimeoutError:
            return received
        received.append(event.id)
        is_last = is_last or bool(event["last"])
