"""The simulator: handled messages a second on a covering network, beside SimPy driving the same nodes.

All engines are given the same machines and the same inputs at the same moments: brokers of `siena`
on a random tree, their clients, subscriptions first and then events. A figure counts calls of `handle` in CPU
seconds, so the nodes' own work is in every figure and only the driver differs. Brokers of `tidings` are given
the same work in each mode of the simulator: bare, checked, recorded, and with messages as bytes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any

import msgspec

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol.routing.outlets import forget_pairs
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import random_tree
from tidings.simulation.workloads import Plan, PublishStep, StockQuotes, SubscribeStep, mixed
from tidings.simulation.world import World
from tidings.wire.codec import Codec
from tidings_bench.matching import row

SYSTEM = "siena"
ACKNOWLEDGED = "tidings"  # the system of the modes
BROKERS = 100
CLIENT_SECONDS = SimulationSettings().client_seconds
LINK_SECONDS = SimulationSettings().link_seconds
DISK_SECONDS = SimulationSettings().disk_seconds

MODES = ("bare", "checked", "recorded", "with codec")

Given = list[tuple[float, str, Any]]  # when, which client, what


def run(quick: bool = False, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Rows for the bare simulator, the checked and recorded one, and SimPy; then for each mode."""
    events = 400 if quick else 3000
    measured = {
        "SimPy, bare": _best(lambda: _simpy(seed, events)),
        "tidings, bare": _best(lambda: _ours(seed, events)),
        "tidings, checked and recorded": _best(lambda: _ours(seed, events, "checked", "recorded")),
    }
    peer = measured["SimPy, bare"]
    for engine, figure in measured.items():
        best = None if engine.startswith("SimPy") else peer
        yield row(f"{SYSTEM}, {BROKERS} brokers", events, engine, figure, "handled/cpu s", best)
    for mode in MODES:
        figure = _best(lambda mode=mode: _ours(seed, events, mode, system=ACKNOWLEDGED))  # type: ignore[misc]
        work = f"{ACKNOWLEDGED}, {BROKERS} brokers"
        yield row(work, events, f"tidings, {mode}", figure, "handled/cpu s", None)


def _best(measure: Callable[[], float], rounds: int = 2) -> float:
    return max(measure() for _ in range(rounds))


def build(seed: int, events: int, *modes: str, system: str = SYSTEM) -> tuple[World, Given]:
    """A world with its clients, and what they are to do."""
    overlay = random_tree(BROKERS, Random(seed))
    settings = SimulationSettings(check="checked" in modes)
    world = World(system, overlay, seed=seed, settings=settings, record="recorded" in modes)
    if "with codec" in modes:
        declared = [m for _, node in world.nodes() for slot in node.slots.values() for m in slot.messages]
        world.simulation.settings = msgspec.structs.replace(settings, codec=Codec(dict.fromkeys(declared)))
    plan = Plan(subscriptions=200, events=events, rate=500.0, publishers=20)
    workload = mixed(StockQuotes(), overlay.brokers, Random(seed), plan)
    for client, broker in workload.clients.items():
        world.add_client(client, broker)
        world.applications[client].calls.update(dict.fromkeys(range(len(workload.steps)), "n"))
    given: Given = []
    for call, step in enumerate(workload.steps):
        if isinstance(step, SubscribeStep):
            options = DeliveryOptions(queue=100_000, policy=Policy.DROP_NEWEST)
            wanted = parse_filter(step.filter)
            item: Any = ins.ClientSubscribe(call, wanted, step.name, options, window=64, auto=True)
        else:
            assert isinstance(step, PublishStep)
            event = make_event(step.attributes, source=step.client, id="-")
            item = ins.ClientPublish(call, event, number=True)
        given.append((step.at, step.client, item))
    return world, given


def _ours(seed: int, events: int, *modes: str, system: str = SYSTEM) -> float:
    world, given = build(seed, events, *modes, system=system)
    simulation = world.simulation
    for at, client, item in given:
        simulation.input(client, item, at)
    took = _timed(lambda: simulation.run(given[-1][0] + 5.0))
    return simulation.handled / took


def _simpy(seed: int, events: int) -> float:
    world, given = build(seed, events)
    driver = _SimPyDriver(world)
    for at, client, item in given:
        driver.later(at, client, item)
    took = _timed(lambda: driver.environment.run(until=given[-1][0] + 5.0))
    return driver.handled / took


def _timed(go: Callable[[], None]) -> float:
    forget_pairs()  # every round works out for itself which filters cover which
    gc.collect()
    gc.freeze()  # the world lives long: the collector need not look at it again
    began = time.process_time()
    go()
    took = time.process_time() - began
    gc.unfreeze()
    return took


class _SimPyDriver:
    """Each machine is a SimPy process that takes its inputs from a store."""

    def __init__(self, world: World) -> None:
        import simpy

        self.environment = simpy.Environment()
        self.handled = 0
        positions = world.simulation.hosts
        self.machines = {name: host.machine for name, host in positions.items()}
        self.brokers = {name for name, host in positions.items() if host.is_broker}
        self.inboxes = {name: simpy.Store(self.environment) for name in positions}
        self.waking = dict.fromkeys(positions, float("inf"))
        for name in positions:
            self.environment.process(self._live(name))
        for name in self.brokers:
            disk = positions[name].disk
            assert disk is not None
            self.inboxes[name].put(ins.Started(disk.load()))
        for a, b in world.simulation.links:
            self.inboxes[a].put(ins.LinkUp(b))
            self.inboxes[b].put(ins.LinkUp(a))

    def later(self, seconds: float, to: str, item: Any) -> None:
        timeout = self.environment.timeout(seconds)
        inbox = self.inboxes[to]
        timeout.callbacks.append(lambda _: inbox.put(item))

    def _live(self, name: str) -> Generator[Any, Any, None]:
        machine, inbox, environment = self.machines[name], self.inboxes[name], self.environment
        while True:
            item = yield inbox.get()
            if type(item) is ins.TimerFired:
                self.waking[name] = float("inf")
            self.handled += 1
            for effect in machine.handle(item, environment.now):
                if type(effect) is fx.Send:
                    between = name in self.brokers and effect.to in self.brokers
                    seconds = LINK_SECONDS if between else CLIENT_SECONDS
                    self.later(seconds, effect.to, ins.Received(name, effect.message))
                elif type(effect) is fx.Persist:
                    self.later(DISK_SECONDS, name, ins.Persisted(effect.token))
            deadline = machine.next_deadline()
            if deadline is not None and deadline < self.waking[name]:
                self.waking[name] = deadline
                self.later(max(0.0, deadline - environment.now), name, ins.TimerFired())
