"""One row of a good history is removed, doubled, moved or invented: exactly the properties that
the table names complain.
"""

from __future__ import annotations

import random

import pytest
from tests.unit.history.play import Play

from tidings.history.schema import drop_row, nack_row, pub_row, recv_row, view_row
from tidings.model.event import make_event

TIMES = {"t_sub": 0.5, "t_diff": 0.5, "contract": "everything"}
FOREVER = float("inf")


def good() -> Play:
    """Two subscribers, two publishers, three brokers: every property of the map holds.

    Rows are known by their place in the comments."""
    play = Play("r1")
    play.pub(0.0, "old", {"x": 9}, source="archive", lifetime=FOREVER)  # 0
    play.sub(1.0, "alice", "x > 3")  # 1
    play.told(1.2, "alice", "old")  # 2
    play.sub(1.0, "bob", "x < 5")  # 3
    play.pub(2.0, "a", {"x": 4})  # 4
    play.told(2.1, "alice", "a")  # 5
    play.told(2.2, "bob", "a")  # 6
    play.pub(3.0, "b", {"x": 8})  # 7
    play.told(3.1, "alice", "b")  # 8
    play.pub(4.0, "c", {"x": 4})  # 9
    play.told(4.1, "alice", "c")  # 10
    play.told(4.2, "bob", "c")  # 11
    play.usub(6.0, "bob")  # 12
    play.sub(7.0, "bob", "x = 100")  # 13
    play.usub(8.0, "bob")  # 14
    play.usub(9.0, "alice")  # 15
    for time, broker in ((1.0, "b1"), (1.1, "b2"), (1.2, "b3")):
        play.row(view_row, time, broker, 1, ("b1", "b2", "b3"))  # 16 17 18
    for time, broker in ((5.0, "b1"), (5.1, "b2")):
        play.row(view_row, time, broker, 2, ("b1", "b2"))  # 19 20
    play.row(recv_row, 2.05, "alice", "a")  # 21
    return play


def doubled(position: int) -> Play:
    play = good()
    play.rows.append(play.rows[position])
    return play


