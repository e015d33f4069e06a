"""When is an event owed? The cases that liveness and completeness tell apart."""

from __future__ import annotations

import pytest
from tests.unit.history.play import Play

from tidings.history.schema import avail_row, crash_row, dead_row, drop_row, nack_row
from tidings.model.event import make_event

FOREVER = float("inf")


def complete(play: Play, t_sub: float = 0.5, t_diff: float = 0.5, **more: object) -> bool | None:
    return play.check(t_sub=t_sub, t_diff=t_diff, **more)["completeness"].holds


def live(play: Play, t_sub: float = 0.5, t_diff: float = 0.5, **more: object) -> bool | None:
    return play.check(t_sub=t_sub, t_diff=t_diff, **more)["liveness"].holds


def test_a_subscription_must_be_known_before_the_event() -> None:
    early = Play().sub(1.0, "p", "x = 1").pub(1.4, "e")
    assert (complete(early), live(early)) == (True, True)
    in_time = Play().sub(1.0, "p", "x = 1").pub(1.5, "e")
    assert (complete(in_time), live(in_time)) == (False, False)


def test_a_stored_event_waits_until_the_subscription_is_known() -> None:
    play = Play().pub(0, "e", lifetime=2).sub(1.0, "p", "x = 1")
    assert complete(play, t_sub=0.5, t_diff=0.5) is False  # known at 1.5, half a second left
    assert complete(play, t_sub=0.6, t_diff=0.5) is True  # less than that
    assert live(play, t_sub=1.0) is False  # it meets the stored time in one instant
    assert live(play, t_sub=1.1) is True


def test_a_subscription_must_last_long_enough() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e").usub(3.5, "p")
    assert (complete(play), live(play)) == (False, False)
    short = Play().sub(1, "p", "x = 1").pub(3, "e").usub(3.4, "p")
    assert (complete(short), live(short)) == (True, True)


@pytest.mark.parametrize("moment", [1.0, 5.0])
def test_in_the_same_instant_nobody_knows_who_was_first(moment: float) -> None:
    play = Play().sub(1, "p", "x = 1").usub(5, "p").pub(moment, "e")
    assert (complete(play, 0, 0), live(play, 0, 0)) == (True, True)
    between = Play().sub(1, "p", "x = 1").usub(5, "p").pub(3, "e")
    assert (complete(between, 0, 0), live(between, 0, 0)) == (False, False)


def test_a_stored_event_is_owed_to_who_came_in_the_same_instant_but_not_to_who_left() -> None:
    came = Play().sub(1, "p", "x = 1").pub(1, "e", lifetime=9)
    assert (complete(came, 0, 0), live(came, 0, 0)) == (False, False)
    left = Play().sub(0, "p", "x = 1").usub(1, "p").pub(1, "e", lifetime=9)
    assert (complete(left, 0, 0), live(left, 0, 0)) == (True, True)


def test_what_expires_is_not_owed_after_that() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e", expires=0.3)
    assert (complete(play), live(play)) == (True, True)
    later = Play().sub(1, "p", "x = 1").pub(3, "e", expires=0.5)
    assert (complete(later), live(later)) == (False, False)


def test_a_later_event_of_the_key_takes_the_place_of_an_older_one() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "old", key="k").pub(3.2, "new", key="k").told(3.3, "p", "new")
    assert (complete(play), live(play)) == (True, True)
    other_key = (
        Play().sub(1, "p", "x = 1").pub(3, "old", key="k").pub(3.2, "new", key="l").told(3.3, "p", "new")
    )
    assert (complete(other_key), live(other_key)) == (False, False)
    too_late = Play().sub(1, "p", "x = 1").pub(3, "old", key="k").pub(9, "new", key="k").told(9.1, "p", "new")
    assert (complete(too_late), live(too_late)) == (False, False)
    refused = Play().sub(1, "p", "x = 1").pub(3, "old", key="k").pub(3.2, "new", key="k", outcome="refused")
    assert complete(refused) is False


