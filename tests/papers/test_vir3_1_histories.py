"""VIR3-1: histories and P1 to P3a (Virgillito 2003, 3.1), read with errata E-V7."""

from __future__ import annotations

import pytest
from tests.unit.history.play import Play

SIGMA, OTHER = "kind = 'sigma'", "kind = 'other'"


def figure_3_1() -> Play:
    """p_j publishes x and y, which match sigma of p_i; x' matches the subscription of p_k.

    (In the text the second publication is printed pub(x); it is pub(y).)"""
    play = Play()
    play.sub(1, "p_i", SIGMA).sub(2, "p_k", OTHER)
    play.pub(3, "x", {"kind": "sigma"}, source="p_j").told(4, "p_i", "x")
    play.pub(5, "y", {"kind": "sigma"}, source="p_j").told(6, "p_i", "y")
    play.pub(7, "x'", {"kind": "other"}, source="p_j")
    play.usub(7.5, "p_k").usub(9, "p_i")
    return play


def test_vir3_1_figure_3_1_is_accepted() -> None:
    report = figure_3_1().check(t_sub=1, t_diff=1)
    assert report["legality"].holds is True
    assert report["validity"].holds is True
    assert report["liveness"].holds is True  # x' had half a second left of its subscriber's interest


def test_vir3_1_the_notification_of_x_prime_would_have_been_due_in_a_faster_service() -> None:
    report = figure_3_1().check(t_sub=1, t_diff=0.4)
    assert report["liveness"].holds is False
    assert report["legality"].holds is True


def test_vir3_1_p1_a_notification_outside_its_interval() -> None:
    late = figure_3_1().changed(5, time=9.5)
    assert late.check()["legality"].story == "At 9.5 s p_i received y of p_j, but had unsubscribed at 9 s."
    foreign = figure_3_1().told(7.2, "p_i", "x'")
    assert foreign.check()["legality"].story == (
        "At 7.2 s p_i received x' of p_j, but the filter in force does not accept it."
    )


def test_vir3_1_p2_a_notification_without_its_publication() -> None:
    early = figure_3_1().changed(3, time=2.5)
    assert (
        early.check()["validity"].story == "At 2.5 s p_i received x of p_j, but it was published only at 3 s."
    )
    invented = figure_3_1().told(8, "p_i", "z")
    assert invented.check()["validity"].story == "At 8 s p_i received z of press, but it was never published."


def test_vir3_1_p2_the_same_instant_will_do() -> None:
    """The formula has t' < t, the text t1 <= t2; a broker in one process needs no time."""
    assert figure_3_1().changed(3, time=3).check()["validity"].holds is True


@pytest.mark.parametrize(
    ("published", "due"),
    [
        (1.9, False),  # before the subscription is stable
        (2.0, True),  # stable from s + T_sub = 2 on
        (8.0, True),  # the diffusion ends with the interval
        (8.1, False),  # it would end after it
    ],
)
def test_vir3_1_p3_the_stable_interval_must_contain_the_diffusion(published: float, due: bool) -> None:
    play = Play().sub(1, "p", "x = 1").pub(published, "e").usub(9, "p")
    assert play.check(t_sub=1, t_diff=1)["liveness"].holds is not due
    assert play.told(9.5, "p", "e").check(t_sub=1, t_diff=1)["liveness"].holds is True


def test_vir3_1_p3_without_an_unsubscription_the_interval_is_infinite() -> None:
    play = Play().sub(1, "p", "x = 1").pub(1000, "e")
    assert play.check(t_sub=1, t_diff=1)["liveness"].holds is False


@pytest.mark.parametrize(
    ("subscribed", "lifetime", "due"),
    [
        (10.0, 0.0, False),  # 0-persistence: published before the subscription
        (10.0, 8.0, True),  # stable at 11, still stored until 13
        (12.0, 8.0, True),  # stable in the last moment
        (12.5, 8.0, False),  # stable at 13.5
        (500.0, float("inf"), True),  # the digital library
    ],
)
def test_vir3_1_p3a_the_stable_interval_meets_what_is_stored(
    subscribed: float, lifetime: float, due: bool
) -> None:
    play = Play().pub(5, "e", lifetime=lifetime).sub(subscribed, "p", "x = 1").usub(subscribed + 50, "p")
    assert play.check(t_sub=1, t_diff=1)["liveness"].holds is not due


def test_vir3_1_an_interval_ends_with_the_next_usub_and_begins_anew() -> None:
    play = Play().sub(1, "p", "x = 1").usub(3, "p").sub(5, "p", "x = 1").usub(7, "p")
    play.pub(2, "a").told(2.5, "p", "a").pub(6, "b").told(6.5, "p", "b")
    assert play.check(contract="Intermediary").broken == []
    between = play.pub(4, "c").told(4.5, "p", "c")
    assert between.check()["legality"].holds is False
