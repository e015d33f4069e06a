"""kill -9 at any point: what was acknowledged is kept, and a durable subscriber hears all of it.

A child publishes and listens on one store and is killed at random moments; then another takes over.
Across a crash of the client delivery is at least once: an event may be heard again in a later life, never
twice in one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from conftest import Figures

CHILD = Path(__file__).with_name("_embedded_child.py")
ROOT = Path(__file__).resolve().parents[2]
PER_LIFE = 1_000_000  # more than a life has time for


Line = tuple[str, int]


def start(store: Path, first: int, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(CHILD), str(store), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def read(line: bytes) -> Line:
    what, number = line.split()
    return what.decode(), int(number)


def live_and_die(store: Path, first: int, events: int) -> list[Line]:
    """One life: killed when it has said so much. What it had said by then is still in the pipe."""
    with start(store, first, PER_LIFE) as child:
        assert child.stdout is not None
        stated = [child.stdout.readline() for _ in range(events)]
        child.kill()
        stated += child.stdout.readlines()
    return [read(line) for line in stated if line.endswith(b"\n")]


def play(store: Path, kills: int, seed: int) -> Counter[str]:
    rng = Random(seed)
    lives: list[list[Line]] = []
    first = 0
    for _ in range(kills):
        lives.append(live_and_die(store, first, rng.randrange(5, 400)))
        first = max([first, *(number + 1 for what, number in lives[-1] if what == "tried")])
    with start(store, 0, 0) as last:
        assert last.stdout is not None
        lives.append([read(line) for line in last.stdout])
    assert last.returncode == 0
    return judge(lives)


def judge(lives: list[list[Line]]) -> Counter[str]:
    stated = [line for life in lives for line in life]
    acked = {number for what, number in stated if what == "acked"}
    tried = {number for what, number in stated if what == "tried"}
    received = Counter(number for what, number in stated if what == "heard")
    assert acked, "something was acknowledged"
    assert not acked - received.keys(), "acknowledged means kept, and owed means told"
    assert not received.keys() - tried, "nothing was invented"
    for life in lives:
        once = Counter(number for what, number in life if what == "heard")
        assert set(once.values()) <= {1}, "never twice in one life"
    again = sum(count - 1 for count in received.values())
    return Counter({"acked": len(acked), "in flight at a kill": len(tried - acked), "heard again": again})


def test_acknowledged_means_kept_through_kills(tmp_path: Path) -> None:
    figures = play(tmp_path / "store", kills=4, seed=11)
    assert figures["in flight at a kill"] > 0, "some kills hit publishes that were not acknowledged"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_acknowledged_means_kept_through_many_kills(tmp_path: Path, figures: Figures) -> None:
    total: Counter[str] = Counter()
    for seed in range(10):
        total += play(tmp_path / f"store-{seed}", kills=30, seed=seed)
    figures(kills=300, lost=0)
    print(dict(total))
    assert total["in flight at a kill"] > 0, "some kills hit publishes that were not acknowledged"
