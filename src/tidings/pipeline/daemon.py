"""Spark's Python daemon, with everything that matching needs imported before it forks.

Spark ends Python workers that were idle for a minute. A new one is a fork of the daemon, so modules that the
daemon has imported are free for it: without this, NumPy, Arrow and the compiled kernels take every new
worker between one and two seconds. This module must not print: Spark reads the daemon's first output.

A job that has seen enough rows (`show`, `limit`) closes the sockets of its workers. Spark's daemon prints a
traceback for each of them, although there is no error; here such a worker ends without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HUNG_UP = 1  # exit code of a worker after its job closed the socket: the daemon starts no other job on it


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker of Spark's daemon that ends without a traceback when its job hangs up."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return HUNG_UP

    return run


def warm_up() -> None:
    """Import what workers import, and have the kernels loaded (or compiled, the first time)."""
    import pyarrow as pa

    from tidings.matching.engine import columnar_matcher
    from tidings.pipeline import executing, partitioning  # noqa: F401

    columnar_matcher().match_batch(pa.record_batch({"x": [1.0]}))


if __name__ == "__main__":
    from pyspark import daemon

    warm_up()
    daemon.worker = quiet(daemon.worker)  # the daemon has no hook for it
    daemon.manager()
