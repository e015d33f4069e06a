"""Everything that a seed decides about a run in the wide world.

Rules
- Two systems promise not to lose acknowledged events: `tidings` and `tidings-group`. Of three seeds two are
  the first and one is the second.
- Limits are shrunk until a short run of small events meets them: a page holds a few entries, a batch a few
  events, and one event in twenty-five is exactly as large as an event may be.
- In half of the runs of trees half of the events have a key, and half of the durable subscriptions are owed
  every event of a key (`superseding=False`).
- Fourteen incidents are drawn for each run. Some hit a broker that is down already; at least ten faults act
  in nearly every run. Disks of a group are replaced one at a time (see `running.py`).
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tidings.model.event import FOREVER
from tidings.protocol.limits import ResourceLimits
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultMix, FaultPlan, Incident, drawn
from tidings.simulation.topology import OverlayGraph, mesh, random_tree

SYSTEMS = TIDINGS, GROUP = "tidings", "tidings-group"
SETTLE = 3.0  # seconds until the first event: subscriptions are known everywhere then
TROUBLE = 8.0  # seconds in which things go wrong
LEAST = 10  # faults that act in nearly every run
HOSTILE, LEAVER, JOBS, LATE = "mallory", "leaver", "jobs", "late"
KINDS = (
    *fault.RATES, fault.CRASH, fault.DISK_LOSS, fault.STOP, fault.PARTITION_HALVES, fault.PARTITION_RING,
    fault.PARTITION_ONE_WAY, fault.ISOLATE_ONE, fault.SLOW_LINK, *fault.WIDER,
)  # fmt: skip


class DrawnPublish(msgspec.Struct, frozen=True):
    """One event to publish: when, by which client, what, and how large."""

    at: float
    client: str
    attributes: dict[str, int]
    size: int  # bytes of the encoded event; 0: as small as it is
    lifetime: float
    key: str | None = None  # it supersedes earlier events of its publisher with this key


class DrawnReturn(msgspec.Struct, frozen=True):
    """A durable subscription leaves, and returns, perhaps with another filter."""

    left: float  # when its listener leaves
    at: float  # when it returns
    filter: str
    replay: bool = True
    commits: bool = True  # False: what it has taken and not committed when it leaves, it receives again


class DrawnSubscribe(msgspec.Struct, frozen=True):
    """One subscription of one client."""

    client: str
    broker: str
    filter: str
    durable: bool
    queue: int
    window: int
    at: float
    away: tuple[float, float] | None = None  # when its listener leaves and returns
    right: str = ""  # what its principal may read; empty: everything
    group: str | None = None  # a consumer of this group
    superseding: bool = True  # False: it is owed every event of a key
    returns: tuple[DrawnReturn, ...] = ()
    moves: tuple[tuple[float, str], ...] = ()  # when its client goes to which broker
    keeps_open: int = (
        0  # events that its application commits late, in any order; 0: each is committed at once
    )
    calm: DrawnReturn | None = None  # it returns like this when all is settled

    @property
    def is_returning(self) -> bool:
        return bool(self.returns or self.moves or self.keeps_open or self.calm)


class DrawnRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the wide world, before it is run."""

    seed: int
    system: str
    overlay: OverlayGraph
    limits: ResourceLimits
    frames: dict[
        str, int
    ]  # brokers with a smaller frame limit, which take events that others accepted all the same
    disk_seconds: float
    together: bool  # is what arrives over one link at one moment handed in together?
    publishers: dict[str, str]  # client -> broker
    subscriptions: tuple[DrawnSubscribe, ...]
    events: tuple[DrawnPublish, ...]
    faults: FaultPlan
    replacements: tuple[Incident, ...]  # of disks of a group, one after the other
    options: dict[str, Any]  # knobs of the system
    hostile: dict[str, str]  # client -> broker
    revoked_at: float | None  # when the rights of `LEAVER` end

    @property
    def trouble_over(self) -> float:
        return SETTLE + TROUBLE


