"""Holding the log for a reader: what it has not read is kept, and goes when it has."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol.delivery.test_staging import Sink

from tidings.language import parse_filter
from tidings.model.event import FOREVER, TENANT_MARK, Event, make_event
from tidings.model.filter import EVERYTHING
from tidings.protocol import messages as msg
from tidings.protocol.delivery import retention_holds as module
from tidings.protocol.limits import ClientLimits, ResourceLimits

ODD = parse_filter("n % 2 = 1")


def held(stage: Sink, name: str = "spark", filter: Any = EVERYTHING, **more: Any) -> msg.LogHeld:
    call = stage.ask(msg.HoldLog, name, filter, seconds=more.pop("seconds", 60.0), **more)
    answer: msg.LogHeld = stage.answers[call]
    return answer


def commit(stage: Sink, batch: int, *numbers: int, lifetime: float = 0.0) -> None:
    made = tuple(make_event({"n": n}, source="q", id=f"q{n}", lifetime=lifetime) for n in numbers)
    stage.ask(msg.StageEvents, "q", batch, 0, made)
    stage.ask(msg.CommitStaged, "q", batch, 1)
    stage.wait(1.0)


def test_an_event_without_a_lifetime_goes_at_once_when_nobody_holds() -> None:
    stage = Sink()
    commit(stage, 0, 1, 2)
    assert stage.log() == []


def test_a_broker_in_memory_refuses_a_hold_and_says_how_to_get_a_store() -> None:
    stage = Sink(stable=False)
    call = stage.ask(msg.HoldLog, "spark", EVERYTHING, seconds=60.0)
    assert "needs a broker with a store: start it with --store DIR" in stage.failures[call][1]


def test_a_hold_keeps_what_was_not_read_and_lets_go_of_what_was() -> None:
    stage = Sink()
    first = held(stage)
    assert (first.begin, first.end, first.upto, first.is_new) == (1, 0, 0, True)
    commit(stage, 0, 1, 2, 3)
    assert stage.log() == [1, 2, 3]
    again = held(stage, upto=2)
    assert (again.end, again.upto, again.is_new) == (3, 2, False)
    stage.wait(1.0)
    assert stage.log() == [3]


def test_a_place_never_goes_back() -> None:
    stage = Sink()
    held(stage)
    commit(stage, 0, 1, 2)
    held(stage, upto=2)
    assert held(stage, upto=1).upto == 2


def test_published_events_are_kept_for_a_hold_whose_filter_accepts_them() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, filter=ODD)
    for n in (1, 2, 3):
        stage.publish("p", {"n": n})
        stage.settle()
    stage.wait(1.0)
    assert stage.log() == [1, 3]


def test_events_that_come_together_are_kept_for_a_hold_as_those_that_come_alone() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, filter=ODD)
    stage.together = True
    for n in range(8):
        stage.publish("p", {"n": n})
    stage.wait(1.0)
    assert stage.log() == [1, 3, 5, 7]


def test_a_hold_survives_a_crash_and_ends_when_nobody_asks_for_it() -> None:
    stage = Sink()
    held(stage, seconds=60.0)
    commit(stage, 0, 1)
    stage.crash()
    stage.link("w")
    stage.wait(1.0)
    assert stage.log() == [1]
    assert not held(stage, seconds=60.0).is_new
    stage.wait(61.0)
    stage.wait(1.0)
    assert stage.log() == []
    assert held(stage, seconds=60.0).is_new


def keyed(stage: Sink, batch: int, *numbers: int) -> None:
    """Events of one key, one after the other."""
    for number in numbers:
        event = make_event({"n": number}, source="q", id=f"q{number}", lifetime=FOREVER, key="last")
        stage.ask(msg.StageEvents, "q", number, 0, (event,))
        stage.ask(msg.CommitStaged, "q", number, 1)
    stage.wait(1.0)


def read(stage: Sink, **more: Any) -> list[int]:
    page: msg.LogRead = stage.answers[stage.ask(msg.ReadLog, EVERYTHING, **more)]
    return [entry.event["n"] for entry in page.entries]


def test_a_hold_for_superseded_events_keeps_them_until_its_place_moves_on() -> None:
    """Found by an attack from outside: a batch of Spark that was read again lacked what a newer event of
    its key had superseded."""
    stage = Sink()
    held(stage, superseding=False)
    keyed(stage, 0, 1, 2, 3)
    assert (stage.log(), read(stage), read(stage, superseded=True)) == ([1, 2, 3], [3], [1, 2, 3])
    stage.crash()
    stage.link("w")
    keyed(stage, 1, 4)
    assert (stage.log(), read(stage), read(stage, superseded=True)) == ([1, 2, 3, 4], [4], [1, 2, 3, 4])
    held(stage, superseding=False, upto=2)
    stage.wait(1.0)
    assert stage.log() == [3, 4]
    assert not held(stage).is_new  # from now on as other holds
    stage.wait(1.0)
    assert stage.log() == [4]


def test_a_hold_keeps_what_was_superseded_before_it_was_looked_at() -> None:
    stage = Sink()
    keyed(stage, 0, 1)
    call = stage.ask(msg.HoldLog, "spark", EVERYTHING, seconds=60.0, superseding=False, settle=False)
    keyed(stage, 1, 2)
    stage.settle()
    assert stage.answers[call].is_new
    assert (stage.log(), read(stage, superseded=True)) == ([1, 2], [1, 2])


def test_a_hold_that_is_ended_holds_nothing() -> None:
    stage = Sink()
    held(stage)
    commit(stage, 0, 1)
    stage.ask(msg.EndHold, "spark")
    stage.wait(1.0)
    assert stage.log() == []


def test_what_lives_forever_is_released_only_up_to_the_place_and_only_on_request() -> None:
    stage = Sink()
    held(stage, "archive")
    commit(stage, 0, 1, 2, 3, lifetime=FOREVER)
    held(stage, "archive", upto=2)
    stage.wait(1.0)
    assert stage.log() == [1, 2, 3]
    held(stage, "archive", upto=2, releases=True)
    stage.wait(1.0)
    assert stage.log() == [3]


def test_what_a_durable_subscription_is_owed_is_not_released() -> None:
    stage = Sink()
    stage.client("s")
    stage.subscribed("s", name="mine", durable=True)
    commit(stage, 0, 1, 2, lifetime=FOREVER)
    held(stage, "archive", upto=2, releases=True)
    stage.wait(1.0)
    assert stage.log() == [1, 2]


def test_the_slowest_reader_decides() -> None:
    stage = Sink()
    held(stage, "slow")
    held(stage, "fast")
    commit(stage, 0, 1, 2)
    held(stage, "fast", upto=2)
    stage.wait(1.0)
    assert stage.log() == [1, 2]


def test_a_commit_of_named_parts_takes_these_in_this_order_and_drops_the_rest() -> None:
    stage = Sink()
    held(stage)
    for part, n in ((70_000, 1), (3, 2), (4, 9)):
        stage.ask(msg.StageEvents, "q", 0, part, (make_event({"n": n}, source="q", id=f"q{n}"),))
    call = stage.ask(msg.CommitParts, "q", 0, (70_000, 3))
    assert stage.answers[call] == msg.Committed(call, "q", 0, is_new=True)
    assert stage.log() == [1, 2]
    assert stage.disk.tables["staged"] == {}


def test_an_identity_that_is_known_is_not_published_again_by_a_batch() -> None:
    stage = Sink()
    held(stage)
    commit(stage, 0, 1)
    commit(stage, 1, 1, 2, 2)
    assert stage.log() == [1, 2]


def test_a_hold_pins_only_what_its_filter_accepts() -> None:
    """Reproduction t07: a hold kept every entry beyond its place, whatever its holder may read."""
    stage = Sink()
    stage.client("p")
    held(stage, filter=ODD)
    for n in (1, 2, 3, 4):
        stage.publish("p", {"n": n}, lifetime=1.0)
        stage.settle()
    assert stage.log() == [1, 2, 3, 4]
    stage.wait(3.0)
    assert stage.log() == [1, 3]


def test_entries_from_before_a_hold_are_kept_when_its_filter_accepts_them_over_a_restart_too() -> None:
    stage = Sink()
    stage.client("p")
    for n in range(1, 7):
        stage.publish("p", {"n": n}, lifetime=2.0)
        stage.settle()
    held(stage, filter=ODD)
    stage.settle()
    stage.crash()
    stage.wait(5.0)
    assert stage.log() == [1, 3, 5]


def test_a_hold_that_keeps_more_than_its_bytes_ends() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, most_bytes=2_000)
    for n in range(5):
        stage.publish("p", {"n": n, "text": "x" * 300}, lifetime=0.0)
        stage.settle()
    stage.wait(1.0)
    assert len(stage.log()) == 5
    for n in range(5, 10):
        stage.publish("p", {"n": n, "text": "x" * 300}, lifetime=0.0)
        stage.settle()
    stage.wait(1.0)
    assert stage.log() == []
    assert held(stage).is_new  # its reader is told that it began anew


def test_moving_on_makes_room_in_a_hold() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, most_bytes=2_000)
    for n in range(12):
        stage.publish("p", {"n": n, "text": "x" * 300}, lifetime=0.0)
        stage.settle()
        held(stage, most_bytes=2_000, upto=n)
    assert not held(stage, most_bytes=2_000).is_new


class Counting:
    """The matcher of holds, with a count of how often it is asked."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def match(self, event: Event) -> Any:
        self.asked += 1
        return self._inner.match(event)