def test_a_superseded_stored_event_is_not_owed_to_later_subscribers() -> None:
    play = Play().pub(0, "old", key="k", lifetime=FOREVER).pub(1, "new", key="k", lifetime=FOREVER)
    play.sub(5, "p", "x = 1").told(5.1, "p", "new")
    assert (complete(play), live(play)) == (True, True)


@pytest.mark.parametrize("make", [drop_row, dead_row])
def test_what_was_lost_for_a_reason_is_not_owed(make: object) -> None:
    play = Play().sub(1, "p", "x = 1", "p/s").pub(3, "e")
    assert complete(play) is False
    event = make_event({"x": 1}, source="press", id="e")
    play.rows.append(make(3.1, "b1", "p/s", event, "queue full"))  # type: ignore[operator]
    assert (complete(play), live(play)) == (True, True)
    assert complete(play, contract="Intermediary") is True
    assert complete(play.sub(1, "p", "x = 1", "p/other")) is False  # that one lost nothing


def test_an_event_of_unknown_outcome_may_come_or_not() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e", outcome="unknown")
    assert play.check(t_sub=0.5, t_diff=0.5).broken == []
    assert play.told(3.1, "p", "e").check(t_sub=0.5, t_diff=0.5).broken == []
    assert play.told(3.2, "p", "e").check().broken == ["minimality"]


def test_a_refused_event_must_not_come() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e", outcome="refused")
    assert play.check(t_sub=0.5, t_diff=0.5).broken == []
    report = play.told(3.1, "p", "e").check()
    assert report.broken == ["validity"]
    assert report.story == "At 3.1 s p received e of press, but its publication was refused."


def test_a_try_that_was_refused_and_then_taken_counts_from_the_second() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e", outcome="refused").pub(5, "e")
    assert complete(play) is False
    assert play.told(5.1, "p", "e").check(t_sub=0.5, t_diff=0.5).broken == []


def test_a_try_of_unknown_outcome_is_promised_from_the_next_that_is_ok() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e", outcome="unknown").pub(5, "e").usub(5.2, "p")
    assert complete(play) is True  # promised at 5, and gone at 5.2
    stayed = Play().sub(1, "p", "x = 1").pub(3, "e", outcome="unknown").pub(5, "e").usub(6, "p")
    assert complete(stayed) is False


def test_nothing_is_owed_to_a_doubtful_subscription_and_what_comes_is_legal() -> None:
    play = Play().sub(1, "p", "x = 1", outcome="unknown").pub(3, "e")
    assert play.check(t_sub=0.5, t_diff=0.5).broken == []
    assert play.told(3.1, "p", "e").check(t_sub=0.5, t_diff=0.5).broken == []
    ended = Play().sub(1, "p", "x = 1").usub(2, "p", outcome="unknown").pub(3, "e")
    assert ended.check(t_sub=0.5, t_diff=0.5).broken == []
    assert ended.told(3.1, "p", "e").check(t_sub=0.5, t_diff=0.5).broken == []


def test_nothing_is_owed_after_an_unsubscription_that_may_have_worked() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e").usub(3.2, "p", outcome="unknown").usub(9, "p")
    assert (complete(play), live(play)) == (True, True)
    assert (complete(play, t_diff=0.2), live(play, t_diff=0.2)) == (False, False)


def detached() -> Play:
    return Play().sub(1, "p", "x = 1").usub(3, "p", detach=True).pub(5, "e").sub(10, "p", "x = 1")


def test_what_came_while_detached_is_owed_on_return() -> None:
    assert complete(detached()) is False
    assert detached().told(10.1, "p", "e").check(t_sub=0.5, t_diff=0.5).broken == []
    assert complete(detached().changed(3, time=1e9)) is False


def test_what_came_while_detached_is_not_owed_before_the_return() -> None:
    assert complete(detached().without(3)) is True
    assert complete(detached().usub(10.2, "p", detach=True)) is True  # too short a visit
    assert complete(detached().changed(3, filter="x = 1 AND TRUE IS NULL OR x = 1")) is True  # a new filter


def test_nothing_is_told_while_detached() -> None:
    report = detached().told(6, "p", "e").check()
    assert report["legality"].story == "At 6 s p received e of press, but had unsubscribed at 3 s."


