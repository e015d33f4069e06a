"""Experiments: a value in, an outcome out, and the same again from the same seed in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tidings.errors import SettingsError
from tidings.history.check import check
from tidings.history.schema import Row
from tidings.simulation.experiment import T_DIFF, T_SUB, Experiment, run_experiment, settled
from tidings.simulation.faults import INCIDENTS, RATES, Rates
from tidings.simulation.workloads import Plan
from tidings.systems import system_names

SMALL = Plan(subscriptions=6, events=25, rate=5, churn=0.2, publishers=3)
ROOT = Path(__file__).parents[3]


def small(system: str = "siena", **more: object) -> Experiment:
    given = {"brokers": 5, "plan": SMALL, "workload": "rectangles", **more}
    return Experiment(system=system, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("system", system_names())
def test_the_same_experiment_has_the_same_fingerprint(system: str) -> None:
    experiment = small(system, incidents=6, kinds=RATES + INCIDENTS, bytes=True)
    first, second = run_experiment(experiment), run_experiment(experiment)
    assert first.fingerprint == second.fingerprint
    assert first == second
    other = run_experiment(msgspec.structs.replace(experiment, seed=2))
    assert other.fingerprint != first.fingerprint


SCRIPT = """
from tests.unit.simulation.test_experiment import small
from tidings.simulation.experiment import run_experiment
from tidings.simulation.faults import INCIDENTS, RATES
for system in ("siena", "network-of-servers", "partitioned"):
    print(run_experiment(small(system, incidents=6, kinds=RATES + INCIDENTS)).fingerprint)
"""


def test_a_replay_does_not_depend_on_the_process() -> None:
    printed = set()
    for hash_seed in ("1", "2"):
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop().split()) == 3


UNCHECKED = """
from tidings.errors import SettingsError
from tidings.simulation.experiment import Experiment, run_experiment
try:
    run_experiment(Experiment(system="siena", brokers=2, check=True))
except SettingsError as error:
    print(error)
"""


def test_invariants_are_not_passed_over_without_assertions() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-O", "-c", UNCHECKED], env=environment, capture_output=True, text=True, timeout=600
    )
    assert "python -O" in done.stdout, done.stderr


def test_the_outcome_counts_what_happened() -> None:
    rows: list[Row] = []
    outcome = run_experiment(small("network-of-servers", overlay="ring"), on_row=rows.append)
    assert outcome.published == 25
    assert outcome.delivered == sum(row.op == "ntfy" for row in outcome.rows) > 0
    assert outcome.hops == 6.0  # a ring of five: four brokers, and the copies that meet
    assert outcome.report is not None
    assert outcome.report.holds
    assert rows == outcome.rows
    assert 0 < outcome.latency["p50"] <= outcome.latency["p99"] <= outcome.latency["max"]


def test_an_unrecorded_run_says_nothing_of_properties() -> None:
    outcome = run_experiment(small(record=False))
    assert outcome.report is None
    assert outcome.rows == []
    assert outcome.delivered > 0


def test_rates_that_were_given_are_those_that_act() -> None:
    outcome = run_experiment(small(rates=Rates(loss=0.5)))
    assert outcome.faults.keys() == {"loss"}


def test_a_network_under_the_overlay_moves_latencies() -> None:
    near = run_experiment(small("network-of-servers", network="flat"))
    far = run_experiment(small("network-of-servers", network="transit-stub", hosts=300))
    assert near.latency["max"] < far.latency["max"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"overlay": "donut"}, "no overlay is called"),
        ({"network": "carrier pigeons"}, "no network is called"),
        ({"workload": "weather"}, "no workload is called"),
        ({"system": "sienna"}, "no system is called"),
        ({"overlay": "ring"}, "without cycles"),
        ({"options": {"colour": "red"}}, "has no option 'colour'"),
        ({"options": {"reduce": "none"}}, "no reduction is called"),
    ],
)
def test_what_cannot_be_is_refused_in_words(given: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        run_experiment(small(**given))  # type: ignore[arg-type]


def test_losses_of_a_short_run_are_judged() -> None:
    """Each first subscription has stood for T_sub when the first event comes, so what it loses is a debt. In
    a run that begins sooner nothing falls due, and what was not judged is not shown as holding."""
    plan = Plan(subscriptions=10, events=20, rate=100, publishers=3, leave=True)
    judged = {}
    for name, each in (("soon", plan), ("settled", settled(plan))):
        rows = run_experiment(small(plan=each, rates=Rates(loss=0.9), workload="stocks"), judge=False).rows
        judged[name] = check(rows, t_sub=T_SUB, t_diff=T_DIFF, contract="SOCBR", instances=True)
    assert judged["settled"].broken == ["liveness", "completeness"]
    assert judged["soon"].open == ["liveness", "completeness"]
    assert "fell due" in str(judged["soon"]["liveness"].reason)
