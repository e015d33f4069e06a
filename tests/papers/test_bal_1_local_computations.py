"""BAL-1: legal local computations, LP1 to LP4 and Figure 1 (Baldoni et al. 2002, 3.2)."""

from __future__ import annotations

import pytest
from tests.unit.history.play import Play

LOCAL = ("lp1", "lp2", "lp3", "lp4")


def figure_1() -> Play:
    """One process: it subscribes to C, is told x, publishes z, unsubscribes, then the same for C'."""
    play = Play()
    play.pub(1, "x", {"c": 1}, source="p_j").pub(2, "y", {"c": 2}, source="p_j", lifetime=60)
    play.sub(0, "p_i", "c = 1", "C").told(3, "p_i", "x", "C")
    play.pub(4, "z", {"c": 3}, source="p_i").usub(5, "p_i", "C")
    play.sub(6, "p_i", "c = 2", "C'").told(7, "p_i", "y", "C'")
    play.pub(8, "w", {"c": 3}, source="p_i").usub(9, "p_i", "C'")
    return play


def broken(play: Play) -> set[str]:
    report = play.check(contract="Intermediary")
    return {name for name in LOCAL if report[name].holds is False}


def test_bal_1_figure_1_is_legal() -> None:
    report = figure_1().check(contract="Intermediary")
    assert all(report[name].holds is True for name in LOCAL)


@pytest.mark.parametrize(
    ("what", "play", "complain"),
    [
        ("a usub with no sub before it", figure_1().usub(10, "p_i"), {"lp1"}),
        ("a usub before its sub", figure_1().changed(5, time=-1), {"lp1", "lp2", "lp3"}),
        ("a sub without its usub", figure_1().without(9), {"lp2"}),
        ("two subscriptions at a time", figure_1().changed(5, time=6.5), {"lp3"}),
        (
            "a second sub inside the interval",
            figure_1().sub(4.5, "p_i", "c = 9", "C'").usub(4.7, "p_i", "C'"),
            {"lp3"},
        ),
        ("a notify between the intervals", figure_1().changed(3, time=5.5), {"lp4"}),
        ("a notify in the other's interval", figure_1().changed(3, time=7.5), {"lp4"}),
        ("a notify after the last usub", figure_1().changed(7, time=9.5), {"lp4"}),
    ],
)
def test_bal_1_each_rule_has_its_own_breach(what: str, play: Play, complain: set[str]) -> None:
    assert broken(play) == complain, what


def test_bal_1_a_publication_may_fall_anywhere() -> None:
    anywhere = figure_1()
    for time in (-5.0, 0.0, 5.5, 50.0):
        anywhere.pub(time, f"p{time}", {"c": 3}, source="p_i")
    assert broken(anywhere) == set()


def test_bal_1_e_b2_the_same_subscription_may_come_again() -> None:
    play = Play().sub(0, "p", "c = 1").usub(1, "p").sub(2, "p", "c = 1").usub(3, "p")
    assert broken(play) == set()


def test_bal_1_lp2_and_lp3_are_the_intermediarys_own() -> None:
    permanent = Play().sub(0, "p", "c = 1", "one").sub(1, "p", "c = 2", "two")
    report = permanent.check()
    assert (report["lp2"].holds, report["lp3"].holds) == (None, None)
    assert report["lp2"].reason == "Tidings does not promise it"
    assert broken(permanent) == {"lp2", "lp3"}


def test_bal_1_lp4_asks_for_some_subscription_of_the_process_legality_for_its_own() -> None:
    play = Play().sub(0, "p", "c = 1", "one").sub(0, "p", "c > 0", "two").usub(2, "p", "one")
    play.pub(1, "x", {"c": 1}, source="q").told(1, "p", "x", "two").told(3, "p", "x", "one")
    report = play.check()
    assert report["lp4"].holds is True
    assert report["legality"].holds is False
    invented = play.told(4, "p", "ghost", "one").check()  # what it holds nobody knows
    assert invented["lp4"].holds is True
    assert invented["validity"].holds is False
