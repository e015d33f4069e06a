"""Spark's daemon as we start it: a job that has seen enough leaves no traceback."""

from __future__ import annotations

import pytest

from tidings.pipeline.daemon import HUNG_UP, quiet


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_worker_whose_job_hung_up_ends_without_a_traceback(error: OSError) -> None:
    def worker(sock: object, authenticated: bool) -> int:
        raise error

    assert quiet(worker)(None, True) == HUNG_UP


def test_other_failures_are_reported_as_ever() -> None:
    def worker(sock: object, authenticated: bool) -> int:
        raise OSError("a disk failed")

    with pytest.raises(OSError, match="a disk failed"):
        quiet(worker)(None, True)
    assert quiet(lambda sock, authenticated: 0)(None, True) == 0
