"""The D2Q model: dimensions, levels, changes as events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.language import accepts, parse_filter
from tidings_quality.model import (
    QUALITY_TABLE,
    Dimension,
    Level,
    QualityChange,
    change_of,
    is_within,
    level_of,
    lineage,
    quality_value,
)
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.schema import read_schema, write_schema

CHANGE = QualityChange(
    HOLDER, "CoC", "MCLMSM73H17H501F", "Name", "accuracy", 0.3, "7", {"Name": "M. Mecella"}, before=0.9
)


def test_vir5_2_there_are_four_dimensions() -> None:
    assert [str(one) for one in Dimension] == ["accuracy", "completeness", "currency", "consistency"]


def test_levels_are_ordered_bands_that_fill_0_to_1() -> None:
    assert [(level.floor, level.ceiling) for level in Level] == [(0.0, 0.5), (0.5, 0.8), (0.8, None)]


@settings(deadline=None)
@given(st.floats(0, 1))
def test_every_value_has_one_level(value: float) -> None:
    inside = [one for one in Level if one.floor <= value and (one.ceiling is None or value < one.ceiling)]
    assert [level_of(value)] == inside


@pytest.mark.parametrize("level", list(Level), ids=str)
def test_a_level_as_a_number_is_of_that_level(level: Level) -> None:
    assert level_of(quality_value(level)) is level


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), "perfect", True], ids=repr)
def test_other_values_are_refused(wrong: float | str) -> None:
    with pytest.raises(InputError):
        quality_value(wrong)


def test_a_change_is_an_event_of_its_class_and_organisation() -> None:
    event = CHANGE.as_event()
    assert event.source == "CoC"
    assert event.type == ("Enterprise/Holder", "Enterprise")
    assert accepts(parse_filter("name.accuracy < 0.5 AND type IS A 'Enterprise' AND Name LIKE 'M.%'"), event)
    assert accepts(parse_filter("change.level = 'low' AND change.before = 0.9"), event)


def test_a_change_told_again_is_the_same_event_and_another_version_another() -> None:
    again, later = (
        CHANGE.as_event(),
        QualityChange(HOLDER, "CoC", CHANGE.object, "Name", "accuracy", 0.3, "8"),
    )
    assert again.identity == CHANGE.as_event().identity
    assert later.as_event().identity != again.identity
    assert later.as_event().key == again.key


def test_a_change_is_read_back_from_its_event() -> None:
    assert change_of(CHANGE.as_event()) == CHANGE


def test_classes_are_paths() -> None:
    assert lineage("A/B/C") == ("A/B/C", "A/B", "A")
    assert is_within("A/B", "A")
    assert is_within("A", "A")
    assert not is_within("AB", "A")
    assert not is_within("A", "A/B")


def test_the_table_has_one_row_per_object_property_and_dimension() -> None:
    assert QUALITY_TABLE.startswith(
        "`class` string, `source` string, `object` string, `property` string, `dim"
    )


def test_schema_mapping_turns_local_names_into_global_ones_and_back() -> None:
    schema = running_example()
    local = {"OwnerName": "M. Mecella", "OwnerCode": "MCL", "Salary": 3}
    values = schema.to_global("INPS", HOLDER, local)
    assert values == {"Name": "M. Mecella", "FiscalCode": "MCL"}
    assert schema.to_local("INAIL", HOLDER, values) == {"FullName": "M. Mecella", "TaxCode": "MCL"}
    assert schema.key_of(HOLDER, values) == "MCL"


def test_possible_producers_hold_the_class_or_one_below_it() -> None:
    schema = running_example()
    assert schema.producers("Enterprise") == ("INPS", "INAIL", "CoC")
    assert schema.producers(HOLDER, ("CoC", "nobody")) == ("CoC",)


def test_a_schema_is_read_back_from_json() -> None:
    assert read_schema(write_schema(running_example())) == running_example()


def test_a_schema_that_is_wrong_is_refused() -> None:
    text = write_schema(running_example()).replace(b'"FiscalCode"', b'"Tax.Code"')
    with pytest.raises(InputError, match=r"Tax\.Code"):
        read_schema(text)
