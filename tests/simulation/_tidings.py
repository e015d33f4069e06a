"""Runs of the composition Tidings, and who judges them: the checker of histories and a dumb oracle.

The oracle knows what was asked of the run (the steps of its workload) and what the applications
were handed, and nothing of what lies between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import msgspec

from tidings.history.check import check
from tidings.history.schema import DETACH, OK, SUB, USUB, Row
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER, Event, make_event
from tidings.protocol.inputs import ClientLeave, ClientSubscribe
from tidings.simulation.faults import FaultPlan
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings.simulation.workloads import (
    AdvertiseStep,
    Plan,
    PublishStep,
    Step,
    StockQuotes,
    SubscribeStep,
    UnadvertiseStep,
    UnsubscribeStep,
    Workload,
    mixed,
)
from tidings.simulation.world import World

SETTLE = 5.0  # seconds until the first event; the first subscriptions are known everywhere then
PATIENCE = 60.0  # seconds after the last fault in which everything must have come right

Faults = Callable[[OverlayGraph, Random], FaultPlan]


class Run(NamedTuple):
    begin: float  # of the faults
    world: World
    workload: Workload
    asked: dict[str, list[ClientSubscribe]]  # by client: its subscribes, in order
    over_at: float  # faults and workload


def play(
    seed: int,
    *,
    faults: Faults | None = None,
    brokers: int = 7,
    plan: Plan | None = None,
    settings: SimulationSettings | None = None,
    begin: float = SETTLE,
    absences: bool = False,
    advertising: bool = False,
    moving: bool = False,
    datagrams: bool = False,
    tune: Callable[[World], None] | None = None,
) -> Run:
    """One run: a random tree, a workload with churn, and what goes wrong in it."""
    rng = Random(f"tidings/{seed}")
    overlay = random_tree(brokers, rng, fan_out=3)
    plan = plan or Plan(
        subscriptions=14, events=90, rate=15.0, churn=0.15, durable=0.5, settle=SETTLE, publishers=5,
        lifetimes=(0.0, 0.0, 4.0, FOREVER),
    )  # fmt: skip
    workload = renamed(mixed(StockQuotes(symbols=4), overlay.brokers, rng, plan))
    slow_disk = SimulationSettings(check=True, disk_seconds=0.15)  # crashes find much that is not synced
    settings = settings or (slow_disk if seed % 3 == 0 else SimulationSettings(check=True))
    options = {**(SOON if advertising else {}), **({"datagrams": True} if datagrams else {})}
    world = World("tidings", overlay, seed=seed, settings=settings, options=options)
    requested = note_subscribes(world)
    if advertising:
        workload = advertised(workload, Random(f"advertising/{seed}"))
    world.load(workload)
    if absences:
        plan_absences(world, workload, rng)
    if moving:
        plan_moves(world, workload, Random(f"moving/{seed}"))
    if tune is not None:
        tune(world)
    over_at = workload.over_at
    if faults is not None:
        trouble = shifted(faults(overlay, rng), begin)
        world.simulation.call_at(begin, lambda: world.simulation.plan(trouble))
        over_at = max(over_at, trouble.over_at)
    world.run(over_at + PATIENCE)
    return Run(begin, world, workload, requested, over_at)


# So that advertisements come and go within a run.
SOON = {"advertising": {"linger_seconds": 0.3, "implicit_seconds": 1.5}}


def advertised(workload: Workload, rng: Random) -> Workload:
    """Some publishers advertise what they publish, for a while, before or after; some something else
    besides, or never anything. What they publish stays the same."""
    steps: list[Step] = list(workload.steps)
    publishers = sorted({step.client for step in steps if isinstance(step, PublishStep)})
    for client in publishers:
        for number in range(rng.choice((0, 1, 3, 6))):
            at = rng.uniform(0.0, workload.over_at)
            name = f"a{number}"
            steps.append(AdvertiseStep(at=at, client=client, name=name, filter=_may_publish(rng)))
            if rng.random() < 0.7:
                until = at + rng.expovariate(0.5)
                steps.append(UnadvertiseStep(at=until, client=client, name=name))
    return Workload(workload.clients, tuple(sorted(steps, key=lambda step: step.at)))


def _may_publish(rng: Random) -> str:
    symbol = f"S{rng.randrange(4):03d}"
    return rng.choice((f"StockName = '{symbol}'", "change > 0", "change <= 0", "StockName LIKE 'S%'", "TRUE"))


def note_subscribes(world: World) -> dict[str, list[ClientSubscribe]]:
    requested: dict[str, list[ClientSubscribe]] = {}
    hand_in = world._input

    def noting(client: str, item: Any) -> None:
        if isinstance(item, ClientSubscribe):
            requested.setdefault(client, []).append(item)
        hand_in(client, item)

    world._input = noting  # type: ignore[method-assign]
    return requested


def plan_absences(world: World, workload: Workload, rng: Random) -> None:
    """Durable subscribers go away for a while; their queues are short, so that they fall behind."""
    subscribe = world.subscribe

    def short(client: str, name: str, filter: str, *, durable: bool = False, **options: Any) -> None:
        queue = {"queue": 3} if durable else {}
        subscribe(client, name, filter, durable=durable, **{**queue, **options})

    world.subscribe = short  # type: ignore[method-assign]
    for step in workload.steps:
        if isinstance(step, SubscribeStep) and step.durable and step.at < SETTLE:
            away = rng.uniform(SETTLE, SETTLE + 4.0)
            world.simulation.call_at(away, partial(_leave, world, step))
            world.simulation.call_at(away + rng.uniform(0.5, 4.0), partial(_return, world, step))


def plan_moves(world: World, workload: Workload, rng: Random) -> None:
    """Publishers go from broker to broker, some also when theirs is down, and back."""
    publishers = sorted({step.client for step in workload.steps if isinstance(step, PublishStep)})
    brokers = world.overlay.brokers
    for client in publishers:
        for _ in range(rng.choice((1, 2, 4))):
            at = rng.uniform(SETTLE, workload.over_at)
            world.simulation.call_at(at, partial(world.move, client, rng.choice(brokers)))


def _leave(world: World, step: SubscribeStep) -> None:
    ref = world.applications[step.client].refs.pop(step.name, None)
    if ref is not None:
        world.applications[step.client].refs[f"away {step.name}"] = ref
        world._input(step.client, ClientLeave(world.next_call(), ref))


def _return(world: World, step: SubscribeStep) -> None:
    if world.applications[step.client].refs.pop(f"away {step.name}", None) is not None:
        world.subscribe(step.client, step.name, step.filter, durable=True)


def renamed(workload: Workload) -> Workload:
    """A name comes back after a durable subscription only: what a transient one was told is
    forgotten when its broker crashes before it ends."""
    turns: dict[str, int] = {}
    transient: set[str] = set()
    steps: list[Step] = []
    for step in workload.steps:
        if isinstance(step, SubscribeStep):
            turns[step.client] = turns.get(step.client, 0) + (step.client in transient)
            transient.discard(step.client)
            if not step.durable:
                transient.add(step.client)
        if isinstance(step, SubscribeStep | UnsubscribeStep):
            step = msgspec.structs.replace(step, name=f"n{turns[step.client]}")
        steps.append(step)
    return Workload(workload.clients, tuple(steps))


def shifted(plan: FaultPlan, seconds: float) -> FaultPlan:
    """The same trouble, so much later."""
    incidents = tuple(
        msgspec.structs.replace(each, at=each.at + seconds, until=each.until + seconds)
        for each in plan.incidents
    )
    return FaultPlan(plan.rates, incidents, plan.rates_until + seconds)


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


class Listening(NamedTuple):
    """One subscribe and what was heard of it, in order."""

    asked: ClientSubscribe
    received: list[tuple[str, int]]


def listenings(run: Run) -> dict[str, list[Listening]]:
    """By subscription: its turns. A client numbers its subscribes (`ref`), and a name may come back."""
    found: dict[str, list[Listening]] = {}
    for client, application in run.world.applications.items():
        turns = {
            ref: Listening(requested, []) for ref, requested in enumerate(run.asked.get(client, ()), start=1)
        }
        for ref, notification in zip(application.received_refs, application.received, strict=True):
            event = notification.event
            turns[ref].received.append((event.source, int(event.id.rpartition("-")[2])))
        for turn in turns.values():
            found.setdefault(f"{client}/{turn.asked.name}", []).append(turn)
    return found


def judge_directly(run: Run) -> None:
    """No event twice to a name, each source in order, nothing unwanted, nothing left out."""
    events = published(run.workload)
    receipts = sum(len(application.receipts) for application in run.world.applications.values())
    assert receipts == len(events), f"{len(events) - receipts} publishes were never acknowledged"
    for name, turns in listenings(run).items():
        for turn in turns:
            _in_order(name, turn.received)
            wanted = turn.asked.filter
            for each in turn.received:
                assert accepts(wanted, events[each].event), f"{name} was told {each}: {wanted.text}"
        delivered = [each for turn in turns for each in turn.received]
        twice = sorted({each for each in delivered if delivered.count(each) > 1})
        assert not twice, f"{name} was told twice: {twice}"
        missing = sorted(_owed(run, name, events) - set(delivered))
        assert not missing, f"{name} ({turns[-1].asked}) never heard {missing}"


def _in_order(name: str, received: list[tuple[str, int]]) -> None:
    last: dict[str, int] = {}
    for source, number in received:
        assert number > last.get(source, 0), f"{name}: {source} {number} after {last[source]}"
        last[source] = number


def _owed(run: Run, name: str, events: dict[tuple[str, int], Published]) -> set[tuple[str, int]]:
    """What it must have heard at the end: nothing once it was ended. What lives for ever it must
    hear whenever it began; everything, when it stood from before the first event."""
    rows = _comings_and_goings(run, name)
    if not rows or rows[-1].op == USUB:
        return set()
    stood = has_stood(run, rows)
    wanted = parse_filter(rows[-1].filter or "")
    return {
        number
        for number, (_, event) in events.items()
        if (stood or event.lifetime == FOREVER) and accepts(wanted, event)
    }


def _comings_and_goings(run: Run, name: str) -> list[Row]:
    rows = [row for row in run.world.rows if row.subscription == name and row.op in (SUB, USUB)]
    return [row for row in rows if row.outcome == OK]


def has_stood(run: Run, rows: list[Row]) -> bool:
    """Was it known before the first event and the first fault, and never interrupted? A transient
    subscription is interrupted when its broker crashes or stops; a durable one is not, also when nobody
    listens."""
    if not rows or rows[0].time > SETTLE / 2 or run.begin < SETTLE:
        return False
    return (
        all(row.op == SUB or row.reason == DETACH for row in rows)
        and len({r.filter for r in rows} - {None}) == 1
    )


# -- the judges ------------------------------------------------------------------------------


def judge(run: Run) -> None:
    """By the history and the contract, by the oracle, and by the quiet at the end."""
    judge_directly(run)
    judge_history(run)
    judge_quiet(run)


def judge_history(run: Run) -> None:
    """All of it with a T_sub that outlasts the faults; those that stood, with a short one.

    Gap freedom knows no T_sub: what a subscription that began amid faults hears of its first seconds
    depends on lifetimes, so this property is asked of those that stood."""
    slow = run.over_at + PATIENCE / 2
    report = check(run.world.rows, t_sub=slow, t_diff=slow, contract="Tidings")
    broken = [name for name in report.broken if name != "gap_freedom"]
    assert not broken, f"{broken}: {[report[name].story for name in broken]}"
    stood = _stood(run)
    rows = [row for row in run.world.rows if row.subscription is None or row.subscription in stood]
    report = check(rows, t_sub=SETTLE - 1.5, t_diff=PATIENCE / 2, contract="Tidings")
    assert report.holds, f"{report.broken}: {report.story}"


def _stood(run: Run) -> set[str]:
    return {name for name in listenings(run) if has_stood(run, _comings_and_goings(run, name))}


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


def digest_of(seed: int, faults: Faults) -> str:
    """A number for everything that every machine did in a run, in order."""
    digest = sha256()

    def listen(world: World) -> None:
        simulation = world.simulation
        send, perform = simulation._send, simulation._perform

        def note(then: Callable[[Any, Any], None], host: Any, effect: Any) -> None:
            digest.update(f"{simulation.now!r} {host.name} {effect!r}\n".encode())
            then(host, effect)

        simulation._send = partial(note, send)  # type: ignore[method-assign]
        simulation._perform = partial(note, perform)  # type: ignore[method-assign]

    run = play(seed, faults=faults, tune=listen)
    for row in run.world.rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()
