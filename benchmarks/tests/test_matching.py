"""The rows of the matching benchmark, on small sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import InputError, TidingsError
from tidings_bench import churn, matching, memory, plots, workloads

pytestmark = pytest.mark.xdist_group("bench matching")  # each work is measured once
KEYS = {"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}
SIZE = 300  # subscriptions
PEERS = {
    "brute force, NumPy", "shapely STRtree, bulk", "geoindex-rs", "rtree", "rtree, bulk", "DuckDB, join",
    "Polars, filter", "rule-engine",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "PEER_SECONDS", 0.005)
        patch.setattr(matching, "BATCH", 200)
        yield


@cache
def measured(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a work and what it keeps for comparisons; each is measured once."""
    kept: dict[str, Any] = {}
    return list(matching.one_work(workloads.workload(name), SIZE, kept)), kept


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
def test_a_work_gives_rows_of_the_contract(name: str) -> None:
    rows, _ = measured(name)
    assert all(set(row) == KEYS for row in rows)
    assert {"tidings, one by one", "tidings, columns", "brute force, NumPy"} <= {
        row["engine"] for row in rows
    }
    assert all(row["figure"] > 0 for row in rows if row["unit"] == "events/s")
    rated = [row for row in rows if row["unit"] == "events/s"]
    assert all(row["ratio_to_best_peer"] is not None for row in rated)


def test_peers_find_what_we_find() -> None:
    from tidings.matching.columnar.matcher import ColumnarMatcher
    from tidings_bench.peers import peers

    asked: set[str] = set()
    for name in ("W1", "W2"):
        made = workloads.workload(name)
        population, probes = list(workloads.filters(made, 200)), workloads.events(made, 40)
        matcher = ColumnarMatcher()
        matcher.load(population)
        expected = len(matcher.match_batch(probes).handles)
        for peer in peers(population, matcher.table, boxes=name == "W1"):
            assert peer.match(peer.prepared(probes)) == expected, peer.name
            asked.add(peer.name)
    assert asked == PEERS, "a peer that is not installed would be left out without a word"


def test_own_files_are_measured(tmp_path: Path) -> None:
    subscriptions, events = tmp_path / "subs.jsonl", tmp_path / "events.jsonl"
    subscriptions.write_text("".join(json.dumps({"id": i, "filter": f"a > {i}"}) + "\n" for i in range(20)))
    events.write_text("".join(json.dumps({"a": i}) + "\n" for i in range(20)))
    rows = list(matching.run(subscriptions=str(subscriptions), events=str(events)))
    assert rows[0]["work"] == "subs.jsonl"
    assert rows[0]["size"] == 20
    events.write_text("no json\n")
    with pytest.raises(InputError):
        list(matching.run(subscriptions=str(subscriptions), events=str(events)))
    with pytest.raises(InputError):
        list(matching.run(subscriptions=str(subscriptions)))


@pytest.mark.parametrize(
    ("subscription", "event", "said"),
    [
        ('{"id": 1}', '{"a": 1}', r'subs.jsonl, line 2: no "filter"'),
        ('{"id": 1, "filter": "a < < 3"}', '{"a": 1}', r"subs.jsonl, line 2: expected"),
        ("[]", '{"a": 1}', r"subs.jsonl, line 2: no JSON object"),
        ('{"filter": "a > 1"}', '{"a": 1', r"events.jsonl, line 2: no JSON:"),
        ('{"filter": "a > 1"}', "", r"events.jsonl is empty"),
        ("", '{"a": 1}', r"subs.jsonl is empty"),
    ],
    ids=["no filter", "bad filter", "no object", "no json", "no events", "no subscriptions"],
)
def test_what_is_wrong_with_own_files_is_said_with_its_place(
    tmp_path: Path, subscription: str, event: str, said: str
) -> None:
    subscriptions, events = tmp_path / "subs.jsonl", tmp_path / "events.jsonl"
    subscriptions.write_text(f"\n{subscription}\n")
    events.write_text(f"\n{event}\n")
    with pytest.raises(InputError, match=said):
        list(matching.run(subscriptions=str(subscriptions), events=str(events)))


def test_churn_counts_its_freezes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["unit"]: row["figure"] for row in churn.churn(2000, 0.3)}
    assert rows["changes/cpu s of changing"] > 0
    assert "ms p99.9 latency, cpu" in rows


def test_plots_are_drawn(tmp_path: Path) -> None:
    rows, _ = measured("W1")
    drawn = plots.plot(rows, str(tmp_path))
    assert [path.name for path in drawn] == ["cost-by-subscriptions.svg", "cost-by-matches.svg"]
    for wanted in ("W1", "W1, counting", "W1, tree", "subscriptions"):
        assert f">{wanted}<" in drawn[0].read_text()
    assert "matches an event" in drawn[1].read_text()


def test_mixed_filters_are_compared_with_plain_ones_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = measured("W2")[1] | measured("W4")[1]
    assert [row["unit"] for row in matching.mixed_over_plain(kept, SIZE)] == ["times the cost"] * 2
    order = iter((2.0, 4.0, 9.0, 8.0) + (1.0, 9.0, 6.0, 9.0) * (matching.TURNS - 1))
    monkeypatch.setattr(matching, "_cpu", lambda work: next(order))
    single, batch = (row["figure"] for row in matching.mixed_over_plain(kept, SIZE))
    assert single == 6.0  # the best of each: 6 against 1
    assert batch == 2.0  # 8 against 4
    assert list(matching.mixed_over_plain({"W2": kept["W2"]}, SIZE)) == []


def test_some_works_alone_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "QUICK_SIZES", (200,))
    monkeypatch.setattr(matching, "QUICK_MEMORY", ())
    rows = list(matching.run(quick=True, only="W3, memory"))
    assert {row["work"] for row in rows} == {"W3"}
    with pytest.raises(InputError, match="no work 'W9'"):
        list(matching.run(only="W9"))


def test_the_memory_of_a_whole_broker_is_measured_in_a_process_of_its_own() -> None:
    figure = memory.measured_apart("embedded broker", 12_000)  # with fewer the allocator's own pages decide
    assert 500 < figure < 20_000
    with pytest.raises(TidingsError, match="too few"):
        memory.measured_apart("embedded broker", 100)


def test_brute_force_is_not_scaled_when_it_has_all_filters() -> None:
    from tidings.matching.columnar.matcher import ColumnarMatcher
    from tidings_bench.peers import peers

    population = list(workloads.filters(workloads.workload("W2"), 50))
    matcher = ColumnarMatcher()
    matcher.load(population)
    assert next(iter(peers(population[:10], matcher.table, boxes=False))).subscriptions == 50


def test_the_strongest_peers_of_the_registries_are_among_them() -> None:
    from tidings.matching.columnar.matcher import ColumnarMatcher
    from tidings_bench.peers import peers

    matcher = ColumnarMatcher()
    population = list(workloads.filters(workloads.workload("W1"), 50))
    matcher.load(population)
    found = {peer.name: peer.batch for peer in peers(population, matcher.table, boxes=True)}
    assert found["shapely STRtree, bulk"]
    assert found["rtree, bulk"]
    assert not found["geoindex-rs"]
