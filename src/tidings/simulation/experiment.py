"""One simulated run as a value: what to run, and what came of it.

The command line, studies, tests and sweeps all run experiments through `run_experiment`; the same
experiment gives the same outcome, with a `fingerprint` that hashes everything that happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from math import isfinite
from random import Random
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.extensions import error_of_extension
from tidings.history.check import check
from tidings.history.report import CheckReport
from tidings.history.schema import Row
from tidings.simulation.delays import longest_delay
from tidings.simulation.faults import INCIDENTS, FaultMix, FaultPlan, Rates, drawn
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import NETWORKS, OVERLAYS, OverlayGraph, link_latencies, no_links, placed
from tidings.simulation.workloads import Plan, UnsubscribeStep, content_named, mixed
from tidings.simulation.world import World
from tidings.systems import ANY_GRAPH, MESH, NO_LINKS, PEERS, find_system
from tidings.wire.codec import Codec


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides a run."""

    system: str = "siena"
    seed: int = 1
    brokers: int = 20
    overlay: str = ""  # a name of OVERLAYS; empty: what suits the system
    fan_out: int = 10
    network: str = ""  # a name of NETWORKS; empty: every link has the same latency
    hosts: int = 0  # of the network; 0: as many as brokers
    workload: str = "stocks"
    plan: Plan = Plan()
    rates: Rates = Rates()
    incidents: int = 0  # drawn from the seed
    kinds: tuple[str, ...] = INCIDENTS  # that may be drawn
    options: dict[str, Any] = {}  # knobs of the system
    calm: float = 30.0  # seconds without faults at the end, so that all events can be judged
    check: bool = False  # run every invariant after each step
    bytes: bool = False  # pass every message through the codec
    record: bool = True

    def build_overlay(self) -> OverlayGraph:
        rng = Random(f"{self.seed}/overlay")
        graph = find_system(self.system).graph
        if graph == PEERS and not self.overlay:
            return no_links(self.brokers)
        name = self.overlay or {ANY_GRAPH: "random", MESH: "mesh"}.get(graph, "tree")
        if name not in OVERLAYS:
            raise SettingsError(f"no overlay is called {name!r}", hint=f"there are: {', '.join(OVERLAYS)}")
        count = 1 if graph == NO_LINKS else self.brokers
        return OVERLAYS[name](count, rng, min(self.fan_out, 4) if name == "random" else self.fan_out)


class ExperimentOutcome(msgspec.Struct, kw_only=True):
    """Result of a run."""

    handled: int  # inputs that machines handled
    sent: dict[str, int]  # messages between brokers, by their class
    published: int
    delivered: int
    hops: float  # messages between brokers that carried an event, per event
    latency: dict[str, float]  # seconds from publish to notification: p50, p99, max
    faults: dict[str, int]  # that took effect, by name
    fingerprint: str
    seconds: float  # of simulated time
    longest_delay: (
        float  # seconds that an event may take by the settings and faults; infinite: it may be lost
    )
    report: CheckReport | None = None
    rows: list[Row] = []


