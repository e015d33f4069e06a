"""Quality subscriptions: what covers means, against an oracle that tries every event of a small world."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.event import Event
from tidings_quality.model import Level, QualityChange
from tidings_quality.subscription import QualitySubscription, parse_subscription

CLASSES = ("A", "A/B", "A/B/C", "D")
SOURCES = ("x", "y")
VALUES = (0.0, 0.2, 0.5, 0.6, 0.8, 1.0)
NAMES = ("p", "q")


def event(data_class: str, source: str, name: str, value: float) -> Event:
    return QualityChange(data_class, source, "k", "Name", "accuracy", value, "1", {"Name": name}).as_event()


WORLD = [event(*each) for each in product(CLASSES, SOURCES, NAMES, VALUES)]

conditions = st.one_of(
    st.tuples(
        st.sampled_from(["<", "<=", "=", "!=", ">=", ">"]), st.sampled_from([*Level, *map(str, VALUES)])
    ).map(lambda pair: f"name.accuracy {pair[0]} {pair[1]}"),
    st.sampled_from(NAMES).map(lambda name: f"Name = '{name}'"),
    st.just("EXISTS name.accuracy"),
)
sources = st.none() | st.lists(st.sampled_from(SOURCES), min_size=1, max_size=2, unique=True)


@st.composite
def subscriptions(draw: st.DrawFn) -> QualitySubscription:
    named = draw(sources)
    wanted = draw(st.lists(conditions, max_size=3))
    text = f"ON {draw(st.sampled_from(CLASSES))}"
    text += "" if named is None else f" FROM {', '.join(named)}"
    text += "" if not wanted else f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(wanted)}"
    return parse_subscription(text)


def heard(one: QualitySubscription) -> set[str]:
    return {f"{e.type[0]} {e.source} {e['Name']} {e['name.accuracy']}" for e in WORLD if one.matches(e)}


@settings(deadline=None, max_examples=150)
@given(subscriptions(), subscriptions())
def test_vir5_6_what_is_covered_is_heard(wide: QualitySubscription, narrow: QualitySubscription) -> None:
    if wide.covers(narrow):
        assert heard(narrow) <= heard(wide)


@settings(deadline=None, max_examples=100)
@given(subscriptions(), subscriptions(), subscriptions())
def test_vir5_6_covering_is_reflexive_and_transitive(
    a: QualitySubscription, b: QualitySubscription, c: QualitySubscription
) -> None:
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@settings(deadline=None, max_examples=150)
@given(subscriptions())
def test_a_subscription_says_itself_again(one: QualitySubscription) -> None:
    again = parse_subscription(one.text)
    assert again == one
    assert heard(again) == heard(one)


@settings(deadline=None, max_examples=100)
@given(subscriptions(), st.sampled_from(SOURCES))
def test_what_a_producer_is_told_hears_the_same_of_its_events(
    one: QualitySubscription, producer: str
) -> None:
    seen = one.seen_from(producer)
    for each in WORLD:
        if each.source == producer:
            assert one.matches(each) is (seen is not None and seen.matches(each))
