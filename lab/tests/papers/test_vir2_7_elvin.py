"""VIR2-7: Elvin's quenching on the all-brokers policy (Virgillito 2003, 2.4.4)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.protocol.effects import Receipt
from tidings.simulation.topology import line
from tidings.testing.trial import Trial, random_trial


def stage() -> Trial:
    trial = Trial("elvin", line(4))
    trial.client("press", "b0")
    trial.client("reader", "b3")
    trial.advertise("press", "prices", "x >= 0")
    trial.settle()
    return trial


def receipts(trial: Trial) -> list[Receipt]:
    return trial.world.applications["press"].receipts


def publish(trial: Trial, **attributes: Any) -> bool:
    """Was it held back?"""
    trial.publish("press", attributes)
    trial.settle()
    return receipts(trial)[-1].unwanted


def test_vir2_7_elvin_a_publisher_holds_back_what_nobody_wants() -> None:
    trial = stage()
    assert publish(trial, x=0.5), "nobody is there"
    trial.subscribe("reader", "n", "x > 0.25")
    trial.settle()
    assert not publish(trial, x=0.5)
    assert not publish(trial, x=0.1), "somebody wants some of it: the broker is asked"
    trial.unsubscribe("reader", "n")
    trial.settle()
    assert publish(trial, x=0.5)
    trial.judge()


def test_vir2_7_elvin_what_was_not_advertised_or_is_wanted_under_another_name_goes_out() -> None:
    trial = stage()
    assert not publish(trial, y=1), "no advertisement covers it"
    trial.subscribe("reader", "n", "y = 1")
    trial.advertise("press", "signs", "y = 1")
    trial.settle()
    assert not publish(trial, x=0.5, y=1), "one of its advertisements is wanted"
    assert publish(trial, x=0.5) is False, "x >= 0 and y = 1 may come together, so somebody may want it"
    trial.judge()


def test_vir2_7_elvin_events_that_stay_available_are_never_held_back() -> None:
    trial = stage()
    trial.world.publish("press", {"x": 0.5, "number": 0}, lifetime=60.0)
    trial.settle()
    assert not receipts(trial)[-1].unwanted
    assert publish(trial, x=0.5)


def test_vir2_7_elvin_a_publisher_that_comes_back_asks_again() -> None:
    trial = stage()
    assert publish(trial, x=0.5)
    trial.world.move("press", "b1")
    trial.settle()
    assert publish(trial, x=0.5), "the new broker says so, too"
    trial.subscribe("reader", "n", "x > 0.25")
    trial.settle()
    assert not publish(trial, x=0.5)
    trial.judge()


def test_vir2_7_elvin_an_advertisement_that_ends_quenches_nothing() -> None:
    trial = stage()
    trial.unadvertise("press", "prices")
    trial.settle()
    assert not publish(trial, x=0.5)


@pytest.mark.parametrize("seed", range(6))
def test_vir2_7_elvin_whatever_is_held_back_nobody_misses_anything(seed: int) -> None:
    trial = random_trial("elvin", seed, operations=60)
    trial.judge()


@pytest.mark.parametrize("seed", range(6))
def test_vir2_7_elvin_publishers_that_advertise_and_withdraw_lose_nothing(seed: int) -> None:
    trial = stage()
    rng = Random(seed)
    for number in range(40):
        act = rng.randrange(4)
        if act == 0 and trial.active:
            trial.unsubscribe(*rng.choice(sorted(trial.active)))
        elif act == 1:
            trial.subscribe("reader", f"n{number}", f"x > {rng.randrange(8) / 8}")
        elif act == 2:
            trial.advertise("press", f"a{rng.randrange(3)}", f"x < {rng.randrange(8) / 8}")
        elif len(trial.advertised) > 1:
            trial.unadvertise(*rng.choice(sorted(trial.advertised)))
        trial.settle()
        publish(trial, x=rng.randrange(9) / 8)
    trial.judge()
    assert any(receipt.unwanted for receipt in receipts(trial))
    assert not all(receipt.unwanted for receipt in receipts(trial))
