"""Study `rendezvous`: Scribe, Hermes and elastic partitioning on a prefix overlay (Virgillito 2003, 2.4.3 and
2.5).

Nodes join one after the other by messages, as many clients as nodes subscribe to groups by Zipf's law (a
group is a topic, a type and a value at once, so that each system routes by what it can), and events of groups
drawn evenly are published. The oracle knows only who subscribed to what. A fifth of the nodes vanishes at
once, without a word; the routes are looked at again after `HEALED` seconds. Sizes are ours; the thesis gives
none. Time and memory grow with size: the largest size takes about a minute of one core for each system. Up to
`SMALL` nodes, and for the nodes that vanish, there are several seeds; the larger rings are of the first seed
alone, and a claim that goes up to them says so.
"""

from __future__ import annotations

import resource
import time
from math import nextafter
from typing import Any

from tidings.algebra.cells import HashCells
from tidings_lab.simulation.rendezvous import RendezvousNetwork
from tidings_lab.studies._claims import PaperClaim, everywhere, exact
from tidings_lab.studies.study import Curve, Picture, Study, StudyOutcome, StudySetting, StudyTable

SYSTEMS = ("scribe", "hermes", "hermes-path", "partitioned-elastic")
LARGE = ("scribe", "hermes")  # at the largest size
QUICK, FULL = (30, 100, 300), (100, 300, 1000, 3000, 10_000)
SMALL = 1000  # up to here every system is run
EVENTS, ROUTES = 100, 2000
HEALED = 30.0
VANISHING = 0.2


def options_of(system: str, groups: int) -> dict[str, Any]:
    return {"cells": HashCells("group", groups)} if system == "partitioned-elastic" else {}


