"""What a replaced table took goes back to the system, a step after the table was replaced."""

from __future__ import annotations

import pytest

from tidings.matching.columnar import matcher as module
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings_bench import workloads


def test_memory_is_asked_back_once_after_a_freeze_and_once_after_a_merge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested: list[int] = []
    monkeypatch.setattr(module, "LEAST_FREED", 100)
    monkeypatch.setattr(module, "give_back", lambda: requested.append(1))
    matcher = ColumnarMatcher()
    matcher.load(workloads.filters(workloads.workload("W2"), 300))
    assert not requested, "a walk may still look at the older table"
    assert matcher.maintain(1) == 0
    assert len(requested) == 1
    matcher.add(next(iter(workloads.filters(workloads.workload("W2"), 1))))
    matcher.begin_merge()
    while matcher.maintain(1):
        pass
    assert len(requested) == 2
    assert matcher.maintain(10) == 0
    assert len(requested) == 2


def test_small_and_huge_tables_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "give_back", lambda: pytest.fail("asked for a few kilobytes"))
    matcher = ColumnarMatcher()
    matcher.load(workloads.filters(workloads.workload("W2"), 300))
    assert matcher.maintain(10) == 0
