"""Promises about bodies that an attacker broke: each case here was lost, refused or read as another."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType, TypedDict
from uuid import UUID

import attr
import attrs
import msgspec
import pydantic
import pytest

from tidings.errors import EventError, FilterError, SchemaError
from tidings.history.acceptance import FilterIndex
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import Event, make_event
from tidings.model.fields import required_values
from tidings.model.schemas import SchemaRegistry, schema_of
from tidings.model.serialisers import JSON, decode, encode
from tidings.model.typed import build_instance, event_fields
from tidings.runtime.coercion import filter_from

MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def an_event(body: Any) -> Event:
    return make_event(body, source="s", id="1")


def typed_event(instance: object) -> Event:
    lineage, attributes = event_fields(instance)
    return make_event(attributes, source="s", id="1", type=lineage)


def there_and_back(instance: Any) -> Any:
    return build_instance(type(instance), typed_event(instance))


# Schemas


@dataclasses.dataclass
class Reading:
    at: datetime
    count: int
    others: list[datetime]
    ended: datetime | None = None


class ReadingModel(pydantic.BaseModel):
    at: datetime
    count: int
    others: list[datetime]
    own: int = pydantic.Field(alias="x")


@pytest.mark.parametrize(
    "instance",
    [
        Reading(MOMENT, 2**70, [MOMENT], MOMENT),
        Reading(datetime(2026, 1, 1), -(2**63) - 1, []),
        ReadingModel(at=MOMENT, count=2**63, others=[MOMENT], x=1),
    ],
)
def test_a_schema_accepts_the_objects_of_its_own_class(instance: object) -> None:
    registry = SchemaRegistry()
    registry.attach(type(instance))
    event = typed_event(instance)
    registry.check(event)
    with pytest.raises(SchemaError, match="count"):  # the schema of this very type is in force
        registry.check(make_event({**event.view, "count": "1"}, source="s", id="1", type=event.type))


def test_a_schema_still_refuses_other_kinds() -> None:
    registry = SchemaRegistry()
    registry.attach(Reading)
    wrong = make_event({"at": 5, "count": "1", "others": []}, source="s", id="1", type=("Reading",))
    with pytest.raises(SchemaError, match="at is integer"):
        registry.check(wrong)


@dataclasses.dataclass
class WithComplex:
    number: complex


def test_a_class_without_a_schema_is_refused_with_what_to_do() -> None:
    with pytest.raises(SchemaError, match="WithComplex has no schema") as caught:
        SchemaRegistry().attach(WithComplex)
    assert "attach a JSON Schema" in str(caught.value.hint)


# Pydantic


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Keyed(pydantic.BaseModel):
    key: pydantic.SecretBytes


@dataclasses.dataclass
class Holder:
    inner: Any


@pytest.mark.parametrize(
    ("instance", "field"),
    [
        (Login(user="a", password=pydantic.SecretStr("p")), "password"),
        (Keyed(key=pydantic.SecretBytes(b"k")), "key"),
        (Holder([Keyed(key=pydantic.SecretBytes(b"k"))]), "inner.key"),
    ],
)
def test_a_secret_is_refused_by_name(instance: object, field: str) -> None:
    with pytest.raises(EventError, match=f"'{field}' is a Secret") as caught:
        typed_event(instance)
    assert "get_secret_value()" in str(caught.value.hint)


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int


class OpenHolder(pydantic.BaseModel):
    inner: Open
    listed: list[Open]


def test_extra_fields_of_a_model_arrive() -> None:
    one = Open(a=1, z=[1, {"b": None}], day=date(2026, 1, 1))  # type: ignore[call-arg]
    assert typed_event(one).attributes["z"] == [1, {"b": None}]
    assert there_and_back(one) == one
    held = OpenHolder(inner=one, listed=[one])
    assert there_and_back(held) == held


class Aliased(pydantic.BaseModel):
    some: int = pydantic.Field(alias="x")
    other: int = pydantic.Field(validation_alias="y", default=0)


class AliasedOpen(Open):
    some: int = pydantic.Field(alias="x")


class AliasedHolder(pydantic.BaseModel):
    inner: Aliased


def test_fields_with_aliases_are_read_by_name_and_by_alias() -> None:
    one = Aliased(x=1, y=2)
    assert there_and_back(one) == one
    assert there_and_back(AliasedHolder(inner=one)) == AliasedHolder(inner=one)
    given = make_event({"inner": {"x": 1, "y": 2}}, source="s", id="1", type=("AliasedHolder",))
    assert build_instance(AliasedHolder, given) == AliasedHolder(inner=one)
    both = AliasedOpen(a=1, x=2, more=3)  # type: ignore[call-arg]
    assert there_and_back(both) == both
    foreign = make_event({"x": 1, "y": 2}, source="s", id="1", type=("Aliased",))
    assert build_instance(Aliased, foreign) == one


class Crossed(pydantic.BaseModel):
    id: int = pydantic.Field(alias="order_id")
    order_id: int = pydantic.Field(alias="ref")


class CrossedHolder(pydantic.BaseModel):
    all: list[Crossed] = []
    first: int = pydantic.Field(0, validation_alias=pydantic.AliasChoices("second", "x"))
    second: int = pydantic.Field(0, validation_alias=pydantic.AliasPath("first", 0))


def test_an_alias_that_is_the_name_of_another_field_swaps_no_values() -> None:
    one = Crossed(order_id=1, ref=2)
    holder = CrossedHolder.model_validate({"all": [one], "second": 3, "first": [4]})
    assert (holder.first, holder.second) == (3, 4)
    assert there_and_back(one) == one
    assert there_and_back(holder) == holder
    foreign = make_event({"order_id": 1, "ref": 2}, source="s", id="1", type=("Crossed",))
    assert build_instance(Crossed, foreign) == one


# TypedDicts


class Sure(TypedDict):
    id: int
    name: str
    tags: list[str]
    kind: Literal["a", "b"]


Named = NewType("Named", str)
MaybeNamed = NewType("MaybeNamed", object)


class Unsure(TypedDict):
    sure: Named
    a: int | None
    b: int | None
    c: Any
    d: None
    e: Annotated[str | None, "note"]
    f: Literal["x", None]
    g: dict[str, int] | int
    h: Holder
    i: MaybeNamed


def test_a_typed_dict_selects_events_with_none_where_it_admits_none() -> None:
    assert required_values(Sure) == ["data.id", "kind", "name", "tags"]
    assert required_values(Unsure) == ["sure"]
    filter, read = filter_from((Unsure,))
    body = dict.fromkeys("abcdef") | {"sure": "s", "g": {"x": 1}, "h": {"inner": 1}, "i": None}
    assert read is not None
    assert accepts(filter, an_event(body))


# Names


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"id": 7, "data": {"id": None}}, {}),
        ({"id": 7, "data": {"id": {"x": 1}}}, {"data.id.x": 1}),
        ({"id": {"x": 7}, "data": {"id": 5}}, {"data.id": 5, "data.id.x": 7}),
        ({"data": {"id": 5}, "id": 7}, {"data.id": 5}),
        ({"id": 7, "data.id": None}, {}),
        ({"id": 7, "data": {}}, {"data.id": 7}),
        ({"id": 7, "data": 5}, {"data.id": 7, "data": 5}),
        ({"id": 7, "type": 8, "data": {"id": 1}}, {"data.id": 1, "data.type": 8}),
    ],
)
def test_an_inner_object_keeps_the_meaning_of_data(body: dict[str, Any], seen: dict[str, Any]) -> None:
    event = an_event(body)
    assert {name: value for name, value in event.view.items() if name.startswith("data")} == seen
    assert accepts(parse_filter("data.id IS NULL"), event) == ("data.id" not in seen)


@pytest.mark.parametrize(
    "body",
    [
        {"m": {1: {"a": 1}, "1": {"b": 2}}},
        {"m": {"1": 5, 1: {"b": 2}}},
        {"m": [{UUID(int=1): 1, str(UUID(int=1)): 2}]},
        {1: {}, "1": {}},
    ],
)
def test_keys_that_are_the_same_text_are_refused(body: dict[Any, Any]) -> None:
    with pytest.raises(EventError, match="given twice"):
        an_event(body)


# Histories


def test_a_list_of_objects_equals_no_constant_of_a_filter() -> None:
    index = FilterIndex([("v = 1", "tidings"), ("v IN ('a', 'b')", "tidings"), ("EXISTS v", "tidings")])
    assert index.accepting(an_event({"v": [{"a": 1}]})) == [2]
    assert index.accepting(an_event({"v": 1})) == [0, 2]
    assert index.accepting(an_event({"v": Decimal("1.0")})) == [0, 2]


# Unions and enumerations


class Cat(msgspec.Struct, tag_field="kind", tag=True):
    a: int


class Dog(msgspec.Struct, tag_field="kind", tag=True, rename="upper"):
    a: int


@dataclasses.dataclass
class Pets:
    first: Cat | Dog
    others: list[Cat | Dog]


def test_tagged_structs_of_a_union_come_back() -> None:
    pets = Pets(Dog(1), [Cat(2), Dog(3)])
    assert there_and_back(pets) == pets
    assert there_and_back(Cat(1)) == Cat(1)
    assert accepts(parse_filter("first.kind = 'Dog'"), typed_event(pets))


class Rate(Enum):
    LOW = 0.5
    HIGH = 1.5


@dataclasses.dataclass
class Rated:
    rate: Rate | None = None


def test_a_class_that_cannot_be_read_is_refused_at_subscribe() -> None:
    with pytest.raises(FilterError, match="no event can be read as a Rated: Enums must contain") as caught:
        filter_from((Rated,))
    assert "event.attributes" in str(caught.value.hint)
    filter_from((Pets,))
    filter_from((WithComplex,))  # its constructor reads the value


class Camel(msgspec.Struct, rename="camel"):
    order_id: int
    unit_price: Decimal = Decimal(0)


class Tagged(msgspec.Struct, tag="t", tag_field="kind", rename="camel"):
    order_id: int
    inside: list[Camel]


class Kinds(Enum):
    TEXT = "text"
    NUMBER = 1


@dataclasses.dataclass
class MixedKinds:
    kinds: list[Kinds]


class AsArray(msgspec.Struct, array_like=True):
    a: int


def test_a_renamed_or_tagged_struct_fits_its_own_schema() -> None:
    registry = SchemaRegistry()
    for value in (Camel(1, Decimal("0.5")), Tagged(1, [Camel(2)])):
        cls = type(value)
        registry.attach(cls)
        lineage, fields = event_fields(value)
        event = make_event(fields, source="s", id="1", type=lineage)
        registry.check(event)
        assert build_instance(cls, event) == value
        wrong = make_event({"orderId": 1}, source="s", id="1", type=lineage)
        with pytest.raises(SchemaError, match="order_id is missing"):
            registry.check(wrong)
    assert schema_of(Tagged)["required"] == ["order_id", "inside"]


def test_mixed_enumerations_and_arrays_are_refused_at_the_first_call() -> None:
    with pytest.raises(
        FilterError, match="no event can be read as a MixedKinds: Enums must contain either all"
    ):
        filter_from((MixedKinds,))
    with pytest.raises(SchemaError, match="MixedKinds has no schema: Enums must contain either all"):
        SchemaRegistry().attach(MixedKinds)
    with pytest.raises(FilterError, match="no event can be read as a AsArray: a Struct with array_like=True"):
        filter_from((AsArray,))


def test_strict_models_of_pydantic_are_read_as_they_were_published() -> None:
    strict = pydantic.ConfigDict(strict=True)

    class Inner(pydantic.BaseModel):
        model_config = strict
        x: Decimal

    class Strict(pydantic.BaseModel):
        model_config = strict
        key: UUID
        day: date
        took: timedelta
        kind: Kinds
        pair: tuple[int, str]
        tags: set[str]
        inner: list[Inner]
        wide: int

    class WithBytes(Strict):
        raw: bytes

    given: dict[str, Any] = {
        "key": UUID(int=1), "day": date(2026, 1, 1), "took": timedelta(seconds=1.5), "kind": Kinds.NUMBER,
        "pair": (1, "a"), "tags": {"x"}, "inner": [Inner(x=Decimal("1.10"))], "wide": 2**70,
    }  # fmt: skip
    for value in (Strict(**given), WithBytes(**given, raw=b"\xff")):
        _, fields = event_fields(value)
        event = make_event(fields, source="s", id="1", type=type(value).__name__)
        assert build_instance(type(value), event) == value
    lenient = make_event({**fields, "wide": "5"}, source="s", id="1", type="Strict")
    with pytest.raises(EventError, match="wide"):  # it is strict all the same
        build_instance(Strict, lenient)
    elements = make_event(
        {**event_fields(Strict(**given))[1], "pair": ["1", "a"]}, source="s", id="1", type="Strict"
    )
    with pytest.raises(EventError, match="pair"):
        build_instance(Strict, elements)


def test_strict_models_with_keys_that_json_has_as_text_and_payloads_of_json() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True, val_json_bytes="base64")
        by_number: dict[int, str] = {}
        by_day: dict[date, Decimal] = {}
        either: date | str = ""
        pair: tuple[int, ...] = ()
        day: date = date.min
        at: datetime = datetime.min
        clock: time = time.min
        took: timedelta = timedelta()
        raw: bytes = b""

    every = Strict(
        by_number={1: "a"}, by_day={date(2026, 1, 1): Decimal("1.10")}, either=date(2026, 1, 1), pair=(1, 2),
        day=date(2026, 1, 1), at=datetime(2026, 1, 1, tzinfo=UTC), clock=time(8, 30),
        took=timedelta(seconds=90), raw=b"\xff\x00",
    )  # fmt: skip
    assert there_and_back(every) == every  # a date stays one where a text would do
    short = every.model_copy(update={"raw": b"", "pair": (), "either": "x"})
    assert there_and_back(short) == short
    plain = decode(encode(event_fields(every.model_copy(update={"either": "x"}))[1], JSON), JSON)
    event = make_event(plain, source="s", id="1", type="Strict")
    assert build_instance(Strict, event) == every.model_copy(update={"either": "x"})
    for wrong in ({"pair": ["1"]}, {"by_number": {"x": "a"}}, {"day": "x"}, {"took": 5.5, "raw": b"x"}):
        with pytest.raises(EventError):
            build_instance(Strict, make_event({**plain, **wrong}, source="s", id="1", type="Strict"))


# attrs


@attrs.define
class Untyped:
    anything: Any = attrs.field()
    count: int = attrs.field(default=0)


UntypedHolder = attrs.make_class(
    "UntypedHolder", {"anything": attrs.field(), "inner": attrs.field(type=list[Untyped], factory=list)}
)
Old = attr.make_class("Old", {"x": attr.ib(), "y": attr.ib(default=3)})
del Untyped.__annotations__["anything"]  # as `anything = attrs.field()` has none


def test_attrs_fields_without_a_type_hold_anything() -> None:
    for instance in (Untyped({"a": [1]}), Old("x"), UntypedHolder(None, [Untyped(1)])):
        filter_from((type(instance),))
        assert there_and_back(instance) == instance
        SchemaRegistry().attach(type(instance))
    with pytest.raises(EventError, match="count"):
        build_instance(Untyped, make_event({"anything": 1, "count": "x"}, source="s", id="1", type="Untyped"))
