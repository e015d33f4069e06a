"""What a columnar matcher says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidings.matching.columnar import layout as at

if TYPE_CHECKING:
    from tidings.matching.columnar.matcher import ColumnarMatcher


def describe(matcher: ColumnarMatcher) -> dict[str, Any]:
    table = matcher.table
    rows = len(table.rows)
    counters = matcher.counters
    met = counters / max(1, int(counters[at.EVENTS]))
    delta_rows = sum(len(delta.rows) for delta in matcher.deltas)
    return {
        "engine": "columnar" if matcher.compiled else "columnar, without Numba",
        "filters": len(matcher),
        "bytes": table.nbytes + sum(delta.nbytes for delta in matcher.deltas),
        "table": {
            "rows": rows,
            "removed": table.removed,
            "bytes": table.nbytes,
            "entries": int(table.cell_at[-1]),
            "cells": 0 if table.grid is None else table.grid.cells,
            "cells_used": int((np.diff(table.cell_at) > 0).sum()),
            "pairs": 0 if table.grid is None else int((table.grid.pairs >= 0).sum()),
            "asked_of_python": int((table.rows.checks >= 0).sum()),
            "events_sampled": table.sampled,
            "texts": sum(len(held.texts) for held in table.strings.values()),
        },
        "delta": {
            "rows": delta_rows,
            "removed": sum(delta.removed for delta in matcher.deltas),
            "looked_at_by_every_event": sum(delta.linear for delta in matcher.deltas),
            "bytes": sum(delta.nbytes for delta in matcher.deltas),
        },
        "derived_attributes": matcher.derived_count,
        "an_event_meets": {
            "candidates": round(float(met[at.CANDIDATES]), 1),
            "survivors": round(float(met[at.SURVIVORS]), 1),
            "exact_checks": round(float(met[at.EXACT_CHECKS]), 1),
            "matches": round(float(met[at.MATCHES]), 1),
        },
        "freezing": matcher.freezing,
        "rebuild": _gain(matcher, float(met[at.CANDIDATES]), delta_rows),
    }


def _gain(matcher: ColumnarMatcher, candidates: float, delta_rows: int) -> dict[str, Any]:
    """What a freeze would change: the delta and the dead leave, and cells follow the events."""
    table = matcher.table
    drifted = candidates / table.expected if table.expected and candidates else 1.0
    return {
        "due": matcher.due,
        "rows_out_of_the_delta": delta_rows,
        "rows_dropped": table.removed,
        "candidates_now": round(candidates, 1),
        "candidates_when_built": round(table.expected, 1),
        "gains": drifted > 1.5 or delta_rows + table.removed > len(table.rows) // 8,
    }
