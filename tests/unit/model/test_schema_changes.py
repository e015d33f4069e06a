"""Breaking changes between two versions of a schema."""

from __future__ import annotations

import re
from dataclasses import make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Flag
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from tests.unit.model.test_schemas import FIVES, Letter, Level, Rights, Texts, TextsModel, version

from tidings.errors import SchemaError
from tidings.model import schema_changes
from tidings.model.schema_changes import breaking_changes
from tidings.model.schemas import SchemaRegistry, schema_of


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        (version(a={"type": "integer"}), version(a={"type": "integer"}, b={}), []),
        (version(a={"type": "integer"}), version(a={"type": "number"}), []),
        (version(a={"type": "number"}), version(a={"type": "integer"}),
         ["a was integer or number and is integer"]),
        (version(a={}), version(), ["a is gone"]),
        (version(), version(a={"must": True}), ["a is required, and was not"]),
        (version(a={"must": True}), version(a={}), []),
        (version(a={"enum": [1, 2]}), version(a={"enum": [2]}), ["a no longer accepts [1]"]),
        (version(a={"items": version(b={})}), version(a={"items": version()}), ["a[].b is gone"]),
        (version(a={"type": "string"}), version(a={"type": "string", "format": "date"}),
         ["a was any text and is date"]),
        (version(a={"type": "string", "format": "date"}), version(a={"type": "string"}), []),
        (version(a={"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}),
         version(a={"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
         ["a was uuid and is date"]),
        (version(a={"minimum": 1}), version(a={"minimum": 2}), ["a has minimum 2, and had 1"]),
        (version(a={"maxLength": 1}), version(a={"maxLength": 2}), []),
        (version(a={}), version(a={"pattern": "^a"}), ["a has pattern '^a', and had 'none'"]),
        (version(a={"type": "array"}), version(a={"type": "array", "items": {"type": "string"}}),
         ["a[] was anything and is string"]),
        (version(), version() | {"additionalProperties": False}, ["the body no longer accepts other fields"]),
    ],
)  # fmt: skip
def test_changes_that_break(old: dict[str, Any], new: dict[str, Any], broken: list[str]) -> None:
    assert breaking_changes(old, new) == broken


INTEGER: dict[str, Any] = {"type": "integer"}
FROM_TWO = {"type": "integer", "minimum": 2}
EITHER = {"anyOf": [INTEGER, {"type": "string"}]}


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ({"allOf": [INTEGER]}, {"allOf": [FROM_TWO]}, "f has minimum 2, and had none"),
        (INTEGER, {"allOf": [INTEGER, {"minimum": 2}]}, "f has minimum 2, and had none"),
        ({}, {"allOf": [INTEGER]}, "f was anything and is integer"),
        ({"type": "object"}, {"type": "object", "allOf": [{"required": ["a"]}]}, "f.a is required"),
        (EITHER, {**EITHER, "type": "string"}, "f was integer or string and is string"),
        (EITHER, {**EITHER, "allOf": [{"type": "string"}]}, "f was integer or string and is string"),
        ({"oneOf": [INTEGER]}, {"oneOf": [INTEGER, {"type": "number"}]}, "f may fit more than one"),
        ({}, False, "f accepts nothing any more"),
        ({}, {"not": {"type": "string"}}, "f may fit the schema of"),
        ({}, {"if": INTEGER, "then": FROM_TWO}, "f may not fit `then` or `else`"),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, "f may have an element twice"),
        ({"type": "array"}, {"type": "array", "contains": INTEGER}, "f may have too few"),
        ({"prefixItems": [{}]}, {"prefixItems": [{}], "items": False}, "f[] accepts nothing"),
        ({"type": "object"}, {"patternProperties": {"^a": INTEGER}}, "f.(^a) was anything and is integer"),
        ({"type": "object"}, {"dependentRequired": {"a": ["b"]}}, "f.b is required beside a"),
        ({"type": "object"}, {"dependentSchemas": {"a": False}},
         "f may not fit the schema for events with a"),
        ({"type": "object"}, {"minProperties": 1}, "f has minProperties 1"),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "propertyNames": {"maxLength": 1}},
         "f.(keys) has maxLength 1"),
        ({"not": {"const": 1}}, {"not": {"enum": [1, 2]}}, "f may fit the schema of `not`"),
        ({"type": "number"}, {"type": "number", "format": "decimal"}, "f was any number, infinite ones"),
        ({"required": ["a"], "properties": {}}, {"required": ["a"], "properties": {"a": INTEGER}},
         "f.a was anything and is integer"),
        (INTEGER, {"allOf": [{"type": "number"}], "minLength": 5}, None),
        (FROM_TWO, {"allOf": [INTEGER, {"minimum": 1}], "exclusiveMinimum": 1}, None),
        ({"enum": [1, 2, None]}, {"anyOf": [INTEGER, {"type": "null"}], "not": {"const": 3}}, None),
        ({"allOf": [{"minimum": 1}, INTEGER]}, {"type": "integer", "minimum": 0}, None),
        (INTEGER, {"not": {"type": "string"}}, None), ({"not": FROM_TWO}, {"not": FROM_TWO}, None),
        ({"oneOf": [INTEGER, {"const": 5}]}, {"oneOf": [INTEGER, {"const": 5}]}, None),
        (INTEGER, {"oneOf": [INTEGER, {"type": "string"}]}, None), (False, INTEGER, None),
        ({"allOf": [version(a={}), version(b={})]}, {"allOf": [version(a={}), version(b={})]}, None),
        ({"type": "boolean"}, {"enum": [False, True, 1]}, None),
        ({"allOf": [version(a=version(b={})), {"prefixItems": [version(c={})]}]},
         {"properties": {"a": True}, "allOf": [version(a=version(b={})), {"prefixItems": [version(c={})]}]},
         None),
        ({"allOf": [version(a=version(b={}))]}, {"allOf": [version(a=version())]}, "f.a.b is gone"),
        ({"allOf": [{"items": version(c={})}]}, {"minItems": 0, "allOf": [{"items": {}}]}, "f[].c is gone"),
        (version(a=version(b={})), {**version(a=version()), "anyOf": [version(a={}), {"minimum": 1}]},
         "f.a.b is gone"),
    ],
)  # fmt: skip
def test_every_keyword_that_is_checked_is_compared(old: Any, new: Any, broken: str | None) -> None:
    versions = ({"type": "object", "properties": {"f": part}} for part in (old, new))
    found = breaking_changes(*versions)
    assert found == [] if broken is None else any(broken in each for each in found), found


