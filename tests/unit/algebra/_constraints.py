"""The algebra of single constraints: each is the set of values that it accepts.

Constraints on different attributes are compared as conditions on events: they are independent,
save that `type = 'X'` implies `type IS A 'X'`.
"""

from __future__ import annotations

from tidings.algebra import region as rg
from tidings.algebra.express import conjunction_of
from tidings.algebra.region import Region, region_of
from tidings.model.constraint import Constraint
from tidings.model.filter import TIDINGS, Conjunction


def implies(narrow: Constraint, wide: Constraint) -> bool:
    """Is whatever `narrow` accepts surely accepted by `wide`?"""
    return decide_implies(narrow, wide) is True


def decide_implies(narrow: Constraint, wide: Constraint) -> bool | None:
    """Does `wide` accept whatever `narrow` accepts? None: not known (regular expressions)."""
    return rg.decide_within(_region(narrow), _region(wide))


def disjoint(one: Constraint, other: Constraint) -> bool:
    """Can surely no event satisfy both?"""
    return decide_disjoint(one, other) is True


def decide_disjoint(one: Constraint, other: Constraint) -> bool | None:
    """Can no event satisfy both? None: not known (regular expressions)."""
    return rg.intersection(_region(one), _region(other)).is_empty


def intersect(one: Constraint, other: Constraint) -> tuple[Constraint, ...] | None:
    """Both as few constraints as possible, all of which must hold; None: a contradiction."""
    both = conjunction_of(Conjunction((one,)), Conjunction((other,)), dialect=TIDINGS)
    return None if both is None else both.constraints


def combine(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...] | None:
    """A whole conjunction, simplified attribute by attribute; None: a contradiction."""
    result: Conjunction | None = Conjunction()
    for constraint in constraints:
        if result is not None:
            result = conjunction_of(result, Conjunction((constraint,)), dialect=TIDINGS)
    return None if result is None else result.constraints


def _region(constraint: Constraint) -> Region:
    return region_of(Conjunction((constraint,)), TIDINGS)
