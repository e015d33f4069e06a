"""Comparison of systems on the same events and subscriptions: cost, delay and deliveries of each.

Rules
- One workload, one network of brokers (a tree, unless told otherwise), one seed: only the composition
  differs. A system that needs no links (peers, prefix overlays) stands on the same network: a message between
  two brokers takes as long as the way between them, and crosses as many wires.
- A system is judged by an oracle that knows only who subscribed to what (`oracle.py`), not by its promises.
- T_sub and T_diff (Virgillito 2003, 3.1.6) are measured with probes, the same for all: a subscriber comes,
  and brokers publish for it at every `link_seconds` after. T_sub is how long it takes until no event of any
  publisher is missed; T_diff how long the slowest event takes then. d follows from the pairs of both delays,
  for subscriptions of `t_on` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tidings.algebra.cells import HashCells
from tidings.errors import SettingsError, TidingsError
from tidings.history.schema import NTFY, PUB, Row
from tidings.protocol.messages import tag_of
from tidings.simulation.experiment import latencies_of
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OVERLAYS, OverlayGraph, hops_from, local_networks
from tidings.simulation.workloads import Plan, PublishStep, Step, Workload, content_named, mixed
from tidings.simulation.world import World
from tidings.systems import MESH, NO_LINKS, PEERS, System, find_system, system_names
from tidings_lab.simulation.metering import CostMeter, entries_of
from tidings_lab.simulation.oracle import Judgement, judge
from tidings_lab.simulation.traces import is_trace, read_trace

WARM = 10.0  # seconds before the first subscription, in which overlays and tables come to be
CALM = 10.0  # after the last event
PROBE_BROKERS = 8  # that publish for them
PROBE_TYPE = "Probe"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a comparison, but for the systems."""

    workload: str = "markets"
    seed: int = 1
    brokers: int = 20
    overlay: str = "tree"
    fan_out: int = 4
    plan: Plan = Plan(subscriptions=100, events=300, rate=50.0)
    t_on: float = 1.0  # seconds that a subscription stays, for d
    margin: float = 1.0  # seconds for which a subscription may come or go, for the oracle
    options: dict[str, dict[str, Any]] = {}  # by system: its knobs
    probes: int = 4  # subscribers that come while brokers publish for them; 0: no delays are measured
    check: bool = False  # run every invariant after each step

    def build_overlay(self) -> OverlayGraph:
        if self.overlay not in OVERLAYS:
            known = ", ".join(OVERLAYS)
            raise SettingsError(f"no overlay is called {self.overlay!r}", hint=f"there are: {known}")
        rng = Random(f"{self.seed}/overlay")
        return OVERLAYS[self.overlay](self.brokers, rng, self.fan_out)


class Measures(msgspec.Struct, kw_only=True):
    """One system's line. None: it cannot be measured."""

    system: str
    model: str
    refused: str | None = None  # why it was not run
    events: int = 0
    due: int = 0
    delivered: int = 0
    missing: int = 0
    stray: int = 0
    twice: int = 0
    verdict: str = ""  # of the oracle
    messages: int = 0  # between brokers, from the first subscription to the last event
    event_messages: float = 0.0  # that carried an event, per event
    control_messages: int = 0  # the others
    hops: float = 0.0  # wires crossed by messages with events, per event
    bytes: int = 0
    latency_p50: float | None = None
    latency_p99: float | None = None
    entries: int | None = None  # of all tables
    entries_max: int | None = None  # of the largest
    imbalance: float | None = None  # the busiest broker over the mean
    busiest: str | None = None
    t_sub: float | None = None  # None: longer than the probes waited
    t_diff: float | None = None
    d: float | None = None
    kinds: dict[str, int] = {}  # messages between brokers, by tag


def chosen_systems(text: str) -> list[System]:
    """`all`, or names with commas."""
    names = system_names() if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingsError("no system is named", hint="say --systems all, or name some with commas")
    return [find_system(name) for name in names]


def compare(
    systems: Iterable[System], comparison: Comparison, progress: Callable[[str], None] | None = None
) -> list[Measures]:
    """One line for each system, in order."""
    found = []
    for system in systems:
        if progress is not None:
            progress(system.name)
        found.append(measure(system, comparison))
    return found


