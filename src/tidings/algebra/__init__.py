"""The algebra of filters."""

from tidings.algebra.covers import (
    covers,
    decide_covers,
    decide_equivalent,
    decide_overlaps,
    equivalent,
    intersect,
    overlaps,
)

__all__ = [
    "covers",
    "decide_covers",
    "decide_equivalent",
    "decide_overlaps",
    "equivalent",
    "intersect",
    "overlaps",
]
