"""The algebra of filters: what they have in common, what they leave out, how large they are.

`covers`, `overlaps`, `intersect`, `equivalent` compare filters as sets of events; `can_match` says whether
a filter matches any event, `redundant` which filters of a list others cover; `merge` makes one
of several; `covered_by_union` asks whether several together cover one; cells partition the space
of events; zones measure it (these load NumPy, when first used).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidings.algebra.cells import Axis, Cells, GridCells, HashCells, stable_hash
from tidings.algebra.covers import (
    covers,
    decide_covers,
    decide_equivalent,
    decide_overlaps,
    equivalent,
    intersect,
    overlaps,
)
from tidings.algebra.merge import Merge, merge, merge_all, perfect_merge
from tidings.algebra.redundancy import redundant
from tidings.algebra.satisfiability import can_match
from tidings.algebra.subsumption import Verdict, covered_by_union
from tidings.errors import needing

if TYPE_CHECKING:
    from tidings.algebra.zones import (
        Association,
        Estimate,
        Space,
        Zone,
        associativity,
        link_weight,
        mean_associativity,
        sampled_associativity,
        zone_of,
    )

_ZONES = frozenset(
    {
        "Association",
        "Estimate",
        "Space",
        "Zone",
        "associativity",
        "link_weight",
        "mean_associativity",
        "sampled_associativity",
        "zone_of",
    }
)


def __getattr__(name: str) -> Any:
    if name in _ZONES:
        with needing(f"{__name__}.{name}"):
            return getattr(import_module("tidings.algebra.zones"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Association",
    "Axis",
    "Cells",
    "Estimate",
    "GridCells",
    "HashCells",
    "Merge",
    "Space",
    "Verdict",
    "Zone",
    "associativity",
    "can_match",
    "covered_by_union",
    "covers",
    "decide_covers",
    "decide_equivalent",
    "decide_overlaps",
    "equivalent",
    "intersect",
    "link_weight",
    "mean_associativity",
    "merge",
    "merge_all",
    "overlaps",
    "perfect_merge",
    "redundant",
    "sampled_associativity",
    "stable_hash",
    "zone_of",
]
