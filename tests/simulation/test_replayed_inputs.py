"""A node is a function of its seed and its inputs: recorded inputs give the same effects, byte for byte.

Each broker of a run with crashes, cuts and losses is built again in each of its lives and handed the inputs
that it had, its messages as other objects than in the run. In another process, with other hashes of texts,
the whole run gives the same effects too: no order of a set reaches an effect.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.simulation.faults import CRASH, FaultMix, Incident, drawn
from tidings.simulation.parts import SimulatedMachine
from tidings.simulation.simulator import Simulation, SimulationSettings
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings.simulation.workloads import Plan, StockQuotes, mixed
from tidings.simulation.world import World
from tidings.systems import Site
from tidings.wire.codec import Codec

SYSTEMS = ("tidings", "tidings-group", "socbr")
PLAN = Plan(
    subscriptions=12, events=60, rate=15.0, churn=0.15, durable=0.5, settle=5.0, publishers=4,
    lifetimes=(0.0, 4.0, float("inf")),
)  # fmt: skip


class RecordedLife:
    """A broker that remembers each input, and the bytes of the effects that it gave."""

    def __init__(self, node: SimulatedMachine, codec: Callable[[], Codec]) -> None:
        self.machine = node
        self.codec = codec
        self.inputs: list[tuple[Any, float]] = []
        self.effects: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def handle(self, input: Any, now: float) -> list[Any]:
        kept = deepcopy(input) if isinstance(input, ins.Started) else input
        self.inputs.append((kept, now))
        effects = self.machine.handle(input, now)
        self.effects.append(encoded(effects, self.machine.next_deadline(), self.codec()))
        return effects


class RecordedWorld(World):
    """A world whose brokers are recorded in each of their lives."""

    lives: list[tuple[Site, int, RecordedLife]]
    codec: Codec | None = None

    def _builder(self, site: Site) -> Callable[[], SimulatedMachine]:
        if not hasattr(self, "lives"):
            self.lives = []
        build, count = super()._builder(site), iter(range(1_000))

        def recorded() -> SimulatedMachine:
            life = RecordedLife(build(), self.messages)
            self.lives.append((site, next(count), life))
            return life

        return recorded

    def messages(self) -> Codec:
        if self.codec is None:
            self.codec = Codec(
                {m: None for _, _, life in self.lives for s in life.slots.values() for m in s.messages}
            )
        return self.codec


def encoded(effects: list[Any], deadline: float | None, codec: Codec) -> bytes:
    """Effects in their order, and the time at which the machine wants to be woken."""
    parts = [repr(deadline).encode()]
    for effect in effects:
        if isinstance(effect, fx.Send):
            parts.append(f"{effect.to} {effect.channel} ".encode() + codec.encode(effect.message))
        else:
            parts.append(repr(effect).encode())
    return b"\n".join(parts)


def as_other_objects(input: Any, codec: Codec) -> Any:
    """The same input with messages that share no object with those of the run."""
    if isinstance(input, ins.Received):
        return ins.Received(input.sender, codec.decode(codec.encode(input.message)))
    return input


def run(system: str, seed: int) -> RecordedWorld:
    rng = Random(f"{system}/{seed}")
    brokers = tuple(f"b{each}" for each in range(5))
    overlay = OverlayGraph(brokers, ()) if system == "tidings-group" else random_tree(5, rng)
    world = RecordedWorld(system, overlay, seed=seed, settings=SimulationSettings(check=True))
    world.load(mixed(StockQuotes(symbols=4), world.overlay.brokers, rng, PLAN))
    plan = drawn(world.overlay, rng, until=4.0, mix=FaultMix(incidents=4))
    moved = [
        msgspec.structs.replace(each, at=each.at + 5.0, until=each.until + 5.0) for each in plan.incidents
    ]
    crash = Incident(kind=CRASH, at=7.0, until=8.0, nodes=(world.overlay.brokers[0],))
    plan = msgspec.structs.replace(plan, incidents=(*moved, crash), rates_until=9.0)
    world.simulation.call_at(5.0, lambda: world.simulation.plan(plan))
    world.run(20.0)
    return world


def digest(world: RecordedWorld) -> str:
    found = sha256()
    for _, _, life in world.lives:
        for effects in life.effects:
            found.update(effects)
    return found.hexdigest()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("system", SYSTEMS)
def test_recorded_inputs_give_the_same_effects_byte_for_byte(system: str, seed: int) -> None:
    world = run(system, seed)
    codec, handled = world.messages(), 0
    for site, number, life in world.lives:
        again = world.system.build(site, Simulation(seed).rng(f"{site.name}/{number}"))
        for position, ((input, now), expected) in enumerate(zip(life.inputs, life.effects, strict=True)):
            effects = again.handle(as_other_objects(input, codec), now)
            found = encoded(effects, again.next_deadline(), codec)
            assert found == expected, f"{site.name}, life {number}, input {position}: {input}"
            handled += 1
    assert handled > 500, "the run did something"
    assert len(world.lives) > len(world.overlay.brokers), "a broker had a second life"


def test_another_process_with_other_hashes_gives_the_same_effects() -> None:
    ours, code = digest(run("tidings", 1)), "from tests.simulation.test_replayed_inputs import *; "
    root = Path(__file__).parents[2]
    for hashes in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hashes,
            "PYTHONPATH": os.pathsep.join([str(root), *sys.path]),
        }
        command = [sys.executable, "-c", code + "print(digest(run('tidings', 1)))"]
        theirs = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert theirs.stdout.strip() == ours, f"PYTHONHASHSEED={hashes}"
