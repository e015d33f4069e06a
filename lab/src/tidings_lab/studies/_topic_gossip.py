"""Measurements of the study `topic-gossip`: many disseminations in rounds, summed up as JSON values."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tidings_lab.simulation.delegates import delegate_tree
from tidings_lab.simulation.lazy_rounds import lazy_push
from tidings_lab.simulation.rounds import (
    GossipPlan,
    Scheme,
    TopicGroup,
    bytes_per_process,
    chain,
    damulticast,
    disseminate,
    gossip_broadcast,
    hierarchical_broadcast,
    publisher_groups,
    subscriber_groups,
)

LOSS = 0.15
SETTINGS = ((10, 100, 1000), (100, 100, 100), (100, 100, 100, 100, 100))  # of Tables 1 and 2, the root first
BUILDERS: dict[str, Callable[..., GossipPlan]] = {
    "gossip broadcast": gossip_broadcast,
    "publisher groups": publisher_groups,
    "subscriber groups": subscriber_groups,
    "PMcast": delegate_tree,
}


def plan_of(
    algorithm: str, sizes: tuple[int, ...] | list[int], published: int = -1, **scheme: Any
) -> GossipPlan:
    hierarchy = chain(*sizes)
    if algorithm == "daMulticast":
        return damulticast(hierarchy, Scheme(**scheme), published=published)
    if algorithm == "hpcast":
        return delegate_tree(hierarchy, interest=False, published=published)
    if algorithm == "hierarchical":
        return hierarchical_broadcast(hierarchy, clusters=len(sizes), published=published)
    return BUILDERS[algorithm](hierarchy, published=published)


def measured(
    algorithm: str, sizes: list[int], runs: int, seed: int, faults: dict[str, Any], scheme: dict[str, Any],
    published: int,
) -> dict[str, Any]:  # fmt: skip
    """Means over runs, each with tables of its own."""
    plan = plan_of(algorithm, sizes, published, **scheme)
    groups = range(len(sizes))
    reached = np.zeros((runs, len(sizes)))
    last = np.full((runs, len(sizes)), np.nan)
    sums = np.zeros((runs, 6))
    for number in range(runs):
        run = disseminate(
            plan,
            seed=seed * 1_000_003 + number,
            views=seed * 1_000_003 + number,
            loss=LOSS,
            count=True,
            **faults,
        )
        reached[number] = run.reached()
        for group in groups:
            moment = run.last_round(group)
            last[number, group] = math.nan if moment is None else moment
        deliveries = int((run.received < 254).sum()) - 1
        sums[number] = (run.inside, run.across, run.parasites(), deliveries, run.arrived, run.arrived_across)
    seen = ~np.isnan(last)
    alive = ~np.isnan(reached)  # a group without a live member has no part in a mean
    whole = (reached == 1) | ~alive
    means = sums.mean(axis=0)
    return {
        "reached": np.nanmean(reached, axis=0).tolist(),  # by group: the part of the live that heard
        "entered": [float((reached[alive[:, g], g] > 0).mean()) for g in groups],  # at least one member heard
        "whole": [float((reached[alive[:, g], g] == 1).mean()) for g in groups],  # all members heard
        "all": float(whole[:, list(plan.wanted)].all(axis=1).mean()),
        "validity": float((sums[:, 3] > 0).mean()),
        "last": [float(last[seen[:, group], group].mean()) if seen[:,
            group].any() else None for group in groups],
        "rounds": float(np.nanmax(last, axis=1).mean()),
        "inside": float(means[0]), "across": float(means[1]), "parasites": float(means[2]),
        "entering": float(means[5]),  # messages between groups that were received
        "payloads": float(sums[:, :2].sum() / max(1.0, sums[:, 3].sum())),
        "entries": list(plan.entries),
    }  # fmt: skip


def by_seed(
    algorithm: str, sizes: list[int], runs: int, faults: dict[str, Any], scheme: dict[str, Any],
    published: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The same with the seed last, as sweeps over seeds have it."""
    return measured(algorithm, sizes, runs, seed, faults, scheme, published)


def lazy(size: int, runs: int, seed: int) -> dict[str, float]:
    """Lazy push in one group."""
    found = [lazy_push(size, seed=seed * 1_000_003 + number, loss=LOSS) for number in range(runs)]
    return {
        "reached": float(np.mean([run.reached for run in found])),
        "payloads": sum(run.payloads for run in found)
        / sum(run.payloads / run.payloads_per_delivery for run in found),
        "rounds": float(np.mean([run.rounds for run in found])),
        "announcements": float(np.mean([run.announcements for run in found])) / size,
        "requests": float(np.mean([run.requests for run in found])) / size,
    }


def five_levels(processes: int) -> list[int]:
    """Nine of ten processes in the lowest topic, and so on up; the root gets the rest."""
    sizes = [processes * 9 // 10**position for position in (4, 3, 2, 1)]
    return [processes - sum(sizes), *sizes]


def cost(processes: int, seed: int) -> dict[str, float]:
    """CPU seconds of one dissemination over five levels: the best of three, tables and all."""
    plan = damulticast(chain(*five_levels(processes)))
    disseminate(plan, seed=seed, loss=LOSS)  # compiles, once
    best, run = math.inf, None
    for number in range(3):
        begin = time.process_time()
        run = disseminate(plan, seed=seed + number, loss=LOSS)
        best = min(best, time.process_time() - begin)
    assert run is not None
    return {
        "processes": processes, "seconds": best, "sent": run.sent, "bytes": bytes_per_process(plan),
        "entries": sum(n * (end - begin) for n, (begin, end) in zip(plan.entries, plan.groups, strict=True)),
        "reached": float(np.mean(run.reached())),
    }  # fmt: skip


def hpcast(
    processes: int, interested: int, c: float, by_interest: bool, runs: int, seed: int
) -> dict[str, float]:
    """Gossip as the only routing, with no fault: whole events, down where delegates stand for an interest, or
    to all peers alike."""
    groups = (TopicGroup(interested), TopicGroup(processes - interested, (0,)))
    plan = delegate_tree(groups, interest=by_interest, c=c, published=0)
    seeds = range(seed * 1_000_003, seed * 1_000_003 + runs)
    found = [disseminate(plan, seed=number, views=number, count=True) for number in seeds]
    return {
        "delivery": float(np.mean([run.reached_of(0) for run in found])),
        "sent": float(np.mean([run.sent for run in found])),
        "parasites": float(np.mean([run.parasites() for run in found])),
    }
