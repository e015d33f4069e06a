"""Cost of recovery without losses: events through a line of brokers, by CPU seconds.

Work `processes`: broker processes over TCP (`recovery_network.py`), which is what users have. Work `nodes`:
the same nodes, every message encoded and decoded as on a link, and no sockets, which is steadier to measure.
Garbage is collected as broker processes have it (`runtime/process.py`). All systems take turns with slices of
a few milliseconds, each time in another order; of each counts the slice that a tenth of its slices undercut:
what disturbs can only slow down. "Switched off" are the same brokers as with epidemic recovery, which is left
out: what recovery costs is judged against those.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.runtime.process import NEW_OBJECTS
from tidings.simulation.topology import line
from tidings.simulation.world import World
from tidings.wire.codec import Codec
from tidings_bench.recovery_network import OFF, rows

SYSTEMS = (
    OFF, "subscription-forwarding", "epidemic-subscriber-pull", "epidemic-publisher-pull", "epidemic",
    "epidemic-push", "epidemic-lazy-push", "tidings",
)  # fmt: skip
PULLS = ("epidemic-subscriber-pull", "epidemic-publisher-pull", "epidemic")
NODES, PROCESSES = "nodes", "processes"
BROKERS = 4
EVENTS = 20  # in a slice
WARM = 2000


def run(quick: bool = False, seed: int = 1, only: str | None = None) -> Iterator[dict[str, Any]]:
    works = only.split(",") if only else [NODES, PROCESSES]
    for work in works:
        if work not in (NODES, PROCESSES):
            raise InputError(f"no work is called {work!r}", hint=f"there are {NODES} and {PROCESSES}")
    if NODES in works:
        yield from nodes(150 if quick else 600, seed)
    if PROCESSES in works:
        yield from rows(PULLS, *((4000, 3) if quick else (16_000, 5)))


def nodes(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """All systems, with so many slices of each."""
    rng = Random(seed)
    worlds = {system: line_of(system, seed) for system in SYSTEMS}
    slices: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 50)
    try:
        for _ in range(count):
            for system in rng.sample(SYSTEMS, len(SYSTEMS)):
                slices[system].append(seconds_of(worlds[system]))
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    usual = {system: sorted(found)[len(found) // 10] for system, found in slices.items()}
    for system, world in worlds.items():
        received, owed = len(world.received(f"at-b{BROKERS - 1}")), WARM + EVENTS * len(slices[system])
        assert received == owed, f"{system} delivered {received} of {owed}"
        yield {
            "work": "nothing lost, nodes",
            "size": EVENTS * len(slices[system]),
            "engine": system,
            "figure": EVENTS / usual[system],
            "unit": "events per CPU second",
            "ratio_to_best_peer": usual[OFF] / usual[system],
        }


def line_of(system: str, seed: int, warm: int = WARM) -> World:
    """A line of brokers; what is published at one end is wanted in the middle and at the other end."""
    chosen, options = ("epidemic", {"gossip": {"enabled": False}}) if system == OFF else (system, None)
    world = World(chosen, line(BROKERS), seed=seed, options=options, record=False)
    declared = [m for _, node in world.nodes() for slot in node.slots.values() for m in slot.messages]
    simulation = world.simulation
    simulation.settings = msgspec.structs.replace(simulation.settings, codec=Codec(dict.fromkeys(declared)))
    world.add_client("press", "b0")
    for broker in ("b1", f"b{BROKERS - 1}"):
        world.add_client(f"at-{broker}", broker)
        for number in range(10):
            world.subscribe(f"at-{broker}", f"n{number}", f"kind = {number}")
    world.run(5.0)
    for number in range(warm):  # what is made once is made now, and caches are full
        world.publish("press", {"kind": number % 10, "price": number})
        if number % EVENTS == EVENTS - 1:
            world.run(world.simulation.now + 0.05)
    world.run(world.simulation.now + 5.0)
    return world


def seconds_of(world: World) -> float:
    """CPU seconds of one slice."""
    begin = process_time()
    for number in range(EVENTS):
        world.publish("press", {"kind": number % 10, "price": number})
    world.run(world.simulation.now + 0.05)
    return process_time() - begin
