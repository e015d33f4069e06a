"""Claims of study `topic-gossip` on what is promised: validity, integrity, agreement (Baehni et al. 2004,
4.1.1), and reliability beside that of the other algorithms (5.5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidings_lab.analysis import gossip, printed_gossip
from tidings_lab.studies._claims import BELOW_ZERO, PaperClaim, everywhere, exact, measured
from tidings_lab.studies._topic_formulas import PAPER_NAME, ROUNDED, SUCCESS, C

NO_PARASITES = "processes have no entry of a group that is not theirs or its supergroup"
SPECIFICATION = f"{PAPER_NAME}, 4.1.1"

Seeds = list[dict[str, Any]]  # the figures of each seed


def property_claims(stillborn: Mapping[float, Seeds], runs: int) -> list[PaperClaim]:
    """The three properties: validity at every share of crashes, the others where nothing crashes."""
    calm = stillborn[0.0]
    shares = {f"{q:.0%}": sum(each["validity"] for each in found) for q, found in stillborn.items()}
    tried = runs * len(calm)
    return [
        exact("DAM-3", "validity: some other correct process delivers, by share of crashes",
              where=SPECIFICATION,
              paper="if a correct process p_l … gossips an event e_{T_i}, then some correct process p_k … "
              "eventually delivers e_{T_i}",
              ours=", ".join(f"{q}: {runs * share:.0f} of {tried}" for q, share in shares.items()),
              rule="in every run at every share", seeds=len(calm), erratum="E-D14",
              why="Unlike the other two it is printed without a probability, and 6.1 has processes that "
              "crash. Without crashes no run could break it: all of eleven messages would have to be lost.",
              held=all(round(runs * share) == tried for share in shares.values())),
        exact("DAM-3", "integrity: at most once, and only topics that were subscribed to",
              where=SPECIFICATION,
              paper="there is a high probability such that every correct process p_k … delivers e_{T_i}, at "
              "most once, and only if e_{T_i} was previously multicast by p_l", built=NO_PARASITES,
              ours=f"{max(float(each['parasites']) for each in calm):.0f} parasites",
              rule="no parasite in any run", seeds=len(calm), held=not any(e["parasites"] for e in calm),
              why="A process delivers its first copy alone, so that parasites are the only way to break it."),
        measured("DAM-3", "agreement: when one delivers, all do", where=SPECIFICATION,
                 paper="If a correct process p_l … delivers e_{T_i}, then there is a high probability such "
                 "that every correct process p_k … eventually delivers e_{T_i}",
                 values=[float(each["all"]) for each in calm], within=(0.95, 1.0), form=".3f",
                 erratum="E-D1",
                 why=f"High: 0.95 at least, which the paper's own formula (0.98) gives. {ROUNDED}"),
    ]  # fmt: skip


COMPARED = {  # approaches of 5.5, with what they are called beside daMulticast
    "gossip broadcast": "gossip broadcast, and publisher groups, which are the same here",
    "subscriber groups": "subscriber groups", "hierarchical": "hierarchical",
}  # fmt: skip


def smaller_claim(found: Mapping[str, Seeds]) -> PaperClaim:
    """5.5.3: all receive less often than with the other algorithms."""
    own = found["daMulticast"]
    pit = printed_gossip.printed_passing(1000, success=SUCCESS)
    printed = printed_gossip.printed_reliability(3, C, pit)
    levels = {
        words: [mine["all"] - theirs["all"] for mine, theirs in zip(own, found[name], strict=True)]
        for name, words in COMPARED.items()
    }
    return everywhere(
        "DAM-8", "all receive: daMulticast less the other algorithms, by algorithm",
        where=f"{PAPER_NAME}, 5.5.3",
        paper="In comparison with other algorithms, the probability that all processes receive an event is "
        "smaller with daMulticast, in the general case, especially for the processes interested in the root "
        "topic", levels=levels, within=(-1.0, BELOW_ZERO), form="+.3f",
        why="Smaller: below 0 against each. Both forms of gossip multicast are tried, since 5.5.2 and 5.5.3 "
        "mix them (E-D8). The setting is that of 6.1, whose event is wanted by all 1,110 processes: one "
        "publisher group of it is a broadcast, and both are one level. "
        f"By the printed formulas themselves hierarchical has {gossip.reliability_hierarchical(3, C, C):.3f} "
        f"and daMulticast {printed:.3f}, which is not smaller. {ROUNDED}",
    )  # fmt: skip