def run_experiment(
    experiment: Experiment,
    *,
    progress: Callable[[float, int], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
    judge: bool = True,
) -> ExperimentOutcome:
    """Run it, and judge it by the contract of its system. A strategy that fails is an `ExtensionError`, if
    it is that of an extension."""
    try:
        return _ran(experiment, progress, on_row, judge)
    except BaseException as error:  # a strategy may also call sys.exit()
        of_extension = None if isinstance(error, KeyboardInterrupt) else error_of_extension(error)
        if of_extension is None:
            raise
        raise of_extension from error


def _ran(
    experiment: Experiment,
    progress: Callable[[float, int], None] | None,
    on_row: Callable[[Row], None] | None,
    judge: bool,
) -> ExperimentOutcome:
    world = build_world(experiment)
    rows = world.rows
    if on_row is not None and world.simulation.on_row is not None:
        keep = rows.append

        def both(row: Row) -> None:
            keep(row)
            on_row(row)

        world.simulation.on_row = both
    until, trouble = _schedule(world, experiment)
    world.run(until, progress)
    is_kept = not world.overlay.links and experiment.plan.durable >= 1.0
    delay = longest_delay(world.overlay, trouble, world.simulation.settings, world.latencies, is_kept=is_kept)
    report = _judged(world, experiment, delay) if judge and experiment.record else None
    return _outcome(world, rows, report, delay)


T_SUB, T_DIFF = 10.0, 20.0  # seconds that a subscription and an event may take when things go wrong


def settled(plan: Plan) -> Plan:
    """The same with its first event late enough that every first subscription is known by then, also where
    things go wrong: so each delivery to one is judged. (Subscriptions begin in the first fifth.)"""
    return msgspec.structs.replace(plan, settle=max(plan.settle, T_SUB * 1.25))


def _judged(world: World, experiment: Experiment, delay: float) -> CheckReport:
    contract = world.system.contract
    if not (experiment.rates.any or experiment.incidents):
        return check(world.rows, contract=contract, instances=True)
    slow = delay if isfinite(delay) else 0.0
    t_sub, t_diff = max(T_SUB, slow), max(T_DIFF, slow)
    return check(world.rows, t_sub=t_sub, t_diff=t_diff, contract=contract, instances=True)


def build_world(experiment: Experiment) -> World:
    overlay = experiment.build_overlay()
    latencies, seconds_between = None, None
    if experiment.network:
        if experiment.network not in NETWORKS:
            known = ", ".join(NETWORKS)
            raise SettingsError(f"no network is called {experiment.network!r}", hint=f"there are: {known}")
        rng = Random(f"{experiment.seed}/network")
        network = NETWORKS[experiment.network](experiment.hosts or len(overlay.brokers), rng)
        positions = placed(overlay, network, rng)
        latencies = link_latencies(overlay, network, positions)
        between = network.latency_table(list(positions.values()))
        seconds_between = lambda a, b: between[positions[a]][positions[b]]  # noqa: E731 - of links yet to be made
    settings = SimulationSettings(check=experiment.check)
    world = World(
        experiment.system,
        overlay,
        seed=experiment.seed,
        settings=settings,
        latencies=latencies,
        options=experiment.options,
        record=experiment.record,
    )
    world.simulation.seconds_between = seconds_between
    if experiment.bytes:
        declared = [m for _, node in world.nodes() for s in node.slots.values() for m in s.messages]
        world.simulation.settings = msgspec.structs.replace(settings, codec=Codec(dict.fromkeys(declared)))
    return world


def _schedule(world: World, experiment: Experiment) -> tuple[float, FaultPlan]:
    """Bring in the workload and the faults; the moment to stop, and what goes wrong."""
    content = content_named(experiment.workload)
    rng = Random(f"{experiment.seed}/workload")
    workload = mixed(content, world.overlay.brokers, rng, experiment.plan)
    world.load(workload)
    end = max((step.at for step in workload.steps if not isinstance(step, UnsubscribeStep)), default=0.0)
    begin = min(experiment.plan.settle, end)  # the first subscriptions are known everywhere then
    rng = Random(f"{experiment.seed}/faults")
    mix = FaultMix(kinds=experiment.kinds, incidents=experiment.incidents)
    plan = drawn(world.overlay, rng, until=end - begin, mix=mix) if experiment.incidents else FaultPlan()
    rates = experiment.rates if experiment.rates.any else plan.rates
    incidents = tuple(
        msgspec.structs.replace(i, at=i.at + begin, until=i.until + begin) for i in plan.incidents
    )
    trouble = FaultPlan(rates, incidents, rates_until=end)
    world.simulation.call_at(begin, partial(world.simulation.plan, trouble))
    return workload.over_at + experiment.calm, trouble


def _outcome(
    world: World, rows: Sequence[Row], report: CheckReport | None, delay: float
) -> ExperimentOutcome:
    simulation = world.simulation
    published = sum(len(application.receipts) for application in world.applications.values())
    delivered = sum(len(application.received) for application in world.applications.values())
    carrying = simulation.hops
    return ExperimentOutcome(
        handled=simulation.handled,
        sent=dict(sorted(simulation.sent.items())),
        published=published,
        delivered=delivered,
        hops=carrying / published if published else 0.0,
        latency=latencies_of(rows),
        faults=dict(sorted(simulation.fired.items())),
        fingerprint=fingerprint(rows, simulation.sent),
        seconds=simulation.now,
        longest_delay=delay,
        report=report,
        rows=list(rows),
    )


def latencies_of(rows: Sequence[Row]) -> dict[str, float]:
    """From each publish to each of its notifications, in seconds."""
    published = {(row.source, row.event): row.time for row in reversed(rows) if row.op == "pub"}
    delays = sorted(
        row.time - published[(row.source, row.event)]
        for row in rows
        if row.op == "ntfy" and (row.source, row.event) in published
    )
    if not delays:
        return {}
    return {
        "p50": delays[len(delays) // 2],
        "p99": delays[min(len(delays) - 1, len(delays) * 99 // 100)],
        "max": delays[-1],
    }


def fingerprint(rows: Sequence[Row], sent: Counter[str]) -> str:
    """A hash of all that happened: two runs of one experiment have the same."""
    digest = blake2b(digest_size=12)
    for row in rows:
        digest.update(msgspec.msgpack.encode(row))
    digest.update(msgspec.msgpack.encode(sorted(sent.items())))
    return digest.hexdigest()
