"""What a client records as a redelivery: only what the broker may have sent before."""

from __future__ import annotations

from tests.unit.protocol._stage import Stage

from tidings.history.check import check
from tidings.history.schema import NACK, NTFY, REDELIVERY, SUSPECT, USUB

MINE = {"name": "mine", "durable": True}


def stage_with(*numbers: int) -> Stage:
    stage = Stage(recording=True, stable=True)
    stage.client("p")
    stage.client("s")
    publish(stage, *numbers)
    return stage


def publish(stage: Stage, *numbers: int) -> None:
    for number in numbers:
        stage.published("p", {"n": number})


def absent(stage: Stage, *, most: int = 0) -> None:
    """It subscribed, took so many of events 0, 1 and 2, and left; the last one is not committed."""
    ref = stage.subscribed("s", window=0, **MINE)
    publish(stage, 0, 1, 2)
    assert stage.drain("s", ref, most=most) == [0, 1, 2][:most]
    stage.leave("s", ref, commit=False)
    stage.wait(1.0)


def restart(stage: Stage) -> None:
    del stage.clients["s"]
    stage.crash()
    stage.link("p")


def returned(stage: Stage) -> list[tuple[object, bool]]:
    """What a new process of the subscriber is told, and whether its record calls that a redelivery."""
    stage.client("s")
    seen = len(stage.rows)
    ref = stage.subscribed("s", **MINE)
    numbers = stage.drain("s", ref)
    labels = [row.reason == REDELIVERY for row in stage.rows[seen:] if row.op == NTFY]
    stage.leave("s", ref)
    stage.settle()
    return list(zip(numbers, labels, strict=True))


def test_a_first_delivery_after_a_restart_is_no_redelivery() -> None:
    """Found by a user: every one of them was called so."""
    stage = stage_with()
    absent(stage)
    publish(stage, 3)
    restart(stage)
    publish(stage, 4)
    assert returned(stage) == [(number, False) for number in range(5)]
    assert check(stage.rows).holds


def test_of_what_was_left_uncommitted_the_broker_knows_over_restarts() -> None:
    stage = stage_with()
    absent(stage, most=2)
    assert [row.op for row in stage.rows if row.op in (NACK, USUB)] == [NACK, USUB]
    restart(stage)
    publish(stage, 3)
    stage.wait(1.0)
    restart_once_more(stage)
    assert returned(stage) == [(1, True), (2, False), (3, False)]
    assert check(stage.rows).holds


def restart_once_more(stage: Stage) -> None:
    stage.crash()
    stage.link("p")


def test_of_what_a_listener_had_when_the_broker_crashed_it_does_not_know() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", **MINE)
    publish(stage, 0, 1, 2)
    assert stage.drain("s", ref, most=2) == [0, 1]
    restart(stage)
    publish(stage, 3)
    told = returned(stage)
    assert told[-1] == (3, False)
    assert all(label for number, label in told if number in (0, 1)), "they may have been sent"
    assert check(stage.rows).holds


def test_after_a_take_over_from_disk_committed_events_do_not_come_again() -> None:
    stage = stage_with()
    absent(stage, most=3)
    restart(stage)
    assert returned(stage) == [(2, True)]
    restart_once_more(stage)
    assert returned(stage) == []


def test_a_client_records_that_it_lost_its_broker() -> None:
    stage = stage_with()
    stage.subscribed("s", **MINE)
    stage.cut("s")
    stage.cut("p")
    assert [(row.process, row.from_) for row in stage.rows if row.op == SUSPECT] == [("s", "b")]
