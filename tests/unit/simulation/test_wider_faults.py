"""Faults of clocks, disks and frames, with machines that do nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.simulation._toys import Ping, Stage, record

from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultPlan, Incident
from tidings.simulation.parts import MachineClock
from tidings.wire.codec import Codec


def plan(stage: Stage, kind: str, at: float, until: float, **more: Any) -> None:
    stage.simulation.plan(
        FaultPlan(incidents=(Incident(kind=kind, at=at, until=until, nodes=("a",), **more),))
    )


def told(stage: Stage, kind: type) -> list[Any]:
    return [item for _, item in stage.logs["a"] if type(item) is kind]


def test_a_wall_clock_that_is_set_shows_at_the_next_start() -> None:
    stage = Stage()
    plan(stage, fault.CLOCK_JUMP, 2, 3, amount=-1000.0)
    stage.do("a", at=1.0)
    stage.run(4)
    stage.do("a")
    stage.run(5)
    times = [at for at, _ in stage.logs["a"]]
    assert 1.0 in times
    assert times[-1] == -996.0
    assert stage.simulation.fired == {fault.CLOCK_JUMP: 1}


def test_a_clock_that_drifts_wakes_its_machine_by_its_own_time() -> None:
    stage = Stage()
    plan(stage, fault.CLOCK_DRIFT, 0, 100, amount=0.5)
    stage.run(1)
    stage.toy("a").deadline = 30.0
    stage.do("a")
    stage.run(19.9)
    assert not told(stage, ins.TimerFired)
    stage.run(20.1)
    assert len(told(stage, ins.TimerFired)) == 1


def test_a_clock_is_continuous_where_its_rate_changes() -> None:
    clock = MachineClock()
    clock.jump(7.0)
    clock.run_at(1.25, 10.0)
    assert clock.local(10.0) == pytest.approx(17.0)
    assert clock.local(14.0) == pytest.approx(22.0)
    assert clock.true(clock.local(14.0)) == pytest.approx(14.0)
    clock.run_at(1.0, 14.0)
    assert clock.local(15.0) == pytest.approx(23.0)


def test_a_full_disk_takes_no_event_until_there_is_room() -> None:
    stage = Stage()
    plan(stage, fault.DISK_FULL, 1, 3)
    stage.do("a", fx.Persist(1, (record(1),)), at=2.0)
    stage.do("a", fx.Persist(2, (record(2),)), at=4.0)
    stage.run(5)
    assert told(stage, ins.DiskFull)
    assert not told(stage, ins.PersistFailed)
    assert [kept.upto for kept in told(stage, ins.Persisted)] == [1, 2]


def test_a_failed_sync_is_final_until_the_next_start() -> None:
    stage = Stage()
    plan(stage, fault.SYNC_FAILURE, 1, 3)
    stage.do("a", fx.Persist(1, (record(1),)), at=2.0)
    stage.run(2.5)
    assert [failed.code for failed in told(stage, ins.PersistFailed)] == ["store"]
    stage.run(4)
    stage.do("a", fx.Persist(2, (record(2),)))
    stage.run(5)
    assert [kept.upto for kept in told(stage, ins.Persisted)] == [2]
    assert len(told(stage, ins.Started)) == 2


def test_a_frame_over_the_limit_ends_the_link_and_it_is_dialled_again() -> None:
    stage = Stage(codec=Codec((Ping,), max_frame_bytes=20))
    stage.send("a", "b", 1, at=1.0)
    stage.send("a", "b", 1 << 62, at=2.0)
    stage.send("a", "b", 2, at=3.0)
    stage.run(4)
    assert stage.got("b") == [1, 2]
    assert stage.simulation.refused_frames == {"Ping": 1}
    assert stage.kinds("a").count("LinkDown") == 1
    assert stage.kinds("a").count("LinkUp") == 2
