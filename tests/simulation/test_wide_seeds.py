"""200 seeds of the wide world in every run of the tests: no promise is broken. `make soak` runs 10,000 of
them as its campaign (`_campaign.py`); a seeded defect is looked for in the first 2,000.

`tidings simulate --wide --seed N` shows any of them again.
"""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import Figures
from tests.simulation._wide import are_troubled, run

from tidings.simulation import faults as fault
from tidings.simulation.wide.drawing import KINDS, LEAST
from tidings.simulation.wide.running import WideOutcome

SEEDS = 200
MET_IN = 0.4  # of the seeds each limit is met at least
FIRED_IN = 0.05  # of the seeds each fault acts at least
LIMITS = (
    "frame_bytes", "batch_bytes", "batch_count", "page_bytes", "page_count", "event_bytes",
    "event_bytes exceeded",
    "publishes_in_flight",
)  # fmt: skip


def judged(seed: int) -> WideOutcome:
    seen = run(seed)
    assert not seen.broken, f"seed {seed} ({seen.system}): {seen.broken}"
    assert seen.acked > 0
    return seen


def test_seeds_without_faults_do_not_pass() -> None:
    """One seed of two hundred may draw a calm world; a part that has only such seeds, or none, shows no
    promise to hold."""
    assert are_troubled([LEAST] * 199 + [LEAST - 1])
    assert not are_troubled([LEAST] * 100 + [LEAST - 1] * 100)
    assert not are_troubled([0])
    assert not are_troubled([])


def test_no_seed_breaks_a_promise_and_every_limit_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    fired: Counter[str] = Counter()
    met: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    faults: list[int] = []
    for seed in range(SEEDS):
        seen = judged(seed)
        faults.append(sum(seen.faults.values()))
        fired.update(seen.faults.keys())
        met.update(seen.met.keys())
        systems[seen.system] += 1
    with capsys.disabled():
        print(
            f"\n  {SEEDS} seeds: " + ", ".join(f"{name} {count}" for name, count in sorted(systems.items()))
        )
        print("  seeds in which each fault acted: " + ", ".join(f"{name} {fired[name]}" for name in KINDS))
        print("  seeds that met each limit: " + ", ".join(f"{name} {met[name]}" for name in LIMITS))
    assert are_troubled(faults), sorted(faults)
    assert {name: fired[name] for name in KINDS if fired[name] < FIRED_IN * SEEDS} == {}
    assert {name: met[name] for name in LIMITS if met[name] < MET_IN * SEEDS} == {}
    assert {*fault.RATES, *fault.WIDER, fault.DISK_LOSS} <= set(KINDS)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, 2_000, 200))
def test_no_seed_of_two_thousand_breaks_a_promise(first: int, figures: Figures) -> None:
    seen = [judged(seed) for seed in range(first, first + 200)]
    faults = [sum(each.faults.values()) for each in seen]
    assert are_troubled(faults), sorted(faults)
    figures(seeds=len(seen), faults=sum(faults))
