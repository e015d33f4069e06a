"""Surveyed systems through faults: what is told is right, whatever is lost (the contract of best effort)."""

from __future__ import annotations

import pytest

from tidings.history.report import CheckReport
from tidings.simulation.experiment import ExperimentOutcome, run_experiment
from tidings.testing.seeds import EVERYTHING, Profile, experiment_for, judged

CONTRACTS = {
    "elvin": "SIENA", "notification-service": "SIENA", "multicast-groups": "SIENA", "tib-rv": "TIB/RV",
}  # fmt: skip
SEEDS = 25


def seen(system: str, seed: int) -> tuple[ExperimentOutcome, CheckReport]:
    profile = Profile(system, EVERYTHING, CONTRACTS[system])
    outcome = run_experiment(experiment_for(profile, seed), judge=False)
    return outcome, judged(profile, outcome.rows, outcome.longest_delay)


@pytest.mark.parametrize("system", CONTRACTS)
def test_no_seed_breaks_the_promise_of_best_effort(system: str) -> None:
    received = faults = 0
    for seed in range(SEEDS):
        outcome, report = seen(system, seed)
        assert report.holds, f"{system}, seed {seed}: {report.story}"
        received += outcome.delivered
        faults += sum(outcome.faults.values())
    assert received > 100
    assert faults > 10 * SEEDS


@pytest.mark.soak
@pytest.mark.parametrize("system", CONTRACTS)
def test_a_thousand_seeds_break_no_promise_of_best_effort(system: str) -> None:
    for seed in range(1000):
        outcome, report = seen(system, seed)
        assert report.holds, f"{system}, seed {seed}: {report.story}"
        assert outcome.published