def test_parts_beside_the_fields_are_compared() -> None:
    old = version(f=dict(INTEGER))
    assert breaking_changes(old, {**old, "allOf": [{"required": ["g"]}]}) == ["g is required, and was not"]
    narrow = {**old, "allOf": [{"properties": {"f": {"minimum": 5}}}]}
    assert breaking_changes(old, narrow) == ["f has minimum 5, and had none"]


def test_a_pair_that_holds_by_another_one_breaks_with_it() -> None:
    """While A is compared, B inside it seems to break nothing, since it leads back to A."""

    def schema(bad: dict[str, Any]) -> dict[str, Any]:
        first = {"properties": {"next": {"$ref": "#/$defs/B"}, "bad": bad}}
        second = {"properties": {"back": {"$ref": "#/$defs/A"}}}
        fields = {"f": {"$ref": "#/$defs/A"}, "g": {"$ref": "#/$defs/B"}}
        return {"properties": fields, "$defs": {"A": first, "B": second}}

    found = breaking_changes(schema(dict(INTEGER)), schema(dict(FROM_TWO)))
    assert found == ["f.bad has minimum 2, and had none", "g.back.bad has minimum 2, and had none"]


def test_a_comparison_has_a_budget_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_changes, "MOST_PAIRS", 10)
    wide = version(**{f"f{number}": dict(INTEGER) for number in range(20)})
    assert "f19 is too large to be compared" in breaking_changes(wide, wide)


def test_a_class_in_place_of_a_schema_takes_values_that_json_lacks_by_their_kind() -> None:
    registry = SchemaRegistry()
    registry.attach(version(x={"type": "string"}), type="Made")
    with pytest.raises(SchemaError, match="x took the text of any value that JSON lacks"):
        registry.attach(_class(str))


def test_a_decimal_takes_fewer_numbers_than_a_float() -> None:
    registry = SchemaRegistry()
    registry.attach(_model(float))
    with pytest.raises(SchemaError, match="x was any number, infinite ones and NaN too, and is decimal"):
        registry.attach(_model(Decimal))


def _class(hint: Any) -> Any:
    return make_dataclass("Made", [("x", hint)])


class Inner(msgspec.Struct):
    a: int


class Wider(msgspec.Struct):
    a: int | str


