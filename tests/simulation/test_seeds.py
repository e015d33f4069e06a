"""Seeds of the systems that promise less, with at least ten faults each: no property is broken.

The seeds of `tidings` and of groups are in test_wide_seeds.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tidings.history.schema import NTFY
from tidings.simulation.experiment import T_DIFF, T_SUB, run_experiment
from tidings.testing.seeds import (
    EVERYTHING,
    LEAST,
    PROFILES,
    claimed,
    experiment_of,
    judged,
    missing_systems,
    run_seed,
    unpaid,
)

SEEDS = 60
AT_LEAST = 6  # seeds in which each named fault fires


def judge(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    """Run some seeds; in how many of them each fault fired, and how much was told."""
    faults: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for seed in range(first, first + count):
        seen = run_seed(seed)
        assert seen.report.holds, f"seed {seed} ({seen.profile.system}): {seen.report.story}"
        assert sum(seen.outcome.faults.values()) >= LEAST, f"seed {seed}: {seen.outcome.faults}"
        assert seen.outcome.published > 0
        faults.update(seen.outcome.faults.keys())
        received[seen.profile.system] += seen.outcome.delivered
    return faults, received


def test_no_seed_breaks_a_promise_and_each_fault_fires_in_many(capsys: pytest.CaptureFixture[str]) -> None:
    fired, delivered = judge(0, SEEDS)
    with capsys.disabled():
        print(f"\n  seeds in which each fault fired, of {SEEDS}:")
        for name in EVERYTHING:
            print(f"    {name:<18} {fired[name]}")
        print("  notifications: " + ", ".join(f"{name} {count}" for name, count in sorted(delivered.items())))
    assert {name: fired[name] for name in EVERYTHING if fired[name] < AT_LEAST} == {}
    assert min(delivered.values()) > 30, "every system had something to tell"


def test_every_system_is_judged() -> None:
    assert not missing_systems()


def test_a_seed_replays_byte_for_byte() -> None:
    for seed in range(len(PROFILES)):
        assert run_seed(seed).outcome.fingerprint == run_seed(seed).outcome.fingerprint
    assert run_seed(0).outcome.fingerprint != run_seed(len(PROFILES)).outcome.fingerprint


def test_the_judge_says_no_exactly_where_something_was_lost() -> None:
    """The same seeds, judged by more than their systems promise: on each of them the verdict is that of
    an oracle which knows nothing but who was subscribed for how long.

    Not every seed loses something that was due by then: T_sub and T_diff are stated (10 and 20 s), and
    many subscriptions of these runs do not last that long. So the verdicts differ between seeds."""
    lost: list[int] = []
    for seed in range(7, 127, 10):  # a network of servers through everything
        outcome = run_experiment(experiment_of(seed)[1])
        assert outcome.report is not None
        found = unpaid(outcome.rows, T_SUB, T_DIFF)
        verdict = outcome.report["completeness"]
        assert (verdict.violations > 0) == bool(found), f"seed {seed}: {found[:3]}, {verdict}"
        lost.append(len(found))
    assert min(lost) == 0 < max(lost), lost


@pytest.mark.parametrize("seed", [5, 15, 25, 8, 18, 28])
def test_the_judge_says_no_whichever_due_notification_is_taken_away(seed: int) -> None:
    """Seeds that are good: without any one of the notifications that were due they are not."""
    seen = run_seed(seed)
    due = claimed(seen.outcome.rows, 0.0, seen.outcome.longest_delay)
    assert due
    for subscription, source, event in sorted(due):
        rows = [
            row
            for row in seen.outcome.rows
            if row.op != NTFY or (row.subscription, row.source, row.event) != (subscription, source, event)
        ]
        assert not judged(seen.profile, rows, seen.outcome.longest_delay)["completeness"].holds, event


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + 1000, 100))
def test_no_seed_of_a_thousand_breaks_a_promise(first: int) -> None:
    judge(first, 100)
