"""Durable subscriptions that return with another filter, go to another broker, or commit late: the draws.

Rules
- Of the returns half are shortly after a restart of the subscription's broker, where one is drawn.
- Another filter is wider, narrower, disjoint, or any; half of them come without replay.
- Only clients of trees go to another broker by themselves, and are home again when the faults are over. They
  keep their filter: what an earlier filter leaves owed stays at the broker where it was taken. So do clients
  of groups amid faults, since they fail over.
"""

from __future__ import annotations

from random import Random

import msgspec

from tidings.simulation import faults as fault
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.wide.drawing import (
    GROUP,
    LATE,
    LEAVER,
    SETTLE,
    TROUBLE,
    DrawnReturn,
    DrawnRun,
    DrawnSubscribe,
)

DOWN = (fault.CRASH, fault.SYNC_FAILURE, fault.STOP, fault.CLOCK_JUMP)  # a broker comes back after these


def with_returns(run: DrawnRun) -> DrawnRun:
    """The run with subscriptions that return, if its seed says so."""
    rng = Random(f"returns/{run.seed}")
    subscriptions = [_returning(each, run, rng) if _may_return(each) else each for each in run.subscriptions]
    return msgspec.structs.replace(run, subscriptions=tuple(subscriptions))


def _may_return(each: DrawnSubscribe) -> bool:
    return each.durable and each.group is None and each.client not in (LATE, LEAVER)


def _returning(each: DrawnSubscribe, run: DrawnRun, rng: Random) -> DrawnSubscribe:
    chances = [rng.random() for _ in range(4)]
    returns = _returns(each, run, rng) if chances[0] < 0.5 else ()
    moves = _moves(each, run.overlay, rng) if chances[1] < 0.25 and run.system != GROUP else ()
    if moves or run.system == GROUP:
        returns = tuple(msgspec.structs.replace(one, filter=each.filter) for one in returns)
    calm = None
    if chances[2] < 0.3 and not moves:
        calm = DrawnReturn(0.0, rng.choice((0.0, 1.0)), other_filter(each.filter, rng), rng.random() < 0.5)
    keeps_open = rng.choice((1, 2, 5)) if chances[3] < 0.3 else 0
    if not (returns or moves or calm or keeps_open):
        return each
    if each.away is not None and not returns:
        returns = (DrawnReturn(*each.away, each.filter, commits=rng.random() < 0.5),)
    return msgspec.structs.replace(
        each, away=None, returns=returns, moves=moves, keeps_open=keeps_open, calm=calm
    )


def _returns(each: DrawnSubscribe, run: DrawnRun, rng: Random) -> tuple[DrawnReturn, ...]:
    restarts = [
        (incident.at, incident.until)
        for incident in run.faults.incidents
        if incident.kind in DOWN and each.broker in incident.nodes
    ]
    found: list[DrawnReturn] = []
    filter, since = each.filter, SETTLE
    for _ in range(rng.choice((1, 1, 2, 3))):
        left = rng.uniform(since, since + TROUBLE / 3)
        at = left + (0.0 if rng.random() < 0.3 else rng.uniform(0.05, TROUBLE / 3))
        later = [times for times in restarts if times[0] > since]
        if later and rng.random() < 0.5:
            down, up = rng.choice(later)
            left, at = rng.uniform(since, down), up + rng.choice((0.0, 0.02, 0.5)) + rng.uniform(0.0, 0.1)
        if at >= SETTLE + TROUBLE:
            break
        filter = other_filter(filter, rng)
        found.append(DrawnReturn(left, at, filter, rng.random() < 0.5, rng.random() < 0.5))
        since = at
    return tuple(found)


def other_filter(filter: str, rng: Random) -> str:
    """A filter that is narrower than this one, wider, disjoint, the same, or any."""
    return rng.choice(
        (
            f"({filter}) AND k < 2",
            f"({filter}) AND x % 2 = {rng.randrange(2)}",
            f"({filter}) OR k = {rng.randrange(3)}",
            "x >= -5",
            f"NOT ({filter})",
            f"x < {rng.randrange(60)}",
            filter,
        )
    )


def _moves(each: DrawnSubscribe, overlay: OverlayGraph, rng: Random) -> tuple[tuple[float, str], ...]:
    times = sorted(rng.uniform(SETTLE, SETTLE + TROUBLE) for _ in range(rng.choice((2, 2, 3))))
    others = [name for name in overlay.brokers if name != each.broker]
    return (*((at, rng.choice(others)) for at in times[:-1]), (times[-1], each.broker))
