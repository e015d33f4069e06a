"""A conjunction as a region of the space of events: one domain for each constrained attribute.

Rules
- Attributes are independent of one another, with one exception: an event's `type` is the first
  name of its lineage. `tight` works that out, so that `type = 'X'` lies within `type IS A 'X'`.
- A residual is an opaque condition: equal only to itself in the same dialect.
  Its key tells 1 from 1.0 and from TRUE, which Python's equality does not.
- Names that belong to the event (`id`, `source`, ...) are treated as any attribute: they are not
  assumed to be present.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.domain import ABSENT, ANYTHING, Domain
from tidings.algebra.lineage import ANY_LINEAGE, Lineage, lineage_of
from tidings.model.event import LINEAGE, RESERVED
from tidings.model.expression import Expression
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import Kind

TYPE = "type"


@dataclass(frozen=True, eq=False)
class Region:
    """The events of one conjunction, as far as constraints say; residuals narrow it further."""

    domains: Mapping[str, Domain]
    lineage: Lineage = ANY_LINEAGE
    residuals: frozenset[bytes] = frozenset()

    def domain(self, attribute: str) -> Domain:
        return self.domains.get(attribute, ANYTHING)

    @cached_property
    def tight(self) -> Region:
        """The same events, with what the type says of the lineage and the other way round."""
        types = self.domain(TYPE)
        if self.lineage == ANY_LINEAGE and not _is_name(types):
            return self
        if self.lineage != ANY_LINEAGE:
            names = iv.complement(iv.points(sorted(self.lineage.forbidden)))
            wanted = Domain(self.lineage.absent, dm.of_strings(names if self.lineage.present else ()).kinds)
            types = dm.intersection(types, wanted)
        lineage = self.lineage.intersection(Lineage(types.absent, bool(types.strings)))
        named = dm.values_of(types._replace(absent=False))
        if named is not None and len(named) == 1:
            lineage = lineage.intersection(Lineage(required=frozenset({str(named[0])})))
        return Region({**self.domains, TYPE: types}, lineage, self.residuals)

    @cached_property
    def is_empty(self) -> bool | None:
        """True: no event is inside. False: some event is. None: patterns or residuals hide it."""
        region = self.tight
        if region.lineage.is_empty:
            return True
        unknown = bool(region.residuals)
        for domain in region.domains.values():
            empty = dm.decide_empty(domain)
            if empty:
                return True
            unknown = unknown or empty is None
        return None if unknown else False

    @cached_property
    def of_events(self) -> Region:
        """The same region, of events that a publisher can make: their own names have one kind each.

        `id` and `source` are texts that are there and not empty; `topic` and `type` are texts, `time` is a
        moment, or absent. Rows of a table may lack them, so this narrows no answer: it only keeps a
        definite no from resting on an event that cannot be.
        """
        own = {name: dm.intersection(self.domain(name), domain) for name, domain in _OWN.items()}
        return Region({**self.domains, **own}, self.lineage, self.residuals)

    @cached_property
    def of_rows(self) -> Region:
        """The same region, of events and of rows of tables: an event's own names have one kind each, or are
        absent. No other value can be there, so this may narrow a definite no."""
        if not self.residuals and _OWN.keys().isdisjoint(self.domains):
            return self
        own = {name: dm.intersection(self.domain(name), domain) for name, domain in _OWN_KINDS.items()}
        return Region({**self.domains, **own}, self.lineage, self.residuals)

    @cached_property
    def unpublishable(self) -> frozenset[str]:
        """The constrained names that no event has: those below a name of the event itself, such
        as `time.x`."""
        return frozenset(name for name in self.domains if "." in name and name.partition(".")[0] in RESERVED)

    def without(self, names: Collection[str]) -> Region:
        """The same region, of events that lack these attributes."""
        absent = {name: dm.intersection(self.domain(name), ABSENT) for name in names}
        return Region({**self.domains, **absent}, self.lineage, self.residuals) if names else self


def _own() -> dict[str, Domain]:
    text = Domain(True, dm.STRINGS.kinds)
    named = dm.of_strings(iv.complement((iv.point(""),)))
    moment = Domain(True, dm.of_kind(Kind.TIME, iv.FULL).kinds)
    return {"id": named, "source": named, "topic": text, TYPE: text, "time": moment}


_OWN = _own()
_TEXT = Domain(True, dm.STRINGS.kinds)
_OWN_KINDS = {**dict.fromkeys(("id", "source", "topic", TYPE), _TEXT), "time": _OWN["time"]}


def _is_name(types: Domain) -> bool:
    """Can only a type's name, or no type at all, be in the domain?"""
    return types is not ANYTHING and not any(types.kinds[kind] for kind in Kind if kind is not Kind.STRING)


def region_of(conjunction: Conjunction, dialect: str) -> Region:
    """The region of a conjunction."""
    domains: dict[str, Domain] = {}
    lineage = ANY_LINEAGE
    for constraint in conjunction.constraints:
        name = constraint.attribute
        if name == LINEAGE:
            lineage = lineage.intersection(lineage_of(constraint))
        elif name in domains:
            domains[name] = dm.intersection(domains[name], dm.domain_of(constraint))
        else:
            domains[name] = dm.domain_of(constraint)
    if not domains.get("type", ANYTHING).absent:  # a type always comes with its lineage
        lineage = lineage.intersection(Lineage(absent=False))
    residuals = frozenset(residual_key(residual, dialect) for residual in conjunction.residuals)
    return Region(domains, lineage, residuals)


def residual_key(residual: Expression, dialect: str) -> bytes:
    """Equal keys: the same condition, meant in the same dialect."""
    return dialect.encode() + b"\0" + msgspec.msgpack.encode(residual)


def regions_of(filter: Filter) -> tuple[Region, ...]:
    """The regions of a filter, one for each conjunction; made once for each filter."""
    kept: tuple[Region, ...] | None = filter.__dict__.get("_regions")
    if kept is None:
        kept = tuple(region_of(conjunction, filter.dialect) for conjunction in filter.conjunctions)
        filter.__dict__["_regions"] = kept
    return kept


def intersection(one: Region, other: Region) -> Region:
    domains = dict(one.domains)
    for name, domain in other.domains.items():
        domains[name] = dm.intersection(domains[name], domain) if name in domains else domain
    return Region(domains, one.lineage.intersection(other.lineage), one.residuals | other.residuals)


def decide_within(small: Region, large: Region) -> bool | None:
    """Does `large` hold every event of `small`?"""
    if small.is_empty:
        return True
    inner = small.tight
    unknown = not large.residuals <= inner.residuals
    if not inner.lineage.within(large.lineage):
        return _refuted(small)
    for name, domain in large.domains.items():
        verdict = dm.decide_within(inner.domain(name), domain)
        if verdict is False:
            return _refuted(small)
        unknown = unknown or verdict is None
    return None if unknown else True


def _refuted(small: Region) -> bool | None:
    """One attribute has a value outside: that is a counterexample when the rest can be met."""
    return False if small.is_empty is False else None
