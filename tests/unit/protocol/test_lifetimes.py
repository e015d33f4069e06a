"""Availability 0, some seconds, forever; and what the log holds meanwhile."""

from __future__ import annotations

from tests.unit.protocol._stage import BROKER, Stage

from tidings.availability.identity import NUMBERED, IdentityBounds
from tidings.model.event import FOREVER
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.messages import AckMode


def stage_with(**options: object) -> Stage:
    stage = Stage(**options)  # type: ignore[arg-type]
    stage.client("p")
    stage.client("s")
    return stage


def test_what_a_late_subscription_hears_depends_on_the_lifetime() -> None:
    stage = stage_with()
    for number, lifetime in enumerate((0, 10, 20, FOREVER)):
        stage.published("p", {"n": number}, lifetime=lifetime)
    stage.wait(15)
    assert stage.drain("s", stage.subscribed("s")) == [2, 3]


def test_what_is_over_is_forgotten_in_steps() -> None:
    stage = stage_with(settings=DeliverySettings(collect_budget=3))
    for number in range(10):
        stage.published("p", {"n": number}, lifetime=1)
    stage.published("p", {"n": 10}, lifetime=100)
    stage.now += 2
    stage.settle()
    assert 3 <= 11 - len(stage.disk.log) <= 9, "not all at once"
    stage.wait(2)
    assert len(stage.disk.log) == 1


def test_a_replay_that_began_in_time_hears_what_expires_meanwhile() -> None:
    stage = stage_with(settings=DeliverySettings(chunk=2))
    for number in range(8):
        stage.published("p", {"n": number}, lifetime=10)
    ref = stage.subscribed("s", queue=2)
    assert stage.drain("s", ref, most=1) == [0]
    stage.wait(60)
    assert stage.drain("s", ref) == list(range(1, 8)), "it was available when the subscription began"
    stage.wait(1)
    assert stage.disk.log == {}


def test_a_replay_that_ends_early_frees_what_was_kept_for_it() -> None:
    stage = stage_with(settings=DeliverySettings(chunk=2))
    for number in range(8):
        stage.published("p", {"n": number}, lifetime=10)
    ref = stage.subscribed("s", queue=2)
    stage.wait(60)
    assert len(stage.disk.log) >= 4
    stage.leave("s", ref)
    stage.wait(1)
    assert stage.disk.log == {}


def test_expires_ends_an_event_for_everybody() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True, queue=1)
    for number in range(4):
        stage.published("p", {"n": number}, expires=5, lifetime=FOREVER)
    stage.wait(10)
    assert stage.drain("s", ref) == []
    assert stage.disk.log == {}
    stage.published("p", {"n": 9})
    assert stage.drain("s", ref) == [9]


def test_a_restart_does_not_prolong_lifetimes() -> None:
    stage = stage_with(stable=True)
    stage.published("p", {"n": 1}, lifetime=10)
    stage.published("p", {"n": 2}, lifetime=100)
    stage.crash()
    stage.link("s")
    stage.wait(50)
    assert stage.drain("s", stage.subscribed("s")) == [2]
    assert len(stage.disk.log) == 1


def test_a_durable_subscription_is_owed_what_came_while_it_was_away_through_restarts() -> None:
    stage = stage_with(stable=True, settings=DeliverySettings(chunk=2))
    ref = stage.subscribed("s", "n % 2 = 0", name="mine", durable=True, queue=2)
    stage.leave("s", ref)
    stage.settle()
    for number in range(20):
        stage.published("p", {"n": number}, lifetime=1)
    stage.crash()
    stage.wait(60)
    stage.link("s")
    stage.settle()
    ref = stage.subscribed("s", "n % 2 = 0", name="mine", durable=True, queue=2)
    assert stage.drain("s", ref) == list(range(0, 20, 2))
    stage.leave("s", ref)
    stage.wait(60)
    assert stage.disk.log == {}


def test_a_log_that_cannot_be_read_ends_the_listening_with_its_reason() -> None:
    stage = stage_with(stable=True)
    for number in range(3):
        stage.published("p", {"n": number}, lifetime=FOREVER)
    calls = [stage.subscribe("s", name=name, durable=name == "long") for name in ("long", "short")]
    while len(stage.disk.reads) != 2:
        stage.move(*stage.movable()[0])
    for fetch in list(stage.disk.reads):
        stage.hand(BROKER, FetchFailed(fetch.request, "corrupt", "a checksum does not fit"))
    stage.disk.reads.clear()
    stage.settle()
    for call in calls:
        ref = stage.answers[call].ref
        assert stage.ended["s", ref] == ("corrupt", "a checksum does not fit")
    ref = stage.subscribed("s", name="long", durable=True)
    assert stage.drain("s", ref) == [0, 1, 2], "nothing was skipped"


def test_an_identity_is_one_event_as_long_as_it_can_be_heard_and_for_the_window_after_that() -> None:
    stage = stage_with(stable=True, settings=DeliverySettings(dedup_seconds=600.0))

    def pay() -> int:
        stage.published("p", {"pay": 100}, id="payment-1", lifetime=86_400)
        return len(stage.disk.log)

    assert pay() == 1
    stage.wait(606)
    assert pay() == 1
    assert "identity.foreign" not in stage.disk.tables, "the log knows it"
    stage.wait(86_400 - 606)
    assert stage.disk.log == {}
    stage.wait(500)
    assert pay() == 0, "nobody could hear it any more, and yet it was published"
    stage.crash()
    stage.link("p")
    stage.wait(50)
    assert pay() == 0
    stage.wait(100)
    assert stage.disk.tables["identity.foreign"] == {}
    assert pay() == 1, "the window is over"


