"""The work budget of an owner: many filters of one principal, each within its own budget, and one event."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol._stage import Stage

from tidings.language import parse_filter
from tidings.language.lists import elements_of
from tidings.language.work import BUDGET
from tidings.matching.engine import MatchingEngine
from tidings.model.event import Event, make_event
from tidings.protocol.interest import InterestTable
from tidings.protocol.limits import ResourceLimits

COST = 28 * 8 * 400  # of one filter on elements below for a hundred objects of three fields
LIMITS = ResourceLimits(owner_work=3 * COST)


def listed(**options: Any) -> Event:
    objects = [{"a": 5, "b": -5, "c": 1} for _ in range(100)]
    return make_event({"l": objects, "n": 1}, **{"source": "s", "id": "1", "topic": "m/x", **options})


def table(threshold: int, texts: list[tuple[str, str]]) -> InterestTable:
    """Filters with their owners, in the plain index or in columns."""
    made = InterestTable(MatchingEngine(threshold=threshold), LIMITS)
    for owner, text in texts:
        made.add(parse_filter(text), f"{owner} {text}", owner)
    while made.maintain(100):
        pass
    return made


@pytest.mark.parametrize("threshold", [500, 1])
@pytest.mark.parametrize("where", ["", "topic = 'm/#' AND ", "n = 1 AND "])
def test_the_filters_of_one_owner_cost_no_more_than_its_budget(threshold: int, where: str) -> None:
    texts = [("eve", f"{where}ANY(l.a > {-i} AND l.b < {i})") for i in range(20)]
    found = table(threshold, [*texts, ("ann", "ANY(l.c = 1)"), ("ann", "n = 1")])
    event = listed()
    matched = list(found.match(event).subscriptions)
    over = found.over_budget(event)
    assert [name for name in matched if name.startswith("eve")] == [f"eve {text}" for _, text in texts[:3]]
    assert [name for name in matched if name.startswith("ann")] == ["ann ANY(l.c = 1)", "ann n = 1"]
    assert over == [f"eve {text}" for _, text in texts[3:]]
    short = make_event({"l": [{"a": 5, "b": -5}], "n": 1}, source="s", id="2", topic="m/x")
    assert len(found.match(short).subscriptions) == 21
    assert found.over_budget(short) == []
    many = found.match_all([event, short])
    assert [list(each.subscriptions) for each in many] == [matched, list(found.match(short).subscriptions)]


@pytest.mark.parametrize("threshold", [500, 1])
def test_a_filter_that_other_parts_exclude_costs_its_owner_nothing(threshold: int) -> None:
    texts = [("eve", f"topic = 'm/{i}' AND ANY(l.a > 0 AND l.b < 0)") for i in range(20)]
    found = table(threshold, texts)
    event = listed(topic="m/19")
    assert found.match(event).subscriptions == ["eve topic = 'm/19' AND ANY(l.a > 0 AND l.b < 0)"]
    assert found.over_budget(event) == []


def test_filters_that_end_give_their_budget_back_and_no_owner_has_none() -> None:
    interest = InterestTable(MatchingEngine(), LIMITS)
    filter = parse_filter("ANY(l.a > 0 AND l.b < 0)")
    handles = [interest.add(filter, number, "eve") for number in range(5)]
    free = [interest.add(filter, number, "") for number in range(5, 10)]
    assert interest.match(listed()).subscriptions == [0, 1, 2, 5, 6, 7, 8, 9]
    for handle in handles[:3]:
        interest.remove(handle, filter)
    assert interest.match(listed()).subscriptions == [3, 4, 5, 6, 7, 8, 9]
    for handle in (*handles[3:], *free):
        interest.remove(handle, filter)
    assert not interest.has_work
    assert interest.match(listed()).subscriptions in ([], ())


def test_a_pattern_costs_less_than_a_condition_on_elements() -> None:
    interest = InterestTable(MatchingEngine(), ResourceLimits(owner_work=BUDGET))
    for number in range(20):
        interest.add(parse_filter("t LIKE '%b%'"), number, "eve")
    event = make_event({"t": "a" * (BUDGET // 30)}, source="s", id="1")
    assert interest.over_budget(event) == list(range(10, 20))


def test_the_subscriber_is_told_and_others_receive_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(limits=LIMITS)
    monkeypatch.setattr(stage.node._ports.kept, "owner_of", lambda id: id.subscriber, raising=False)
    p, eve, ann = stage.client("p"), stage.client("eve"), stage.client("ann")
    refs = [stage.subscribed(eve, "ANY(l.a > 0 AND l.b < 0)", name=f"e{n}") for n in range(5)]
    fine = stage.subscribed(ann, "ANY(l.a > 0 AND l.b < 0)")
    stage.published(p, dict(listed().attributes))
    assert [len(stage.drain(eve, ref)) for ref in refs] == [1, 1, 1, 0, 0]
    assert stage.drain(ann, fine) == [1]
    assert [stage.lost.get((eve, ref)) for ref in refs[2:]] == [None, *[{"over the work budget": 1}] * 2]
    assert stage.node.figures()["filters over budget"] == 2


def test_the_elements_of_a_list_are_made_once_for_many_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were made again for each filter."""
    made = 0

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return elements_of(*arguments)

    monkeypatch.setattr("tidings.language.lists.elements_of", counted)
    interest = InterestTable(MatchingEngine())
    for number in range(50):
        interest.add(parse_filter(f"ANY(l.a > {number + 9} AND l.b < 0)"), number)
    assert not interest.match(listed()).subscriptions
    assert made == 2 * 101  # the first filter goes through the list by itself; then once for all


def test_patterns_beyond_the_budget_are_not_tested_in_columns_either() -> None:
    """The compiled walk tested all patterns with short texts before their owner's budget left them out."""
    interest = InterestTable(MatchingEngine(threshold=1), ResourceLimits(owner_work=10 * 1000 * 7))
    for owner, count in (("eve", 50), ("ann", 5)):
        for number in range(count):
            interest.add(parse_filter(f"t LIKE '%aab{number}%'"), f"{owner} {number}", owner)
    while interest.maintain(1000):
        pass
    matcher: Any = interest.matcher
    columns, tested = matcher._large, list[int]()
    if not columns.compiled:
        pytest.skip("without Numba there is no compiled walk")
    answer = columns._answer

    def counted(address: int, found: int, requested: int) -> int:
        tested.append(requested)
        return int(answer(address, found, requested))

    columns._answer = counted
    event = make_event({"t": "a" * 990 + "aab3 aab40"}, source="s", id="1")
    assert interest.match(event).subscriptions == ["eve 3", "eve 4", "ann 3", "ann 4"], "aab40 is aab4 too"
    over = interest.over_budget(event)
    assert over == [f"eve {number}" for number in range(50 - len(over), 50)]
    assert tested == [55 - len(over)]
    assert 30 < len(over) < 50
