"""Quality subscriptions: text, names, levels; and as filters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import FilterError, FilterSyntaxError, InputError
from tidings.model.event import Event
from tidings_quality.model import Level, QualityChange, level_of
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.subscription import merged, parse_subscription, subscription, subscription_of

ORDER = list(Level)


def change(value: float, source: str = "CoC", **values: str) -> Event:
    return QualityChange(HOLDER, source, "k", "Name", "accuracy", value, "1", dict(values)).as_event()


OPS = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b,
}  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0, 1) | st.sampled_from([0.5, 0.8, 0.0, 1.0]),
    st.sampled_from(ORDER),
    st.sampled_from(list(OPS)),
)
def test_comparing_with_a_level_compares_levels(value: float, level: Level, op: str) -> None:
    expected = OPS[op](ORDER.index(level_of(value)), ORDER.index(level))
    one = parse_subscription(f"ON {HOLDER} WHERE name.accuracy {op} {level}")
    assert one.matches(change(value)) is expected
    denied = parse_subscription(f"ON {HOLDER} WHERE NOT name.accuracy {op} {level}")
    assert denied.matches(change(value)) is not expected


@pytest.mark.parametrize(
    ("condition", "levels"),
    [
        ("name.accuracy IN (low, high)", "low high"),
        ("name.accuracy NOT IN (low, high)", "medium"),
        ("name.accuracy BETWEEN low AND medium", "low medium"),
        ("medium > name.accuracy", "low"),
        ("NAME.ACCURACY = 'High'", "high"),
    ],
    ids=["in", "not in", "between", "turned", "quoted"],
)
def test_levels_stand_wherever_a_value_of_quality_can(condition: str, levels: str) -> None:
    one = parse_subscription(f"ON {HOLDER} WHERE {condition}")
    assert " ".join(level for level in Level if one.matches(change(level.middle))) == levels


TEXTS = (
    "ON Enterprise",
    "ON Enterprise/Holder FROM CoC, INPS WHERE Name LIKE 'M%' AND name.accuracy <= medium",
    "ON A FROM 'Ministry of Health', B WHERE (x = 1 OR y.currency < low) AND z.accuracy BETWEEN low AND 0.7",
    "on a where q.accuracy IN (low, medium) AND NOT p LIKE '_x'",
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_is_printed_is_read_back(text: str) -> None:
    one = parse_subscription(text)
    assert parse_subscription(one.text) == one


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("WHERE x = 1", "begins with ON", 1),
        ("ON ", "class", 4),
        ("ON A WHERE x = 1 x", "expected", 18),
        ("ON A IN B", "FROM or WHERE", 6),
        ("ON A FROM", "organisations", 6),
        ("ON A WHERE", "condition", 6),
        ("ON A WHERE x = 1 AND", "ends", 21),
    ],
    ids=range(7),
)
def test_a_text_that_says_nothing_is_refused_with_its_place(text: str, problem: str, column: int) -> None:
    with pytest.raises(FilterSyntaxError, match=problem) as found:
        parse_subscription(text)
    assert (found.value.line, found.value.column) == (1, column)


def test_a_quality_is_no_text() -> None:
    with pytest.raises(FilterError, match="low, medium, high"):
        parse_subscription("ON A WHERE x.accuracy = 'fine'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ON Firm", "no class 'Firm'"),
        ("ON Enterprise FROM FBI", "no organisation 'FBI'"),
        ("ON Enterprise/Holder WHERE Nam = 'x'", "did you mean Name"),
        ("ON Enterprise/Holder WHERE nam.accuracy = low", "did you mean name.accuracy"),
    ],
    ids=range(4),
)
def test_words_that_the_schema_does_not_know_are_told(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_subscription(text).check(running_example())


def test_a_class_may_be_asked_for_the_properties_of_the_classes_below_it() -> None:
    asked = "WHERE name.accuracy = low AND change.before > 0.5"
    above = parse_subscription(f"ON Enterprise {asked}")
    assert above.check(running_example()) is above
    with pytest.raises(InputError, match="no property 'entname"):  # the class above has it
        parse_subscription("ON Enterprise/Holder WHERE EntName.accuracy = low").check(running_example())


def test_from_a_producer_sources_say_nothing_any_more() -> None:
    one = parse_subscription("ON Enterprise FROM INPS, CoC WHERE Code = 'x'")
    assert one.seen_from("INAIL") is None
    assert one.seen_from("CoC") == parse_subscription("ON Enterprise WHERE Code = 'x'")


def test_the_triple_as_json() -> None:
    given_ = {"class": HOLDER, "sources": ["INPS"], "quality": "name.accuracy <= medium"}
    assert subscription_of(given_) == subscription(HOLDER, ["INPS"], None, "name.accuracy <= medium")
    with pytest.raises(InputError):
        subscription_of({"klass": HOLDER})
    for wrong in ({"sources": 3}, {"sources": [3]}, {"data": 4}, {"quality": []}):
        with pytest.raises(InputError, match="of a subscription"):
            subscription_of({"class": HOLDER, **wrong})
    with pytest.raises(InputError):
        subscription(HOLDER, [])


THRESHOLDS = st.tuples(st.sampled_from(["<=", "<", ">=", ">"]), st.integers(0, 10))


@settings(deadline=None, max_examples=60)
@given(st.lists(THRESHOLDS, min_size=1, max_size=6), st.integers(0, 20))
def test_a_merge_hears_what_any_of_its_parts_hears(parts: list[tuple[str, int]], twentieths: int) -> None:
    all_ = [parse_subscription(f"ON {HOLDER} WHERE name.accuracy {op} {tenth / 10}") for op, tenth in parts]
    event = change(twentieths / 20)
    kept = merged(all_)
    assert any(one.matches(event) for one in kept) is any(one.matches(event) for one in all_)
    assert not any(a.covers(b) for a in kept for b in kept if a is not b)
