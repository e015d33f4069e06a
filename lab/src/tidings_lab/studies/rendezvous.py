"""Study `rendezvous`: Scribe, Hermes and elastic partitioning on a prefix overlay (Virgillito 2003, 2.4.3 and
2.5).

Nodes join one after the other by messages, as many clients as nodes subscribe to groups by Zipf's law (a
group is a topic, a type and a value at once, so that each system routes by what it can), and events of groups
drawn evenly are published. The oracle knows only who subscribed to what. A fifth of the nodes vanishes at
once, without a word; the routes are looked at again after `HEALED` seconds. Sizes are ours; the thesis gives
none. Time and memory grow with size: the largest size takes about a minute of one core for each system.
"""

from __future__ import annotations

import resource
import time
from typing import Any

from tidings.algebra.cells import HashCells
from tidings_lab.simulation.rendezvous import RendezvousNetwork
from tidings_lab.studies._claims import PaperClaim, exact
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
        points = [(s, n, setting.seed) for n in self.sizes for s in SYSTEMS if n <= SMALL or s in LARGE]
        found = setting.measure(size_of, points)
        self.by = {(system, count): each for (system, count, _), each in zip(points, found, strict=True)}
        healing = [(system, 60 if setting.quick else 300, setting.seed) for system in SYSTEMS]
        self.healing = dict(zip(SYSTEMS, setting.measure(healing_of, healing), strict=True))
        self.common = [count for count in self.sizes if count <= SMALL]


def run(setting: StudySetting) -> StudyOutcome:
    runs = RendezvousRuns(setting)
    return StudyOutcome(claims=_claims(runs), pictures=_pictures(runs), tables=_tables(runs))


def _claims(runs: RendezvousRuns) -> list[PaperClaim]:
    within = min(each["within"] for each in runs.by.values())
    wrong = sum(each["missing"] + each["extra"] for each in runs.by.values())
    due = sum(each["due"] for each in runs.by.values())
    largest = runs.sizes[-1]
    healed = max(each["wrong after"] for each in runs.healing.values())
    path = [runs.by["hermes-path", n]["messages"] / runs.by["hermes", n]["messages"] for n in runs.common]
    own: dict[str, Any] = {"where": "beside 2.5.2 and 2.5.5", "paper": None}
    return [
        exact("VIR2-7", f"routes within their bound of hops, up to {largest} nodes", reference="95% or more",
              ours=f"{within:.1%} at the least", rule="95% or more in every ring", held=within >= 0.95,
              seeds=len(runs.by),
              why="Of the overlay that Scribe builds on; the thesis prints no share.", **own),
        exact("VIR2-7", f"deliveries against the oracle, up to {largest} nodes", reference=0,
              ours=f"{wrong} wrong of {due}", rule="none missing, none too many", held=wrong == 0 and due > 0,
              why="Nothing fails here.", seeds=len(runs.by), **own),
        exact("VIR2-7", f"routes after {VANISHING:.0%} of the nodes vanished", reference="none wrong",
              ours=f"{healed:.1%} wrong after {HEALED:.0f} s", rule="none wrong; some were at first",
              seeds=len(runs.healing),
              held=healed == 0.0 and all(each["wrong"] > 0 for each in runs.healing.values()),
              why="The overlay is to heal.", **own),
        exact("VIR2-7", "deliveries after that", reference="exact in every system", rule="every system",
              ours=", ".join(s for s, each in runs.healing.items() if each["exact after"] and each["due"]),
              held=all(each["exact after"] and each["due"] for each in runs.healing.values()),
              why="Trees are to heal with the overlay.", seeds=len(runs.healing), **own),
        exact("VIR2-7", "messages with filters on the path against filters at recipients", reference="fewer",
              ours=", ".join(f"{share - 1:+.0%}" for share in path), rule="fewer at each size",
              seeds=len(path),
              held=all(share < 1 for share in path), why="Hermes filters at recipients; its later version "
              "on the path.",
              **own),
    ]  # fmt: skip


def _pictures(runs: RendezvousRuns) -> list[Picture]:
    hops = [runs.by["scribe", n]["hops"] for n in runs.sizes]
    bounds = [runs.by["scribe", n]["bound"] for n in runs.sizes]
    return [
        Picture(name="hops", title="Hops to a key", x_label="nodes", y_label="hops", x_log=True,
                curves=[Curve("mean", runs.sizes, hops), Curve("bound", runs.sizes, bounds, dashed=True)]),
        Picture(name="messages", title="Messages with an event", x_label="nodes", y_label="per event",
            x_log=True,
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
        StudyTable("by size", ["system", "nodes", *columns], rows),
        StudyTable(f"{VANISHING:.0%} of the nodes vanish", ["system", *names], healing),
    ]


STUDY = Study(
    name="rendezvous",
    title="Where subscriptions and events meet: prefix overlays, Scribe, Hermes, zones that move",
    answers="Virgillito 2003, 2.4.3, 2.5.2 and 2.5.5",
    run=run,
)
