"""The study `merge-subscriptions`, in a very small size."""

from __future__ import annotations

from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings_quality.studies.merge_subscriptions import (
    EXPONENT,
    ORGANISATIONS,
    USUAL,
    WITH,
    WITHOUT,
    Weather,
    notification,
    reduction,
)

SEED = 3


def test_vir5_10_merging_saves_messages_and_tables_and_the_mapping_saves_more() -> None:
    (small, without) = reduction(WITHOUT, "covering", (3, 12), EXPONENT, USUAL, SEED)
    (_, with_mapping) = reduction(WITH, "covering", (3, 12), EXPONENT, USUAL, SEED)
    assert 0 <= small["traffic"] < without["traffic"] < with_mapping["traffic"] < 1
    assert small["table"] < without["table"] < with_mapping["table"] < 1
    assert len(set(with_mapping["tables"])) > 1


def test_without_reduction_only_equal_subscriptions_are_saved() -> None:
    (found,) = reduction(WITHOUT, "identical", (12,), EXPONENT, USUAL, SEED)
    weather = Weather(SEED)
    drawn: dict[str, set[str]] = {name: set() for name in ORGANISATIONS}
    for _ in range(12):
        for name in ORGANISATIONS:
            drawn[name].add(weather.subscription())
    different = sum(len({parse_filter(text).digest for text in texts}) for texts in drawn.values())
    assert found["sent"] == different * (len(ORGANISATIONS) - 1)


def test_vir5_10_an_event_goes_once_to_each_organisation_with_a_matching_user() -> None:
    found = notification(10, 12, WITHOUT, SEED)
    assert found["sent"] == found["bound"]
    assert 0 < found["sent"] < found["delivered"]


def test_what_an_organisation_publishes_is_what_it_says_it_produces() -> None:
    weather = Weather(SEED)
    for name, produced in weather.produces().items():
        topic, attributes = weather.event(weather.holds[name])
        assert accepts(parse_filter(produced), make_event(attributes, source=name, id="1", topic=topic))