@pytest.mark.parametrize(
    ("wide", "narrow", "path"),
    [
        (dict[str, int | str], dict[str, int], "x.*"),
        (dict[str, float], dict[str, int], "x.*"),
        (dict[str, int], dict[int, int], "x.(keys)"),
        (float | None, int | None, "x"),
        (list[float] | None, list[int] | None, "x[]"),
        (tuple[int, float], tuple[int, int], "x[1]"),
        (tuple[float, ...], tuple[int, ...], "x[]"),
        (tuple[int, ...], tuple[int, int], "x"),
        (list[dict[str, float]], list[dict[str, int]], "x[].*"),
        (dict[str, Wider], dict[str, Inner], "x.*.a"),
        (Wider | None, Inner | None, "x.a"),
        (list[Wider], list[Inner], "x[].a"),
        (tuple[int, Wider], tuple[int, Inner], "x[1].a"),
        (str | None, datetime | None, "x"),
        (list[str], list[datetime], "x[]"),
        (int | str | list[float], int | str | list[int], "x[]"),
        (dict[str, str], dict[str, UUID], "x.*"),
        (Literal["a", "b"] | None, Literal["a"] | None, "x"),
        (dict[Literal["a", "b"], int], dict[Literal["a"], int], "x.(keys)"),
        (dict[str, int], dict[Letter, int], "x.(keys)"),
        (dict[str, int], dict[Annotated[str, msgspec.Meta(pattern="^a")], int], "x.(keys)"),
        (dict[int, int], dict[Annotated[int, msgspec.Meta(ge=0)], int], "x.(keys)"),
        (dict[int, int], dict[Level, int], "x.(keys)"),
        (dict[str, int], dict[UUID, int], "x.(keys)"),
        (int, FIVES, "x"),
        (list[FIVES], list[Annotated[int, msgspec.Meta(multiple_of=10)]], "x[]"),
        (datetime, Annotated[datetime, msgspec.Meta(tz=True)], "x"),
    ],
)
def test_a_narrower_type_breaks_wherever_it_lies(wide: Any, narrow: Any, path: str) -> None:
    old, new = schema_of(_class(wide)), schema_of(_class(narrow))
    assert breaking_changes(old, old) == breaking_changes(new, new) == []
    found = breaking_changes(old, new)
    assert any(each.startswith(f"{path} ") for each in found), found
    if path != "x.(keys)":
        assert breaking_changes(new, old) == []


class Partial(TypedDict, total=False):
    a: str


class Fuller(TypedDict, total=False):
    a: str
    b: int


def _model(hint: Any) -> Any:
    return pydantic.create_model("Made", x=(hint, ...))


@pytest.mark.parametrize(
    ("make", "old", "new", "broken"),
    [
        (_class, dict[str, int], Partial, "x.a was integer and is string"),
        (_class, dict[str, Any], Partial, "x.a was anything and is string"),
        (_class, dict[str, int] | None, Partial | None, "x.a was integer and is string"),
        (_class, dict[str, Any], Texts, "x.raw was anything and is string"),
        (_class, dict[str, str], Partial, ""),
        (_class, Partial, Fuller, ""),
        (_model, dict[str, Any], TextsModel, "x.took was anything and is string"),
        (_model, dict[int, int], dict[UUID, int], "x.(keys) was integer and is uuid"),
        (_model, dict[int, int], dict[date, int], "x.(keys) was integer and is date"),
        (_model, dict[Level, int], dict[UUID, int], "x.(keys) no longer accepts ['1', '3']"),
        (_model, dict[int, int], dict[str, int], ""),
        (_class, UUID, str, "x was uuid and is any text"),
        (_model, bytes, str, "x was binary and is any text"),
        (_class, list[date | None], list[str | None], "x[] was date and is any text"),
        (_class, Literal["a"], str, ""),
        (_model, date, date | str, ""),
    ],
)
def test_a_class_that_takes_less_breaks(make: Any, old: Any, new: Any, broken: str) -> None:
    registry = SchemaRegistry()
    registry.attach(make(old))
    if not broken:
        assert registry.attach(make(new)).version == 2
        return
    with pytest.raises(SchemaError, match=re.escape(broken)):
        registry.attach(make(new))


def test_models_that_refer_to_themselves_are_compared_once() -> None:
    part = {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}
    names = [f"p{number}" for number in range(8)]

    def schema(kind: str) -> dict[str, Any]:
        fields = {**{name: dict(part) for name in names}, "v": {"type": kind}}
        return {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": fields}}}

    assert breaking_changes(schema("number"), schema("number")) == []
    assert "v was integer or number and is integer" in breaking_changes(schema("number"), schema("integer"))


def test_a_new_flag_breaks_nothing_and_a_lost_one_does() -> None:
    fewer = schema_of(_class(Rights))
    more = schema_of(_class(Flag("Rights", {"READ": 1, "WRITE": 2, "ADMIN": 4})))
    listed = {**fewer, "$defs": {**fewer["$defs"], "Rights": {"enum": [1, 2]}}}  # as of earlier versions
    assert breaking_changes(fewer, more) == breaking_changes(listed, fewer) == []
    assert breaking_changes(more, fewer) == ["x has maximum 3, and had 7"]
