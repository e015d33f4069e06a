"""FIFO and gap freedom in detail; LP2 and LP3 at their edges; views and parasites."""

from __future__ import annotations

import pytest
from tests.unit.history.play import Play

from tidings.history.schema import dead_row, nack_row, recv_row, view_row
from tidings.model.event import make_event


def stream(*delivered: str) -> Play:
    """a, b, c are published at 1, 2, 3; told in the given order from 5 on, a second apart."""
    play = Play().sub(0, "p", "x = 1")
    for time, id in enumerate("abc", 1):
        play.pub(time, id)
    for time, id in enumerate(delivered, 5):
        play.told(time, "p", id)
    return play


def broken(play: Play, **more: object) -> list[str]:
    report = play.check(contract="everything", **more)
    return [name for name in report.broken if name in ("fifo", "gap_freedom", "minimality")]


@pytest.mark.parametrize(
    ("told", "complain"),
    [
        ("abc", []),
        ("acb", ["fifo"]),
        ("cba", ["fifo"]),
        ("ac", ["gap_freedom"]),
        ("ab", []),
        ("bc", []),  # what came before the first is for completeness
        ("abbc", ["minimality"]),
        ("abca", ["minimality"]),
    ],
)
def test_the_order_of_one_source(told: str, complain: list[str]) -> None:
    assert broken(stream(*told)) == complain


def test_each_late_one_is_counted_and_the_first_is_told() -> None:
    verdict = stream("c", "a", "b").check()["fifo"]
    assert verdict.violations == 2
    assert (
        verdict.story == "At 6 s p received a of press, after c at 5 s, which its publisher published later."
    )


def test_in_one_instant_there_is_no_order() -> None:
    play = Play().sub(0, "p", "x = 1").pub(1, "a").pub(2, "b").told(5, "p", "b").told(5, "p", "a")
    assert broken(play) == []
    same_time = Play().sub(0, "p", "x = 1").pub(1, "a").pub(1, "b").told(5, "p", "b").told(6, "p", "a")
    assert broken(same_time) == ["fifo"]  # their counter tells


def test_without_a_counter_events_of_one_instant_have_no_order() -> None:
    play = Play().sub(0, "p", "x = 1").pub(1, "a").pub(1, "b").told(5, "p", "b").told(6, "p", "a")
    assert broken(play.changed(1, sequence=None).changed(2, sequence=None)) == []


def test_sources_are_not_ordered_among_each_other() -> None:
    play = Play().sub(0, "p", "x = 1").pub(1, "a", source="s").pub(2, "b", source="t")
    assert broken(play.told(5, "p", "b").told(6, "p", "a")) == []


def test_a_redelivery_is_out_of_order_on_purpose() -> None:
    told = stream("a", "b", "c").row(nack_row, 8, "p", "p", "a")
    assert broken(told.told(9, "p", "a", redelivery=True)) == []
    assert broken(stream("b", "c").told(9, "p", "a", redelivery=True)) == ["fifo"], "that is its first time"


def test_a_new_interval_is_a_new_stream() -> None:
    play = Play().pub(1, "a", lifetime=99).pub(2, "b", lifetime=99)
    play.sub(3, "p", "x = 1").told(4, "p", "b").usub(5, "p").sub(6, "p", "x = 1").told(7, "p", "a")
    assert broken(play) == []


def test_what_was_lost_for_a_reason_is_no_gap() -> None:
    play = stream("a", "c")
    play.rows.append(dead_row(5, "b1", "p", make_event({"x": 1}, source="press", id="b"), "5 deliveries"))
    assert broken(play) == []


def test_what_had_ended_before_the_next_was_told_is_no_gap() -> None:
    play = Play().sub(0, "p", "x = 1").pub(1, "a").pub(2, "b", expires=1).pub(3, "c")
    assert broken(play.told(5, "p", "a").told(6, "p", "c")) == []
    in_time = Play().sub(0, "p", "x = 1").pub(1, "a").pub(2, "b", expires=10).pub(3, "c")
    assert broken(in_time.told(5, "p", "a").told(6, "p", "c")) == ["gap_freedom"]


def test_a_stored_event_from_before_the_subscription_opens_no_gap() -> None:
    """An old event from the archive says nothing about what was on its way since."""
    play = Play().pub(1, "a", lifetime=99).sub(2, "p", "x = 1").pub(3, "b").pub(4, "c")
    assert broken(play.told(3, "p", "a").told(6, "p", "c")) == []