def draw(seed: int, *, system: str | None = None) -> DrawnRun:
    """Draw the run of a seed. The same seed gives the same run."""
    rng = Random(f"wide/{seed}")
    system = system or (TIDINGS if seed % 3 else GROUP)
    if system == GROUP:
        overlay = mesh(5 if rng.random() < 0.15 else 3)
    else:
        overlay = random_tree(rng.choice((2, 3, 3, 4)), rng, fan_out=3)
    limits = draw_limits(rng)
    clients = Random(f"clients/{seed}")  # so that principals do not change the other draws
    publishers = {f"p{number}": rng.choice(overlay.brokers) for number in range(rng.choice((1, 2, 2, 3)))}
    faults, replacements = _faults(overlay, system, rng)
    return DrawnRun(
        seed=seed,
        system=system,
        overlay=overlay,
        limits=limits,
        frames=_frames(overlay, limits, Random(f"frames/{seed}")),
        disk_seconds=rng.choice((0.002, 0.002, 0.02, 0.15)),
        together=Random(f"together/{seed}").random() < 0.5,
        publishers=publishers,
        subscriptions=(*_subscriptions(overlay, rng), *_with_rights(overlay, system, clients)),
        events=_events(tuple(publishers), limits, rng),
        faults=faults,
        replacements=replacements,
        options=_options(system, bool(replacements), clients),
        hostile={HOSTILE: clients.choice(overlay.brokers)} if clients.random() < 0.5 else {},
        revoked_at=SETTLE + clients.uniform(0.5, TROUBLE) if clients.random() < 0.5 else None,
    )


def with_keys(run: DrawnRun) -> DrawnRun:
    """The run with keys, if its seed says so."""
    rng = Random(f"keys/{run.seed}")
    if run.system == GROUP or rng.random() < 0.5:
        return run

    def subscribing(each: DrawnSubscribe) -> DrawnSubscribe:
        is_owed_all = each.durable and rng.random() < 0.5
        return msgspec.structs.replace(each, superseding=not is_owed_all)

    def publishing(each: DrawnPublish) -> DrawnPublish:
        key = f"{each.client}/{rng.randrange(2)}" if rng.random() < 0.5 else None
        return msgspec.structs.replace(each, key=key)

    events, subscriptions = map(publishing, run.events), map(subscribing, run.subscriptions)
    return msgspec.structs.replace(run, events=tuple(events), subscriptions=tuple(subscriptions))


def _options(system: str, replaced: bool, rng: Random) -> dict[str, Any]:
    """A group keeps events for clients that fail over; so short a time only where no disk with a cursor is
    replaced."""
    keep = rng.choice((1.0, 3.0, 60.0))
    return {"log": {"keep_seconds": keep}} if system == GROUP and not replaced else {}


