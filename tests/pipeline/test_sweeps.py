"""Sweeps: the same results wherever points run, nothing twice, failures with their seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tidings.cli import main
from tidings.errors import SettingsError, TidingsError
from tidings.pipeline import sweeps
from tidings.pipeline.sweeps import Done, results, run_pack, simulate_point, sweep
from tidings.simulation.experiment import Experiment
from tidings.simulation.workloads import Plan
from tidings_lab.studies import policies
from tidings_lab.studies.policies import costs_of
from tidings_lab.studies.study import StudySetting

POINTS = [(policies.ALL, 8, takers, seed) for takers in (1, 3) for seed in range(1, 5)]


def here() -> list[Any]:
    return [costs_of(*point) for point in POINTS]


def test_results_come_in_the_order_of_the_points(tmp_path: Path) -> None:
    done = sweep(costs_of, POINTS, folder=tmp_path, processes=1)
    assert results(done) == here()
    assert [each.point for each in done] == POINTS


def test_processes_find_the_same() -> None:
    assert results(sweep(costs_of, POINTS, processes=2)) == here()


@pytest.mark.spark
def test_spark_finds_the_same_and_keeps_it(spark: Any, tmp_path: Path) -> None:
    received: list[int] = []
    done = sweep(costs_of, POINTS, folder=tmp_path, spark=spark, progress=received.append)
    assert results(done) == here()
    assert sum(received) == len(POINTS)
    again = sweep(costs_of, POINTS, folder=tmp_path, spark=spark)
    assert [each.again for each in again] == [True] * len(POINTS)
    assert results(again) == here()


@pytest.mark.spark
def test_a_study_on_spark_is_the_study(spark: Any) -> None:
    def runner(function: Any, points: Any) -> list[Any]:
        return results(sweep(function, points, spark=spark))

    assert policies.run(StudySetting(quick=True, runner=runner)) == policies.run(StudySetting(quick=True))


@pytest.mark.spark
def test_a_failing_seed_on_spark_keeps_its_place_and_its_message(spark: Any) -> None:
    points = [POINTS[0], (policies.ALL, 2, 50, 13), POINTS[1]]
    done = sweep(costs_of, points, spark=spark)
    assert [each.error is None for each in done] == [True, False, True]
    assert done[1].point == points[1]
    assert "ValueError: Sample larger than population" in str(done[1].error)


def test_finished_points_are_not_run_again_and_new_ones_are(tmp_path: Path) -> None:
    sweep(costs_of, POINTS[:3], folder=tmp_path, processes=1)
    done = sweep(costs_of, POINTS, folder=tmp_path, processes=1)
    assert [each.again for each in done] == [True] * 3 + [False] * (len(POINTS) - 3)
    assert results(done) == here()


def test_a_point_that_failed_is_tried_again(tmp_path: Path) -> None:
    points = [POINTS[0], (policies.ALL, 2, 50, 13)]
    assert [each.again for each in sweep(costs_of, points, folder=tmp_path, processes=1)] == [False, False]
    assert [each.again for each in sweep(costs_of, points, folder=tmp_path, processes=1)] == [True, False]


def test_another_program_finds_everything_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(costs_of, POINTS[:2], folder=tmp_path, processes=1)
    monkeypatch.setattr(sweeps, "program", lambda package: f"another {package}")
    assert not any(each.again for each in sweep(costs_of, POINTS[:2], folder=tmp_path, processes=1))


def test_what_was_finished_before_an_interruption_is_kept(tmp_path: Path) -> None:
    class Stop(BaseException):
        pass

    received: list[int] = []

    def interrupt(count: int) -> None:
        received.append(count)
        if sum(received) == 3:
            raise Stop

    with pytest.raises(Stop):
        sweep(costs_of, POINTS, folder=tmp_path, processes=1, progress=interrupt)
    done = sweep(costs_of, POINTS, folder=tmp_path, processes=1)
    assert sum(each.again for each in done) >= 3


def test_a_study_tells_which_points_failed() -> None:
    done = [Done((1,), 1, None, 0.0), Done((7,), None, "ValueError: no", 0.0)]
    with pytest.raises(TidingsError, match=r"1 of 2 points failed, the first at \(7,\): ValueError: no"):
        results(done)


def test_the_table_can_be_read_by_anything(tmp_path: Path) -> None:
    sweep(costs_of, POINTS[:2], folder=tmp_path, processes=1)
    [row, _] = parquet.read_table(tmp_path).to_pylist()
    assert json.loads(row["point"]) == list(POINTS[0])
    assert json.loads(row["result"]) == here()[0]
    assert row["error"] is None
    assert row["seconds"] > 0


def test_a_torn_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "points-1.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(TidingsError, match=r"points-1\.parquet: no whole table"):
        sweep(costs_of, POINTS, folder=tmp_path, processes=1)
    parquet.write_table(pa.table({"colour": ["red"]}), tmp_path / "points-1.parquet")
    with pytest.raises(TidingsError, match=r"points-1\.parquet: no whole table"):
        sweep(costs_of, POINTS, folder=tmp_path, processes=1)


def test_a_function_that_cannot_travel_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be sent to other processes"):
        sweep(lambda x: x, [(1,)])


@pytest.mark.parametrize(
    ("waiting", "seconds", "size"), [(400, None, 1), (400, 0.001, 100), (400, 1.0, 3), (3, 0.001, 1)]
)
def test_packs_fit_the_time_and_leave_work_for_all(waiting: int, seconds: float | None, size: int) -> None:
    assert sweeps._pack_size(waiting, 2, seconds) == size


def test_small_points_take_few_packs() -> None:
    packs: list[int] = []

    def launch(name: str, pack: list[Any]) -> list[Any]:
        packs.append(len(pack))
        return [sweeps.PointResult(position, "1", None, 0.0001) for position, _ in pack]

    assert len(list(sweeps._answers(launch, "x:y", [(n, "[]") for n in range(10_000)], 2))) == 10_000
    assert len(packs) < 60


SMALL = Experiment(brokers=4, plan=Plan(subscriptions=3, events=5))


def test_a_seed_of_a_simulation_says_what_broke() -> None:
    found = simulate_point(msgspec.json.encode(SMALL).decode(), 7)
    assert (found["seed"], found["broken"], found["published"]) == (7, {}, 5)
    assert found == simulate_point(msgspec.json.encode(SMALL).decode(), 7)


def test_an_unknown_point_is_its_own_failure() -> None:
    [answer] = run_pack("tidings.pipeline.sweeps:simulate_point", [(0, '["{", 1]')])
    assert answer.error is not None
    assert "DecodeError" in answer.error


# The command line


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    stated = capsys.readouterr()
    return code, stated.out, stated.err


ARGUMENTS = (
    "simulate",
    "siena",
    "--brokers",
    "4",
    "--events",
    "5",
    "--subscriptions",
    "3",
    "--processes",
    "1",
)


def test_seeds_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = (*ARGUMENTS, "--seeds", "4", "--seed", "3", "--points", str(tmp_path), "--json")
    code, out, _ = run(capsys, *words)
    found = json.loads(out)
    assert (code, found["seeds"], found["published"], found["broken"], found["failed"]) == (0, 4, 20, [], [])
    _, again, remark = run(capsys, *words)
    assert json.loads(again) == found
    assert "4 of 4 points were finished before" in remark


@pytest.mark.spark
def test_a_study_on_spark_from_the_command_line(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("study", "run", "policies", "--quick", "--no-plots", "--json")
    _, plain, _ = run(capsys, *words)
    code, out, _ = run(capsys, *words, "--spark", "--points", str(tmp_path))
    assert (code, out) == (0, plain)
    assert list((tmp_path / "policies").glob("*.parquet"))
    words = (
        "simulate",
        "siena",
        "--brokers",
        "4",
        "--events",
        "5",
        "--subscriptions",
        "3",
        "--seeds",
        "5",
        "--spark",
    )
    code, out, _ = run(capsys, *words, "--points", str(tmp_path), "--json")
    assert (code, json.loads(out)["published"]) == (0, 25)


def test_a_failing_seed_is_named_and_the_answer_is_no(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = (*ARGUMENTS, "--network", "nowhere", "--seeds", "2", "--points", str(tmp_path))
    code, out, _ = run(capsys, *words)
    assert code == 1
    assert "failed at seed 1: SettingsError: no network is called 'nowhere'" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("study", "run", "nonsense", "--processes", "1"), "no study is called 'nonsense'"),
        (("simulate", "nonsense", "--seeds", "2"), "nonsense"),
        (("study", "run", "policies", "--spark", "--processes", "2"), "exclude one another"),
        (("simulate", "siena", "--spark"), "give --seeds"),
        (("simulate", "siena", "--seeds", "2", "--record", "x.jsonl"), "one history is of one seed"),
    ],
)
def test_wrong_words_are_told(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    code, _, stated = run(capsys, *words)
    assert code == 2
    assert problem in " ".join(stated.replace("│", " ").split())
