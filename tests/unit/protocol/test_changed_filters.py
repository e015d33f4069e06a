"""Events that a durable subscription gives up by changing its filter are counted, each of them once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.protocol._stage import Stage

from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.limits import ResourceLimits

EVENTS = 24
FILTERS = ("n % 2 = 1", "n % 3 = 0", "n > 0", "n > 12", "n % 2 = 1")  # some accept again what others gave up
SMALL = DeliverySettings(chunk=2)  # a change of the filter finds most of the log unread
AHEAD = {"keep_events": 1000}  # the broker reads the log for such a subscription before it does itself
READERS = pytest.mark.parametrize("bounds", [{}, AHEAD], ids=["by replay", "by recount"])


def accepted(filter: str, numbers: set[int]) -> set[int]:
    wanted = parse_filter(filter)
    return {n for n in numbers if accepts(wanted, make_event({"n": n}, source="p", id="1"))}


def left_behind(rng: Random | None = None, **options: Any) -> Stage:
    """A durable subscription to all events was left, and has to read all of them from the log."""
    stage = Stage(stable=True, rng=rng, settings=SMALL)
    stage.client("p")
    stage.client("s")
    ref = stage.subscribed("s", "n > 0", **options)
    stage.leave("s", ref)
    stage.settle()
    for n in range(1, EVENTS + 1):
        stage.published("p", {"n": n})
    return stage


def restart(stage: Stage) -> None:
    stage.crash()
    stage.link("p")
    stage.link("s")


def counted(stage: Stage, ref: int) -> int:
    stage.wait(1.0)
    lost = stage.lost.get(("s", ref), {})
    assert set(lost) <= {"filter changed"}
    return lost.get("filter changed", 0)


@READERS
@pytest.mark.parametrize("pause", [0.1, 2.0])
@pytest.mark.parametrize("takes", [0, 2])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_filters_in_a_row_give_up_is_counted(
    restarts: bool, takes: int, pause: float, bounds: dict[str, Any]
) -> None:
    """Events that had not been read when the next filter came were counted by none."""
    options = {"name": "mine", "durable": True, "queue": 2, "window": 1, **bounds}
    stage = left_behind(**options)
    owed, given_up = set(range(1, EVENTS + 1)), 0
    for filter in FILTERS:
        ref = stage.subscribed("s", filter, **options)
        kept = accepted(filter, owed)
        given_up += len(owed - kept)
        received = set(stage.drain("s", ref, most=takes))
        assert received <= kept
        owed = kept - received
        stage.leave("s", ref)
        stage.wait(pause)
        if restarts:
            restart(stage)
            stage.wait(pause)
    ref = stage.subscribed("s", FILTERS[-1], **options)
    assert set(stage.drain("s", ref)) == owed
    assert counted(stage, ref) == given_up


@READERS
@pytest.mark.parametrize("seed", range(30))
def test_what_is_given_up_is_counted_wherever_a_restart_comes(seed: int, bounds: dict[str, Any]) -> None:
    """The broker read the log for a subscription with an owner or bounds, and let go of what its replay had
    still to count."""
    rng = Random(seed)
    options = {"name": "mine", "durable": True, "queue": 4, "window": 1, **bounds}
    stage = left_behind(Random(seed), **options)
    owed, given_up = set(range(1, EVENTS + 1)), 0
    for filter in rng.choices(FILTERS, k=4):
        call = stage.subscribe("s", filter, **options)
        while call not in stage.answers:
            assert stage.step(), stage.failures
        kept = accepted(filter, owed)
        given_up, owed = given_up + len(owed - kept), kept
        for _ in range(rng.choice((0, 3, 30))):
            stage.step()
        left = stage.leave("s", stage.answers[call].ref)
        while left not in stage.answers:
            assert stage.step(), stage.failures
        if rng.random() < 0.5:
            stage.wait(rng.choice((0.06, 1.1)))
        if rng.random() < 0.5:
            restart(stage)
    ref = stage.subscribed("s", filter, **options)
    assert set(stage.drain("s", ref)) == owed
    assert counted(stage, ref) == given_up


def test_each_of_many_that_changed_their_filter_is_counted_in_its_turn() -> None:
    stage = Stage(stable=True, settings=SMALL, limits=ResourceLimits(recounted_changes=1))
    stage.client("p")
    for name in ("q", "r", "s"):
        stage.client(name)
        stage.leave(name, stage.subscribed(name, "n > 0", name="mine", durable=True, **AHEAD))
        stage.settle()
    for n in range(1, EVENTS + 1):
        stage.published("p", {"n": n})
    options = {"name": "mine", "durable": True, "queue": 1, "window": 1, **AHEAD}
    refs = {name: stage.subscribed(name, "n > 12", **options) for name in ("q", "r", "s")}
    for turn in range(4):  # an event whose lifetime is over lets the broker look again
        stage.published("p", {"n": 100 + turn})
        stage.wait(1.1)
    for name, ref in refs.items():
        assert stage.lost[name, ref] == {"filter changed": 12}
        assert stage.drain(name, ref) == [*range(13, EVENTS + 1), *range(100, 104)]
    assert stage.node.figures()["backlog recounts"] >= 3
