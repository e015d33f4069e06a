"""Epidemic recovery: how long to wait for an answer, and what becomes of those that come late."""

from __future__ import annotations

from random import Random

from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import line
from tidings_lab.recovery.epidemic.marks import ReceivedNumbers
from tidings_lab.recovery.epidemic.patience import MOST_SECONDS, Patience
from tidings_lab.recovery.epidemic.requests import Requests
from tidings_lab.recovery.epidemic.standing import OFFER, REQUEST, PeerStanding

from ...papers._epidemic import Epidemics


def test_copies_make_the_wait_longer_and_answers_in_time_make_it_short_again() -> None:
    patience = Patience(0.25)
    patience.answered()
    assert patience.seconds == 0.25, "never below the setting"
    patience.was_short()
    assert patience.seconds == 0.375
    for _ in range(81):
        patience.answered()
    assert patience.seconds == 0.25, "eighty answers undo one copy"
    for _ in range(100):
        patience.was_short()
    assert patience.seconds == MOST_SECONDS


def test_where_answers_take_longer_than_the_setting_few_come_twice() -> None:
    """Every answer takes a second or so; what is not there in time is asked for again, and comes twice."""
    rng, patience, copies = Random(1), Patience(0.25), 0
    for _ in range(2000):
        if rng.uniform(0.6, 1.4) > patience.seconds:
            patience.was_short()
            copies += 1
        else:
            patience.answered()
    assert copies < 0.05 * 2000


def requests() -> tuple[Requests, PeerStanding, Patience]:
    standing, patience = PeerStanding(3, 2.0, 60.0), Patience(0.25)
    return Requests(patience, ReceivedNumbers(100), standing), standing, patience


def test_an_answer_that_nobody_waits_for_any_more_is_taken_once() -> None:
    requested, _, patience = requests()
    requested.note("b1", [("S", 1), ("S", 2)], 0.0)
    assert requested.take(("S", 1))
    assert requested.due == 0.25
    assert requested.review(0.3) == [("b1", (("S", 1), ("S", 2)))]  # neither was noted as received
    assert requested.take(("S", 2)), "late"
    assert patience.seconds > 0.25
    assert not requested.take(("S", 2))
    assert not requested.take(("S", 9)), "nobody asked for that"


def test_who_was_not_asked_is_not_to_blame() -> None:
    requested, standing, _ = requests()
    for start in range(5):
        requested.note("b1", [("S", start)], float(start), is_sent=False)
    requested.review(10.0)
    assert not standing.offenders(10.0)


def test_a_peer_that_is_only_slow_is_heard_again_and_one_that_asks_in_vain_is_not() -> None:
    standing = PeerStanding(3, 2.0, 60.0)
    for peer, what in (("slow", OFFER), ("liar", REQUEST)):
        for _ in range(3):
            standing.strike(peer, what, 0.0)
        standing.clear(peer)
    assert standing.offenders(1.0) == {"liar"}


def test_lazy_push_asks_until_the_event_is_there_though_announcements_are_over() -> None:
    """Three of ten messages are lost, announcements, requests and replies among them."""
    stage = Epidemics(line(2), "lazy push", announcements=6, seed=4)
    stage.wants(("b1", "x > 0"))
    stage.simulation.plan(FaultPlan(Rates(loss=0.3)))
    for number in range(100):
        stage.publish("b0", f"e{number}", x=1)
    stage.run(20.0)
    assert len(set(stage.received("b1"))) == len(stage.received("b1"))
    assert len(stage.received("b1")) >= 99
    assert stage.recovery("b1").next_deadline() is None, "nothing is waited for"
