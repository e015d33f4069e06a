"""The rows of the matching benchmark, on small sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidings.bench import churn, matching, plots, workloads
from tidings.errors import InputError

KEYS = {"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "PEER_SECONDS", 0.005)
    monkeypatch.setattr(matching, "BATCH", 200)


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
def test_a_work_gives_rows_of_the_contract(name: str) -> None:
    rows = list(matching.one_work(workloads.workload(name), 300))
    assert all(set(row) == KEYS for row in rows)
    assert {"tidings, one by one", "tidings, columns", "brute force, NumPy"} <= {
        row["engine"] for row in rows
    }
    assert all(row["figure"] > 0 for row in rows if row["unit"] == "events/s")
    rated = [row for row in rows if row["unit"] == "events/s"]
    assert all(row["ratio_to_best_peer"] is not None for row in rated)


def test_peers_find_what_we_find() -> None:
    from tidings.bench.peers import peers
    from tidings.matching.columnar.matcher import ColumnarMatcher

    for name in ("W1", "W2"):
        made = workloads.workload(name)
        population, probes = list(workloads.filters(made, 200)), workloads.events(made, 40)
        matcher = ColumnarMatcher()
        matcher.load(population)
        expected = len(matcher.match_batch(probes).handles)
        for peer in peers(population, matcher.table, boxes=name == "W1"):
            assert peer.match(probes) == expected, peer.name


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


def test_churn_counts_its_freezes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["unit"]: row["figure"] for row in churn.churn(2000, 0.3)}
    assert rows["changes/cpu s of changing"] > 0
    assert "ms p99.9 latency, cpu" in rows


def test_plots_are_drawn(tmp_path: Path) -> None:
    rows = list(matching.one_work(workloads.workload("W1"), 300))
    drawn = plots.plot(rows, str(tmp_path))
    assert [path.name for path in drawn] == ["cost-by-subscriptions.svg", "cost-by-matches.svg"]
    for wanted in ("W1", "W1, counting", "W1, tree", "subscriptions"):
        assert f">{wanted}<" in drawn[0].read_text()
    assert "matches an event" in drawn[1].read_text()


def test_mixed_filters_are_compared_with_plain_ones() -> None:
    rows = [
        matching.row(work, 10, f"tidings, {way}", figure, "events/s", None)
        for work, figure in (("W2", 90.0), ("W4", 30.0))
        for way in ("one by one", "columns")
    ]
    assert [row["figure"] for row in matching.mixed_over_plain(rows, 10)] == [3.0, 3.0]
