"""Study `policies`: what each assignment policy costs in messages (Virgillito 2003, Table 2.1).

On a tree of N brokers some subscriptions and then one event are followed message by message. The thesis gives
its table in words (broadcast, NO, direct); in messages per operation these are N-1, 0, and one to each
broker concerned. All brokers are told apart: the publisher's, the one that owns the cell (filter-driven), and
those of the takers. The row *matching* is where an event is matched for other brokers: at the publisher's,
nowhere before it is everywhere, or at the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from tidings.algebra.cells import GridCells
from tidings.language import parse_filter
from tidings.simulation.topology import random_tree
from tidings.simulation.world import World
from tidings_lab.studies._claims import PaperClaim, exact
from tidings_lab.studies.study import Curve, Picture, Study, StudyOutcome, StudySetting, StudyTable

ALL, ACCESS, FILTER = "all brokers", "access-driven", "filter-driven"
SYSTEM = {ALL: "all-brokers", ACCESS: "network-of-servers", FILTER: "partitioned"}
WANTED = "x BETWEEN 0.30 AND 0.32 AND y BETWEEN 0.30 AND 0.32"  # inside one cell
EVENT = {"x": 0.31, "y": 0.31}
CELLS = GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})
PHASE_OF = {"Hold": "subscription", "Forward": "event", "ToTarget": "event", "ToAccess": "notification"}


class Costs(msgspec.Struct, frozen=True):
    """Messages of one policy on one tree with so many takers."""

    policy: str
    brokers: int
    takers: int
    subscription: float  # per subscription
    event: int  # per event
    notification: int  # per event
    delivered: int
    matched: list[str]  # brokers that match the event for others: `publisher`, `target` or `other`

    def expected(self) -> tuple[int, int, int]:
        """Table 2.1 in messages: subscription, event and notification routing."""
        broadcast = self.brokers - 1
        if self.policy == ALL:
            return broadcast, 0, self.takers
        if self.policy == ACCESS:
            return 0, broadcast, 0
        return 1, 1, self.takers

    def measured(self) -> tuple[float, int, int]:
        return self.subscription, self.event, self.notification


def costs(policy: str, brokers: int, takers: int, seed: int) -> Costs:
    rng = Random(f"{seed}/{policy}/{brokers}/{takers}")
    overlay = random_tree(brokers, rng)
    options = {"cells": CELLS} if policy == FILTER else {}
    world = World(SYSTEM[policy], overlay, seed=seed, options=options, record=False)
    owner = overlay.brokers[CELLS.assign(parse_filter(WANTED))[0] % brokers]
    others = [broker for broker in overlay.brokers if broker != owner]
    publisher_at, *taker_places = rng.sample(others, takers + 1)
    world.add_client("publisher", publisher_at)
    for number, broker in enumerate(taker_places):
        world.add_client(f"taker{number}", broker)
    world.run(1.0)
    subscribing = _phases(world, partial(_subscribe, world, takers))
    matched: set[str] = set()
    for name, node in world.nodes():
        role = {publisher_at: "publisher", owner: "target"}.get(name, "other")
        for matcher in node.slots["routing"].matchers():
            matcher.match = partial(_noted, matcher.match, matched, role)
    publishing = _phases(world, partial(world.publish, "publisher", dict(EVENT)))
    return Costs(
        policy,
        brokers,
        takers,
        subscribing["subscription"] / takers,
        publishing["event"],
        publishing["notification"],
        sum(len(world.received(f"taker{number}")) for number in range(takers)),
        sorted(matched),
    )


def _noted(match: Callable[[Any], Any], matched: set[str], role: str, event: Any) -> Any:
    matched.add(role)
    return match(event)


def costs_of(policy: str, brokers: int, takers: int, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(costs(policy, brokers, takers, seed))
    return found


def _subscribe(world: World, takers: int) -> None:
    for number in range(takers):
        world.subscribe(f"taker{number}", "n", WANTED)


def _phases(world: World, act: Callable[[], None]) -> Counter[str]:
    """Messages between brokers, by phase."""
    before = Counter(world.simulation.sent)
    act()
    world.run(world.simulation.now + 5.0)
    phases: Counter[str] = Counter()
    for name, count in (world.simulation.sent - before).items():
        phases[PHASE_OF[name]] += count
    return phases


def run(setting: StudySetting) -> StudyOutcome:
    sizes = (8, 20) if setting.quick else (8, 20, 50, 100)
    seeds = setting.seed_range(2, 20)
    points = [
        (policy, brokers, takers, seed)
        for seed in seeds
        for brokers in sizes
        for policy in SYSTEM
        for takers in (1, 3, 5)
    ]
    found = [Costs(**each) for each in setting.measure(costs_of, points)]
    first = found[: len(points) // len(seeds)]
    return StudyOutcome(claims=_claims(found, len(seeds)), pictures=[_picture(first)], tables=[_table(first)])


BUILT = "the systems were built by this table, and held says that they are what it describes"


def _claims(found: list[Costs], seeds: int) -> list[PaperClaim]:
    words = {
        ALL: ("Broadcast", "NO", "Direct"),
        ACCESS: ("NO", "broadcast", "NO"),
        FILTER: ("Direct", "Direct", "Direct"),
    }
    claims = []
    for policy, phases in words.items():
        ours = [cost for cost in found if cost.policy == policy]
        for position, (phase, word) in enumerate(
            zip(("subscription", "event", "notification"), phases, strict=True)
        ):
            wrong = [cost for cost in ours if cost.measured()[position] != cost.expected()[position]]
            last = ours[-1]
            claims.append(
                exact(
                    "VIR2-6", f"{policy}: {phase} routing", where="Virgillito 2003, 2.4.5, Table 2.1",
                    paper=word,
                    ours=f"{last.measured()[position]:g} messages with N={last.brokers}, {last.takers} "
                    f"subscribers",
                    rule=f"exactly {_rule(word, phase)} in all {len(ours)} cases of {seeds} seeds",
                    held=not wrong,
                    seeds=seeds,
                    why="The word as a number of messages on a tree of N brokers.", built=BUILT,
                )
            )  # fmt: skip
    matching = {ALL: ("Match-first", ["publisher"], "at the publisher's broker alone"),
                ACCESS: ("Diffusion-first", [], "at no broker for another: the event is everywhere first"),
                FILTER: ("Match at Target", ["target"], "at the target alone")}  # fmt: skip
    for policy, (word, where, rule) in matching.items():
        ours = [cost for cost in found if cost.policy == policy]
        claims.append(
            exact(
                "VIR2-6", f"{policy}: matching for other brokers", where="Virgillito 2003, 2.4.5, Table 2.1",
                paper=word, ours=", ".join(ours[-1].matched) or "none",
                rule=f"{rule}, in all {len(ours)} cases",
                held=all(cost.matched == where for cost in ours), seeds=seeds,
                why="The word as a place.", built=BUILT,
            )
        )  # fmt: skip
    same = all(cost.delivered == cost.takers for cost in found)
    claims.append(
        exact(
            "VIR2-6", "deliveries of the three policies", where="our system", paper=None,
            reference="the same",
            ours="the same" if same else "different", rule="every subscriber receives the event once",
            held=same,
            why="Policies differ in cost, not in what is delivered.", seeds=seeds,
        )
    )  # fmt: skip
    return claims


def _rule(word: str, phase: str) -> str:
    if word.lower() == "broadcast":
        return "N-1"
    if word == "NO":
        return "0"
    return "one per broker with a taker" if phase == "notification" else "1"


def _table(found: list[Costs]) -> StudyTable:
    rows = [
        (c.policy, c.brokers, c.takers, c.subscription, c.event, c.notification, c.delivered,
         ", ".join(c.matched))
        for c in found
    ]  # fmt: skip
    columns = (
        "policy",
        "brokers",
        "takers",
        "per subscription",
        "event routing",
        "notification",
        "delivered",
        "matched for others at",
    )
    return StudyTable("messages per operation, first seed", columns, rows)


def _picture(found: list[Costs]) -> Picture:
    curves = []
    for policy in SYSTEM:
        chosen = [cost for cost in found if cost.policy == policy and cost.takers == 3]
        total = [cost.subscription + cost.event + cost.notification for cost in chosen]
        curves.append(Curve(policy, [float(cost.brokers) for cost in chosen], total))
    return Picture(
        name="policies",
        title="Messages for one subscription and one event with three takers",
        x_label="brokers",
        y_label="messages",
        curves=curves,
    )


STUDY = Study(
    name="policies",
    title="What each assignment policy costs",
    answers="Virgillito 2003, Table 2.1",
    run=run,
)