def test_an_event_is_matched_once_for_all_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 555 holds was evaluated by itself, twice for every event."""
    stage = Sink()
    stage.client("p")
    for number in range(555):
        held(stage, f"h{number}", parse_filter(f"n = {number} OR n = {number + 1_000}"))
    holding = stage.node.slots["delivery"]._jobs.holding
    evaluated: list[Any] = []
    monkeypatch.setattr(module, "accepts", lambda filter, event: evaluated.append(filter) or True)
    holding.matcher = counting = Counting(holding.matcher)
    for n in (3, 1_003, 5_000):
        stage.publish("p", {"n": n})
        stage.settle()
    assert (counting.asked, evaluated) == (3, [])
    stage.wait(1.0)
    assert stage.log() == [3, 1_003]


def test_a_hold_that_changes_its_filter_keeps_by_the_new_one() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, filter=ODD)
    held(stage, "other", filter=parse_filter("n = 2"))
    for n in (1, 2, 3, 4):
        stage.publish("p", {"n": n})
        stage.settle()
    held(stage, filter=parse_filter("n >= 3"))
    stage.wait(1.0)
    assert stage.log() == [2, 3]
    stage.ask(msg.EndHold, "other")
    stage.publish("p", {"n": 2})
    stage.publish("p", {"n": 6})
    stage.wait(1.0)
    assert stage.log() == [3, 6]


def test_holds_are_bounded_for_each_principal_and_not_for_all_together() -> None:
    limits = ResourceLimits(client=ClientLimits(holds=3))
    stage = Sink(limits=limits)
    for number in range(3):
        held(stage, f"mallory{TENANT_MARK}h{number}")
    call = stage.ask(msg.HoldLog, f"mallory{TENANT_MARK}h3", EVERYTHING, seconds=60.0)
    assert stage.failures[call] == ("limit", "3 readers of yours hold this log already; end one of them")
    assert not held(stage, f"mallory{TENANT_MARK}h2").is_new
    assert held(stage, f"alice{TENANT_MARK}spark").is_new
    stage.crash()
    stage.link("w")
    call = stage.ask(msg.HoldLog, f"mallory{TENANT_MARK}h3", EVERYTHING, seconds=60.0)
    assert stage.failures[call][0] == "limit"
    stage.ask(msg.EndHold, f"mallory{TENANT_MARK}h0")
    assert held(stage, f"mallory{TENANT_MARK}h3").is_new


def test_an_event_that_ends_for_everybody_leaves_every_hold() -> None:
    stage = Sink()
    stage.client("p")
    held(stage, "one")
    held(stage, "two")
    for n in (1, 2):
        stage.publish("p", {"n": n}, key="k", lifetime=600.0)
        stage.settle()
    held(stage, "one", upto=2)
    held(stage, "two", upto=2)
    stage.wait(1.0)
    assert stage.log() == [2]
    assert stage.node.slots["delivery"]._jobs.holding.held_bytes == 0
