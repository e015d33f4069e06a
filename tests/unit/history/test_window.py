"""The last minutes of a history are judged as the whole would be, as far as they go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.history.check import check
from tidings.history.jsonlines import from_lines, to_lines
from tidings.history.schema import Row, ntfy_row, pub_row, sub_row, usub_row
from tidings.history.window import CLOCKS_SECONDS, HistoryWindow, judged
from tidings.model.event import FOREVER, make_event


def event(n: int, lifetime: float = 0.0):  # type: ignore[no-untyped-def]
    return make_event({"n": n}, source="p", id=str(n), lifetime=lifetime)


def story(times: list[int]) -> list[Row]:
    """One subscriber that hears everything, half a second later."""
    rows = [sub_row(0.0, "ann", "ann/all", "n >= 0")]
    for n, time in enumerate(sorted(times)):
        rows.append(pub_row(time, "p", event(n), sequence=n + 1))
        rows.append(ntfy_row(time + 0.5, "ann", "ann/all", event(n)))
    return sorted(rows, key=lambda row: row.time)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30, unique=True), st.integers(1, 100))
def test_a_good_history_is_good_in_every_window(times: list[int], seconds: int) -> None:
    window = HistoryWindow(seconds, most=1000)
    for row in story(times):
        window.add(row)
        window.trim(row.time)
    now = max(times) + 0.5
    chosen = judged(window.rows(), now - seconds)
    report = check(chosen.rows, t_sub=1.0, t_diff=1.0, until=now)
    assert not report.broken, report.story


@given(st.lists(st.integers(1, 50), min_size=2, max_size=20, unique=True), st.data())
def test_a_notification_that_is_missing_is_missed(times: list[int], data: st.DataObject) -> None:
    rows = story(times)
    lost = data.draw(st.integers(0, len(times) - 1))
    forged = [row for row in rows if not (row.op == "ntfy" and row.event == str(lost))]
    chosen = judged(forged, 0.0)
    report = check(chosen.rows, t_sub=1.0, t_diff=1.0, until=100.0)
    assert report["completeness"].holds is False


def test_what_stands_stays() -> None:
    window = HistoryWindow(10.0, most=100)
    window.add(sub_row(0.0, "ann", "ann/a", "TRUE"))
    window.add(sub_row(1.0, "bob", "bob/b", "TRUE"))
    window.add(usub_row(2.0, "bob", "bob/b"))
    window.add(sub_row(3.0, "eve", "eve/c", "TRUE"))
    window.add(usub_row(4.0, "eve", "eve/c", detach=True))
    window.trim(100.0)
    assert [(row.op, row.subscription) for row in window.rows()] == [
        ("sub", "ann/a"),
        ("sub", "eve/c"),
        ("usub", "eve/c"),
    ]


def test_the_bound_on_rows_makes_it_shorter_and_says_so() -> None:
    window = HistoryWindow(1000.0, most=5)
    for n in range(9):
        window.add(pub_row(float(n), "p", event(n), sequence=n + 1))
    assert len(window) == 5
    assert window.is_cut


def test_rows_are_asked_for_in_pieces() -> None:
    window = HistoryWindow(1000.0, most=100)
    rows = story([1, 2, 3, 4])
    for row in rows:
        window.add(row)
    got: list[Row] = []
    after = 0
    while True:
        piece, upto = window.since(after, 2)
        if not piece:
            break
        got += from_lines(to_lines(piece))
        after = upto
    assert got == rows


def test_rows_travel_as_they_are() -> None:
    rows = [pub_row(1.0, "p", event(1, FOREVER), sequence=1), sub_row(2.0, "a", "a/b", "x < 3")]
    assert from_lines(to_lines(rows)) == rows


def test_notifications_of_older_events_are_left_out_and_counted() -> None:
    chosen = judged(story([1, 50]), since=40.0)
    assert chosen.left_out == 1
    assert [row.op for row in chosen.rows] == ["sub", "pub", "ntfy"]


def test_clocks_may_differ_a_little_and_no_more() -> None:
    rows = [sub_row(0.0, "a", "a/b", "TRUE"), pub_row(10.0, "p", event(1), sequence=1)]
    near = ntfy_row(10.0 - CLOCKS_SECONDS / 2, "a", "a/b", event(1))
    far = ntfy_row(10.0 - 2 * CLOCKS_SECONDS, "a", "a/b", event(1))
    for delivered, holds in ((near, True), (far, False)):
        chosen = judged([*rows, delivered], 0.0)
        report = check(chosen.rows, t_sub=1.0, t_diff=1.0, until=20.0)
        assert (not report.broken) is holds, report.story
