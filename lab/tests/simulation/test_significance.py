"""Comparing over seeds, and workloads from files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tidings.errors import SettingsError
from tidings.simulation.workloads import PublishStep, SubscribeStep
from tidings.systems import find_system
from tidings_lab.simulation.comparing import Comparison, Measures, measure
from tidings_lab.simulation.significance import holm, over_seeds, sign_flip
from tidings_lab.simulation.traces import is_trace, read_trace

TRACE = [
    {
        "time": 10.0,
        "process": "ann",
        "op": "sub",
        "subscription": "s",
        "filter": "price < 10",
        "broker": "b1",
    },
    {"time": 10.0, "process": "bob", "op": "sub", "subscription": "s", "filter": "price < 100"},
    {"time": 15.0, "process": "eve", "op": "pub", "source": "eve", "event": "1", "attributes": {"price": 5}},
    {"time": 15.5, "process": "eve", "op": "pub", "source": "eve", "event": "2", "attributes": {"price": 50}},
    {"time": 15.6, "process": "bob", "op": "ntfy", "source": "eve", "event": "2", "subscription": "s"},
]


def write(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def line(system: str, hops: float) -> Measures:
    return Measures(system=system, model="content", verdict="exact", hops=hops, d=None)


def test_a_recorded_history_is_a_workload(tmp_path: Path) -> None:
    workload = read_trace(write(tmp_path, TRACE), ("b0", "b1"))
    assert workload.clients == {"ann": "b1", "bob": "b1", "eve": "b0"}
    assert [type(step) for step in workload.steps] == [SubscribeStep] * 2 + [PublishStep] * 2
    assert [step.at for step in workload.steps] == [0.0, 0.0, 5.0, 5.5]


def test_systems_are_compared_on_a_trace(tmp_path: Path) -> None:
    path = write(tmp_path, TRACE)
    assert is_trace(str(path))
    found = measure(find_system("siena"), Comparison(workload=str(path), brokers=4, probes=0))
    assert (found.verdict, found.events, found.delivered) == ("exact", 2, 3)


def test_a_trace_without_events_or_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no event"):
        read_trace(write(tmp_path, TRACE[:2]), ("b0",))
    with pytest.raises(SettingsError, match="no name or no filter"):
        read_trace(write(tmp_path, [{"time": 0.0, "process": "a", "op": "sub"}, *TRACE]), ("b0",))
    with pytest.raises(SettingsError, match="there is no trace"):
        read_trace(tmp_path / "none.jsonl", ("b0",))


def test_the_test_of_signs_is_exact_for_few_and_near_for_many() -> None:
    assert sign_flip([1.0] * 6) == 2 / 64
    assert sign_flip([1.0, -1.0, 1.0, -1.0]) == 1.0
    assert sign_flip([0.0] * 5) == 1.0
    rng = Random(3)
    assert sign_flip([rng.gauss(3.0, 1.0) for _ in range(20)]) < 0.001
    chances = [sign_flip([rng.gauss(0.0, 1.0) for _ in range(8)]) for _ in range(200)]
    assert 0.01 <= sum(p < 0.05 for p in chances) / 200 <= 0.10  # as often as it says


def test_holm_corrects_for_many_comparisons() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_only_a_difference_beyond_chance_is_significant() -> None:
    rng = Random(2)
    runs = [
        [line("a", 10 + rng.random()), line("b", 14 + rng.random()), line("c", 10 + rng.random())]
        for _ in range(8)
    ]
    first, worse, alike = over_seeds(runs)
    assert first.measures["hops"].difference is None
    assert worse.measures["hops"].significant
    assert worse.measures["hops"].difference == pytest.approx(4.0, abs=0.6)
    assert not alike.measures["hops"].significant
    assert "d" not in first.measures  # it could not be measured
    assert (first.seeds, first.exact) == (8, 8)
