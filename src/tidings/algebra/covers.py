"""Relations between filters: covers, overlaps, equivalent; and their intersection.

Rules
- `covers` never says yes wrongly, and no only where an event shows it. It is complete for conjunctions of
  simple constraints (=, !=, IN, ranges, prefixes, LIKE, topics, EXISTS, IS NULL, booleans, types), and for
  unions of them within a budget of search steps.
- `overlaps` never says no wrongly, and `decide_overlaps` says yes only where an event shows it (see
  `satisfiability`).
- The `decide_` forms answer None where regular expressions, residuals or the budget hide the truth.
- A residual is covered by an equal one of the same dialect only.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.algebra import region as rg
from tidings.algebra.express import conjunction_of, distinct
from tidings.algebra.gaps import GapSearch, grid_of
from tidings.algebra.region import Region, region_of, regions_of
from tidings.algebra.satisfiability import decide_common
from tidings.errors import FilterError, FilterLimitError
from tidings.model.constraint import Constraint, Equals, Exists, Missing, NotOneOf, OneOf, TopicIs
from tidings.model.filter import Conjunction, Filter
from tidings.model.topic import MAX_LEVELS, is_topic

MAX_CONJUNCTIONS = 4096  # of an intersection
ALL_PAIRS = 256  # conjunctions up to which every pair is compared
UNION_BUDGET = 20_000  # steps of the search for a gap in a union; more decides larger disjunctions


def covers(wide: Filter, narrow: Filter) -> bool:
    """Does `wide` surely accept every event that `narrow` accepts?

    Yes is always right. No means *no, or not known*: what is computed, regular expressions or the budget may
    hide the truth. `decide_covers` tells the two apart.
    """
    larges = regions_of(wide)
    return all(decide_within_union(small, larges) for small in regions_of(narrow))


def decide_covers(wide: Filter, narrow: Filter) -> bool | None:
    """Does `wide` accept every event that `narrow` accepts? True: yes, always. False: no, and an event that a
    publisher can make shows it. None: not known.

    Several filters that others cover can be dropped together by what `redundant` says.
    """
    larges = regions_of(wide)
    unknown, topics_known = False, _knows_topics(wide) and _knows_topics(narrow)
    for small in regions_of(narrow):
        verdict = decide_within_union(small, larges)
        if verdict is False and topics_known and _is_refuted(small, larges):
            return False
        unknown = unknown or not verdict
    return None if unknown else True


def _is_refuted(small: Region, larges: tuple[Region, ...]) -> bool:
    """Is an event that a publisher can make in the small region and outside the large ones?"""
    lacking = small.unpublishable.union(*(large.unpublishable for large in larges))
    return decide_within_union(small.of_events.without(lacking), larges) is False


def _knows_topics(filter: Filter) -> bool:
    """Is what the filter says of the topic said in topics? Other texts between its bounds may be none."""
    return not any(
        constraint.attribute == "topic" and not _is_topical(constraint)
        for conjunction in filter.conjunctions
        for constraint in conjunction.constraints
    )


def _is_topical(constraint: Constraint) -> bool:
    if isinstance(constraint, Equals | OneOf):
        values = (constraint.value,) if isinstance(constraint, Equals) else constraint.values
        return all(type(value) is not str or is_topic(value) for value in values)
    if isinstance(constraint, TopicIs):
        # A text of more levels than a topic may have stands for a topic that is cut after the first level
        # that no pattern reaches; a pattern of as many levels as a topic may have leaves none.
        return constraint.pattern.removesuffix("/#").count("/") + 1 < MAX_LEVELS
    return isinstance(constraint, NotOneOf | Exists | Missing)


def decide_within_union(small: Region, larges: tuple[Region, ...]) -> bool | None:
    """Is the small region inside the union of the large ones?"""
    unknown = False
    for large in larges:
        verdict = rg.decide_within(small, large)
        if verdict:
            return True
        unknown = unknown or verdict is None
    if len(larges) < 2:
        return None if unknown else small.is_empty
    grid = grid_of(small, larges)
    search = GapSearch(grid, UNION_BUDGET)
    gap = search.run()
    if gap is not None and gap.certain and small.is_empty is False:
        return False
    return True if gap is None and not search.is_exhausted else None


def overlaps(one: Filter, other: Filter) -> bool:
    """Can there be an event that both accept? Yes means *yes, or not known*; no is always right.
    `decide_overlaps` tells the two apart."""
    return decide_overlaps(one, other) is not False


def decide_overlaps(one: Filter, other: Filter) -> bool | None:
    """Is there an event that both accept? True: an event that a publisher can make. False: none is possible.
    None: not known. Of one filter twice it is what `can_match` says."""
    return decide_common(one, other)


def equivalent(one: Filter, other: Filter) -> bool:
    """Do both surely accept the same events? No means *no, or not known*."""
    return covers(one, other) and covers(other, one)


def decide_equivalent(one: Filter, other: Filter) -> bool | None:
    """Do both accept the same events? None: not known."""
    there, back = decide_covers(one, other), decide_covers(other, one)
    if there is False or back is False:
        return False
    return True if there and back else None


def intersect(one: Filter, other: Filter) -> Filter:
    """The filter that accepts what both accept, exactly."""
    if one.dialect != other.dialect:
        raise FilterError(
            f"a filter of dialect {one.dialect!r} and one of dialect {other.dialect!r} cannot be joined",
            hint="write both in one dialect, or test the event against each",
        )
    if len(one.conjunctions) * len(other.conjunctions) > MAX_CONJUNCTIONS:
        raise FilterLimitError(
            f"joining {len(one.conjunctions)} conjunctions with {len(other.conjunctions)} passes the limit "
            f"of {MAX_CONJUNCTIONS}",
            hint="split the filter into several subscriptions",
        )
    joined = [
        both
        for first in one.conjunctions
        for second in other.conjunctions
        if (both := conjunction_of(first, second, dialect=one.dialect)) is not None
    ]
    return Filter(f"({one.text}) AND ({other.text})", without_covered(joined, one.dialect), one.dialect)


def without_covered(conjunctions: Sequence[Conjunction], dialect: str) -> tuple[Conjunction, ...]:
    """The conjunctions that no other one covers; of equals, the first. Of very many, all but doubles."""
    if len(conjunctions) > ALL_PAIRS:
        return distinct(tuple(conjunctions))
    regions = [region_of(conjunction, dialect) for conjunction in conjunctions]
    kept: list[int] = []
    for position, region in enumerate(regions):
        if any(rg.decide_within(region, regions[other]) for other in kept):
            continue
        kept = [other for other in kept if not rg.decide_within(regions[other], region)]
        kept.append(position)
    return tuple(conjunctions[position] for position in kept)
