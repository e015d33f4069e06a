"""Runs of the composition Tidings, and who judges them: the checker of histories and a dumb oracle.

The oracle knows what was asked of the run (the steps of its workload) and what the applications
were handed, and nothing of what lies between.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tidings.history.check import check
from tidings.history.schema import SUB, USUB
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER, Event, make_event
from tidings.simulation.faults import FaultPlan
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import Overlay, random_tree
from tidings.simulation.workloads import Plan, PublishStep, StockQuotes, SubscribeStep, Workload, mixed
from tidings.simulation.world import World

SETTLE = 5.0  # seconds until the first event; the first subscriptions are known everywhere then
PATIENCE = 60.0  # seconds after the last fault in which everything must have come right

Faults = Callable[[Overlay, Random], FaultPlan]


class Run(NamedTuple):
    world: World
    workload: Workload
    over_at: float  # faults and workload


def play(
    seed: int,
    *,
    faults: Faults | None = None,
    brokers: int = 7,
    plan: Plan | None = None,
    settings: SimulationSettings | None = None,
    tune: Callable[[World], None] | None = None,
) -> Run:
    """One run: a random tree, a workload with churn, and what goes wrong in it."""
    rng = Random(f"tidings/{seed}")
    overlay = random_tree(brokers, rng, fan_out=3)
    plan = plan or Plan(
        subscriptions=14, events=90, rate=15.0, churn=0.15, durable=0.5, settle=SETTLE, publishers=5,
        lifetimes=(0.0, 0.0, 4.0, FOREVER),
    )  # fmt: skip
    workload = mixed(StockQuotes(symbols=4), overlay.brokers, rng, plan)
    world = World("tidings", overlay, seed=seed, settings=settings or SimulationSettings(check=True))
    world.load(workload)
    if tune is not None:
        tune(world)
    over_at = workload.over_at
    if faults is not None:
        trouble = faults(overlay, rng)
        world.simulation.plan(trouble)
        over_at = max(over_at, trouble.over_at)
    world.run(over_at + PATIENCE)
    return Run(world, workload, over_at)


# -- the oracle ------------------------------------------------------------------------------


class Published(NamedTuple):
    at: float
    event: Event


def published(workload: Workload) -> dict[tuple[str, int], Published]:
    """Every event that was to be published, by its source and the source's counter."""
    counters: dict[str, int] = {}
    found: dict[tuple[str, int], Published] = {}
    for step in workload.steps:
        if isinstance(step, PublishStep):
            number = counters[step.client] = counters.get(step.client, 0) + 1
            event = make_event(step.attributes, source=step.client, id="-", lifetime=step.lifetime)
            found[step.client, number] = Published(step.at, event)
    return found


def heard(world: World) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """What each subscription was handed, in order."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for client, application in world.applications.items():
        for notify in application.heard:
            event = notify.notification.event
            number = int(event.id.rpartition("-")[2])
            name = notify.notification.subscription.name
            found.setdefault((client, name), []).append((event.source, number))
    return found


def judge_directly(run: Run) -> None:
    world, events = run.world, published(run.workload)
    receipts = sum(len(application.receipts) for application in world.applications.values())
    assert receipts == len(events), f"{len(events) - receipts} publishes were never acknowledged"
    handed = heard(world)
    asked = {(s.client, s.name): s for s in run.workload.steps if isinstance(s, SubscribeStep)}
    for subscription, step in asked.items():
        got = handed.pop(subscription, [])
        assert len(got) == len(set(got)), f"{subscription} was told twice: {_doubles(got)}"
        _in_order(subscription, got)
        wanted = parse_filter(step.filter)
        for each in got:
            assert accepts(wanted, events[each].event), f"{subscription} was told {each}: {step.filter}"
        owed = _owed(world, subscription, step, events)
        missing = sorted(owed - set(got))
        assert not missing, f"{subscription} ({step}) never heard {missing}, of {len(owed)} owed"
    assert not handed, f"nobody subscribed to {handed}"


def _doubles(got: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted({each for each in got if got.count(each) > 1})


def _in_order(subscription: tuple[str, str], got: list[tuple[str, int]]) -> None:
    last: dict[str, int] = {}
    for source, number in got:
        assert number > last.get(source, 0), f"{subscription}: {source} {number} after {last[source]}"
        last[source] = number


def _owed(
    world: World,
    subscription: tuple[str, str],
    step: SubscribeStep,
    events: dict[tuple[str, int], Published],
) -> set[tuple[str, int]]:
    """What it must have heard at the end: nothing once it was ended. What lives for ever it must
    hear whenever it began; everything, when it stood from before the first event."""
    name = f"{step.client}/{step.name}"
    rows = [row for row in world.rows if row.subscription == name and row.op in (SUB, USUB)]
    if not rows or rows[-1].op == USUB:
        return set()
    stood = rows[0].time < SETTLE / 2 and (step.durable or len(rows) == 1)
    wanted = parse_filter(step.filter)
    return {
        number
        for number, (_, event) in events.items()
        if (stood or event.lifetime == FOREVER) and accepts(wanted, event)
    }


# -- the judges ------------------------------------------------------------------------------


def judge(run: Run) -> None:
    """By the history and the contract, by the oracle, and by the quiet at the end."""
    judge_directly(run)
    slow = run.over_at + PATIENCE / 2
    report = check(run.world.rows, t_sub=slow, t_diff=slow, contract="Tidings")
    assert report.holds, f"{report.broken}: {report.story}"
    report = check(run.world.rows, t_sub=0.0, t_diff=slow, contract="Tidings")
    for name in ("legality", "validity", "minimality", "fifo", "lp1", "lp4"):
        assert report[name].holds, report[name].story
    judge_quiet(run)


def judge_quiet(run: Run) -> None:
    """Nothing waits anywhere, and every log holds what lives for ever, and no more."""
    lasting: dict[str, int] = {}
    for each in published(run.workload).values():
        if each.event.lifetime == FOREVER:
            at = run.workload.clients[each.event.source]
            lasting[at] = lasting.get(at, 0) + 1
    for name, node in run.world.nodes():
        recovery, figures = node.slots["recovery"], node.slots["delivery"].figures()
        assert recovery.waiting() == 0, f"{name}: something waits"
        assert len(recovery.timers) == 0, f"{name} is not quiet: {recovery.timers.next()}"
        assert figures["waiting"] == 0, f"{name}: notifications wait"
        assert figures["reading"] == 0, f"{name}: somebody still reads"
        assert figures["entries"] == lasting.get(name, 0), f"{name} keeps {figures['entries']} entries"


def effects_of(run: Run) -> dict[str, Any]:
    """Everything that can be seen of a run, for comparing two of them."""
    simulation = run.world.simulation
    return {
        "rows": run.world.rows,
        "heard": {client: app.heard for client, app in run.world.applications.items()},
        "sent": dict(simulation.sent),
        "fired": dict(simulation.fired),
        "handled": simulation.handled,
    }
