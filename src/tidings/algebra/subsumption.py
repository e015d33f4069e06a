"""Is a filter covered by the union of others, though by none of them alone?

Rules
- First an exact search over the blocks of the grid that the others cut out of it (see `gaps`): in
  few dimensions, or with few others, that ends soon. The budget of steps says when to give up.
- Then, when a generator of random numbers is given, blocks are drawn at random, as Ouksel et al.
  (2006) draw points. A block outside all others is a witness: the no is exact. A filter that is
  not covered has at least one such block among all `blocks`, so that a yes after k draws is wrong
  with probability of at most (1 - 1/blocks)^k. That bound is stated, and a yes is said
  only when it is within the error that the caller accepts.
- Blocks, not volume: the share of a gap then depends on how many bounds there are and not on
  how narrow the gap is. All kinds of values take part, absent included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tidings.algebra import region as rg
from tidings.algebra.gaps import Gap, GapGrid, GapSearch, grid_of, random_gap
from tidings.algebra.region import Region, regions_of
from tidings.model.filter import Filter
from tidings.model.value import Value

EXACT_BUDGET = 200_000  # steps of the exact search, of about 0.2 µs to 1 µs each
MAX_TRIALS = 100_000  # random blocks, of about 1 µs for each attribute


@dataclass(frozen=True)
class Verdict:
    """The answer, and how far it can be trusted.

    `covered` without `exact` is wrong with probability `error_bound` at most. Not covered without
    `exact` means: it could not be shown.
    """

    covered: bool
    exact: bool
    error_bound: float = 0.0
    witness: Mapping[str, Value | None] | None = field(default=None)  # values of an event outside all


def covered_by_union(
    narrow: Filter,
    others: Sequence[Filter],
    *,
    rng: Random | None = None,
    error: float = 1e-6,
    budget: int = EXACT_BUDGET,
    max_trials: int = MAX_TRIALS,
) -> Verdict:
    """Is every event of `narrow` accepted by at least one of the others?

    `covered` without `exact` may be wrong, as `Verdict` says; not covered without `exact` means not known.
    Each answer is about the others as they are: of two filters each may be covered by the union of the rest,
    and without both something is missing. So drop one, and ask again about the filters that are left.
    """
    larges = [region for other in others for region in regions_of(other)]
    smalls = regions_of(narrow)
    share = error / max(1, len(smalls))  # the wrong yeses of all conjunctions add up
    exact, bound = True, 0.0
    for small in smalls:
        verdict = _region_covered(small, larges, rng, share, budget, max_trials)
        if not verdict.covered:
            return verdict
        exact = exact and verdict.exact
        bound += verdict.error_bound
    return Verdict(True, exact, min(1.0, bound))


def _region_covered(
    small: Region, larges: Sequence[Region], rng: Random | None, error: float, budget: int, max_trials: int
) -> Verdict:
    if small.is_empty or any(rg.decide_within(small, large) for large in larges):
        return Verdict(True, exact=True)
    grid = grid_of(small, larges)
    search = GapSearch(grid, budget)
    gap = search.run()
    if gap is not None:
        return _not_covered(small, grid, gap)
    if not search.is_exhausted:
        return Verdict(True, exact=True)
    return Verdict(False, exact=False) if rng is None else _sampled(small, grid, rng, error, max_trials)


def _not_covered(small: Region, grid: GapGrid, gap: Gap) -> Verdict:
    """A certain gap is an exact no. Where plain values can say it, they are tried first: without values that
    no other filter accepts, the no is not exact."""
    if not gap.certain or small.is_empty is not False:
        return Verdict(False, exact=False)
    domains = grid.domains_of(gap)
    if domains is None:
        return Verdict(False, exact=True)
    witness = grid.witness(domains)
    return Verdict(False, exact=witness is not None, witness=witness)


def _sampled(small: Region, grid: GapGrid, rng: Random, error: float, max_trials: int) -> Verdict:
    trials = min(max_trials, trials_for(grid.blocks, error))
    gap = random_gap(grid, trials, rng)
    if gap is not None:
        return _not_covered(small, grid, gap)
    bound = wrong_yes(grid.blocks, trials)
    return Verdict(True, False, bound) if bound <= error else Verdict(False, exact=False)


def wrong_yes(blocks: int, trials: int) -> float:
    """The most probable that a single gap among the blocks stays unseen."""
    return 0.0 if blocks <= 1 else math.exp(trials * math.log1p(-1 / blocks))


def trials_for(blocks: int, error: float) -> int:
    """Draws after which a gap stays unseen with probability `error` at most."""
    return 1 if blocks <= 1 else math.ceil(math.log(error) / math.log1p(-1 / blocks))
