"""Kernels can be loaded ahead of need."""

from __future__ import annotations

import pytest

from tidings.matching.columnar.jit import KERNELS
from tidings.matching.columnar.warm import warm


def test_after_warming_no_walk_compiles_anything() -> None:
    assert warm()
    from tidings.matching.columnar.matcher import ColumnarMatcher
    from tidings.matching.columnar.row_kernels import fill_rows
    from tidings.matching.columnar.walk_kernels import match_one, match_rows
    from tidings_bench import workloads

    before = [len(kernel.signatures) for kernel in (match_one, match_rows, fill_rows)]
    made = workloads.workload("W4")
    matcher = ColumnarMatcher()
    matcher.load(workloads.filters(made, 100))
    for filter in workloads.filters(made, 20):
        matcher.add(filter)
    matcher.begin_merge()
    matcher.maintain(1 << 20)
    for event in workloads.events(made, 20):
        matcher.match(event)
    matcher.match_batch(workloads.record_batch(made, 20))
    assert [len(kernel.signatures) for kernel in (match_one, match_rows, fill_rows)] == before
    assert min(before) == 1


def test_without_numba_there_is_nothing_to_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNELS, "numpy")
    assert not warm()


def test_a_cached_kernel_goes_by_the_text_of_all_kernels() -> None:
    """Kernels of one file are compiled into those of another, and Numba looks at the latter's file alone."""
    from tidings.matching.columnar.grid_kernels import span
    from tidings.matching.columnar.jit import sources
    from tidings.matching.columnar.row_kernels import insert

    assert insert._cache._cache_file._source_stamp == span._cache._cache_file._source_stamp == sources()
