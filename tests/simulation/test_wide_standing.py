"""The oracle of the wide world: what a subscription is owed that was lost with its home's disk."""

from __future__ import annotations

import pytest

from tidings.language import parse_filter
from tidings.model.event import FOREVER, Event, make_event
from tidings.simulation.wide.standing import FilterStage, OwedSubscription

WIDE, NARROW = parse_filter("x > 11"), parse_filter("x > 11 AND k < 2")


def available(**attributes: int) -> Event:
    return make_event(attributes, source="p", id="1-1", lifetime=FOREVER)


def standing(*replays: bool) -> OwedSubscription:
    """It stood from 3.0 on, and took NARROW at 6.0 and WIDE at 9.0."""
    filters = (WIDE, NARROW, WIDE)
    stages = [
        FilterStage(filter, replay, 3.0 * number, 3.0 * number, is_settled=True)
        for number, (filter, replay) in enumerate(zip(filters, replays, strict=True), 1)
    ]
    return OwedSubscription(stages, "b1")


@pytest.mark.parametrize("replay", [True, False])
def test_a_subscription_that_begins_anew_is_owed_what_its_return_asks_for(replay: bool) -> None:
    """What was owed before its loss counted as owed already."""
    found = standing(True, replay, True)
    event = available(x=49, k=0)
    assert found.is_available(event)
    found.begins_anew(NARROW, replay)
    assert found.is_available(event) is replay


def test_a_return_with_the_filter_of_before_the_loss_may_begin_without_replay() -> None:
    found = standing(True, True, True)
    found.stages = found.stages[:1]
    event = available(x=49, k=0)
    found.begins_anew(WIDE, False)
    assert not found.is_available(event)
    found.begins_anew(WIDE, True)
    assert found.is_available(event)


def test_an_event_that_only_a_later_filter_with_replay_accepts_is_owed_after_a_loss() -> None:
    found = standing(True, False, True)
    found.begins_anew(NARROW, False)
    assert found.is_available(available(x=49, k=2))
    assert found.owes(available(x=49, k=0), 10.0)