def measure(system: System, comparison: Comparison) -> Measures:
    """One system's line; a system that cannot serve the workload says why."""
    try:
        return _SystemRun(system, comparison).measures()
    except TidingsError as error:
        return Measures(system=system.name, model=system.model, refused=error.message)


def deliveries(system: System, comparison: Comparison) -> Judgement:
    """The oracle's judgement of one system alone."""
    return _SystemRun(system, comparison).judged()


class _SystemRun:
    def __init__(self, system: System, comparison: Comparison) -> None:
        self.system, self.comparison = system, comparison
        self.network = comparison.build_overlay()
        table = self.network.neighbours()
        self.between = {name: hops_from(table, name) for name in self.network.brokers}
        self.overlay = _suited(system, self.network)
        self.content = None if is_trace(comparison.workload) else content_named(comparison.workload)
        settings = SimulationSettings(check=comparison.check)
        self.world = World(
            system.name, self.overlay, seed=comparison.seed, settings=settings, options=self._options()
        )
        simulation = self.world.simulation
        self.wire = simulation.settings.link_seconds
        simulation.seconds_between = lambda a, b: self.wire * max(1, self._wires(a, b))
        self.meter = CostMeter({name: self.between[name] for name in self.overlay.brokers})
        self.meter.on = False
        simulation.on_handled = self.meter

    def _wires(self, a: str, b: str) -> int:
        """Between two brokers; a client is beside its broker, whichever that is now."""
        return self.between.get(a, {}).get(b, 1)

    def _options(self) -> dict[str, Any]:
        """Options of the system: cells of the workload's own key, where there is one; local networks of near
        brokers."""
        known, options = self.system.options, dict[str, Any]()
        key: str | None = getattr(self.content, "key", None)
        if key is not None and "cells" in known:
            options["cells"] = HashCells(key, len(self.network.brokers))
        if "lans" in known:
            options["lans"] = local_networks(self.network)
        return {**options, **self.comparison.options.get(self.system.name, {})}

    def measures(self) -> Measures:
        comparison, world = self.comparison, self.world
        judgement = self.judged()
        entries = entries_of(dict(world.nodes()))
        rows = list(world.rows)
        delays = _Probes(world, comparison, self.overlay, self.wire).run()
        return self._line(judgement, rows, entries, delays)

    def judged(self) -> Judgement:
        world = self.world
        world.run(WARM)
        workload = self._workload()
        self.meter.on = True
        world.load(workload)
        world.run(workload.over_at + CALM)
        self.meter.on = False
        return judge(world.rows, world.applications, self.comparison.margin)

    def _workload(self) -> Workload:
        comparison = self.comparison
        rng = Random(f"{comparison.seed}/workload")
        if self.content is None:
            drawn = read_trace(Path(comparison.workload), self.network.brokers)
        else:
            drawn = mixed(self.content, self.network.brokers, rng, comparison.plan)
        self.events = sum(isinstance(step, PublishStep) for step in drawn.steps)
        known = set(self.overlay.brokers)
        clients = {
            client: broker if broker in known else self.overlay.brokers[0]
            for client, broker in drawn.clients.items()
        }
        return Workload(clients, tuple(_later(step, WARM) for step in drawn.steps))

    def _line(
        self, judgement: Judgement, rows: Sequence[Row], entries: dict[str, int] | None, delays: _PairDelays
    ) -> Measures:
        meter, comparison = self.meter, self.comparison
        events = self.events
        latency = latencies_of(rows)
        return Measures(
            system=self.system.name,
            model=self.system.model,
            events=events,
            due=judgement.due,
            delivered=judgement.delivered,
            missing=judgement.missing,
            stray=judgement.stray,
            twice=judgement.twice,
            verdict=judgement.words(),
            messages=meter.messages,
            event_messages=meter.with_events / events if events else 0.0,
            control_messages=meter.messages - meter.with_events,
            hops=meter.hops / events if events else 0.0,
            bytes=meter.bytes,
            latency_p50=latency.get("p50"),
            latency_p99=latency.get("p99"),
            entries=None if entries is None else sum(entries.values()),
            entries_max=None if entries is None else max(entries.values()),
            imbalance=meter.unevenness(),
            busiest=max(meter.load, key=meter.load.__getitem__) if meter.messages else None,
            t_sub=delays.t_sub,
            t_diff=delays.t_diff,
            d=delays.probability(comparison.t_on),
            kinds=dict(sorted((tag_of(kind), count) for kind, count in meter.kinds.items())),
        )