NOTHING: set[str] = set()
TABLE = [
    ("remove a notification from the middle", good().without(8), {"liveness", "completeness", "gap_freedom"}),
    ("remove the last notification of a stream", good().without(10), {"liveness", "completeness"}),
    ("remove the notification of a stored event", good().without(2), {"liveness", "completeness"}),
    ("remove a publication", good().without(7), {"validity"}),
    ("remove a subscription", good().without(1), {"legality", "lp1", "lp4", "no_parasites"}),
    ("remove an unsubscription", good().without(15), {"lp2"}),
    ("remove an unsubscription that another subscription follows", good().without(12), {"lp2", "lp3"}),
    ("remove a view that one process installed", good().without(20), NOTHING),
    ("double a notification", doubled(8), {"minimality"}),
    ("double a publication (a retry)", doubled(7), NOTHING),
    ("double an unsubscription", doubled(15), {"lp1"}),
    ("double a receipt", doubled(21), NOTHING),
    ("move a notification past the unsubscription", good().changed(10, time=9.5),
        {"legality", "lp4", "completeness"}),
    ("move a notification before its publication", good().changed(10, time=3.9),
        {"validity", "completeness"}),
    ("move a notification before the subscription", good().changed(2, time=0.5),
        {"legality", "lp4", "completeness"}),
    ("move a notification past that of a later event", good().changed(8, time=4.15), {"fifo"}),
    ("move a notification a little", good().changed(10, time=4.3), NOTHING),
    ("move a publication past its notification", good().changed(9, time=4.15), {"validity", "completeness"}),
    ("move a subscription past the notifications", good().changed(3, time=4.5), {"legality", "lp4"}),
    ("move a subscription past its unsubscription", good().changed(1, time=9.5),
        {"legality", "lp4", "lp1", "lp2", "completeness", "no_parasites"}),
    ("move an unsubscription before a notification", good().changed(12, time=4.15), {"legality", "lp4"}),
    ("move an unsubscription into the next interval", good().changed(12, time=7.5), {"lp3"}),
    ("move a view before the one that it follows", good().changed(19, time=0.5), {"view_agreement"}),
    ("invent a notification of nothing", good().told(5.0, "alice", "ghost"), {"validity"}),
    ("invent a notification that does not match", good().told(3.15, "bob", "b"), {"legality", "lp4"}),
    ("invent a notification to a stranger", good().told(5.0, "carol", "a"), {"legality", "lp4"}),
    ("invent an unsubscription", good().usub(5.0, "carol"), {"lp1"}),
    ("invent a subscription", good().sub(5.0, "alice", "x = 99", "alice/2"), {"lp2", "lp3"}),
    ("invent a publication", good().pub(5.0, "d", {"x": 4}), {"liveness", "completeness"}),
    ("invent a publication that nobody asked for", good().pub(5.0, "d", {"x": "text"}), NOTHING),
    ("invent a receipt", good().row(recv_row, 3.0, "bob", "b"), {"no_parasites"}),
    ("invent a view of the same number", good().row(view_row, 5.2, "b3", 2, ("b2", "b3")),
        {"view_agreement"}),
    ("invent a concurrent view of others", good().row(view_row, 5.2, "b3", 2, ("b3",)), NOTHING),
    ("change an event's content", good().changed(7, attributes={"x": 1}),
        {"legality", "lp4", "liveness", "completeness", "gap_freedom"}),
    ("change a filter", good().changed(3, filter="x > 100"), {"legality", "lp4"}),
    ("refuse a publication", good().changed(7, outcome="refused"), {"validity"}),
    ("refuse a subscription", good().changed(3, outcome="refused"), {"legality", "lp4", "lp1"}),
    ("lose the answer to a publication", good().changed(7, outcome="unknown"), NOTHING),
    ("lose the answer to a subscription", good().changed(3, outcome="unknown"), NOTHING),
    ("tell it again, and call that a redelivery", good().told(5.0, "alice", "b", redelivery=True),
        {"minimality"}),
    ("tell it again after it was given back",
        good().row(nack_row, 4.5, "alice", "alice", "b").told(5.0, "alice", "b", redelivery=True), NOTHING),
    ("tell it again after another was given back",
        good().row(nack_row, 4.5, "alice", "alice", "a").told(5.0, "alice", "b", redelivery=True),
        {"minimality"}),
    ("tell it again, given back too late",
        good().row(nack_row, 5.5, "alice", "alice", "b").told(5.0, "alice", "b", redelivery=True),
        {"minimality"}),
    ("call the first notification a redelivery", good().changed(8, reason="redelivery"), NOTHING),
    ("call a late notification a redelivery", good().changed(8, time=4.15, reason="redelivery"), {"fifo"}),
]  # fmt: skip


def test_the_good_history_is_good() -> None:
    report = good().check(**TIMES)
    assert [name for name, verdict in report.verdicts.items() if verdict.holds is not True] == []


@pytest.mark.parametrize(("mutation", "history", "complain"), TABLE, ids=[row[0] for row in TABLE])
def test_exactly_these_complain(mutation: str, history: Play, complain: set[str]) -> None:
    report = history.check(**TIMES)
    assert set(report.broken) == complain, mutation
    for name in complain:
        assert report[name].counterexample is not None
        assert report[name].violations >= 1
    rows = list(history.rows)
    random.Random(mutation).shuffle(rows)
    assert history._changed(rows).check(**TIMES) == report  # the order of the rows says nothing


def test_without_the_times_liveness_is_null_and_completeness_still_judges() -> None:
    assert good().check()["liveness"].holds is None
    assert "t_sub" in str(good().check()["liveness"].reason)
    assert good().check()["completeness"].holds is True
    assert good().without(8).check()["completeness"].holds is False
    assert good().check(t_sub=0.5)["liveness"].holds is None


@pytest.mark.parametrize("times", [{}, {"t_sub": 0.5, "t_diff": 0.5}])
def test_what_was_lost_for_a_reason_is_excused(times: dict[str, float]) -> None:
    excused = good().without(8).row(drop_row, 3.1, "b1", "alice", "b", "drop oldest")
    # `alice` is no event, so the helper hands the name through.
    assert excused.check(**times).broken == []


def test_a_publication_tried_again_counts_from_its_first_try() -> None:
    play = good().changed(7, outcome="unknown")
    event = make_event({"x": 8}, source="press", id="b")
    play.rows.append(pub_row(3.05, "press", event, run="r1", sequence=2))
    assert play.check(**TIMES).broken == []
    assert play.without(8).check(**TIMES).broken == ["liveness", "completeness", "gap_freedom"]
