"""Every form of the search tree finds what the oracle finds, while filters come and go (VIR2-4)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.matching.naive import NaiveMatcher
from tidings_lab.matching.tree import TreeMatcher

from ..matching.test_link_tree import drawn_event, drawn_filter

FORMS: dict[str, dict[str, Any]] = {
    "plain": {"delayed": False},
    "plain and factored": {"delayed": False, "factored": ("a", "b")},
    "delayed": {},
    "delayed and factored": {"factored": ("b",)},
    "in another order": {"order": ("d", "c", "b", "a")},
}


@pytest.mark.parametrize("form", FORMS)
def test_vir2_4_a_form_of_the_tree_agrees_with_the_oracle_through_churn(form: str) -> None:
    for seed in range(15):
        rng = Random(seed)
        tree, naive = TreeMatcher(**FORMS[form]), NaiveMatcher()
        stored: list[tuple[int, int]] = []
        for _ in range(60):
            if stored and rng.random() < 0.4:
                ours, theirs = stored.pop(rng.randrange(len(stored)))
                tree.remove(ours)
                naive.remove(theirs)
            else:
                filter = parse_filter(drawn_filter(rng))
                stored.append((tree.add(filter), naive.add(filter)))
            event = drawn_event(rng)
            same = dict(stored)
            assert sorted(same[handle] for handle in tree.match(event)) == sorted(naive.match(event))
        for ours, _ in stored:
            tree.remove(ours)
        assert tree.stats()["nodes"] == 0, "what goes leaves nothing behind"


def test_vir2_4_delayed_branching_and_factoring_visit_no_more_nodes() -> None:
    rng = Random(7)
    trees = {
        name: TreeMatcher(order="abcd", **FORMS[name]) for name in ("plain", "plain and factored", "delayed")
    }
    for _ in range(300):
        filter = parse_filter(
            " AND ".join(f"{n} = {rng.randrange(4)}" for n in "abcd" if rng.random() < 0.7) or "a = 1"
        )
        for tree in trees.values():
            tree.add(filter)
    for _ in range(200):
        event = drawn_event(rng)
        visits = {}
        for name, tree in trees.items():
            before = tree.visited
            tree.match(event)
            visits[name] = tree.visited - before
        assert visits["delayed"] <= visits["plain"]
    assert trees["delayed"].visited < trees["plain"].visited
    assert trees["plain and factored"].visited < trees["plain"].visited