def _suited(system: System, network: OverlayGraph) -> OverlayGraph:
    """The same brokers with the links that the system itself begins with."""
    if system.graph == NO_LINKS:
        return OverlayGraph(network.brokers[:1], ())
    if system.graph == PEERS:
        return OverlayGraph(network.brokers, ())
    if system.graph == MESH:
        return OverlayGraph(network.brokers, tuple(combinations(network.brokers, 2)))
    return network


def _later(step: Step, seconds: float) -> Step:
    return msgspec.structs.replace(step, at=step.at + seconds)


class _PairDelays(msgspec.Struct, frozen=True):
    """Delays of subscriptions and events, for each pair of a subscriber and a publishing broker."""

    pairs: tuple[tuple[float, float], ...]  # infinite: it did not come in time
    unknown: int  # pairs without a delivery

    @property
    def t_sub(self) -> float | None:
        return None if self.unknown or not self.pairs else max(pair[0] for pair in self.pairs)

    @property
    def t_diff(self) -> float | None:
        return max((pair[1] for pair in self.pairs), default=None)

    def probability(self, t_on: float) -> float | None:
        count = len(self.pairs) + self.unknown
        in_time = sum(max(0.0, t_on - came - delivered) for came, delivered in self.pairs)
        return in_time / t_on / count if count else None


class _Probes:
    """Subscribers that come while brokers publish for them."""

    def __init__(self, world: World, comparison: Comparison, overlay: OverlayGraph, wire: float) -> None:
        self.world, self.wire = world, wire
        rng = Random(f"{comparison.seed}/probes")
        self.at = [rng.choice(overlay.brokers) for _ in range(comparison.probes)]
        self.sources = rng.sample(overlay.brokers, min(PROBE_BROKERS, len(overlay.brokers)))
        self.slots = 4 * overlay.diameter() + 8 if overlay.links else 4 * len(overlay.brokers) + 8

    def run(self) -> _PairDelays:
        world = self.world
        if not self.at:
            return _PairDelays((), 0)
        for source in self.sources:
            world.add_client(f"probe-{source}", source)
        for number, broker in enumerate(self.at):
            world.add_client(f"prober{number}", broker)
        world.run(world.simulation.now + 1.0)
        before = len(world.rows)
        for number in range(len(self.at)):
            self._probe(number)
        return self._delays(world.rows[before:])

    def _probe(self, number: int) -> None:
        world = self.world
        began = world.simulation.now
        topic = f"probe/{number}"
        filter = f"topic = '{topic}' AND type IS A '{PROBE_TYPE}' AND probe = {number}"
        world.subscribe(f"prober{number}", "probe", filter)
        for slot in range(self.slots):
            world.run(began + slot * self.wire)
            for source in self.sources:
                event = {"probe": number, "slot": slot}
                world.publish(f"probe-{source}", event, topic=topic, type=PROBE_TYPE)
        world.run(world.simulation.now + 5.0)
        world.unsubscribe(f"prober{number}", "probe")
        world.run(world.simulation.now + 2.0)

    def _delays(self, rows: Sequence[Row]) -> _PairDelays:
        delivered = {(row.source, row.event): row.time for row in rows if row.op == NTFY}
        took: dict[tuple[int, str], dict[int, float | None]] = {}
        for row in rows:
            if row.op == PUB and row.attributes:
                at = delivered.get((row.source, row.event))
                pair = took.setdefault((row.attributes["probe"], str(row.source)), {})
                pair[row.attributes["slot"]] = None if at is None else at - row.time
        pairs, unknown = [], 0
        for slots in took.values():
            missed = [slot for slot, seconds in slots.items() if seconds is None]
            since = max(missed, default=-1) + 1  # from here on everything was told
            if since >= self.slots:
                unknown += 1
                continue
            delivered_in = [
                seconds for slot, seconds in slots.items() if slot >= since and seconds is not None
            ]
            pairs.append((since * self.wire, max(delivered_in)))
        return _PairDelays(tuple(pairs), unknown)