def test_a_durable_stream_has_no_gap_where_it_was_detached() -> None:
    play = Play().sub(0, "p", "x = 1").pub(1, "a").told(1.1, "p", "a").usub(2, "p", detach=True)
    play.pub(3, "b").pub(4, "c").sub(5, "p", "x = 1").told(5.1, "p", "c")
    assert broken(play) == ["gap_freedom"]
    assert play.check()["gap_freedom"].story == (
        "At 3 s b of press was published, but p received a before it and c after it (at 5.1 s), and never b."
    )


def test_lp3_lets_one_end_where_the_next_begins() -> None:
    play = Play().sub(1, "p", "x = 1", "C").usub(3, "p", "C").sub(3, "p", "x = 2", "D").usub(4, "p", "D")
    assert play.check(contract="Intermediary").broken == []


def test_lp1_and_lp2_take_an_unknown_answer_for_what_it_is() -> None:
    requested = Play().sub(1, "p", "x = 1").usub(3, "p", outcome="unknown")
    assert requested.check(contract="Intermediary").broken == []
    assert Play().usub(3, "p", outcome="unknown").check(contract="Intermediary").broken == []


def views(*installed: tuple[float, str, int, tuple[str, ...]]) -> Play:
    play = Play()
    for each in installed:
        play.row(view_row, *each)
    return play


def agreed(play: Play) -> bool | None:
    return play.check(contract="UARC")["view_agreement"].holds


def test_views_rise_and_agree() -> None:
    assert agreed(views((1, "a", 1, ("a", "b")), (1, "b", 1, ("b", "a")), (2, "a", 2, ("a",)))) is True
    assert agreed(views((1, "a", 1, ("a", "b")), (2, "a", 1, ("a", "b")))) is True  # learnt again
    assert agreed(views((1, "a", 2, ("a", "b")), (2, "a", 1, ("a",)))) is False
    assert agreed(views((1, "a", 1, ("a", "b")), (2, "a", 1, ("a",)))) is False
    assert agreed(views((1, "a", 1, ("a", "b")), (2, "a", 1, ("c",)))) is False
    assert agreed(views((1, "a", 1, ("a", "b")), (1, "b", 1, ("b", "c")))) is False
    assert agreed(views((1, "a", 2, ("a", "b")), (1, "c", 2, ("c", "d")))) is True  # two halves
    assert agreed(Play().sub(0, "p", "x = 1")) is None


def test_views_of_two_groups_are_two_sequences() -> None:
    play = (
        Play().row(view_row, 1, "a", 2, ("a", "b"), topic="one").row(view_row, 2, "a", 1, ("a",), topic="two")
    )
    assert agreed(play) is True


def test_the_story_of_two_views() -> None:
    play = views((1, "a", 1, ("a", "b")), (2, "b", 1, ("b", "c")))
    assert play.check(contract="UARC")["view_agreement"].story == (
        "At 2 s b installed view 1 as {b, c}, but a had it as {a, b}."
    )


def free_of_parasites(play: Play) -> bool | None:
    return play.check(contract="daMulticast")["no_parasites"].holds


def test_no_peer_receives_what_it_did_not_ask_for() -> None:
    play = Play().sub(0, "p", "topic MATCHES 'news/#'").sub(0, "q", "topic MATCHES 'sport/#'")
    play.pub(1, "e", topic="news/today")
    assert free_of_parasites(play) is None
    assert free_of_parasites(play.row(recv_row, 2, "p", "e")) is True
    assert free_of_parasites(play.row(recv_row, 2, "press", "e")) is True  # its own, come back
    assert free_of_parasites(play.row(recv_row, 3, "q", "e")) is False
    assert play.check(contract="daMulticast").story == (
        "At 3 s q received e of press, which none of its filters accepts."
    )


def test_a_peer_that_left_receives_nothing() -> None:
    play = Play().sub(0, "p", "x = 1").usub(1, "p").pub(1, "e").row(recv_row, 2, "p", "e")
    assert free_of_parasites(play) is False


def test_an_event_that_nobody_published_cannot_be_judged_as_a_parasite() -> None:
    event = make_event({}, source="s", id="ghost")
    assert free_of_parasites(Play().row(recv_row, 2, "p", event)) is True
