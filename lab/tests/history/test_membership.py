"""UAR-2: the predicates and properties of section 3 on runs that were written down by hand, good
and broken."""

from __future__ import annotations

import pytest

from tidings.history.schema import Row, avail_row, crash_row, recv_row, restart_row, view_row
from tidings.model.event import Event, make_event

from .._group_membership import check_group

ALL = ("a", "b", "c")


def event(number: int) -> Event:
    return make_event({"x": number}, source="p", id=f"life-{number}")


def good() -> list[Row]:
    """Three agree; c crashes, is left out, and comes back; two events reach everybody who is up."""
    rows = [view_row(1.0, name, 1, ALL) for name in ALL]
    rows += [
        avail_row(2.0, "a", event(1)),
        recv_row(2.1, "b", event(1), "a"),
        recv_row(2.1, "c", event(1), "a"),
    ]
    rows += [crash_row(3.0, "c"), view_row(4.0, "a", 2, ("a", "b")), view_row(4.1, "b", 2, ("a", "b"))]
    rows += [avail_row(5.0, "a", event(2)), recv_row(5.1, "b", event(2), "a")]
    rows += [restart_row(6.0, "c")]
    rows += [view_row(7.0, name, 3, ("a", "b", "c")) for name in ALL]
    rows += [
        avail_row(60.0, "a", event(3)),
        recv_row(60.1, "b", event(3), "a"),
        recv_row(60.1, "c", event(3), "a"),
    ]
    return [*rows, avail_row(90.0, "z", event(99))]


def without(*positions: int) -> list[Row]:
    return [row for position, row in enumerate(good()) if position not in positions]


def test_uar_2_a_run_as_the_report_wants_it() -> None:
    assert set(check_group(good()).values()) == {None}


BROKEN = {
    "failures": [*without(7, 8, 11, 12, 13, 14, 15, 16, 17)],  # c crashed, and nobody took notice
    "joins": without(12, 13),  # c is back, and a and b never let it in
    "reciprocity": without(12),  # c is in the view of b, and not in that of a
    "multicast": without(17),  # c never had the third event
    "sender_order": [*good(), recv_row(61.0, "b", event(2), "a")],
    "total_order": [*good(), view_row(30.0, "d", 4, ("d", "e", "f", "g"))],
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_uar_2_a_broken_run_is_told(name: str) -> None:
    found = check_group(BROKEN[name])
    assert found[name] is not None, found
