"""BAL-2 to BAL-4: availability, completeness and minimality (Baldoni et al. 2002, 4), with E-B1.

Figures 3 to 5 show one process with two subscription intervals that match x, both meeting the
availability of x.
"""

from __future__ import annotations

import pytest
from tests.unit.history.play import Play

FOREVER = float("inf")


def two_intervals(*told_at: float) -> Play:
    play = Play().pub(0, "x", lifetime=100)
    play.sub(1, "p_i", "x = 1", "C").usub(10, "p_i", "C").sub(20, "p_i", "x >= 1", "C'").usub(30, "p_i", "C'")
    for time in told_at:
        play.told(time, "p_i", "x", "C" if time < 15 else "C'")
    return play


def verdicts(play: Play) -> tuple[bool | None, bool | None]:
    report = play.check(contract="Intermediary", t_sub=0.5, t_diff=0.5)
    return report["completeness"].holds, report["minimality"].holds


def test_bal_3_figure_3_complete_but_not_minimal() -> None:
    assert verdicts(two_intervals(2, 21)) == (True, False)


def test_bal_3_figure_4_minimal_but_not_complete() -> None:
    assert verdicts(two_intervals()) == (False, True)


def test_bal_3_figure_5_both() -> None:
    assert verdicts(two_intervals(2)) == (True, True)
    assert verdicts(two_intervals(21)) == (True, True)


def test_bal_3_elsewhere_each_subscription_is_told_for_itself() -> None:
    """What Figure 5 shows is right for a process with one subscription at a time; where a process
    may have many, minimality and completeness go by subscription id."""
    report = two_intervals(2).check(t_sub=0.5, t_diff=0.5)
    assert (report["completeness"].holds, report["minimality"].holds) == (False, True)
    report = two_intervals(2, 21).check(t_sub=0.5, t_diff=0.5)
    assert (report["completeness"].holds, report["minimality"].holds) == (True, True)


def test_bal_3_the_property_is_global_over_all_processes() -> None:
    play = two_intervals(2).sub(1, "p_j", "x = 1").usub(10, "p_j")
    assert verdicts(play) == (False, True)
    assert verdicts(play.told(3, "p_j", "x")) == (True, True)
    assert verdicts(play.told(4, "p_j", "x")) == (True, False)


@pytest.mark.parametrize(
    ("lifetime", "subscribed", "owed"),
    [
        (0, 1.0, True),  # before the publication at 5
        (0, 5.0, False),  # in the same instant: who was first?
        (0, 5.1, False),  # 0-available: only who was there
        (10, 5.1, True),  # Δ-available: within Δ, not after it
        (10, 14.5, True),  # room for the hand-over until 15
        (10, 14.9, False),  # the item expires while it would be handed over (E-B1)
        (10, 15.1, False),
        (FOREVER, 1000.0, True),  # ∞-available: the digital library
    ],
)
def test_bal_4_classes_of_availability(lifetime: float, subscribed: float, owed: bool) -> None:
    play = Play().pub(5, "x", lifetime=lifetime).sub(subscribed, "p", "x = 1").usub(subscribed + 2000, "p")
    report = play.check(contract="Intermediary", t_sub=0, t_diff=0.5)
    assert report["completeness"].holds is not owed


def test_bal_3_e_b1_what_matches_nothing_is_not_owed() -> None:
    play = Play().pub(5, "x", {"x": 2}, lifetime=FOREVER).sub(1, "p", "x = 1").usub(9, "p")
    assert verdicts(play) == (True, True)


def test_bal_3_e_b1_a_notification_after_the_expiry_counts() -> None:
    """It was on its way when the item expired: outside A, inside S."""
    play = Play().pub(0, "x", lifetime=5).sub(4.2, "p", "x = 1").usub(9, "p").told(5.3, "p", "x")
    assert verdicts(play) == (True, True)


def test_bal_3_a_notification_outside_the_interval_does_not_count() -> None:
    play = Play().pub(1, "x").sub(0, "p", "x = 1").usub(9, "p").told(9.5, "p", "x")
    assert verdicts(play) == (False, True)
