"""The tree of delegates against its definition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import SettingsError
from tidings_lab.membership.delegate_tree import DelegateTree


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.integers(1, 3), st.integers(0, 200))
def test_every_process_is_in_one_subtree_of_each_level(
    depth: int, arity: int, delegates: int, more: int
) -> None:
    depth = min(depth, 3)
    tree = DelegateTree.of(arity ** (depth - 1) * delegates + more, arity, depth, delegates)
    for level in range(depth):
        ranges = [tree.subtree(level, number) for number in range(arity**level)]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == tree.count
        for process in range(tree.count):
            begin, end = tree.subtree(level, tree.number(process, level))
            assert begin <= process < end


@pytest.mark.parametrize("count", [27, 60, 100])
def test_who_gossips_on_a_level_stands_in_its_pool(count: int) -> None:
    tree = DelegateTree.of(count, arity=3, depth=3, delegates=2)
    for process in range(count):
        for level in tree.levels_of(process):
            pool = tree.pool(level, tree.number(process, level), lambda begin, end: list(range(begin, end)))
            assert process in pool
        assert tree.levels_of(process)[-1] == tree.depth - 1


def test_subtrees_that_want_nothing_have_no_delegates() -> None:
    tree = DelegateTree.of(60, arity=3, depth=2, delegates=2)
    assert tree.pool(0, 0, lambda begin, end: [p for p in range(begin, end) if p == 25]) == [20, 21]
    assert tree.pool(1, 1, lambda begin, end: [p for p in range(begin, end) if p == 25]) == [25]


def test_a_tree_that_has_no_room_is_refused() -> None:
    with pytest.raises(SettingsError, match="no room"):
        DelegateTree.of(10, arity=10, depth=3)
