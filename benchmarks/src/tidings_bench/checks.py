"""History checks on Spark beside the plain checker: rows a second, filters evaluated, same report.

Histories come from `histories.py`, built from a seed: every property holds, and each notification is
owed because of its filter. Both engines judge by the contract of Tidings with T_sub and T_diff given,
from Parquet on disk to the report; starting Spark is not counted. The plain checker holds a history in
memory, so it is not asked beyond a million rows. `--rows N` of `scripts/check_large.py` measures one size,
and can hide a wrong row in it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidings.history.check import check
from tidings.history.report import CheckReport
from tidings.matching.engine import MatchingEngine
from tidings_bench.histories import T_DIFF, T_SUB, Shape, write_large_history

SIZES = (100_000, 1_000_000, 10_000_000)
PLAIN_UP_TO = 1_000_000
Row = dict[str, Any]


def run(*, quick: bool = False, seed: int = 1) -> Iterator[Row]:
    """Rows of figures; `quick` takes a minute or so, most of it for Spark's start."""
    from tidings.pipeline.session import session

    spark = session()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as directory:
        for size in SIZES[:1] if quick else SIZES:
            folder = Path(directory) / f"{size}.parquet"
            rows = write_large_history(folder, Shape(rows=size, seed=seed))
            yield from _one_size(folder, rows, spark)


def _one_size(folder: Path, rows: int, spark: Any) -> Iterator[Row]:
    from tidings.pipeline.checks import check_on_spark

    times: dict[str, Any] = {"t_sub": T_SUB, "t_diff": T_DIFF, "matcher": MatchingEngine}
    figures: dict[str, float] = {}
    reports: list[CheckReport] = []
    engines: dict[str, Callable[[], CheckReport]] = {
        "spark": lambda: check_on_spark([folder], spark=spark, **times)
    }
    if rows <= 1.1 * PLAIN_UP_TO:
        engines["plain"] = lambda: check(folder, **times)
    for name, judge in engines.items():
        began = time.perf_counter()
        reports.append(judge())
        figures[name] = rows / (time.perf_counter() - began)
    assert all(report == reports[0] and report.holds for report in reports), "the engines disagree"
    for name, figure in figures.items():
        ratio = figure / figures["plain"] if "plain" in figures else None
        yield {
            "work": "check",
            "size": rows,
            "engine": name,
            "figure": round(figure),
            "unit": "rows/s",
            "ratio_to_best_peer": None if ratio is None else round(ratio, 2),
        }
