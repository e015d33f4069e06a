"""Spark's Python daemon, with everything that matching needs imported before it forks.

Spark ends Python workers that were idle for a minute. A new one is a fork of the daemon, so what the
daemon has imported costs it nothing: without this, NumPy, Arrow and the compiled kernels take every new
worker between one and two seconds. Nothing may be printed here: Spark reads the daemon's first words.
"""

from __future__ import annotations


def warm_up() -> None:
    """Import what workers import, and have the kernels loaded (or compiled, the first time)."""
    import pyarrow as pa

    from tidings.matching.engine import columnar_matcher
    from tidings.pipeline import executing, partitioning  # noqa: F401

    columnar_matcher().match_batch(pa.record_batch({"x": [1.0]}))


if __name__ == "__main__":
    from pyspark import daemon

    warm_up()
    daemon.manager()
