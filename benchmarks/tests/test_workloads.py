"""The workloads are the same on every machine, and each smaller one is a prefix of the larger."""

from __future__ import annotations

from itertools import islice

import pytest

from tidings.model.constraint import Equals, Exists, Missing, NotOneOf, Prefix, Range
from tidings.model.event import Event
from tidings_bench import workloads

NAMES = ("W1", "W2", "W2s", "W3", "W4", "W4hot", "W4shared", "W4unseen")


@pytest.mark.parametrize("name", NAMES)
def test_a_small_workload_is_a_prefix_of_a_large_one(name: str) -> None:
    made = workloads.workload(name)
    assert list(workloads.filters(made, 50)) == list(islice(workloads.filters(made, 10_050), 50))
    assert workloads.attributes(made, 5, start=1998) == workloads.attributes(made, 2003)[1998:]


@pytest.mark.parametrize("name", NAMES)
def test_filters_with_and_without_their_texts_mean_the_same(name: str) -> None:
    made = workloads.workload(name)
    plain = list(workloads.filters(made, 40))
    worded = list(workloads.filters(made, 40, text=True))
    assert [f.conjunctions for f in plain] == [f.conjunctions for f in worded]
    assert all(f.text for f in worded)


@pytest.mark.parametrize("name", NAMES)
def test_events_and_columns_hold_the_same_values(name: str) -> None:
    made = workloads.workload(name)
    events, columns = workloads.events(made, 30), workloads.columns(made, 30)
    assert all(isinstance(event, Event) for event in events)
    for number, event in enumerate(events):
        for attribute, column in columns.items():
            value = event.view.get(attribute)
            assert column[number] == (list(value) if isinstance(value, tuple) else value)


def test_w4_holds_what_w2_leaves_out() -> None:
    made = list(workloads.filters(workloads.workload("W4"), 2000))
    conjunctions = [c for f in made for c in f.conjunctions]
    constraints = [c for conj in conjunctions for c in conj.constraints]
    assert any(len(f.conjunctions) > 1 for f in made)
    assert any(conj.residuals for conj in conjunctions)
    assert {Equals, Exists, Missing, NotOneOf, Prefix, Range} <= {type(c) for c in constraints}
    assert any("." in c.attribute for c in constraints)


def test_the_load_of_w4_drifts() -> None:
    made = workloads.workload("W4")
    early = [row["load"] for row in made.event_attributes(0)]
    late = [row["load"] for row in made.event_attributes(5)]
    assert max(early) < min(late)
