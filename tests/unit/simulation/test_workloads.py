"""Workloads: seeded, in order of time, as large as asked for."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from tidings.errors import SettingsError
from tidings.language import parse_filter
from tidings.simulation.topology import broker_names
from tidings.simulation.workloads import (
    CONTENTS,
    Plan,
    PublishStep,
    SubscribeStep,
    UnsubscribeStep,
    bursts,
    content_named,
    mixed,
    steady,
)

BROKERS = broker_names(5)
PLAN = Plan(subscriptions=20, events=100, rate=50, churn=0.3, publishers=4, leave=True)


@pytest.mark.parametrize("name", sorted(CONTENTS))
def test_a_workload_is_named_by_its_seed_and_in_order(name: str) -> None:
    workload = mixed(content_named(name), BROKERS, Random(3), PLAN)
    assert workload == mixed(content_named(name), BROKERS, Random(3), PLAN)
    assert workload != mixed(content_named(name), BROKERS, Random(4), PLAN)
    times = [step.at for step in workload.steps]
    assert times == sorted(times)
    assert set(workload.clients.values()) <= set(BROKERS)
    assert {step.client for step in workload.steps} <= set(workload.clients)
    for step in workload.steps:
        if isinstance(step, SubscribeStep):
            parse_filter(step.filter)


def test_sizes_are_those_of_the_plan_and_everybody_leaves() -> None:
    workload = mixed(content_named("stocks"), BROKERS, Random(1), PLAN)
    kinds = Counter(type(step) for step in workload.steps)
    assert kinds[PublishStep] == 100
    assert kinds[SubscribeStep] == kinds[UnsubscribeStep] > 20
    on: set[tuple[str, str]] = set()
    for step in workload.steps:
        if isinstance(step, SubscribeStep):
            assert (step.client, step.name) not in on
            on.add((step.client, step.name))
        elif isinstance(step, UnsubscribeStep):
            on.remove((step.client, step.name))
    assert not on


def test_events_wait_until_the_first_subscriptions_have_settled() -> None:
    workload = mixed(content_named("stocks"), BROKERS, Random(1), Plan(settle=7.0, events=5))
    first = [step.at for step in workload.steps if isinstance(step, SubscribeStep)]
    assert max(first) < 7.0 < min(step.at for step in workload.steps if isinstance(step, PublishStep))


def test_arrivals_have_the_rate_that_was_asked_for() -> None:
    for moments in (steady(Random(1), 100.0), bursts(Random(1), 100.0, size=10)):
        times = list(islice(moments, 20_000))
        assert times == sorted(times)
        assert 180 < times[-1] < 220
    burst = list(islice(bursts(Random(1), 10.0, size=5), 50))
    assert sum(a != b for a, b in pairwise(burst)) == 9


def test_an_unknown_workload_names_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match="no workload is called 'weather'") as caught:
        content_named("weather")
    assert "stocks" in str(caught.value.hint)
