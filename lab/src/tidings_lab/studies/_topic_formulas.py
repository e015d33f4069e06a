"""Claims of study `topic-gossip` that compare printed formulas with one another (Baehni et al. 2004, 5.5)."""

from __future__ import annotations

import math
from collections.abc import Callable

from tidings_lab.analysis import gossip, printed_gossip
from tidings_lab.studies._claims import ClaimKind, PaperClaim, exact, incomparable
from tidings_lab.studies._topic_gossip import LOSS
from tidings_lab.studies.study import StudyOutcome, StudySetting, StudyTable

SUCCESS = 1 - LOSS
PAPER = [10, 100, 1000]
C = 5
ROUNDED = (
    "Fan-outs are rounded down, ln 1000 + 5 = 11.9 to 11, since Table 2 comes out so; no text says it, and "
    "it lowers the chance that all receive."
)
PAPER_NAME = "Baehni et al. 2004"


def memory_claim() -> PaperClaim:
    """5.5.2, with the printed formulas of all four algorithms."""
    own = [gossip.memory_damulticast(size, is_root=not position) for position, size in enumerate(PAPER)]
    members, groups = sum(PAPER) / len(PAPER), len(PAPER)
    rivals = {
        "broadcast": [gossip.memory_broadcast(sum(PAPER))] * groups,
        "multicast": [printed_gossip.printed_memory_multicast(PAPER, level) for level in range(groups)],
        "hierarchical": [math.log(members) + math.log(groups) + 2 * C] * groups,
    }
    larger = [
        f"T{g} {own[g]:.1f} > {name} {of[g]:.1f}"
        for name, of in rivals.items()
        for g in range(groups)
        if own[g] > of[g]
    ]
    return exact(
        "DAM-8", "memory of a process against the other algorithms, by the printed formulas",
        where=f"{PAPER_NAME}, 5.5.2",
        paper="the memory complexity of a process is always smaller in our algorithm than in the other "
        "algorithms", ours="; ".join(larger) or "never larger", erratum="E-D7", rule="never larger",
        why="Always leaves no exception. The setting is that of 6.1, in which n is not much larger than the "
        "largest group, as 5.5.2 assumes.", held=not larger, arithmetic=True,
    )  # fmt: skip


def conditions(_: StudySetting) -> StudyOutcome:
    """At the printed bound on c both reliabilities have to be equal, with groups that lose nothing inside."""
    pit = printed_gossip.printed_passing(1000, success=SUCCESS)
    right = gossip.passing(1000, success=SUCCESS)
    cases: tuple[tuple[str, str, Callable[[float], float], Callable[[float, float], float]], ...] = (
        ("gossip broadcast", "0 ≤ c ≤ -ln(-t · ln(pit))", lambda p: gossip.equals_broadcast(3, p)[1],
         lambda c, p: math.exp(-math.exp(-c)) - p**3),
        ("gossip multicast", "0 ≤ c ≤ -ln(-ln(pit))", lambda p: gossip.equals_multicast(p)[1],
         lambda c, p: math.exp(-math.exp(-c)) - p),
        ("hierarchical broadcast", "-ln(t · (1 - ln(pit)) / (N + 1)) ≤ c ≤ -ln(-t · ln(pit) / (N + 1))",
         lambda p: gossip.equals_hierarchical(3, 3, p)[1],
         lambda c, p: gossip.reliability_hierarchical(3, c, c) - p**3),
    )  # fmt: skip
    claims = [
        incomparable("DAM-7", f"as reliable as {name} up to this c: the difference there", reference=0.0,
                     where=f"{PAPER_NAME}, 5.5.3", kind=ClaimKind.FORMULA, arithmetic=True,
                     paper=f"daMulticast achieves the same reliability as ({letter}) when {formula}",
                     ours=round(gap(bound(pit), pit), 12),
                     why="Algebra: the bound is where both formulas are equal. It was derived again and is "
                     "right as printed; nothing is measured.")
        for letter, (name, formula, bound, gap) in zip("abc", cases, strict=True)
    ]  # fmt: skip
    rows = [
        (name, formula, round(bound(pit), 2), round(bound(right), 2)) for name, formula, bound, _ in cases
    ]
    columns = ("as reliable as", "condition", "largest c, printed pit", "largest c, exact pit (E-D1)")
    return StudyOutcome(claims=claims, tables=[StudyTable("Conditions of 5.5.3", columns, rows)])