def _frames(overlay: OverlayGraph, limits: ResourceLimits, rng: Random) -> dict[str, int]:
    return {name: limits.frame_bytes // 2 for name in overlay.brokers if rng.random() < 0.25}


def draw_limits(rng: Random) -> ResourceLimits:
    """Limits that a few dozen small events meet."""
    envelope = 1024
    frame = envelope + rng.choice((1024, 2048, 4096))
    return ResourceLimits(
        frame_bytes=frame,
        envelope_bytes=envelope,
        batch_bytes=rng.choice((512, 1024)),
        batch_count=rng.choice((2, 3, 5)),
        page_bytes=rng.choice((300, 700, 1500)),
        page_count=rng.choice((2, 4, 7)),
        log_page_count=rng.choice((3, 8)),
        window_bytes=rng.choice((1024, 4096)),
        window_count=rng.choice((2, 8, 32)),
        publishes_in_flight=rng.choice((1, 3, 16)),
        notifications_ahead=rng.choice((1, 4, 16)),
        publishes_together=rng.choice((1, 3, 8)),
        deliveries_together=rng.choice((2, 8)),
        requests_together=rng.choice((1, 2)),
        remembered_events=64,
    )


def _subscriptions(overlay: OverlayGraph, rng: Random) -> tuple[DrawnSubscribe, ...]:
    found = []
    for number in range(rng.choice((2, 3, 4))):
        away = None
        if rng.random() < 0.4:
            left = rng.uniform(SETTLE, SETTLE + TROUBLE / 2)
            away = (left, left + rng.uniform(0.5, TROUBLE / 2))
        found.append(
            _subscribing(f"d{number}", overlay, rng, durable=True, at=rng.uniform(0.6, 1.2), away=away)
        )
    found.append(_subscribing("t0", overlay, rng, durable=False, at=rng.uniform(0.6, 1.2)))
    if rng.random() < 0.5:
        found.append(_subscribing(LATE, overlay, rng, durable=True, at=rng.uniform(SETTLE, SETTLE + TROUBLE)))
    return tuple(found)


def _with_rights(overlay: OverlayGraph, system: str, rng: Random) -> list[DrawnSubscribe]:
    """Subscribers with principals that may read a part only, or lose their rights, and a consumer
    of a group."""
    found = []
    if rng.random() < 0.6:
        few = _subscribing("few", overlay, rng, durable=rng.random() < 0.7, at=rng.uniform(0.6, 1.2))
        found.append(msgspec.structs.replace(few, right="k = 0"))
    if rng.random() < 0.4:
        found.append(_subscribing(LEAVER, overlay, rng, durable=True, at=rng.uniform(0.6, 1.2)))
    if rng.random() < 0.4 and system != GROUP:
        worker = _subscribing("worker", overlay, rng, durable=True, at=rng.uniform(0.6, 1.2))
        found.append(msgspec.structs.replace(worker, group=JOBS))
    return found


def _subscribing(
    client: str,
    overlay: OverlayGraph,
    rng: Random,
    *,
    durable: bool,
    at: float,
    away: tuple[float, float] | None = None,
) -> DrawnSubscribe:
    wanted = rng.choice(
        ("EXISTS x", "x >= 0", f"x > {rng.randrange(40)}", f"k = {rng.randrange(3)} OR x < 20")
    )
    queue = rng.choice((1, 3, 8, 100)) if durable else 100_000
    return DrawnSubscribe(
        client, rng.choice(overlay.brokers), wanted, durable, queue, rng.choice((1, 4, 64)), at, away
    )


def _events(publishers: tuple[str, ...], limits: ResourceLimits, rng: Random) -> tuple[DrawnPublish, ...]:
    found: list[DrawnPublish] = []
    wanted = rng.choice((24, 40, 60))
    while len(found) < wanted:
        at, client = SETTLE + rng.uniform(0.0, TROUBLE), rng.choice(publishers)
        at_once = rng.choice((1, 1, 2, 4, 9))  # batches form
        found += [_publishing(at, client, limits, rng) for _ in range(at_once)]
    return tuple(sorted(found, key=lambda publishing: publishing.at))


def is_disabled(drawn: DrawnRun) -> bool:
    """Are the hostile users disabled when the faults are over, while they are connected?"""
    return bool(drawn.hostile) and Random(f"disabled/{drawn.seed}").random() < 0.5


def calm_events(drawn: DrawnRun, at: float, round: str = "calm") -> tuple[DrawnPublish, ...]:
    """Events that are published when the faults are over: all of them are owed."""
    rng = Random(f"{round}/{drawn.seed}")
    return tuple(_publishing(at, client, drawn.limits, rng) for client in drawn.publishers for _ in range(3))


def _publishing(at: float, client: str, limits: ResourceLimits, rng: Random) -> DrawnPublish:
    attributes = {"x": rng.randrange(60), "k": rng.randrange(3)}
    lifetime = rng.choice((0.0, 0.0, 0.0, 4.0, FOREVER))
    return DrawnPublish(at, client, attributes, draw_size(limits, rng), lifetime)


def draw_size(limits: ResourceLimits, rng: Random) -> int:
    """Heavy-tailed, up to the largest event that is accepted; sometimes exactly that, or one byte more."""
    largest, chance = limits.event_bytes, rng.random()
    if chance < 0.04:
        return largest
    if chance < 0.06:
        return largest + 1
    return min(largest, int(100 * rng.paretovariate(1.0)))


def _faults(overlay: OverlayGraph, system: str, rng: Random) -> tuple[FaultPlan, tuple[Incident, ...]]:
    kinds = tuple(kind for kind in KINDS if kind != fault.DISK_LOSS or system != GROUP)
    mix = FaultMix(kinds=kinds, incidents=LEAST + 4, longest=2.5)
    plan = drawn(overlay, rng, until=TROUBLE, mix=mix)
    incidents = tuple(_shifted(incident, rng) for incident in plan.incidents)
    replacements: tuple[Incident, ...] = ()
    if system == GROUP and rng.random() < 0.5:
        order = list(overlay.brokers)
        rng.shuffle(order)
        replacements = tuple(
            Incident(
                kind=fault.DISK_LOSS, at=0.0, until=rng.uniform(0.1, 1.0), nodes=(name,), amount=_set_by(rng)
            )
            for name in order[: rng.choice((1, 2, len(order)))]
        )
    return FaultPlan(plan.rates, incidents, rates_until=SETTLE + TROUBLE), replacements


def _shifted(incident: Incident, rng: Random) -> Incident:
    changes = {"at": incident.at + SETTLE, "until": incident.until + SETTLE}
    if incident.kind == fault.DISK_LOSS:
        changes["amount"] = _set_by(rng)
    elif incident.kind == fault.CLOCK_JUMP:
        # A clock that is set forward over a restart looks like an hour of downtime: what was accepted before
        # seems older than subscriptions that are younger than an hour, and no broker can tell the two apart.
        changes["amount"] = -abs(incident.amount)
    return msgspec.structs.replace(incident, **changes)


def _set_by(rng: Random) -> float:
    """A machine with a disk that is often replaced has a wall clock that is wrong as well."""
    return rng.choice((0.0, rng.uniform(-3600.0, 0.0), rng.uniform(0.0, 3600.0)))