def test_after_a_crash_of_the_subscriber_its_subscription_is_owed_what_it_missed() -> None:
    play = Play().sub(1, "p", "x = 1").row(crash_row, 3, "p").pub(5, "e")
    assert complete(play) is True
    assert complete(play.sub(10, "p", "x = 1")) is False


def test_an_event_is_available_where_it_has_arrived() -> None:
    play = Play().sub(1, "p", "x = 1", broker="b2").pub(3, "e").usub(6, "p")
    assert complete(play) is False
    assert complete(play.row(avail_row, 5.8, "b2", "e")) is True  # too late for the hand-over
    nearer = Play().sub(1, "p", "x = 1", broker="b1").pub(3, "e").usub(6, "p").row(avail_row, 5.8, "b2", "e")
    assert complete(nearer) is False  # another broker's arrival does not count


def test_what_was_due_after_the_recording_ended_is_not_judged() -> None:
    play = Play().sub(1, "p", "x = 1").pub(3, "e")
    assert (complete(play, until=3.2), live(play, until=3.2)) == (True, True)
    assert (complete(play, until=3.6), live(play, until=3.6)) == (False, False)


def test_a_group_shares_one_subscription() -> None:
    """Two consumers, one subscription: each event is for one of them, once."""
    play = Play().sub(1, "w1", "x = 1", "team/jobs").sub(1, "w2", "x = 1", "team/jobs")
    play.pub(3, "a").told(3.1, "w1", "a", "team/jobs").pub(4, "b").told(4.1, "w2", "b", "team/jobs")
    assert play.check(t_sub=0.5, t_diff=0.5).broken == []
    assert play.told(4.2, "w1", "b", "team/jobs").check().broken == ["minimality"]
    assert complete(play.pub(6, "c")) is False


def test_the_largest_delay_seen_stands_in_for_the_times() -> None:
    """The hand-over took 2 s once, so a subscription of 1 s cannot count on one; 3 s can."""
    play = Play().sub(0, "p", "x = 1").pub(5, "a").told(7, "p", "a")
    play.sub(9, "q", "x = 1").pub(12, "b").usub(13, "q").told(13, "p", "b")
    assert play.check()["completeness"].holds is True
    assert play.changed(5, time=15).check()["completeness"].holds is False


def test_the_largest_delay_seen_counts_for_becoming_known_too() -> None:
    play = Play().sub(0, "p", "x = 1").pub(5, "a").told(7, "p", "a").sub(9, "q", "x = 1")
    early = play.pub(10, "b").told(10.1, "p", "b")
    assert early.check()["completeness"].holds is True
    assert early.pub(11, "c").told(11.1, "p", "c").check()["completeness"].holds is False


def test_a_redelivery_is_no_delay() -> None:
    play = Play().sub(0, "p", "x = 1").pub(5, "a").told(5.1, "p", "a").row(nack_row, 6, "p", "p", "a")
    play.told(50, "p", "a", redelivery=True).sub(0, "q", "x = 1").usub(10, "q")
    assert play.check()["completeness"].holds is False


def test_the_delays_of_one_run_do_not_excuse_another() -> None:
    slow = Play("slow").sub(0, "p", "x = 1").pub(5, "a").told(500, "p", "a")
    quick = Play("quick").sub(0, "p", "x = 1").pub(5, "a").told(5.1, "p", "a").pub(7, "b").usub(9, "p")
    slow.rows.extend(quick.rows)
    report = slow.check()
    assert report["completeness"].holds is False
    assert report["completeness"].counterexample is not None
    assert report["completeness"].counterexample.run == "quick"


def test_the_story_of_a_missing_notification() -> None:
    report = Play().sub(1, "alice", "x = 1", "alice/news").pub(3, "e").usub(9, "alice", "alice/news").check()
    assert report["completeness"].story == (
        "At 3 s e of press was published, and alice (subscription alice/news) was subscribed to it "
        "from 1 s to 9 s; it never received it (due by about 3 s)."
    )