def test_an_identity_that_no_log_held_is_known_for_the_window_over_a_restart() -> None:
    stage = stage_with(stable=True, settings=DeliverySettings(dedup_seconds=600.0))
    ref = stage.subscribed("s")
    stage.published("p", {"n": 1}, id="x")
    assert stage.drain("s", ref) == [1]
    stage.crash()
    stage.link("p")
    stage.link("s")
    ref = stage.subscribed("s")
    stage.published("p", {"n": 1}, id="x")
    assert stage.drain("s", ref) == []
    stage.wait(700)
    stage.published("p", {"n": 2}, id="x")
    assert stage.drain("s", ref) == [2]


def test_as_many_foreign_ids_as_may_be_are_refused_by_name_and_ids_of_our_own_are_not() -> None:
    bounds = IdentityBounds(foreign_ids=3)
    stage = stage_with(stable=True, settings=DeliverySettings(identities=bounds, dedup_seconds=600.0))
    for number in range(3):
        stage.published("p", {"n": number}, id=f"x{number}")
    call = stage.publish("p", {"n": 3}, id="x3")
    stage.settle()
    assert stage.failures[call][0] == "limit"
    stage.published("p", {"n": 4})
    stage.wait(700)
    stage.published("p", {"n": 3}, id="x3")


def test_rows_of_incarnations_over_their_bound_are_deleted_soon() -> None:
    """The collection that was planned for the end of the oldest one, days ahead, comes forward."""
    stage = stage_with(stable=True, settings=DeliverySettings(identities=IdentityBounds(incarnations=5)))
    stage.published("p", {"n": 0}, mode=AckMode.KEPT)
    stage.wait(1)
    for number in range(1, 30):
        stage.published("p", {"n": number}, mode=AckMode.KEPT, source=f"p/{number}")
    stage.wait(1)
    assert len(stage.disk.tables[NUMBERED]) == 5


def test_events_that_end_before_a_durable_subscription_has_read_them_are_counted() -> None:
    """Its queue holds two; the log held the rest for it, until they expired and were forgotten."""
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="d", durable=True, queue=2)
    for number in range(8):
        stage.published("p", {"n": number}, expires=10.0 if number < 6 else None)
    stage.wait(60)
    assert sorted(stage.disk.log) == [7, 8]
    assert stage.drain("s", ref)[-2:] == [6, 7]
    stage.wait(1)
    assert stage.lost["s", ref] == {"expired": 2, "superseded or expired": 4}


def test_a_right_to_an_event_that_was_superseded_on_its_way_to_the_disk_is_released() -> None:
    """The subscription is owed it when it is dispatched, after the newer event with its key was accepted.
    Then it leaves the log. A right that stayed would stay for ever, one for each such event."""
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="d", durable=True, queue=1)
    for number in range(3):
        stage.published("p", {"n": number})
    for number in (3, 4):
        stage.publish("p", {"n": number}, key="k", lifetime=100.0)
    stage.settle()
    ledger = stage.node.slots["delivery"]._index  # type: ignore[attr-defined]
    stage.wait(1)
    assert (sorted(ledger.entries), sorted(ledger._owed)) == ([1, 2, 3, 5], [1, 2, 3, 5])
    assert stage.drain("s", ref) == [0, 1, 2, 4]
    stage.leave("s", ref)
    stage.wait(1)
    assert not ledger._owed


def test_an_event_that_is_superseded_and_not_yet_forgotten_is_counted_when_it_is_passed_over() -> None:
    """It was superseded on its way to the disk: its page is read before the timer takes it out of the log."""
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="d", durable=True, queue=1)
    for number in range(3):
        stage.published("p", {"n": number})
    for number in (3, 4):
        stage.publish("p", {"n": number}, key="k")
    received = list[int]()
    for _ in range(5):
        call = stage.take("s", ref)
        while moves := [move for move in stage.movable() if move[0] != "timer"]:
            stage.move(*moves[0])
        received += [stage.answers[call].event["n"]] if call in stage.answers else []
    assert received == [0, 1, 2, 4]
    stage.wait(1)
    assert stage.lost["s", ref] == {"superseded or expired": 1}


def test_a_transient_subscription_that_ends_takes_no_right_of_a_durable_one() -> None:
    """Wide seed 634: the end of a transient subscription released entries that the log keeps for another."""
    stage = stage_with(stable=True)
    stage.client("t")
    kept = stage.subscribed("s", name="mine", durable=True)
    passing = stage.subscribed("t")
    for number in range(3):
        stage.published("p", {"n": number})
    assert stage.drain("t", passing, most=1) == [0]
    stage.leave("t", passing)
    stage.wait(10)
    assert len(stage.disk.log) == 3
    assert stage.drain("s", kept) == [0, 1, 2]


def test_an_event_that_no_log_holds_supersedes_no_later_one() -> None:
    """Wide seed 82525: it waited for the disk behind an earlier event of its source, while a later one of its
    key was accepted, and then ended that one."""
    stage = stage_with(stable=True)
    stage.publish("p", {"n": 1}, lifetime=100.0)
    stage.publish("p", {"n": 2}, key="k")
    stage.publish("p", {"n": 3}, key="k", lifetime=100.0)
    stage.settle()
    stage.wait(1)
    assert stage.drain("s", stage.subscribed("s")) == [1, 3]
    stage.published("p", {"n": 4}, key="k")
    stage.wait(1)
    assert stage.drain("s", stage.subscribed("s")) == [1]
