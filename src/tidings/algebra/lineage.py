"""Sets of type lineages: names that must be in the lineage, and names that must not.

An event without a type has no lineage (absent). Names are endless, so no requirement can be met
by exhaustion: a set is empty only when one name is both required and forbidden.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.model.constraint import Constraint, Exists, IsA, Missing


class Lineage(NamedTuple):
    """A set of lineages, absent included."""

    absent: bool = True
    present: bool = True
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not self.absent and not self._has_present

    @property
    def _has_present(self) -> bool:
        return self.present and not self.required & self.forbidden

    def within(self, large: Lineage) -> bool:
        """Is every lineage of this set in `large`?"""
        if self.absent and not large.absent:
            return False
        if not self._has_present:
            return True
        return large.present and large.required <= self.required and large.forbidden <= self.forbidden

    def intersection(self, other: Lineage) -> Lineage:
        return Lineage(
            self.absent and other.absent,
            self.present and other.present,
            self.required | other.required,
            self.forbidden | other.forbidden,
        )

    def hull(self, other: Lineage) -> Lineage:
        """The smallest set of this form that holds both."""
        return Lineage(
            self.absent or other.absent,
            self.present or other.present,
            self.required & other.required,
            self.forbidden & other.forbidden,
        )


ANY_LINEAGE = Lineage()


def lineage_of(constraint: Constraint) -> Lineage:
    """The lineages that a constraint on `type.lineage` accepts."""
    if isinstance(constraint, IsA):
        names = frozenset({constraint.name})
        return Lineage(absent=False, forbidden=names) if constraint.negated else Lineage(False, True, names)
    if isinstance(constraint, Exists):
        return Lineage(absent=False)
    if isinstance(constraint, Missing):
        return Lineage(present=False)
    return Lineage(absent=False, present=False)
