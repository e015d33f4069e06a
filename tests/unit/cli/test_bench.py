"""`tidings bench`: the registry and the contract; the benchmarks themselves are tested in their room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., Any]
ROW = {
    "work": "W2",
    "size": 1000,
    "engine": "tidings",
    "figure": 12345.6,
    "unit": "filters/s",
    "ratio_to_best_peer": 2.5,
}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A benchmark that only notes how it was called."""
    calls: list[dict[str, Any]] = []

    def run(quick: bool = False, seed: int = 1) -> Iterator[dict[str, Any]]:
        calls.append({"quick": quick, "seed": seed})
        yield {**ROW, "note": "not in the contract"}

    module = ModuleType("tidings_bench.filters")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tidings_bench.filters", module)
    return calls


def test_the_contract(tidings: Run, benchmark: list[dict[str, Any]]) -> None:
    ran = tidings("bench", "filters", "--quick", "--json")
    assert ran.rows == [{"bench": "filters", "rows": [ROW]}]
    assert benchmark == [{"quick": True, "seed": 1}]


def test_for_people(tidings: Run, benchmark: list[dict[str, Any]]) -> None:
    ran = tidings("bench", "filters", "--seed", "5")
    assert "12,346" in ran.out
    assert "2.5" in ran.out
    assert benchmark == [{"quick": False, "seed": 5}]


def test_an_option_that_a_benchmark_does_not_take(tidings: Run, benchmark: list[dict[str, Any]]) -> None:
    ran = tidings("bench", "filters", "--events", "x.jsonl")
    assert ran.code == 2
    assert "takes no --events" in ran.err
    assert not benchmark


def test_a_name_that_is_nearly_right(tidings: Run) -> None:
    ran = tidings("bench", "filtres")
    assert ran.code == 2
    assert "did you mean filters?" in ran.err


def test_the_list(tidings: Run) -> None:
    assert "filters" in tidings("bench", "--list").out
    names = [bench["bench"] for bench in tidings("bench", "--list", "--json").rows[0]["benches"]]
    assert names == [
        "broker", "checks", "client", "cost", "filters", "gateway", "matching", "meeting", "pipeline",
        "quality", "recovery", "simulator", "store",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [(), ("filters", "--all")])
def test_one_or_all(words: tuple[str, ...], tidings: Run) -> None:
    assert tidings("bench", *words).code == 2
