"""Link matching: which links lead on, with no more work than full matching."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings_lab.matching.link_tree import LinkTree
from tidings_lab.matching.tree import TreeMatcher

LINKS = ("n", "e", "s", "w")


def event(**attributes: Any) -> Event:
    return make_event(attributes, source="s", id="1")


def drawn_filter(rng: Random) -> str:
    parts = [
        rng.choice(
            (
                f"{name} = {rng.randrange(3)}",
                f"{name} < {rng.randrange(4)}",
                f"{name} * 2 > {rng.randrange(5)}",
            )
        )
        for name in "abcd"
        if rng.random() < 0.5
    ]
    text = " AND ".join(parts) or "TRUE"
    return f"{text} OR a = {rng.randrange(3)}" if rng.random() < 0.2 else text


def drawn_event(rng: Random) -> Event:
    return event(**{name: rng.randrange(3) for name in "abcd" if rng.random() < 0.9})


def test_a_link_is_found_once_whoever_wants_it_behind_it() -> None:
    tree = LinkTree()
    for text, link in (("a = 1", "n"), ("a = 1 AND b > 5", "n"), ("b > 5", "e"), ("a = 2", "s")):
        tree.put(parse_filter(text), link)
    assert tree.links(event(a=1, b=9), LINKS) == {"n", "e"}
    assert tree.links(event(a=1, b=9), ("e", "s")) == {"e"}, "the link that it came from is shut"
    assert tree.links(event(a=3), LINKS) == set()


def test_what_is_sure_is_not_searched_any_further() -> None:
    tree = LinkTree()
    tree.put(parse_filter("TRUE"), "n")
    for number in range(50):
        tree.put(parse_filter(f"a = {number}"), "n")
    tree.links(event(a=7), LINKS)
    assert tree.visited == 1, "at the root north is a yes, and nobody else is open"
    tree.put(parse_filter("a = 7"), "e")
    tree.links(event(a=7), LINKS)
    assert tree.visited == 3, "the root, and the branch with a maybe for east"


@pytest.mark.parametrize("factored", [(), ("a",), ("a", "c")])
def test_links_are_those_of_the_filters_that_accept_and_no_hop_visits_more_than_full_matching(
    factored: tuple[str, ...],
) -> None:
    for seed in range(20):
        rng = Random(seed)
        tree, full = (
            LinkTree(order=("a", "b", "c", "d"), factored=factored),
            TreeMatcher(order="abcd", factored=factored),
        )
        stored = []
        for _ in range(30):
            filter, link = parse_filter(drawn_filter(rng)), rng.choice(LINKS)
            tree.put(filter, link)
            full.add(filter)
            stored.append((filter, link))
        for _ in range(20):
            one, shut = drawn_event(rng), rng.choice(LINKS)
            before, before_full = tree.visited, full.visited
            found = tree.links(one, (link for link in LINKS if link != shut))
            full.match(one)
            assert found == {link for filter, link in stored if link != shut and accepts(filter, one)}
            assert tree.visited - before <= full.visited - before_full


def test_what_goes_leaves_nothing_behind() -> None:
    rng = Random(1)
    tree = LinkTree(factored=("a",))
    stored = [(parse_filter(drawn_filter(rng)), rng.choice(LINKS)) for _ in range(60)]
    for filter, link in stored:
        tree.put(filter, link)
        tree.put(filter, link)  # again is nothing new
        tree.check()
    assert len(tree) == len({(filter.digest, link) for filter, link in stored})
    for number, (filter, link) in enumerate(stored):
        tree.take(filter, link)
        tree.take(filter, link)
        tree.check()
        one = drawn_event(rng)
        left = [
            (f, other) for f, other in stored[number + 1 :] if (f.digest, other) not in _gone(stored, number)
        ]
        assert tree.links(one, LINKS) == {other for f, other in left if accepts(f, one)}
    assert len(tree) == 0
    assert tree._tree.stats()["nodes"] == 0


def _gone(stored: list[Any], upto: int) -> set[tuple[str, str]]:
    return {(filter.digest, link) for filter, link in stored[: upto + 1]}
