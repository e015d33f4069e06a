"""Brokers and Spark: `format("tidings")` as source and sink, the archive, catching up.

The one part of this package that imports `runtime`. `register(spark)` makes the format known to a session;
`tidings.pipeline.session()` does it by itself.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Make `format("tidings")` known to this session."""
    from tidings.pipeline.broker.format import TidingsDataSource

    spark.dataSource.register(TidingsDataSource)


def use_here(spark: Any) -> None:
    """Use this session in this thread: Spark looks for the format in the session that is active in the thread
    that starts a stream, and a thread of Python's has none."""
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
