"""D2Q documents: JSON and XML there and back, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings_quality.documents import dtd_of, read_json, read_xml, write_json, write_xml
from tidings_quality.model import DataObject, Dimension
from tidings_quality.running_example import apt_a, running_example
from tidings_quality.schema import DataClass, Schema

SCHEMA = running_example()
KINDS = Schema(
    (DataClass("Reading", {"at": "timestamp", "ok": "boolean", "grade": "number", "word": "string"}, "word"),)
).check()


def test_vir5_2_the_running_example_goes_to_xml_and_back() -> None:
    assert read_xml(write_xml([apt_a()], SCHEMA), SCHEMA) == (apt_a(),)


def test_vir5_2_the_running_example_goes_to_json_and_back() -> None:
    assert read_json(write_json([apt_a()]), SCHEMA) == (apt_a(),)


def test_vir5_2_a_document_has_a_data_graph_and_four_quality_graphs_that_are_linked() -> None:
    text = write_xml([apt_a()], SCHEMA).decode()
    for dimension in Dimension:
        assert text.count(f'<quality dimension="{dimension}"') == 1
    assert '<Name oid="n1-1.Name">M. Mecella</Name>' in text
    assert '<Name_Accuracy of="n1-1.Name">0.25</Name_Accuracy>' in text


def test_vir5_2_the_definition_of_the_running_example() -> None:
    dtd = dtd_of(SCHEMA)
    assert "<!ELEMENT Enterprise (Code?, EntName?, Holder*)>" in dtd
    assert "<!ELEMENT Holder (Name?, Address?, FiscalCode?)>" in dtd
    assert "<!ELEMENT Holder_Accuracy (Name_Accuracy?, Address_Accuracy?, FiscalCode_Accuracy?)>" in dtd
    names = [line.split()[1] for line in dtd.splitlines() if line.startswith("<!ELEMENT")]
    assert len(names) == len(set(names))
    assert set(names) >= {name for line in dtd.splitlines() for name in _children(line)}


def _children(line: str) -> list[str]:
    if not line.startswith("<!ELEMENT") or "#PCDATA" in line:
        return []
    inside = line[line.index("(") + 1 : line.rindex(")")]
    return [word.strip(" ?*") for part in inside.split(",") for word in part.split("|")]


CONTROLS = [chr(code) for code in range(32) if chr(code) not in "\t\n\r"] + ["\ufffe", "\uffff"]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=CONTROLS), max_size=12)
QUALITIES = st.dictionaries(st.sampled_from(list(map(str, Dimension))), st.floats(0, 1), min_size=1)
MOMENTS = st.datetimes(timezones=st.just(UTC))


@st.composite
def readings(draw: Any) -> DataObject:
    values = {
        "at": draw(st.none() | MOMENTS), "ok": draw(st.none() | st.booleans()),
        "word": draw(TEXT.filter(bool)),
        "grade": draw(st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)),
    }  # fmt: skip
    quality = draw(st.dictionaries(st.sampled_from(list(values)), QUALITIES))
    return DataObject("Reading", values["word"], values, quality)


@settings(deadline=None, max_examples=80)
@given(st.lists(readings(), max_size=3))
def test_every_kind_of_value_survives_both_forms(objects: list[DataObject]) -> None:
    assert read_xml(write_xml(objects, KINDS), KINDS) == tuple(objects)
    assert read_json(write_json(objects), KINDS) == tuple(objects)


def test_what_xml_cannot_hold_is_refused_and_json_holds_it() -> None:
    one = DataObject("Reading", "w", {"word": "a\x07b"})
    assert read_json(write_json([one]), KINDS) == (one,)
    with pytest.raises(InputError, match="control character"):
        write_xml([one], KINDS)


def test_a_level_in_a_document_is_read_as_its_value() -> None:
    text = b'[{"class": "Enterprise", "values": {"Code": "x"}, "quality": {"Code": {"Accuracy": "low"}}}]'
    (one,) = read_json(text, SCHEMA)
    assert one.quality == {"Code": {"accuracy": 0.25}}


BOMB = """<?xml version="1.0"?><!DOCTYPE d2q [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;">]><d2q><data>
<Enterprise oid="n" key="k"><Code oid="m">&c;</Code></Enterprise></data></d2q>"""
OUTSIDE = '<!DOCTYPE d2q [<!ENTITY x SYSTEM "file:///etc/passwd">]><d2q><data>&x;</data></d2q>'
PARAMETER = '<!DOCTYPE d2q [<!ENTITY % x SYSTEM "http://nowhere/x.dtd"> %x;]><d2q><data/></d2q>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, PARAMETER], ids=["bomb", "outside", "parameter"])
def test_entities_are_refused_before_anything_is_expanded(text: str) -> None:
    with pytest.raises(InputError, match="entities"):
        read_xml(text, SCHEMA)


def test_an_external_definition_is_not_fetched() -> None:
    text = '<!DOCTYPE d2q SYSTEM "http://nowhere.invalid/d2q.dtd"><d2q><data/></d2q>'
    assert read_xml(text, SCHEMA) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<d2q><data>", "no XML"),
        ("<other/>", "no d2q document"),
        ("<d2q><data><Firm oid='1'/></data></d2q>", "no class 'Firm'"),
        ("<d2q><data><Enterprise oid='1'><Color oid='2'/></Enterprise></data></d2q>", "no property 'Color'"),
        ("<d2q><data/><quality dimension='beauty'/></d2q>", "no dimension"),
        (
            "<d2q><data/><quality dimension='accuracy'><X_Accuracy of='9'>1</X_Accuracy></quality></d2q>",
            "'9'",
        ),
        ("<d2q>" + "<data>" * 70 + "</data>" * 70 + "</d2q>", "nested"),
    ],
    ids=range(7),
)
def test_other_documents_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_xml(text, SCHEMA)


GOOD = write_xml([apt_a()], SCHEMA), write_json([apt_a()])


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(GOOD), st.integers(0, max(map(len, GOOD))), st.binary(max_size=8), st.integers(0, 40))
def test_any_bytes_are_objects_or_a_refusal(good: bytes, place: int, middle: bytes, cut: int) -> None:
    """Objects that are read from a damaged document are written and read as the same ones."""
    text = good[:place] + middle + good[place + cut :]
    with suppress(InputError):
        found = read_xml(text, SCHEMA)
        assert read_xml(write_xml(found, SCHEMA), SCHEMA) == found
    with suppress(InputError):
        found = read_json(text, SCHEMA)
        assert read_json(write_json(found), SCHEMA) == found


def test_json_that_is_deeply_nested_or_of_another_shape_is_refused() -> None:
    deep = '{"class": "Enterprise", "children": [' * 5000 + "]}" * 5000
    for text in (f"[{deep}]", '{"class": 3}', '[{"class": "Enterprise/Holder", "key": "x"}]', "[{"):
        with pytest.raises(InputError):
            read_json(text, SCHEMA)


def test_an_instant_in_json_is_a_time_again() -> None:
    moment = datetime(2026, 11, 15, 12, tzinfo=UTC)
    one = DataObject("Reading", "w", {"at": moment, "word": "w"})
    assert read_json(write_json([one]), KINDS)[0].values["at"] == moment
