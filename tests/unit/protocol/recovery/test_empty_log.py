"""A request for a log that holds nothing beyond an offset is answered at once, without the disk."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def read(*, lifetime: float) -> tuple[int, list[Any]]:
    """Reads of disks for a subscription at b0 to an event of b1, and what it receives."""
    world = World("tidings", line(2), seed=1, settings=SimulationSettings(check=True))
    world.add_client("p", "b1")
    world.add_client("s", "b0")
    world.run(3.0)
    world.publish("p", {"x": 1}, lifetime=lifetime)
    world.run(4.0)
    kinds: Counter[str] = Counter()
    world.simulation.on_handled = lambda name, item, now: kinds.update((type(item).__name__,))
    world.subscribe("s", "n", "TRUE")
    world.run(9.0)
    return kinds["Fetched"], world.received("s")


def test_an_empty_log_is_not_read_and_a_filled_one_is() -> None:
    assert read(lifetime=0.0) == (0, [])
    fetched, received = read(lifetime=60.0)
    assert fetched > 0
    assert len(received) == 1
