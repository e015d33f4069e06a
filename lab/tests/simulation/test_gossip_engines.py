"""The event-driven peers and the rounds over arrays are one algorithm: two samples, one distribution.

Both have static tables that are drawn anew for each event. One hop takes one round.
"""

from __future__ import annotations

from typing import Any

import pytest

from tidings_lab.simulation.peers import Peers
from tidings_lab.simulation.rounds import Scheme, chain, damulticast, disseminate

from ..simulation._two_samples import same_distribution, same_share

NAMES = ("/", "a", "a/b")
CHANCE = 0.001  # of a false alarm, for each of some ten comparisons; the seeds are fixed


def by_peers(sizes: tuple[int, ...], runs: int, gossip: dict[str, Any]) -> list[dict[str, float]]:
    peers = Peers(dict(zip(NAMES, sizes, strict=True)), seed=7, loss=0.15, static=True, gossip=gossip)
    found = []
    for _ in range(runs):
        peers.draw_tables()
        received = peers.publish("a/b", seconds=1.0)
        assert received.parasites == 0
        found.append(
            {
                "sent": received.payloads - received.handed_up, "across": received.handed_up,
                **{f"reached {n}": received.reached(n) for n in NAMES},
                **{f"last {n}": received.last_round(n) or -1 for n in NAMES},
            }
        )  # fmt: skip
    return found


def by_rounds(sizes: tuple[int, ...], runs: int, scheme: Scheme) -> list[dict[str, float]]:
    plan = damulticast(chain(*sizes), scheme)
    found = []
    for seed in range(runs):
        run = disseminate(plan, seed=seed + 10_000, views=seed + 10_000, loss=0.15)
        found.append(
            {
                "sent": run.inside, "across": run.across,
                **{f"reached {n}": run.reached_of(g) for g, n in enumerate(NAMES)},
                **{f"last {n}": run.last_round(g) or -1 for g, n in enumerate(NAMES)},
            }
        )  # fmt: skip
    return found


def compare(sizes: tuple[int, ...], runs: int, **options: Any) -> None:
    gossip = {**options, "stagger": 0.03} if options.get("named") else options
    one, other = by_peers(sizes, runs, gossip), by_rounds(sizes, 2 * runs, Scheme(**options))
    chances = {
        measure: same_distribution([r[measure] for r in one], [r[measure] for r in other])
        for measure in one[0]
    }
    for name in NAMES:
        hits, others = (sum(r[f"reached {name}"] > 0 for r in of) for of in (one, other))
        chances[f"entered {name}"] = same_share(hits, runs, others, 2 * runs)
        hits, others = (sum(r[f"reached {name}"] == 1 for r in of) for of in (one, other))
        chances[f"whole {name}"] = same_share(hits, runs, others, 2 * runs)
    unlike = {measure: chance for measure, chance in chances.items() if chance < CHANCE}
    assert not unlike, unlike


@pytest.mark.parametrize(
    "options",
    [{}, {"named": True}, {"named": True, "g": 4, "own": 3}, {"forced": True}],
    ids=["elected", "named", "own turns", "forced"],
)
def test_dam_6_both_engines_agree_in_small(options: dict[str, Any]) -> None:
    compare((10, 40, 150), 60, **options)


def test_the_comparison_sees_a_difference() -> None:
    """Half the links: what the test must not take for the same."""
    one = by_peers((10, 40, 150), 60, {"g": 2.5})
    other = by_rounds((10, 40, 150), 120, Scheme())
    assert same_distribution([r["across"] for r in one], [r["across"] for r in other]) < CHANCE


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_dam_6_both_engines_agree_at_1110_processes_over_200_runs() -> None:
    compare((10, 100, 1000), 200)
