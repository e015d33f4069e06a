"""What recovery costs when nothing is lost: events through a line of brokers, by CPU seconds.

Work `processes`: broker processes over TCP (`recovery_network.py`), which is what users have. Work `nodes`: the
same nodes, every message encoded and decoded as on a link, and no sockets: so the share of recovery in the work
is larger than it is in a process, and steadier to measure. Garbage is collected as broker processes have it
(`runtime/process.py`). Rounds of all systems take turns; of each the fastest
counts, since what disturbs can only slow down. "Switched off" are the same brokers as with epidemic recovery, which
is left out: what recovery costs is judged against those.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import process_time
from typing import Any

import msgspec

from tidings.bench.recovery_network import OFF, rows
from tidings.errors import InputError
from tidings.runtime.process import NEW_OBJECTS
from tidings.simulation.topology import line
from tidings.simulation.world import World
from tidings.wire.codec import Codec

SYSTEMS = (
    OFF, "subscription-forwarding", "epidemic-subscriber-pull", "epidemic-publisher-pull", "epidemic",
    "epidemic-push", "epidemic-lazy-push", "tidings",
)  # fmt: skip
PULLS = ("epidemic-subscriber-pull", "epidemic-publisher-pull", "epidemic")
NODES, PROCESSES = "nodes", "processes"
BROKERS = 4


def run(quick: bool = False, seed: int = 1, only: str | None = None) -> Iterator[dict[str, Any]]:
    works = only.split(",") if only else [NODES, PROCESSES]
    for work in works:
        if work not in (NODES, PROCESSES):
            raise InputError(f"no work is called {work!r}", hint=f"there are {NODES} and {PROCESSES}")
    if NODES in works:
        yield from _nodes(quick, seed)
    if PROCESSES in works:
        yield from rows(PULLS, *((4000, 3) if quick else (16_000, 5)))


def _nodes(quick: bool, seed: int) -> Iterator[dict[str, Any]]:
    events, rounds = (1500, 5) if quick else (4000, 9)
    fastest: dict[str, float] = {}
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 50)
    try:
        for number in range(rounds):
            for system in SYSTEMS:
                seconds = _seconds(system, events, seed + number)
                fastest[system] = min(seconds, fastest.get(system, seconds))
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    for system in SYSTEMS:
        yield {
            "work": "nothing lost, nodes",
            "size": events,
            "engine": system,
            "figure": events / fastest[system],
            "unit": "events per CPU second",
            "ratio_to_best_peer": fastest[OFF] / fastest[system],
        }


def _seconds(system: str, events: int, seed: int) -> float:
    """CPU seconds for events from one end of the line to subscribers in the middle and at the other end."""
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
    for number in range(200):  # what is made once is made now
        world.publish("press", {"kind": number % 10, "price": number})
    world.run(10.0)
    begin = process_time()
    for number in range(events):
        world.publish("press", {"kind": number % 10, "price": number})
        if number % 20 == 19:
            world.run(simulation.now + 0.05)
    world.run(simulation.now + 1.0)
    seconds = process_time() - begin
    heard = len(world.heard(f"at-b{BROKERS - 1}"))
    assert heard == events + 200, f"{system} delivered {heard} of {events + 200}"
    return seconds
