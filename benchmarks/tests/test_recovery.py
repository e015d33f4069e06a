"""What recovery costs: the bench, and a bound on it that no other load on the machine can move."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tidings.errors import InputError
from tidings_bench import recovery
from tidings_bench.recovery import PULLS, line_of, nodes, run, seconds_of
from tidings_bench.recovery_network import OFF

MOST = 0.05  # of the work of the same brokers without recovery


def steps(system: str) -> int:
    """Instructions of Python for one slice of events."""
    world = line_of(system, 1, warm=60)
    count = 0

    def on_step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return on_step

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return on_step

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        seconds_of(world)
    finally:
        sys.settrace(before)
    return count


def test_while_nothing_is_lost_pulls_take_few_steps_more_than_no_recovery() -> None:
    off = steps(OFF)
    for system in PULLS:
        assert steps(system) <= (1 + MOST) * off, system


def test_every_system_is_measured_beside_the_one_without_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WARM", 40)
    monkeypatch.setattr(recovery, "line_of", lambda system, seed: line_of(system, seed, warm=40))
    rows = list(nodes(2, seed=1))
    assert [row["engine"] for row in rows] == list(recovery.SYSTEMS)
    assert rows[0]["ratio_to_best_peer"] == 1.0
    assert all(row["figure"] > 0 for row in rows)


def test_a_work_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="no work is called"):
        list(run(only="wires"))


@pytest.mark.soak
def test_broker_processes_are_measured_too() -> None:
    rows = list(run(quick=True, only="processes"))
    assert [row["engine"] for row in rows] == [OFF, *PULLS]
    assert rows[0]["ratio_to_best_peer"] == 1.0
