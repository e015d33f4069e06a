"""Failure detection by itself: late answers, open probes, what loss is."""

from __future__ import annotations

import pytest

from tidings.protocol.membership.probing import SUSPECT, Prober, ProbeSettings


class Seen:
    """A prober, and what it sends."""

    def __init__(self, **settings: float) -> None:
        self.pings: list[tuple[str, int]] = []
        self.asks: list[tuple[str, int, str]] = []
        self.pongs: list[tuple[str, int]] = []
        self.gone: list[str] = []
        self.prober = Prober(
            ProbeSettings(**settings),  # type: ignore[arg-type]
            ping=lambda to, number: self.pings.append((to, number)),
            ask=lambda to, number, target: self.asks.append((to, number, target)),
            pong=lambda to, number: self.pongs.append((to, number)),
            helpers=lambda count, target: tuple(f"h{n}" for n in range(count)), lost=self.gone.append,
            incarnation_of=lambda name: 0, is_known=lambda name: True,
        )  # fmt: skip


def test_late_answers_stretch_the_rounds_and_are_not_lost() -> None:
    seen = Seen()
    prober = seen.prober
    for number in range(1, 31):
        prober.probe(f"p{number}", 10.0 * number)
        prober.on_timer(10.0 * number + 0.3)  # no answer in time: others are asked
        prober.on_timer(10.0 * number + 3.0)
        prober.answered(number, f"p{number}", 10.0 * number + 6.0)
    assert prober.pace() == pytest.approx(6.0 / 0.75, rel=0.05)
    assert prober.loss() < 0.04
    for number in range(31, 80):
        prober.probe("near", 1000.0 + number)
        prober.answered(number, "near", 1000.01 + number)
    assert prober.pace() == 1.0


def test_lost_answers_are_loss_from_the_first_ones_on_and_stretch_nothing() -> None:
    seen = Seen()
    prober = seen.prober
    for number in range(1, 9):
        prober.probe(f"p{number}", 10.0 * number)
        if number % 2:
            prober.answered(number, f"p{number}", 10.0 * number + 0.1)
        prober.on_timer(10.0 * number + 9.0)
        prober.on_timer(10.0 * number + 9.9)
    assert prober.loss() == pytest.approx(1 - 0.5**0.5, abs=0.01)
    assert prober.pace() == 1.0


def test_a_network_that_was_not_seen_yet_is_not_trusted() -> None:
    seen = Seen()
    assert seen.prober.loss() > 0.25
    for number in range(1, 11):
        seen.prober.probe("near", float(number))
        seen.prober.answered(number, "near", number + 0.01)
    assert 0.05 < seen.prober.loss() < 0.1


def test_an_answer_by_a_helper_says_nothing_of_the_time_that_answers_take() -> None:
    seen = Seen()
    seen.prober.probe("far", 0.0)
    seen.prober.on_timer(0.3)
    assert len(seen.asks) == 3
    seen.prober.answered(1, "h1", 0.7)
    assert seen.prober.delay == 0.0
    assert seen.prober.loss() > 0.0
    assert not seen.prober.suspects


def test_probes_for_others_say_nothing_of_loss() -> None:
    seen = Seen()
    before = seen.prober.loss()
    for number in range(1, 6):
        seen.prober.probe("near", 0.0, ("asker", number))
        seen.prober.answered(number, "near", 0.1)
    assert seen.pongs == [("asker", number) for number in range(1, 6)]
    assert seen.prober.loss() == before


def test_open_probes_are_bounded_whatever_the_news() -> None:
    seen = Seen(most_open=4)
    seen.prober.receive("us", tuple((SUSPECT, f"p{n}", 0) for n in range(50)), 0.0)
    assert len(seen.pings) == 4
    for n in range(50):
        seen.prober.probe(f"p{n}", 0.0, ("asker", n))
    assert len(seen.pings) == 8, "as many for others"
    seen.prober.answered(1, "p0", 0.1)
    seen.prober.probe("next", 0.1)
    assert seen.pings[-1][0] == "next"
