"""Filters that an element of a list finds: which they are, and that a matcher keeps them through its life."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.language.work import BUDGET
from tidings.matching.columnar.elements import entries_of
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings.matching.matcher import lists_of
from tidings.model.event import Event, make_event


@pytest.mark.parametrize(
    ("text", "is_filed"),
    [
        ("'red' IN tags", True), ("ANY(lines.price > 100)", True), ("region = 'eu' AND 'red' IN tags", True),
        ("region = 'eu' AND ANY(lines.price > 100)", False), ("ALL(lines.price > 1)", True),
        ("'red' IN tags OR a = 1", False), ("ANY(lines.sku IS NULL)", False),
        ("ANY(lines.a > lines.b)", False),
        ("ANY(lines.sku = 'a' AND lines.q > 1)", True), ("ANY(lines.q > 1 AND id = '7')", False),
        ("'red' IN tags AND ALL(lines.q > 1)", True), ("NOT 'red' IN tags", True),
    ],
)  # fmt: skip
def test_which_filters_an_element_finds(text: str, is_filed: bool) -> None:
    assert (entries_of(parse_filter(text)) is not None) is is_filed
    assert entries_of(parse_filter("a = 1")) is None


def made(body: dict[str, Any]) -> Event:
    return make_event(body, source="s", id="1")


def drawn(seed: int) -> tuple[list[str], list[Event]]:
    rng = random.Random(seed)
    texts = [
        rng.choice(
            [
                f"'t{rng.randrange(30)}' IN tags", f"ANY(lines.price > {rng.randrange(100)})",
                f"ANY(lines.price BETWEEN {rng.randrange(100)} AND 60 AND lines.sku = 's{rng.randrange(5)}')",
                f"region = 'r{rng.randrange(3)}' AND {rng.randrange(9)} IN nums",
                f"ANY(tags LIKE 't{rng.randrange(9)}%') OR 5 IN nums", f"a = {rng.randrange(5)}",
                f"ALL(lines.price > {rng.randrange(100)} AND lines.sku != 's1')",
                f"a = 1 AND NOT 't{rng.randrange(30)}' IN tags", "ALL(tags = 't1') OR ALL(nums < 5)",
                f"ALL(nums < {rng.randrange(9)}) OR ALL(nums > {rng.randrange(9)})",
                f"ANY(lines.price = DECIMAL('{rng.randrange(100)}.10'))",
            ]
        )
        for _ in range(300)
    ]  # fmt: skip
    events = [
        made(
            {
                "a": rng.randrange(5), "region": f"r{rng.randrange(3)}",
                "tags": rng.choice(["t1", [f"t{rng.randrange(30)}" for _ in range(3)], [["t2"], None], []]),
                "nums": [rng.choice([rng.randrange(9), 5.0, True, Decimal(3)]) for _ in range(2)],
                "lines": [
                    {"sku": f"s{rng.randrange(5)}", "price": rng.choice([Decimal(f"{n}.10"), n, n + 0.1])}
                    for n in rng.sample(range(100), 3)
                ],
            }
        )
        for _ in range(40)
    ]  # fmt: skip
    return texts, [*events, made({"a": 1}), made({})]


@pytest.mark.parametrize("cls", [ColumnarMatcher, NumpyMatcher])
def test_every_element_satisfies_one_and_the_same_of_two_conditions(cls: Any) -> None:
    texts = (
        "ALL(u > 2) OR ALL(u != 'x')", "'x' NOT IN u OR ALL(u > 2) OR a = 1", "ALL(u > 2) OR ALL(w != 'x')",
        "a = 1 AND ALL(u = 5) OR a = 2 AND ALL(u = 'a') OR ANY(u = 7)", "ALL(u > 2 OR u = 'a')",
        "ALL(l.p > 2) OR ALL(l.p = 'a') OR ALL(l.q = 1)",
    )  # fmt: skip
    filters = [parse_filter(text) for text in texts]
    lists: list[list[Any]] = [["a", 5], ["a"], [5], [], ["a", 7], ["x", 7], ["x"]]
    bodies: list[dict[str, Any]] = [
        {"u": each, "l": [{"p": item} for item in each], "a": number} for each in lists for number in (1, 2)
    ]
    events = [made(body) for body in [*bodies, {"u": ["a", 5], "w": ["a", 5]}, {"u": ["a", 5], "w": ["a"]}]]
    matcher = cls()
    handles = [matcher.add(filter) for filter in filters]
    for gone in (None, 3, 0, 1):
        if gone is not None:
            matcher.remove(handles[gone])
            handles[gone] = matcher.add(filters[gone])
        for event in events:
            expected = {handle for handle, each in zip(handles, filters, strict=True) if accepts(each, event)}
            assert set(map(int, matcher.match(event))) == expected


@pytest.mark.parametrize("cls", [ColumnarMatcher, NumpyMatcher])
def test_they_match_as_evaluated_while_filters_come_and_go(cls: Any, tmp_path: Path) -> None:
    texts, events = drawn(11)
    filters = [parse_filter(text) for text in texts]
    matcher = cls()
    alive = {matcher.add(filter): filter for filter in filters}

    def check(matcher: Any) -> None:
        expected = [[h for h, f in sorted(alive.items()) if accepts(f, event)] for event in events]
        assert [list(map(int, matcher.match(event))) for event in events] == expected
        assert [list(map(int, found)) for found in lists_of(matcher.match_batch(events))] == expected

    check(matcher)
    matcher.freeze()
    check(matcher)
    for handle in sorted(alive)[::2]:
        matcher.remove(handle)
        del alive[handle]
    check(matcher)
    for filter in filters[:20]:
        alive[matcher.add(filter)] = filter
    while matcher.maintain(100):
        pass
    check(matcher)
    matcher.save(tmp_path / "table")
    assert not matcher.elements
    check(cls.open(tmp_path / "table"))
    for handle in list(alive):
        matcher.remove(handle)
        del alive[handle]
    check(matcher)


def test_an_element_decides_nothing_over_the_work_budget() -> None:
    matcher = ColumnarMatcher()
    light, heavy = parse_filter("'a' IN tags"), parse_filter("ANY(tags = 'a' AND tags LIKE '%a%b%c%d%')")
    matcher.add(light)
    matcher.add(heavy)
    event = made({"tags": ["a", "x" * (BUDGET // 20)]})
    assert list(matcher.match(event)) == [n for n, f in enumerate((light, heavy)) if accepts(f, event)]
    assert not accepts(heavy, event)
