"""How times are told."""

from __future__ import annotations

from tidings.history.story import seconds


def test_times_since_a_run_began_are_seconds() -> None:
    assert seconds(12.5) == "12.5 s"
    assert seconds(0.0) == "0 s"


def test_times_of_a_wall_clock_are_times_of_day() -> None:
    assert seconds(1_794_739_764.716421) == "10:49:24.716421"
