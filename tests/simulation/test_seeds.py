"""200 seeds with faults in every run of the tests, 10,000 in `make soak`: no property is broken."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation._seeds import EVERYTHING, LEAST, PROFILES, missing_systems, run_seed

from tidings.simulation.experiment import run_experiment

SEEDS = 200
AT_LEAST = 20  # seeds in which each named fault fires


def judge(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    """Run some seeds; in how many of them each fault fired, and how much was told."""
    faults: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    for seed in range(first, first + count):
        seen = run_seed(seed)
        assert seen.report.holds, f"seed {seed} ({seen.profile.system}): {seen.report.story}"
        assert sum(seen.outcome.faults.values()) >= LEAST, f"seed {seed}: {seen.outcome.faults}"
        assert seen.outcome.published > 0
        faults.update(seen.outcome.faults.keys())
        heard[seen.profile.system] += seen.outcome.delivered
    return faults, heard


def test_no_seed_breaks_a_promise_and_each_fault_fires_in_many(capsys: pytest.CaptureFixture[str]) -> None:
    fired, told = judge(0, SEEDS)
    with capsys.disabled():
        print(f"\n  seeds in which each fault fired, of {SEEDS}:")
        for name in EVERYTHING:
            print(f"    {name:<18} {fired[name]}")
        print("  notifications: " + ", ".join(f"{name} {count}" for name, count in sorted(told.items())))
    assert {name: fired[name] for name in EVERYTHING if fired[name] < AT_LEAST} == {}
    assert min(told.values()) > 100, "every system had something to tell"


def test_every_system_is_judged() -> None:
    assert not missing_systems()


def test_a_seed_replays_byte_for_byte() -> None:
    for seed in range(len(PROFILES)):
        assert run_seed(seed).outcome.fingerprint == run_seed(seed).outcome.fingerprint
    assert run_seed(0).outcome.fingerprint != run_seed(len(PROFILES)).outcome.fingerprint


def test_the_judge_can_say_no() -> None:
    """The same seeds, judged by more than their systems promise, are not all good."""
    from tests.simulation._seeds import experiment_of

    through_everything = range(7, 70, 10)  # a network of servers
    reports = [run_experiment(experiment_of(seed)[1]).report for seed in through_everything]
    broken = [report for report in reports if report is not None and "completeness" in report.broken]
    assert len(broken) > len(reports) / 2


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, 10_000, 200))
def test_no_seed_of_ten_thousand_breaks_a_promise(first: int) -> None:
    judge(first, 200)
