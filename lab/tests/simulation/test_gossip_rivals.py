"""The algorithms that daMulticast is compared with: as nodes and as rounds over arrays they are one
algorithm.

Tables are drawn anew for each event, and one hop takes one round. Trees of delegates have the same places in
both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidings_lab.simulation.delegates import delegate_tree
from tidings_lab.simulation.peers import Peers
from tidings_lab.simulation.rounds import (
    GossipPlan,
    Hierarchy,
    chain,
    disseminate,
    gossip_broadcast,
    hierarchical_broadcast,
    publisher_groups,
    scattered,
    subscriber_groups,
)

from ..simulation._two_samples import same_distribution, same_share

NAMES = ("/", "a", "a/b")
CHANCE = 0.001  # of a false alarm, for each of some ten comparisons; the seeds are fixed
SMALL = (6, 15, 40)
TREE: dict[str, Any] = {"arity": 5, "depth": 3, "delegates": 2}
ROUND = {"round_seconds": 0.01}


class Rival(msgspec.Struct, frozen=True):
    system: str
    plan: Callable[[Hierarchy, int], GossipPlan]
    published: int = 2  # the level of the events
    more: dict[str, Any] = {}
    gossip: dict[str, Any] = {}
    parasites: bool = False  # are they counted by the nodes?


RIVALS = {
    "broadcast": Rival("gossip-broadcast", lambda h, at: gossip_broadcast(h, published=at)),
    "publisher groups": Rival("publisher-groups", lambda h, at: publisher_groups(h, published=at)),
    "publisher groups, of the middle": Rival(
        "publisher-groups", lambda h, at: publisher_groups(h, published=at), 1
    ),
    "subscriber groups": Rival("subscriber-groups", lambda h, at: subscriber_groups(h, published=at)),
    "hierarchical": Rival(
        "hierarchical-gossip",
        lambda h, at: hierarchical_broadcast(h, clusters=3, published=at, first=False),
    ),
    "PMcast": Rival(
        "pmcast", lambda h, at: delegate_tree(h, published=at, **TREE), 1, {"tree": TREE}, ROUND, True
    ),
    "hpcast": Rival(
        "hpcast",
        lambda h, at: delegate_tree(h, interest=False, published=at, **TREE),
        2,
        {"tree": TREE},
        ROUND,
    ),
}


def in_places(sizes: tuple[int, ...]) -> list[str]:
    """The peers in the places that the rounds scatter their groups over."""
    left = [iter(range(size)) for size in sizes]
    return [f"{NAMES[group]}:{next(left[group])}" for group in scattered(chain(*sizes))]


def by_peers(
    rival: Rival, sizes: tuple[int, ...], runs: int, *, loss: float, seed: int = 8
) -> list[dict[str, float]]:
    more = {**rival.more, "peers": in_places(sizes)} if rival.more else {}
    peers = Peers(
        dict(zip(NAMES, sizes, strict=True)), seed=seed, loss=loss, static=True, system=rival.system,
        more=more, gossip=rival.gossip,
    )  # fmt: skip
    found: list[dict[str, float]] = []
    for _ in range(runs):
        if not rival.more.get("tree"):
            peers.draw_tables()
        received = peers.publish(NAMES[rival.published], seconds=1.0)
        assert rival.parasites or received.parasites == 0
        found.append(
            {
                "sent": received.payloads - received.handed_up, "across": received.handed_up,
                "parasites": received.parasites,
                **{f"reached {n}": received.reached(n) for n in NAMES},
                **{f"last {n}": received.last_round(n) or -1 for n in NAMES},
            }
        )  # fmt: skip
    return found


def by_rounds(rival: Rival, sizes: tuple[int, ...], runs: int, *, loss: float) -> list[dict[str, float]]:
    plan = rival.plan(chain(*sizes), rival.published)
    found: list[dict[str, float]] = []
    for seed in range(runs):
        run = disseminate(plan, seed=seed + 10_000, views=seed + 10_000, loss=loss, count=True)
        found.append(
            {
                "sent": run.inside, "across": run.across,
                "parasites": run.parasites() if rival.parasites else 0,
                **{f"reached {n}": run.reached_of(g) for g, n in enumerate(NAMES)},
                **{f"last {n}": run.last_round(g) or -1 for g, n in enumerate(NAMES)},
            }
        )  # fmt: skip
    return found


def unlike(one: list[dict[str, float]], other: list[dict[str, float]]) -> dict[str, float]:
    """The measures in which the samples differ, and by what chance they would."""
    chances = {
        measure: same_distribution([r[measure] for r in one], [r[measure] for r in other])
        for measure in one[0]
    }
    for name in NAMES:
        hits, others = (sum(r[f"reached {name}"] == 1 for r in of) for of in (one, other))
        chances[f"whole {name}"] = same_share(hits, len(one), others, len(other))
    return {measure: chance for measure, chance in chances.items() if chance < CHANCE}


@pytest.mark.parametrize("name", list(RIVALS))
def test_dam_8_both_engines_agree_in_small(name: str) -> None:
    rival = RIVALS[name]
    found = unlike(by_peers(rival, SMALL, 30, loss=0.15), by_rounds(rival, SMALL, 120, loss=0.15))
    assert not found, found


def test_the_comparison_sees_a_difference() -> None:
    """The first of a cluster alone hands on, or everybody who hears from outside."""
    rival = RIVALS["hierarchical"]
    other = msgspec.structs.replace(
        rival, plan=lambda h, at: hierarchical_broadcast(h, clusters=3, published=at)
    )
    assert "across" in unlike(by_peers(rival, SMALL, 30, loss=0.15), by_rounds(other, SMALL, 120, loss=0.15))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", list(RIVALS))
def test_dam_8_both_engines_agree_at_1110_processes_over_200_runs(name: str) -> None:
    rival, sizes = RIVALS[name], (10, 100, 1000)
    found = unlike(by_peers(rival, sizes, 200, loss=0.15), by_rounds(rival, sizes, 400, loss=0.15))
    assert not found, found
