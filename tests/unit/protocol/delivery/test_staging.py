"""Publishing in two steps, and reading the log: all or nothing, once, remembered across a crash."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol._stage import BROKER, Stage

from tidings.language import parse_filter
from tidings.model.event import FOREVER, TENANT_MARK, Event, make_event
from tidings.protocol import messages as msg
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ClientAsk
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits


def events(*numbers: int) -> tuple[Event, ...]:
    return tuple(make_event({"n": n}, source="query", id=f"q-{n}", lifetime=FOREVER) for n in numbers)


class Sink(Stage):
    """A broker, with a store unless it is not `stable`, and a writer `w`."""

    def __init__(
        self, limits: ResourceLimits = DEFAULT_LIMITS, *, stable: bool = True, **settings: Any
    ) -> None:
        super().__init__(stable=stable, settings=DeliverySettings(**settings), limits=limits)
        self.client("w")

    def ask(self, make: Any, *fields: Any, settle: bool = True, **more: Any) -> int:
        self.calls += 1
        self.hand("w", ClientAsk(self.calls, make(self.calls, *fields, **more)))
        if settle:
            self.settle()
        return self.calls

    def log(self) -> list[int]:
        return [self.disk.log[offset].event["n"] for offset in sorted(self.disk.log)]


def test_nothing_is_told_before_the_commit_and_all_of_it_after() -> None:
    stage = Sink()
    stage.client("s")
    ref = stage.subscribed("s", name="mine", durable=True)
    for part, numbers in enumerate([(1, 2), (3,)]):
        assert stage.answers[stage.ask(msg.StageEvents, "q", 0, part, events(*numbers))] == msg.Staged(
            stage.calls
        )
    assert stage.log() == []
    call = stage.ask(msg.CommitStaged, "q", 0, 2)
    assert stage.answers[call] == msg.Committed(call, "q", 0, is_new=True)
    stage.drain("s", ref)
    assert [note.event["n"] for note in stage.received["s", ref]] == [1, 2, 3]
    assert stage.disk.tables["staged"] == {}


def test_different_events_of_one_identity_are_not_committed_together() -> None:
    stage = Sink()
    (event,) = events(1)
    other = make_event({"n": 2}, source="query", id="q-1", lifetime=FOREVER)
    stage.ask(msg.StageEvents, "q", 0, 0, (event,))
    stage.ask(msg.StageEvents, "q", 0, 1, (other,))
    call = stage.ask(msg.CommitStaged, "q", 0, 2)
    assert "two different events with the id 'q-1'" in stage.failures[call][1]
    assert stage.log() == []
    stage.ask(msg.StageEvents, "q", 0, 1, events(1))  # a repetition counts as one
    call = stage.ask(msg.CommitStaged, "q", 0, 2)
    assert stage.answers[call] == msg.Committed(call, "q", 0, is_new=True)
    assert stage.log() == [1]


def test_committing_again_changes_nothing() -> None:
    stage = Sink()
    stage.ask(msg.StageEvents, "q", 4, 0, events(1))
    stage.ask(msg.CommitStaged, "q", 4, 1)
    for batch in (4, 3):
        stage.ask(msg.StageEvents, "q", batch, 0, events(9))
        call = stage.ask(msg.CommitStaged, "q", batch, 1)
        assert stage.answers[call] == msg.Committed(call, "q", batch, is_new=False)
    assert stage.log() == [1]
    call = stage.ask(msg.AskCommitted, "q")
    assert stage.answers[call].batch == 4
    assert stage.answers[stage.ask(msg.AskCommitted, "other")].batch == -1


def test_a_part_that_is_staged_again_replaces_the_first() -> None:
    stage = Sink()
    stage.ask(msg.StageEvents, "q", 0, 0, events(1, 2))
    stage.ask(msg.StageEvents, "q", 0, 0, events(3))
    stage.ask(msg.CommitStaged, "q", 0, 1)
    assert stage.log() == [3]


def test_a_missing_part_publishes_nothing() -> None:
    stage = Sink()
    stage.ask(msg.StageEvents, "q", 0, 1, events(1))
    call = stage.ask(msg.CommitStaged, "q", 0, 2)
    assert stage.failures[call][1].startswith("part 0 of 2 is not staged")
    assert stage.log() == []


@pytest.mark.parametrize("is_written", [True, False])
def test_a_crash_in_mid_commit_leaves_all_or_nothing(is_written: bool) -> None:
    stage = Sink()
    stage.ask(msg.StageEvents, "q", 0, 0, events(1, 2))
    call = stage.ask(msg.CommitStaged, "q", 0, 1, settle=False)
    while not stage.disk.pending:
        stage.move(*stage.movable()[0])
    if is_written:
        stage.disk.commit()  # on the disk, and nobody was told
    stage.crash()
    stage.link("w")
    stage.settle()
    assert stage.log() == [1, 2]  # the client asked again on its new link
    assert stage.answers[call] == msg.Committed(call, "q", 0, is_new=not is_written)


def test_two_who_commit_at_once_are_both_answered() -> None:
    stage = Sink()
    stage.ask(msg.StageEvents, "q", 0, 0, events(1))
    calls = [stage.ask(msg.CommitStaged, "q", 0, 1, settle=False) for _ in range(2)]
    stage.settle()
    assert [stage.answers[call].batch for call in calls] == [0, 0]
    assert stage.log() == [1]


def test_staging_ends_after_a_time() -> None:
    stage = Sink(staging_seconds=10.0)
    stage.ask(msg.StageEvents, "q", 0, 0, events(1))
    stage.now += 11
    stage.settle()
    assert stage.disk.tables["staged"] == {}
    assert "not staged" in stage.failures[stage.ask(msg.CommitStaged, "q", 0, 1)][1]
    assert stage.node.slots["delivery"]._jobs.staging.staged_bytes == 0


def test_staging_is_bounded() -> None:
    stage = Sink(staging_bytes=200)
    assert (
        "may be; commit in smaller batches"
        in stage.failures[stage.ask(msg.StageEvents, "q", 0, 0, events(*range(20)))][1]
    )
    assert stage.answers[stage.ask(msg.StageEvents, "q", 0, 0, events(1))]


def test_one_principal_does_not_use_up_the_staging_of_others() -> None:
    """64 MiB were common to all: a principal that never commits kept every other one out."""
    stage = Sink(staging_bytes=100, staging_principals=2, staging_seconds=60.0)
    staging = stage.node.slots["delivery"]._jobs.staging

    def staged(owner: str, part: int = 0) -> str:
        call = stage.ask(msg.StageEvents, f"{owner}{TENANT_MARK}q", 0, part, events(part))
        return "" if call in stage.answers else stage.failures[call][1]

    assert staged("mallory") == ""
    size = staging.staged_bytes
    assert 50 < size <= 100
    assert "may be; commit in smaller batches" in staged("mallory", 1)
    assert staged("mallory") == ""  # the same part again takes no more room
    assert staged("alice") == ""
    assert "all principals together have staged" in staged("bob")
    stage.crash()
    stage.link("w")
    assert "may be; commit in smaller batches" in staged("mallory", 1)
    stage.ask(msg.CommitStaged, f"mallory{TENANT_MARK}q", 0, 1)
    assert staged("bob") == ""
    stage.wait(61.0)
    stage.wait(1.0)
    assert stage.node.slots["delivery"]._jobs.staging.staged_bytes == 0


def test_a_sink_stays_at_one_broker() -> None:
    stage = Sink()
    for make, fields in ((msg.StageEvents, ("q", 0, 0, events(1))), (msg.CommitStaged, ("q", 0, 1))):
        call = stage.ask(make, *fields, log="elsewhere")
        assert "a sink stays at one broker" in stage.failures[call][1]


def test_staging_needs_a_store() -> None:
    stage = Stage()
    stage.client("w")
    stage.hand("w", ClientAsk(1, msg.StageEvents(1, "q", 0, 0, events(1))))
    stage.settle()
    assert "needs a broker with a store" in stage.failures[1][1]


# -- reading the log -----------------------------------------------------------------------------


def test_the_log_is_read_by_filter_from_an_offset_page_by_page() -> None:
    stage = Sink()
    for n in range(700):
        stage.published("w", {"n": n}, lifetime=FOREVER)
    found: list[int] = []
    after = 0
    while True:
        call = stage.ask(msg.ReadLog, parse_filter("n % 3 = 0"), after, 100, BROKER)
        page = stage.answers[call]
        found += [entry.event["n"] for entry in page.entries]
        assert all(after < entry.offset <= page.upto for entry in page.entries)
        after = page.upto
        if after == page.end:
            break
    assert found == list(range(0, 700, 3))
    assert (page.log, page.begin, page.end) == (BROKER, 1, 700)


def test_what_has_ended_is_not_read_and_the_reader_sees_where_the_log_begins() -> None:
    stage = Sink()
    stage.published("w", {"n": 1}, lifetime=5)
    stage.published("w", {"n": 2}, lifetime=FOREVER)
    stage.now += 10
    stage.settle()
    page = stage.answers[stage.ask(msg.ReadLog, parse_filter("n > 0"))]
    assert [entry.event["n"] for entry in page.entries] == [2]
    assert page.begin == 2


def test_another_log_is_refused_and_an_empty_one_is_read() -> None:
    stage = Sink()
    assert "is not here" in stage.failures[stage.ask(msg.ReadLog, parse_filter("n > 0"), log="other")][1]
    page = stage.answers[stage.ask(msg.ReadLog, parse_filter("n > 0"))]
    assert (page.entries, page.upto, page.end) == ((), 0, 0)
