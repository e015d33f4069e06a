"""Content-based routing on transit-stub networks, as in the simulations of Virgillito 2003, 3.3.

100 brokers in a tree that is blind to the network under it. A link takes the latency of the shortest path
between its hosts, and handling takes a time of its own: a change of a routing table more than a match. All
seconds are the simulator's; one constant turns them into the thesis' (the hardware's share), found on its
first row. The handling times below and the shape of the network are not in the thesis: they were chosen so
that the rows of Table 3.1 come out, and are no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.protocol.inputs import Received
from tidings.protocol.routing.diffusion import Interest
from tidings.protocol.routing.duplicates import Forward
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import link_latencies, placed, random_tree, transit_stub
from tidings.simulation.world import World

BROKERS = 100
TABLE_SECONDS = 0.040  # to take a change into the routing table; the thesis has r > s, matching is cheaper
MATCH_SECONDS = 0.020
APART = 60.0  # between measurements, so that they do not meet


def busy(item: Any) -> float:
    """Seconds that a broker is busy with an input."""
    if type(item) is Received:
        if type(item.message) is Interest:
            return TABLE_SECONDS
        if type(item.message) is Forward:
            return MATCH_SECONDS
    return 0.0


def build(hosts: int, seed: int, brokers: int = BROKERS) -> World:
    """Brokers of SIENA's kind on a network of so many hosts."""
    rng = Random(f"{seed}/{hosts}")
    overlay = random_tree(brokers, rng)
    network = transit_stub(hosts, rng)
    latencies = link_latencies(overlay, network, placed(overlay, network, rng))
    settings = SimulationSettings(client_seconds=1e-6, processing=busy)
    world = World("siena", overlay, seed=seed, settings=settings, latencies=latencies, record=False)
    for broker in overlay.brokers:
        world.add_client(f"at-{broker}", broker)
    world.run(1.0)
    return world


class SourceDelays:
    """From every source (row) to every broker (column), in simulated seconds."""

    def __init__(self, hosts: int, seed: int, sources: Sequence[int] | None = None) -> None:
        world = build(hosts, seed)
        brokers = world.overlay.brokers
        chosen = range(len(brokers)) if sources is None else sources
        self.subscription = _spread(world, brokers, chosen, _subscribe, Interest)
        for broker in brokers:
            world.subscribe(f"at-{broker}", "all", "EXISTS mark")
        world.run(world.simulation.now + APART)
        self.notification = _spread(world, brokers, chosen, _publish, Forward)


def delays_of(hosts: int, seed: int, sources: Sequence[int] | None) -> dict[str, list[list[float]]]:
    """The same as a point of a sweep."""
    found = SourceDelays(hosts, seed, sources)
    return {"subscription": found.subscription.tolist(), "notification": found.notification.tolist()}


def _subscribe(world: World, client: str, number: int) -> None:
    world.subscribe(client, f"s{number}", f"number = {number}")


def _publish(world: World, client: str, number: int) -> None:
    world.publish(client, {"mark": number})


def _spread(
    world: World, brokers: Sequence[str], sources: Sequence[int], act: Any, message: type
) -> NDArray[np.float64]:
    """Let each source act in turn; when each broker was done with hearing of it."""
    position = {name: number for number, name in enumerate(brokers)}
    delays = np.zeros((len(sources), len(brokers)))
    begun = [0.0]
    row = [0]

    def note_delay(name: str, item: Any, now: float) -> None:
        if type(item) is Received and type(item.message) is message and name in position:
            column = position[name]
            if not delays[row[0], column]:
                delays[row[0], column] = now - begun[0]

    world.simulation.on_handled = note_delay
    for row[0], source in enumerate(sources):
        begun[0] = world.simulation.now
        client = f"at-{brokers[source]}"
        act(world, client, source)
        world.run(begun[0] + APART)
        if message is Interest:
            world.simulation.on_handled = None
            world.unsubscribe(client, f"s{source}")
            world.run(world.simulation.now + APART)
            world.simulation.on_handled = note_delay
    world.simulation.on_handled = None
    return delays
