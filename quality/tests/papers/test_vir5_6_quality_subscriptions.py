"""Virgillito (2003), section 5.3.1: quality subscriptions, Table 5.1, matching and containment.

Two rules are corrected: sources (a subscription to named sources never covers one to all), and classes
(matching and covering agree on classes below a class).
"""

from __future__ import annotations

import pytest

from tidings import algebra
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings_quality.model import is_within
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.subscription import QualitySubscription, merged, parse_subscription, subscription

from ..papers._quality import MECELLA, S1, S2, S3, S4, TABLE, e1, e2


def heard(event: Event) -> list[int]:
    return [number for number, one in enumerate(TABLE, 1) if one.matches(event)]


def test_vir5_6_the_table_is_a_chain() -> None:
    for position, wide in enumerate(TABLE):
        assert [wide.covers(narrow) for narrow in TABLE] == [position <= other for other in range(4)]


def test_vir5_6_e1_matches_the_first_three_and_the_fourth_from_its_sources() -> None:
    assert heard(e1("CoC")) == [1, 2, 3]
    assert heard(e1("INPS")) == [1, 2, 3, 4]
    assert heard(e1("INAIL")) == [1, 2, 3, 4]


def test_vir5_6_e2_of_medium_accuracy_matches_the_first_two() -> None:
    assert heard(e2()) == [1, 2]  # the text says the first alone; medium is within <= medium


def test_vir5_6_the_triples_say_the_same_as_the_texts() -> None:
    triples = (
        subscription(HOLDER),
        subscription(HOLDER, quality="Name.Accuracy <= medium"),
        subscription(HOLDER, data=MECELLA, quality="Name.Accuracy <= medium"),
        subscription(HOLDER, ["INPS", "INAIL"], MECELLA, "Name.Accuracy <= medium"),
    )
    assert triples == TABLE
    assert [one.check(running_example()) for one in TABLE] == list(TABLE)


def test_vir5_7_the_merge_of_s2_s3_s4_is_s2() -> None:
    assert merged([S2, S3, S4]) == (S2,)
    assert merged([S4, S3, S2]) == (S2,)


# -- the printed rules, and what is wrong with them -------------------------------------------------


def conditions_cover(wide: QualitySubscription, narrow: QualitySubscription) -> bool:
    def sides(one: QualitySubscription) -> QualitySubscription:
        return QualitySubscription("X", None, one.data, one.quality)

    return sides(wide).covers(sides(narrow))


def printed(wide: QualitySubscription, narrow: QualitySubscription) -> bool:
    """Containment as the thesis prints it."""
    both = wide.sources is not None and narrow.sources is not None
    sources = not both or set(narrow.sources or ()) <= set(wide.sources or ())
    return is_within(narrow.data_class, wide.data_class) and sources and conditions_cover(wide, narrow)


def corrected(wide: QualitySubscription, narrow: QualitySubscription) -> bool:
    """Its first rule put right: all sources, or both name some and the narrow one's are among them."""
    sources = wide.sources is None or (
        narrow.sources is not None and set(narrow.sources) <= set(wide.sources)
    )
    return is_within(narrow.data_class, wide.data_class) and sources and conditions_cover(wide, narrow)


def test_e_v10_the_printed_rule_says_that_named_sources_cover_all_sources() -> None:
    assert printed(S4, S3)
    assert S3.matches(e1("CoC"))
    assert not S4.matches(e1("CoC"))
    assert not S4.covers(S3)


MORE = (
    *TABLE,
    parse_subscription("ON Enterprise"),
    parse_subscription("ON Enterprise FROM INPS"),
    parse_subscription("ON Enterprise/Holder FROM INPS WHERE name.accuracy < medium"),
    parse_subscription("ON Enterprise/Holder WHERE name.accuracy >= low"),
    parse_subscription("ON Enterprise/Holder WHERE name.accuracy <= high"),
    parse_subscription("ON Enterprise/Holder WHERE name.accuracy = 0.3"),
)


@pytest.mark.parametrize("wide", MORE, ids=str)
def test_vir5_6_covering_is_the_corrected_containment(wide: QualitySubscription) -> None:
    assert [wide.covers(narrow) for narrow in MORE] == [corrected(wide, narrow) for narrow in MORE]


def test_e_v11_a_class_hears_of_the_classes_below_it_and_so_covers_them() -> None:
    enterprise = parse_subscription("ON Enterprise")
    assert enterprise.covers(S1)
    assert enterprise.matches(e1())
    assert not S1.covers(enterprise)


def test_e_v13_levels_are_ordered_and_numbers_stand_beside_them() -> None:
    below = parse_subscription("ON Enterprise/Holder WHERE name.accuracy < 0.8")
    assert below.covers(S2)
    assert S2.covers(below)
    assert algebra.equivalent(below.filter, S2.filter)
    assert parse_subscription("ON Enterprise/Holder WHERE name.accuracy < low").filter.is_never_true
    assert parse_subscription("ON Enterprise/Holder WHERE name.accuracy > high").filter.is_never_true


def test_a_subscription_is_an_ordinary_filter() -> None:
    assert parse_filter(S4.filter.text).conjunctions == S4.filter.conjunctions
