"""Claims of study `recovery` on hpcast, gossip as the only routing (Costa et al. 2003, section 6).

hpcast is judged as section 6 describes it: delegates stand for the aggregate interests of their children, and
an event goes down where it could interest them. The same tree without interests is in the table alone. Its
shape and its fan-out are not printed and decide how much is sent and how often it arrives, so that both
figures are *not comparable*, as those of PMcast are. They stand side by side for ln S + c with every c that
is tried. What an event costs is compared with routing on a tree to the interested alone, since that is what
the text holds against hpcast; flooding the tree costs N - 1 at most and is a claim of our own.
"""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import Any

from tidings.simulation.topology import minimal_subtree, random_tree
from tidings_lab.studies._claims import (
    ABOVE_ZERO,
    ANY_MORE,
    PaperClaim,
    SeedEstimate,
    estimate,
    everywhere,
    never,
    side_by_side,
)
from tidings_lab.studies._recovery_bench import PLACE, values
from tidings_lab.studies._topic_gossip import hpcast
from tidings_lab.studies.study import StudySetting, StudyTable

CONSTANTS = (0.0, 1.0, 2.0, 5.0)
DEGREE = 4  # of the tree that routing is compared on: that of the study
FAULTS = "even in absence of faults it does not guarantee that events are delivered correctly"
UNINTERESTED = "events are not routed only to interested nodes, but they can reach also non-interested nodes"
UNPRINTED = "Neither the tree of hpcast nor its fan-out is in the documents, and both decide this."
OVERHEAD = (
    "in absence of faults it increases the overhead since events are not routed only to interested nodes, "
    "but they can reach also non-interested nodes or even be sent more than once to the same node"
)


def routed_links(processes: int, interested: int, runs: int, seed: int) -> float:
    """Links that an event crosses on a tree from any process to the interested ones, and to no other."""
    rng = Random(f"{seed}/routed")
    found = []
    for _ in range(runs):
        tree = random_tree(processes, rng, DEGREE)
        publisher = rng.choice(tree.brokers)
        found.append(len(minimal_subtree(tree, [publisher, *rng.sample(tree.brokers, interested)])))
    return fmean(found)


def gossip_only(setting: StudySetting) -> tuple[list[PaperClaim], StudyTable]:
    """Without any fault: one in ten processes is interested."""
    brokers, runs = (24, 50) if setting.quick else (100, 50)
    interested, seeds = brokers // 10, setting.seed_range(4, 20)
    cases = [(brokers, interested, c, by_interest, runs) for by_interest in (True, False) for c in CONSTANTS]
    found = setting.over_seeds(hpcast, cases, seeds)
    [routed] = setting.over_seeds(routed_links, [(brokers, interested, runs)], seeds)
    by_c = dict(zip(CONSTANTS, found[: len(CONSTANTS)], strict=True))
    names = ("delivery", "sent", "parasites")
    rows = [
        ("by interest" if case[3] else "to all", case[2],
         *(estimate(values(each, name)).text(".4f") for name in names))
        for case, each in zip(cases, found, strict=True)
    ]  # fmt: skip
    columns = ("delegates", "c", "delivery", "whole events sent", "to the uninterested")
    claims = _claims(by_c, routed, tried=runs * interested, flood=brokers - 1)
    return claims, StudyTable("hpcast: gossip as the only routing, no loss", columns, rows)


def _claims(
    by_c: dict[float, list[dict[str, float]]], routed: list[float], *, tried: int, flood: int
) -> list[PaperClaim]:
    failing: dict[str, list[float] | SeedEstimate] = {
        f"c = {c:g}": lost if any(lost := [1 - v for v in values(f, "delivery")])
        else never(len(f) * tried, len(f))
        for c, f in by_c.items()
    }  # fmt: skip
    some: dict[str, Any] = {"where": f"{PLACE}, 6", "within": (ABOVE_ZERO, ANY_MORE)}
    return [
        side_by_side(
            everywhere("COS-11", "gossip as the only routing, by interest: share of deliveries that fail "
                       "though nothing fails", paper=FAULTS, levels=failing, form=".5f", why="-", **some),
            f"{UNPRINTED} None seen is a bound, not a share of 0."),
        everywhere("COS-11", "the same: whole events that reach the uninterested, for each event",
                   paper=UNINTERESTED, form=".1f",
                   levels={f"c = {c:g}": values(f, "parasites") for c, f in by_c.items()},
                   built="delegates are chosen by their place in the tree and not by their interest",
                   why="Can: some do, whatever the fan-out.", **some),
        side_by_side(
            everywhere("COS-11", "the same: whole events sent, less the links of routing on a tree to the "
                       "interested alone", paper=OVERHEAD, form="+.1f",
                       levels={f"c = {c:g}": [a - b for a, b in zip(values(f, "sent"), routed, strict=True)]
                               for c, f in by_c.items()}, why="-", **some),
            f"{UNPRINTED} An event that is routed only to interested nodes crosses "
            f"{estimate(routed).text('.1f')} links."),
        everywhere("COS-11", "the same: whole events sent, less the N - 1 of flooding a tree",
                   where="beside 6", paper=None, reference="more", form="+.1f",
                   within=(ABOVE_ZERO, ANY_MORE),
                   levels={f"c = {c:g}": [v - flood for v in values(f, "sent")] for c, f in by_c.items()},
                   why="The rule of the claim when hpcast was run without interests."),
    ]  # fmt: skip
