"""`tidings compare`: the tables, the contract of `--json`, the picture, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SMALL = ("--brokers", "5", "--events", "20", "--subscriptions", "10")


def test_a_table_of_costs_and_one_of_speed(tidings: Callable[..., Any]) -> None:
    ran = tidings("compare", "--systems", "siena,all-brokers", *SMALL)
    assert ran.code == 0
    assert ran.out.startswith("markets: 20 events, 10 subscriptions, 5 brokers (tree), seed 1")
    for words in ("siena ", "all-brokers ", "exact", "T_diff ms", "max/mean"):
        assert words in ran.out


def test_json_has_a_line_for_each_system_and_names_the_pictures(
    tidings: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    ran = tidings("compare", "--systems", "siena,intermediary", *SMALL, "--json", "--plot", str(tmp_path))
    found = json.loads(ran.out)
    assert [row["system"] for row in found["systems"]] == ["siena", "intermediary"]
    wanted = {
        "messages", "hops", "bytes", "latency_p50", "entries", "imbalance", "t_sub", "t_diff", "d",
        "delivered",
        "verdict",
    }  # fmt: skip
    assert wanted <= found["systems"][0].keys()
    assert found["systems"][0]["delivered"] == found["systems"][1]["delivered"] > 0
    assert sorted(Path(path).name for path in found["plots"]) == ["comparison.png", "comparison.svg"]
    assert all(Path(path).stat().st_size > 1000 for path in found["plots"])


def test_plots_of_several_seeds_are_drawn_too(tidings: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ("--seeds", "2", "--json", "--plot", str(tmp_path))
    ran = tidings("compare", "--systems", "siena", *SMALL, *options)
    assert sorted(Path(path).name for path in json.loads(ran.out)["plots"]) == [
        "comparison.png", "comparison.svg",
    ]  # fmt: skip
    assert (tmp_path / "comparison.svg").stat().st_size > 1000


def test_a_system_that_loses_events_is_told_and_ends_with_1(
    tidings: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.protocol.delivery.exactly_once import ExactlyOnce

    monkeypatch.setattr(ExactlyOnce, "deliver", lambda self, envelopes, matches, now: None)
    ran = tidings("compare", "--systems", "siena", *SMALL)
    assert ran.code == 1
    assert "missing" in ran.out


def test_mistakes_are_told(tidings: Callable[..., Any]) -> None:
    assert tidings("compare", "--systems", "sienna").code == 2
    assert "there are: " in tidings("compare", "--workload", "nothing").err
    ran = tidings("compare", "--systems", "siena", "--overlay", "ring", *SMALL)
    assert ran.code == 0
    assert "siena was not run: siena needs an overlay without cycles" in ran.out
