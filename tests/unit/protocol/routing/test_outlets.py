"""What a link is told: reduced, and still exactly what is wanted, through any changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.algebra import covers
from tidings.language import accepts
from tidings.model.event import make_event
from tidings.model.filter import Filter
from tidings.protocol.routing.outlets import OUTLETS, CoveringOutlet
from tidings.testing.ports import filter_of

TEXTS = [f"x BETWEEN {low} AND {high}" for low in range(5) for high in range(low, 5)] + [
    "x > 2", "x < 3", "x = 1 OR x = 4", "y = 1", "x > 1 AND y = 1",
]  # fmt: skip
FILTERS = [filter_of(text) for text in TEXTS]
PROBES = [make_event({"x": x, "y": y}, source="s", id="1") for x in range(-1, 7) for y in (0, 1)]
steps = st.lists(st.integers(0, len(FILTERS) - 1), max_size=25)


def wanted(filters: list[Filter]) -> list[bool]:
    return [any(accepts(f, event) for f in filters) for event in PROBES]


@pytest.mark.parametrize("reduce", sorted(OUTLETS))
@settings(max_examples=60)
@given(steps=steps, takes=st.lists(st.booleans(), min_size=25, max_size=25))
def test_the_far_end_wants_what_we_want_through_any_changes(
    reduce: str, steps: list[int], takes: list[bool]
) -> None:
    """A step adds a filter, or removes it when it is there; changes are taken now and then."""
    outlet = OUTLETS[reduce]()
    ours: dict[str, Filter] = {}
    far: dict[str, Filter] = {}
    for step, take in zip([*steps, 0], [*takes[: len(steps)], True], strict=True):
        filter = FILTERS[step]
        if filter.digest in ours:
            outlet.remove(filter.digest)
            del ours[filter.digest]
        else:
            outlet.add(filter)
            ours[filter.digest] = filter
        assert all(digest in outlet for digest in ours)
        if take:
            changes = outlet.changes()
            for digest in changes.remove:
                del far[digest]
            for added in changes.add:
                assert added.digest not in far, "told twice"
                far[added.digest] = added
            assert far.keys() == outlet.announced.keys()
            assert wanted(list(far.values())) == wanted(list(ours.values()))
    assert not outlet.changes()


@settings(max_examples=60)
@given(steps)
def test_covering_tells_no_filter_that_another_told_one_covers(steps: list[int]) -> None:
    outlet = CoveringOutlet()
    for step in steps:
        filter = FILTERS[step]
        if filter.digest in outlet:
            outlet.remove(filter.digest)
        else:
            outlet.add(filter)
        delivered = list(outlet.announced.values())
        assert not any(covers(a, b) for a in delivered for b in delivered if a is not b)


@pytest.mark.parametrize("reduce", sorted(OUTLETS))
def test_what_came_and_went_is_not_sent(reduce: str) -> None:
    outlet = OUTLETS[reduce]()
    outlet.add(filter_of("x > 1"))
    outlet.remove(filter_of("x > 1").digest)
    assert not outlet.changes()


@pytest.mark.parametrize("reduce", sorted(OUTLETS))
def test_a_far_end_that_forgot_is_told_everything_again(reduce: str) -> None:
    outlet = OUTLETS[reduce]()
    outlet.add(filter_of("x > 1"))
    first = outlet.changes()
    assert not outlet.changes()
    outlet.forget()
    assert outlet.changes() == first


def test_merging_tells_the_union_of_neighbours() -> None:
    outlet = OUTLETS["merging"]()
    outlet.add(filter_of("x BETWEEN 0 AND 5"))
    outlet.add(filter_of("x BETWEEN 5 AND 9"))
    (union,) = outlet.changes().add
    assert [accepts(union, make_event({"x": x}, source="s", id="1")) for x in (-1, 0, 5, 9, 10)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_union_hides_what_two_others_cover_together_and_brings_it_out_again() -> None:
    outlet = OUTLETS["union"]()
    for text in ("x BETWEEN 0 AND 5", "x BETWEEN 5 AND 9", "x BETWEEN 3 AND 7"):
        outlet.add(filter_of(text))
    assert {f.text for f in outlet.changes().add} == {"x BETWEEN 0 AND 5", "x BETWEEN 5 AND 9"}
    outlet.remove(filter_of("x BETWEEN 5 AND 9").digest)
    assert [f.text for f in outlet.changes().add] == ["x BETWEEN 3 AND 7"]
