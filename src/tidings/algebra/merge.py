"""Merging filters: one filter for several, exactly where that can be said, else a superset.

Rules
- A merge is perfect when one side covers the other, or when two conjunctions differ in one attribute
  only and the union of its two domains is expressible: then it accepts what either accepts.
- Any other merge is the hull: for each attribute that both constrain, the smallest expressible set
  that holds both domains; attributes of one side only, and residuals, are let go. It accepts more.
- How much more is stated as a ratio: volume of the merged filter over volume of the union,
  inside a space that the caller gives. 1.0 is exact. Infinity: not bounded, since no space was
  given, or what was let go lies outside it, or the union has no volume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.covers import covers, without_covered
from tidings.algebra.domain import Domain
from tidings.algebra.express import express
from tidings.algebra.region import Region, region_of, regions_of
from tidings.algebra.wording import worded
from tidings.errors import FilterError
from tidings.model.constraint import Constraint, Exists, IsA, Missing
from tidings.model.event import LINEAGE
from tidings.model.filter import TIDINGS, Conjunction, Filter

if TYPE_CHECKING:
    from tidings.algebra.zones import Space


@dataclass(frozen=True)
class Merge:
    """A merged filter, whether it accepts just the union, and by how much it accepts more."""

    filter: Filter
    exact: bool
    error: float = 1.0  # volume of the merged filter over volume of the union; infinity: not bounded
    sources: tuple[int, ...] = ()  # places of the merged filters in what `merge_all` was given


def merge(one: Filter, other: Filter, *, space: Space | None = None) -> Merge:
    """One filter that accepts all that either accepts, with no more conjunctions than the larger one."""
    _check_dialects((one, other))
    most = max(len(one.conjunctions), len(other.conjunctions), 1)
    pool = _joined_perfectly(without_covered(one.conjunctions + other.conjunctions, one.dialect), one.dialect)
    exact = len(pool) <= most
    while len(pool) > most:
        _merge_cheapest(pool, one.dialect, space)
    merged = _as_filter(pool, (one, other), exact=exact)
    return Merge(merged, exact, 1.0 if exact else merge_error(merged, (one, other), space))


def perfect_merge(one: Filter, other: Filter) -> Filter | None:
    """The merge when it is perfect, else None."""
    merged = merge(one, other)
    return merged.filter if merged.exact else None


def merge_all(filters: Sequence[Filter], target: int, *, space: Space | None = None) -> list[Merge]:
    """Greedily to at most `target` filters: covered ones first, then perfect, then the least wrong.

    Of several equal steps the earliest is taken, so that the result is the same in every run.
    """
    _check_dialects(filters)
    if target < 1:
        raise FilterError(f"merging into {target} filters", hint="give 1 or more")
    pool = _covered_joined([Merge(found, True, 1.0, (position,)) for position, found in enumerate(filters)])
    tried: dict[tuple[tuple[int, ...], tuple[int, ...]], Merge] = {}
    while len(pool) > 1:
        best, i, j = _best_pair(pool, filters, space, tried)
        if len(pool) <= target and not best.exact:
            break
        pool = _covered_joined([best if k == i else one for k, one in enumerate(pool) if k != j])
    return pool


def _best_pair(
    pool: list[Merge],
    filters: Sequence[Filter],
    space: Space | None,
    tried: dict[tuple[tuple[int, ...], tuple[int, ...]], Merge],
) -> tuple[Merge, int, int]:
    """The best pair: an exact merge, else the least error, else the most constraints; each pair is tried
    once."""
    found: list[tuple[bool, float, int, int, int]] = []
    for j in range(1, len(pool)):
        for i in range(j):
            key = (pool[i].sources, pool[j].sources)
            if key not in tried:
                tried[key] = _merge_pair(pool[i], pool[j], filters, space)
            made = tried[key]
            stated = sum(len(conjunction.constraints) for conjunction in made.filter.conjunctions)
            found.append((not made.exact, made.error, -stated, i, j))
    _, _, _, i, j = min(found)
    return tried[pool[i].sources, pool[j].sources], i, j


def _merge_pair(one: Merge, other: Merge, filters: Sequence[Filter], space: Space | None) -> Merge:
    merged = merge(one.filter, other.filter, space=space)
    sources = tuple(sorted(one.sources + other.sources))
    exact = merged.exact and one.exact and other.exact
    error = 1.0 if exact else merge_error(merged.filter, [filters[position] for position in sources], space)
    return Merge(merged.filter, exact, error, sources)


def _covered_joined(pool: list[Merge]) -> list[Merge]:
    """Filters that another one covers are joined to it."""
    kept: list[Merge] = []
    for one in pool:
        position = next((i for i, other in enumerate(kept) if covers(other.filter, one.filter)), None)
        if position is not None:
            kept[position] = replace(
                kept[position], sources=tuple(sorted(kept[position].sources + one.sources))
            )
            continue
        swallowed = [other for other in kept if covers(one.filter, other.filter)]
        sources = sorted(sum((other.sources for other in swallowed), one.sources))
        kept = [other for other in kept if other not in swallowed]
        kept.append(replace(one, sources=tuple(sources)))
    return kept


def _check_dialects(filters: Sequence[Filter]) -> None:
    dialects = sorted({found.dialect for found in filters})
    if len(dialects) > 1:
        raise FilterError(
            f"filters of the dialects {' and '.join(dialects)} cannot be merged",
            hint="write all in one dialect",
        )


def _as_filter(pool: list[Conjunction], parts: Sequence[Filter], *, exact: bool) -> Filter:
    for part in parts:
        same = zip(pool, part.conjunctions, strict=False)
        if len(pool) == len(part.conjunctions) and all(mine is theirs for mine, theirs in same):
            return part
    return Filter(_text(pool, parts, exact=exact), tuple(pool), parts[0].dialect)


def _text(pool: list[Conjunction], parts: Sequence[Filter], *, exact: bool) -> str:
    """Worded afresh; but residuals only the parts can say, and they are part of the union anyway."""
    plain = [conjunction for conjunction in pool if not conjunction.residuals]
    if len(plain) == len(pool) and parts[0].dialect == TIDINGS:
        return worded(pool)
    texts = [part.text for part in parts] if exact else [*(part.text for part in parts), worded(plain)]
    return " OR ".join(f"({text})" for text in texts)


def _joined_perfectly(pool: Sequence[Conjunction], dialect: str) -> list[Conjunction]:
    """Join pairs that differ in one attribute until there is none."""
    done: list[tuple[Conjunction, Region]] = []
    waiting = [(conjunction, region_of(conjunction, dialect)) for conjunction in reversed(pool)]
    while waiting:
        one, region = waiting.pop()
        for position, (other, near) in enumerate(done):
            joined = _join(other, near, region)
            if joined is not None:
                del done[position]
                waiting.append((joined, region_of(joined, dialect)))
                break
        else:
            done.append((one, region))
    return [conjunction for conjunction, _ in done]


def join(one: Conjunction, other: Conjunction, dialect: str) -> Conjunction | None:
    """The two as one conjunction, if they differ in one attribute and its union can be expressed."""
    return _join(one, region_of(one, dialect), region_of(other, dialect))


def _join(one: Conjunction, first: Region, second: Region) -> Conjunction | None:
    if first.residuals != second.residuals or first.lineage != second.lineage:
        return None
    names = sorted({*first.domains, *second.domains})
    differing = [name for name in names if first.domain(name) != second.domain(name)]
    if len(differing) != 1:
        return None
    name = differing[0]
    union = _union(first.domain(name), second.domain(name))
    found = None if union is None else express(name, union)
    if found is None:
        return None
    others = [constraint for constraint in one.constraints if constraint.attribute != name]
    return Conjunction(tuple(sorted((*others, *found), key=lambda c: c.attribute)), one.residuals)


def _union(one: Domain, other: Domain) -> Domain | None:
    """Both sets as one, when patterns do not stand in the way."""
    if one.patterns != other.patterns:
        for small, large in ((one, other), (other, one)):
            if dm.decide_within(small, large):
                return large
        return None
    kinds = tuple(iv.union(a, b) for a, b in zip(one.kinds, other.kinds, strict=True))
    return Domain(one.absent or other.absent, kinds, one.patterns)  # type: ignore[arg-type]


def _merge_cheapest(pool: list[Conjunction], dialect: str, space: Space | None) -> None:
    """Replace by its hull the pair with the smallest hull error."""
    best: tuple[float, int, int, Conjunction] | None = None
    for i in range(len(pool)):
        for j in range(i + 1, len(pool)):
            hull = hull_of(pool[i], pool[j], dialect)
            cost = _hull_cost(hull, (pool[i], pool[j]), dialect, space)
            if best is None or cost < best[0]:
                best = (cost, i, j, hull)
    assert best is not None
    _, i, j, hull = best
    pool[i] = hull
    del pool[j]
    pool[:] = without_covered(pool, dialect)


def _hull_cost(hull: Conjunction, parts: tuple[Conjunction, ...], dialect: str, space: Space | None) -> float:
    """Ratio of volumes where that is known; else a large number for each constraint that is let go."""
    ratio = merge_error(Filter("", (hull,), dialect), [Filter("", (part,), dialect) for part in parts], space)
    if math.isfinite(ratio):
        return ratio
    dropped = {c.attribute for part in parts for c in part.constraints}.difference(
        c.attribute for c in hull.constraints
    )
    return 1e300 * (1 + len(dropped) + sum(len(part.residuals) for part in parts))


def hull_of(one: Conjunction, other: Conjunction, dialect: str) -> Conjunction:
    """The smallest conjunction of constraints that holds both, attribute by attribute."""
    first, second = region_of(one, dialect), region_of(other, dialect)
    constraints: list[Constraint] = list(_lineage_hull(first, second))
    for name in sorted({*first.domains}.intersection(second.domains)):
        constraints += _domain_hull(name, first.domains[name], second.domains[name])
    return Conjunction(tuple(sorted(constraints, key=lambda c: c.attribute)))


def _lineage_hull(first: Region, second: Region) -> list[Constraint]:
    if first.lineage == second.lineage:
        lineage = first.lineage
    else:
        lineage = first.tight.lineage.hull(second.tight.lineage)
    if lineage.absent:
        return [] if lineage.present else [Missing(LINEAGE)]
    names = [IsA.of(name) for name in sorted(lineage.required)]
    names += [IsA.of(name, True) for name in sorted(lineage.forbidden)]
    return [*names] or [Exists(LINEAGE)]


def _domain_hull(name: str, one: Domain, other: Domain) -> tuple[Constraint, ...]:
    union = _union(one, other) or _union(one._replace(patterns=()), other._replace(patterns=()))
    assert union is not None
    for candidate in (union, _filled(union), union._replace(patterns=()), dm.PRESENT):
        found = express(name, candidate)
        if found is not None and (candidate.absent or not union.absent):
            return found
    return ()


def _filled(domain: Domain) -> Domain:
    """Each kind as the one interval around all its values."""
    kinds = tuple(((found[0][0], found[-1][1]),) if found else () for found in domain.kinds)
    return Domain(domain.absent, kinds, domain.patterns)  # type: ignore[arg-type]


def merge_error(merged: Filter, parts: Sequence[Filter], space: Space | None) -> float:
    """Volume of the merged filter over volume of the union of its parts, inside the space."""
    if space is None:
        return math.inf
    from tidings.algebra.zones import Zone, zone_of  # NumPy, imported only for measuring

    inside = set(space.names)
    outside = {_outside(region, inside) for found in (merged, *parts) for region in regions_of(found)}
    if len(outside) > 1 or any(
        region.residuals for found in (merged, *parts) for region in regions_of(found)
    ):
        return math.inf
    union = Zone.of(space)
    for part in parts:
        union = union.union(zone_of(part, space, outside="ignore"))
    volume = zone_of(merged, space, outside="ignore").volume
    return max(1.0, volume / union.volume) if union.volume > 0 else math.inf


def _outside(region: Region, inside: set[str]) -> tuple[object, ...]:
    """The constraints of a conjunction on attributes outside the space."""
    rest = tuple(sorted((name, domain) for name, domain in region.domains.items() if name not in inside))
    return (rest, region.lineage)
