"""A log as one broker sees it: what waits, what is missing, what each link has."""

from __future__ import annotations

from random import Random

from tidings.model.event import make_event
from tidings.protocol.messages import Envelope
from tidings.protocol.naming import broker_of, log_name
from tidings.protocol.recovery.logs import LogView
from tidings.protocol.recovery.messages import LogKnowledge
from tidings.protocol.recovery.timers import Timers


def event(offset: int) -> Envelope:
    return Envelope(make_event({"x": offset}, source="p", id=str(offset)), "b0#1", offset)


def test_an_event_waits_until_the_one_before_it_is_known() -> None:
    view = LogView("b0#1", "b1", known=3)
    view.waiting[7] = (event(7), 5)
    assert view.admit_waiting() == []
    assert view.gap() == 5, "only what is missing, not what waits"
    view.advance(5)
    assert view.admit_waiting() == [event(7)]
    assert view.gap() is None


def test_what_is_known_does_not_wait() -> None:
    view = LogView("b0#1", "b1", known=3)
    view.waiting[4] = (event(4), 3)
    view.advance(6)
    assert view.admit_waiting() == []
    assert not view.waiting


def test_an_event_that_is_said_to_exist_and_did_not_come_is_a_gap() -> None:
    view = LogView("b0#1", "b1", known=3)
    view.last = 9
    assert view.gap() == 9


def test_a_link_that_comes_back_is_answered_for_from_now_on() -> None:
    view = LogView("b0#1", None, known=3)
    progress = view.link_progress("b1")
    progress.last = progress.due = 3
    progress.have, progress.acked, progress.has_reported = 3, 2, True
    view.advance(8)
    progress.restart(view.known)
    assert view.news("b1") == LogKnowledge("b0#1", 8, 8, 8)
    assert progress.is_behind, "it must say again what it knows"
    assert progress.wants(3)
    assert not progress.wants(2), "acknowledged"
    assert not progress.wants(5), "nothing of that was for this link"


def test_a_link_that_was_never_heard_may_want_anything() -> None:
    progress = LogView("b0#1", None, known=3).link_progress("b1")
    assert progress.wants(1)
    assert progress.wants(100)


def test_a_timer_has_one_time_under_each_name() -> None:
    timers = Timers()
    timers.set(("tell", "b1"), 5.0)
    timers.set_by(("tell", "b1"), 9.0)
    timers.set(("ask", "log"), 7.0)
    assert timers.next() == 5.0
    timers.set(("tell", "b1"), 8.0)
    assert timers.due(7.5) == [("ask", "log")]
    assert timers.due(8.0) == [("tell", "b1")]
    assert timers.next() is None
    assert len(timers) == 0


def test_two_logs_of_a_broker_have_two_names_whatever_its_clock_says() -> None:
    first, second = log_name("b#0", 12.0, Random(1)), log_name("b#0", 12.0, Random(2))
    assert first != second
    assert broker_of(first) == broker_of(second) == "b#0"
