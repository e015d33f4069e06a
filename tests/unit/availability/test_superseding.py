"""Superseding against the highest offset per key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.records import Entry
from tidings.availability.superseding import Superseding

keys = st.one_of(st.none(), st.sampled_from("ab"))


@given(st.lists(st.tuples(keys, st.integers(1, 20)), unique_by=lambda pair: pair[1]))
def test_only_the_newest_of_a_key_counts(plan: list[tuple[str | None, int]]) -> None:
    superseding, dead = Superseding(), set[int]()
    for key, offset in plan:
        loser = superseding.supersede(key, offset)
        if loser is not None:
            dead.add(loser)
        superseding = Superseding.decode(superseding.encode())
    for key in "ab":
        offsets = [offset for of, offset in plan if of == key]
        assert superseding.latest(key) == max(offsets, default=None)
        assert all(superseding.is_superseded(key, offset) == (offset != max(offsets)) for offset in offsets)
    newest = {max((o for k, o in plan if k == key), default=None) for key in "ab"}
    assert dead == {offset for key, offset in plan if key is not None} - newest


def test_forgetting_the_newest_brings_nothing_back() -> None:
    superseding = Superseding()
    assert superseding.supersede("k", 1) is None
    assert superseding.supersede("k", 2) == 1
    superseding.forget("k", 1)
    assert superseding.latest("k") == 2
    superseding.forget("k", 2)
    assert superseding.latest("k") is None
    assert len(superseding) == 0


def test_it_is_rebuilt_from_the_index() -> None:
    entries = [
        Entry(offset, "s", str(offset), 0.0, 1.0, key=key) for offset, key in ((1, "k"), (2, None), (3, "k"))
    ]
    superseding = Superseding(entries)
    assert superseding.latest("k") == 3
    assert superseding.is_superseded("k", 1)
    assert not superseding.is_superseded(None, 2)


def test_seeing_one_twice_changes_nothing() -> None:
    superseding = Superseding()
    superseding.supersede("k", 4)
    assert superseding.supersede("k", 4) is None
    assert superseding.latest("k") == 4
