"""Sweeps over a study's knobs: every combination and seed, resumed, as Parquet, with error bars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidings.cli import main, output
from tidings.errors import SettingsError
from tidings_lab.studies._sweeps import SweepPlan, checked, pictures_of, read_values, run_sweep, write_parquet
from tidings_lab.studies.study import find_study, study_names


def plain(function: Any, points: Any) -> list[Any]:
    return [function(*point) for point in points]


def test_values_are_numbers_where_they_can_be() -> None:
    assert read_values(["width=0.2,1", "trigger=printed,overlap", "on=true"]) == {
        "width": [0.2, 1], "trigger": ["printed", "overlap"], "on": [True],
    }  # fmt: skip
    for wrong in (["width"], ["=1"], ["width="], ["a=1", "a=2"], []):
        with pytest.raises(SettingsError):
            read_values(wrong)


def test_unknown_knobs_and_studies_without_any_are_refused() -> None:
    with pytest.raises(SettingsError, match="no knob 'weather'"):
        checked(SweepPlan(study="locality", values={"weather": [1]}))
    with pytest.raises(SettingsError, match="offers no sweep"):
        checked(SweepPlan(study="policies", values={"a": [1]}))


def test_these_studies_offer_a_sweep() -> None:
    offered = {name for name in study_names() if find_study(name).sweep is not None}
    assert offered >= {"locality", "proximity", "recovery", "self-organisation"}


def test_a_sweep_has_a_row_for_each_point_and_a_curve_for_each_combination(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    plan = SweepPlan(
        study="self-organisation", values={"width": [0.5, 1.0], "trigger": ["printed", "growth"],
        "subscriptions": [50]},
        seeds=2,
    )  # fmt: skip
    result = run_sweep(plan, plain)
    table = parquet.read_table(write_parquet(result, tmp_path / "s.parquet"))
    assert table.num_rows == 8
    assert {"width", "trigger", "seed", "hops", "swaps"} <= set(table.column_names)
    [picture] = pictures_of(result, ["hops"])
    assert [curve.label for curve in picture.curves] == [
        "trigger printed, subscriptions 50", "trigger growth, subscriptions 50",
    ]  # fmt: skip
    assert all(len(curve.spread) == 2 and min(curve.spread) > 0 for curve in picture.curves)
    with pytest.raises(SettingsError, match="no figure 'weather'"):
        pictures_of(result, ["weather"])


def test_the_command_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.console.cache_clear()  # consoles hold the streams of their time
    output.errors.cache_clear()
    command = ["study", "sweep", "locality", "--set", "locality=0,1", "--set", "events=20", "--seeds", "2",
    "--json",
               "--to", str(tmp_path)]  # fmt: skip
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["rows"]) == 2
    assert {Path(path).suffix for path in first["plots"]} == {".png", ".svg"}
    assert main(command) == 0
    again = capsys.readouterr()
    assert json.loads(again.out)["rows"] == first["rows"]
    assert "4 of 4 points were finished before" in again.err