def size_of(system: str, count: int, seed: int) -> dict[str, Any]:
    """One ring: its routes, and what came of events through it."""
    begun = time.process_time()
    groups = max(8, count // 100)
    ring = RendezvousNetwork(system, count, seed=seed, options=options_of(system, groups))
    routes = ring.routes(ROUTES)
    ring.subscribe(count, groups=groups)
    outcome = ring.publish(EVENTS)
    tables = [ring.node(name).slots["routing"].table_size() for name in ring.up()]
    return {
        "hops": routes.mean, "bound": routes.bound, "within": routes.within, "wrong": routes.wrong,
        "known": ring.known(), "due": outcome.due, "missing": outcome.missing, "extra": outcome.extra,
        "messages": outcome.per_event, "entries": sum(tables) / count, "most entries": max(tables),
        "cpu": time.process_time() - begun,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def healing_of(system: str, count: int, seed: int) -> dict[str, Any]:
    """A fifth of the nodes vanishes: routes before, at once and after a while, and events after it."""
    groups = 8
    ring = RendezvousNetwork(system, count, seed=seed, calm=False, options=options_of(system, groups))
    ring.subscribe(count // 4, groups=groups, brokers=count // 2)
    before = ring.publish(20)
    ring.vanish(VANISHING)
    broken = ring.routes(500)
    ring.run(HEALED)
    healed, after = ring.routes(500), ring.publish(20)
    return {
        "exact before": before.is_exact, "wrong": broken.wrong / 500, "wrong after": healed.wrong / 500,
        "within": healed.within, "exact after": after.is_exact, "due": after.due,
    }  # fmt: skip


class RendezvousRuns:
    def __init__(self, setting: StudySetting) -> None:
        self.sizes = QUICK if setting.quick else FULL
        self.seeds = setting.seed_range(1, 10)
        points = [
            (s, n, seed)
            for seed in self.seeds
            for n in self.sizes
            for s in SYSTEMS
            if n <= SMALL or (s in LARGE and seed == self.seeds[0])
        ]
        found = setting.measure(size_of, points)
        self.every = dict(zip(points, found, strict=True))
        first = self.seeds[0]
        self.by = {(system, count): self.every[system, count, seed] for system, count, seed in points
                   if seed == first}  # fmt: skip
        cases = [(system, 60 if setting.quick else 300) for system in SYSTEMS]
        healed = setting.over_seeds(healing_of, cases, self.seeds)
        self.healings = dict(zip(SYSTEMS, healed, strict=True))
        self.healing = {system: runs[0] for system, runs in self.healings.items()}
        self.common = [count for count in self.sizes if count <= SMALL]


def run(setting: StudySetting) -> StudyOutcome:
    runs = RendezvousRuns(setting)
    return StudyOutcome(claims=_claims(runs), pictures=_pictures(runs), tables=_tables(runs))


def _claims(runs: RendezvousRuns) -> list[PaperClaim]:
    within = min(each["within"] for each in runs.every.values())
    wrong = sum(each["missing"] + each["extra"] for each in runs.every.values())
    due = sum(each["due"] for each in runs.every.values())
    largest, seeds = runs.sizes[-1], len(runs.seeds)
    healings = [each for found in runs.healings.values() for each in found]
    healed = max(each["wrong after"] for each in healings)
    path = {
        f"{n:,} nodes": [
            runs.every["hermes-path", n, seed]["messages"] / runs.every["hermes", n, seed]["messages"]
            for seed in runs.seeds
        ]
        for n in runs.common
    }
    rings = f"{len(runs.every)} rings; above {SMALL:,} nodes of the first seed alone"
    own: dict[str, Any] = {"where": "beside 2.5.2 and 2.5.5", "paper": None}
    return [
        exact("VIR2-7", f"routes within their bound of hops, up to {largest} nodes", reference="95% or more",
              ours=f"{within:.1%} at the least", rule=f"95% or more in each of {rings}", held=within >= 0.95,
              seeds=seeds,
              why="Of the overlay that Scribe builds on; the thesis prints no share.", **own),
        exact("VIR2-7", f"deliveries against the oracle, up to {largest} nodes", reference=0,
              ours=f"{wrong} wrong of {due}", rule=f"none missing, none too many, in {rings}",
              held=wrong == 0 and due > 0, why="Nothing fails here.", seeds=seeds, **own),
        exact("VIR2-7", f"routes after {VANISHING:.0%} of the nodes vanished", reference="none wrong",
              ours=f"{healed:.1%} wrong at most after {HEALED:.0f} s", rule="none wrong in any run; some "
              "were at first",
              seeds=seeds, held=healed == 0.0 and all(each["wrong"] > 0 for each in healings),
              why="The overlay is to heal.", **own),
        exact("VIR2-7", "deliveries after that", reference="exact in every system",
              rule="in every run of every system",
              ours=", ".join(
                  f"{s}: {sum(bool(each['exact after'] and each['due']) for each in found)} of {seeds}"
                  for s, found in runs.healings.items()),
              held=all(each["exact after"] and each["due"] for each in healings),
              why="Trees are to heal with the overlay.", seeds=seeds, **own),
        everywhere("VIR2-7", "messages with filters on the path over those with filters at recipients",
                   reference="fewer", levels=path, within=(0.0, nextafter(1.0, 0.0)), form=".3f",
                   why="Fewer, at each size: Hermes filters at recipients; its later version on the path.",
                   **own),
    ]  # fmt: skip


def _pictures(runs: RendezvousRuns) -> list[Picture]:
    hops = [runs.by["scribe", n]["hops"] for n in runs.sizes]
    bounds = [runs.by["scribe", n]["bound"] for n in runs.sizes]
    return [
        Picture(name="rendezvous-hops", title="Hops to a key", x_label="nodes", y_label="hops", x_log=True,
                curves=[Curve("mean", runs.sizes, hops), Curve("bound", runs.sizes, bounds, dashed=True)]),
        Picture(name="rendezvous-messages", title="Messages with an event", x_label="nodes",
                y_label="per event", x_log=True,
                y_log=True,
                curves=[Curve(s, runs.common,
                    [runs.by[s, n]["messages"] for n in runs.common]) for s in SYSTEMS]),
    ]  # fmt: skip


def _tables(runs: RendezvousRuns) -> list[StudyTable]:
    columns = ["hops", "bound", "within", "known", "due", "missing", "messages", "entries", "most entries",
        "cpu",
               "megabytes"]  # fmt: skip
    rows = [
        [system, count, *(round(each[name], 3) for name in columns)]
        for (system, count), each in runs.by.items()
    ]
    healing = [[system, *each.values()] for system, each in runs.healing.items()]
    names = list(next(iter(runs.healing.values())))
    return [
        StudyTable("by size, first seed", ["system", "nodes", *columns], rows),
        StudyTable(f"{VANISHING:.0%} of the nodes vanish, first seed", ["system", *names], healing),
    ]


STUDY = Study(
    name="rendezvous",
    title="Where subscriptions and events meet: prefix overlays, Scribe, Hermes, zones that move",
    answers="Virgillito 2003, 2.4.3, 2.5.2 and 2.5.5",
    run=run,
)
