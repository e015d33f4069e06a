"""Choice of the strategy by size: does a whole table fit beside everything else on every machine?"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from tidings.errors import SettingsError

BYTES_EACH = 400  # of a compiled subscription of a few constraints, before it is known
MB = 2**20
UNITS = {"": 1 / MB, "b": 1 / MB, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


class Decision(NamedTuple):
    """The strategy, and the sentences that explain it."""

    strategy: str
    reasons: tuple[str, ...]
    most_mb: int
    table_mb: float


def choose(spark: Any, table_bytes: int, strategy: str, most_mb: int | None, *, cut: bool) -> Decision:
    """`cut` says whether the table can still be cut into cells; a compiled one cannot."""
    most, why = (most_mb, "as asked") if most_mb is not None else room_mb(spark)
    size = table_bytes / MB
    fits = f"the table takes about {size:,.1f} MB; up to {most:,} MB is held by every executor ({why})"
    if strategy == "auto":
        strategy = "everywhere" if size <= most or not cut else "partitioned"
        reasons = [fits]
        if size > most and not cut:
            reasons.append("it is compiled already and cannot be cut; give its rows to have it partitioned")
    else:
        reasons = [f"{strategy}, as asked", fits]
    if strategy == "partitioned" and not cut:
        raise SettingsError(
            "a compiled table cannot be partitioned", hint="give the subscriptions as rows, or as Parquet"
        )
    return Decision(strategy, tuple(reasons), most, size)


def room_mb(spark: Any) -> tuple[int, str]:
    """Largest size of a table, and its reason."""
    conf = spark.sparkContext.getConf()
    limit = conf.get("spark.executor.pyspark.memory", None)
    if limit is not None:
        return megabytes(limit) // 2, "half of spark.executor.pyspark.memory"
    if not spark.sparkContext.master.startswith("local["):
        return megabytes(conf.get("spark.executor.memory", "1g")) // 2, "half of spark.executor.memory"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MB
    return total // 4, "a quarter of this machine's memory"


def megabytes(text: str) -> int:
    """Spark's way to write a size, in MB."""
    found = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    if found is None:
        raise SettingsError(f"{text!r} is no size", hint="write it as 512m or 4g")
    return int(int(found[1]) * UNITS[found[2]])
