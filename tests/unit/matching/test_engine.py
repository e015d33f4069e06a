"""The engine chooses by size, and nobody can tell by its answers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tidings.language import parse_filter
from tidings.matching.columnar.jit import KERNELS
from tidings.matching.columnar.warm import InBackground
from tidings.matching.engine import MatchingEngine, columnar_matcher
from tidings.matching.naive import NaiveMatcher
from tidings.model.event import make_event
from tidings.model.filter import NOTHING
from tidings_bench import workloads


@pytest.mark.parametrize("by_steps", [True, False])
@pytest.mark.parametrize("kernels", ["", "numpy"])
def test_growing_keeps_handles_and_answers(
    kernels: str, by_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KERNELS, kernels)
    made = workloads.workload("W4")
    engine, oracle = MatchingEngine(threshold=60 if by_steps else 15), NaiveMatcher()
    extra = [5, 50, 90]
    probes = workloads.events(made, 10)
    for number, filter in enumerate(workloads.filters(made, 150)):
        handle = engine.add(filter)
        assert handle == oracle.add(filter)
        if number % 7 == 3:
            engine.remove(handle)
            oracle.remove(handle)
        if number in (30, 80):
            assert [list(engine.match(e)) for e in probes] == [oracle.match(e) for e in probes]
    if by_steps:
        assert engine.stats()["engine"] == "small"
        while engine.maintain(1):
            assert [list(engine.match(e)) for e in probes] == [oracle.match(e) for e in probes]
            if extra:
                engine.remove(handle := extra.pop())
                oracle.remove(handle)
                assert engine.add(NOTHING) == oracle.add(NOTHING)
    assert "columnar" in engine.stats()["engine"]
    assert engine.maintain(100) == 0
    batch, expected = engine.match_batch(probes), oracle.match_batch(probes)
    assert list(batch.handles) == list(expected.handles)
    assert list(batch.offsets) == list(expected.offsets)


def test_an_unknown_handle_is_a_key_error() -> None:
    engine = MatchingEngine(threshold=2)
    for filter in workloads.filters(workloads.workload("W2"), 4):
        engine.add(filter)
    with pytest.raises(KeyError):
        engine.remove(9)
    engine.remove(1)
    with pytest.raises(KeyError):
        engine.remove(1)


def test_a_small_engine_takes_a_record_batch() -> None:
    made = workloads.workload("W2")
    engine, oracle = MatchingEngine(), NaiveMatcher()
    for filter in workloads.filters(made, 50):
        engine.add(filter)
        oracle.add(filter)
    batch = engine.match_batch(workloads.record_batch(made, 20))
    assert list(batch.handles) == list(oracle.match_batch(workloads.events(made, 20)).handles)


def test_a_small_engine_compiles_nothing() -> None:
    script = (
        "import sys\n"
        "from tidings.matching.engine import MatchingEngine\n"
        "from tidings_bench import workloads\n"
        "made = workloads.workload('W2')\n"
        "engine = MatchingEngine()\n"
        "for f in workloads.filters(made, 100): engine.add(f)\n"
        "engine.match(workloads.events(made, 1)[0])\n"
        "assert 'numba' not in sys.modules\n"
    )
    environment = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_stats_tell_what_a_rebuild_would_gain() -> None:
    made = workloads.workload("W2")
    matcher = columnar_matcher()
    matcher.load(workloads.filters(made, 300))
    for event in workloads.events(made, 20):
        matcher.match(event)
    for filter in workloads.filters(made, 60):
        matcher.add(filter)
    stats = matcher.stats()
    assert stats["filters"] == 360
    assert stats["rebuild"]["rows_out_of_the_delta"] == 60
    assert stats["rebuild"]["gains"]
    matcher.freeze()
    assert matcher.stats()["delta"]["rows"] == 0
    assert matcher.stats()["table"]["rows"] == 360


def test_while_kernels_are_prepared_the_plain_index_serves() -> None:
    made = workloads.workload("W2")
    go_on = threading.Event()

    def steps() -> Iterator[None]:
        yield
        go_on.wait()
        yield

    kernels = InBackground(steps)
    engine, oracle = MatchingEngine(threshold=40, kernels=kernels), NaiveMatcher()
    population, probes = list(workloads.filters(made, 400)), workloads.events(made, 10)
    for filter in population[:20]:
        engine.add(filter)
    assert kernels._thread is None, "nobody prepares what a small broker does not need"
    for filter in population[20:]:  # ten times the threshold: no backstop builds columns here and now
        engine.add(filter)
    for filter in population:
        oracle.add(filter)
    assert engine.maintain(100) == 1, "there is something left to do"
    assert engine.stats()["engine"] == "small"
    assert engine.stats()["chosen"] == "kernels are being prepared beside it"
    assert [list(engine.match(e)) for e in probes] == [oracle.match(e) for e in probes]
    go_on.set()
    assert kernels.wait(60)
    while engine.maintain(100):
        pass
    assert "columnar" in engine.stats()["engine"]
    assert [list(engine.match(e)) for e in probes] == [oracle.match(e) for e in probes]


def test_a_process_that_ends_waits_for_a_step_and_no_longer() -> None:
    begun, taken = threading.Event(), list[int]()

    def steps() -> Iterator[None]:
        for number in range(1_000_000):
            taken.append(number)
            begun.set()
            yield

    kernels = InBackground(steps)
    kernels.want()
    assert begun.wait(60)
    kernels.leave()
    assert len(taken) < 1_000_000
    assert kernels._thread is not None
    assert not kernels._thread.is_alive()


def test_a_failure_to_prepare_is_met_where_somebody_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    delivered: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda error: delivered.append(str(error.exc_value)))

    def steps() -> Iterator[None]:
        yield
        raise RuntimeError("no compiler")

    kernels = InBackground(steps)
    kernels.want()
    assert kernels.wait(60)
    assert kernels.ready
    kernels.leave()
    assert delivered == ["no compiler"]


def test_few_filters_of_many_conjunctions_are_compiled_too() -> None:
    """Each conjunction may be tested for every event, so they count, and not the filters that have them."""
    engine, oracle = MatchingEngine(threshold=10), NaiveMatcher()
    filters = [
        parse_filter(" OR ".join(f"(x > {10 * a + b} AND x < {10 * a + b + 1})" for b in range(9)))
        for a in range(10)
    ]
    handles = [(engine.add(filter), oracle.add(filter)) for filter in filters]
    engine.remove(handles[0][0])
    oracle.remove(handles[0][1])
    while engine.maintain(10):
        pass
    assert "columnar" in engine.stats()["engine"]
    probes = [make_event({"x": n + 0.5}, source="s", id=str(n)) for n in range(0, 120, 3)]
    assert [list(engine.match(e)) for e in probes] == [oracle.match(e) for e in probes]


def test_memberships_stay_in_the_plain_index_which_files_them_by_element() -> None:
    engine = MatchingEngine(threshold=10)
    handles = [engine.add(parse_filter(f"'t{n}' IN tags")) for n in range(100)]
    assert engine.maintain(1000) == 0
    assert engine.stats()["engine"] == "small"
    assert engine.stats()["by element"] == 100
    assert engine.match(make_event({"tags": ["t3", ["t5"], None]}, source="s", id="1")) == [3, 5]
    assert engine.match(make_event({"tags": "t7"}, source="s", id="1")) == [7]
    for handle in handles[1:]:
        engine.remove(handle)
    assert engine.match(make_event({"tags": ["t0", "t3"]}, source="s", id="1")) == [0]
