"""Schemas: from classes, checked at publish, versions that break refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import msgspec
import pydantic
import pytest

import tidings
from tidings.errors import EventError, SchemaError
from tidings.model import schema_checking
from tidings.model.event import make_event
from tidings.model.schemas import SCHEMAS, SchemaRegistry, problems, schema_of
from tidings.model.typed import build_instance, event_fields


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    id: int
    lines: list[Line]
    note: str | None = None
    tags: list[str] = field(default_factory=list)


def event(body: dict[str, Any], **options: Any) -> tidings.Event:
    return make_event(body, source="s", id="1", **{"type": "Order", **options})


GOOD: dict[str, Any] = {"id": 7, "lines": [{"sku": "a", "price": Decimal("1.10")}], "note": None}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None), ({"extra": 1}, None), ({"id": "x"}, "id is string, not integer"), ({"id": True},
        "not integer"),
        ({"lines": [{"sku": "a"}]}, r"lines\[0\].price is missing"), ({"lines": {}}, "lines is object"),
        ({"note": 5}, "note"), ({"tags": ["a", 1]}, r"tags\[1\] is integer"),
    ],
)  # fmt: skip
def test_an_event_fits_the_schema_of_its_class_or_is_refused(
    change: dict[str, Any], problem: str | None
) -> None:
    registry = SchemaRegistry()
    registry.attach(Order)
    if problem is None:
        registry.check(event(GOOD | change))
    else:
        with pytest.raises(SchemaError, match=problem):
            registry.check(event(GOOD | change))
    registry.check(event(GOOD | change, type="Other"))


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        ({"enum": ["a"]}, "b", 1), ({"const": 1}, 2, 1), ({"minimum": 3}, 2, 1),
        ({"exclusiveMaximum": 3}, 3, 1),
        ({"maxLength": 1}, "ab", 1), ({"minItems": 1}, [], 1), ({"pattern": "^a"}, "b", 1),
        ({"type": ["null", "string"]}, None, 0),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, 1), ({"allOf": [{"minimum": 1},
        {"maximum": 2}]}, 3, 1),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1, "b": 2}, 1),
        ({"additionalProperties": {"type": "integer"}}, {"b": "x"}, 1), ({"$ref": "#/$defs/n",
        "$defs": {"n": {"type": "integer"}}}, "x", 1),
        ({"format": "uuid"}, "7", 1), ({"format": "uuid"}, str(UUID(int=7)), 0), ({"format": "uuid"}, 7, 0),
        ({"format": "date"}, "x", 1), ({"format": "date-time"}, "2026-03-01T08:30:00Z", 0),
        ({"format": "time"}, "8", 1), ({"format": "decimal"}, "1,5", 1), ({"format": "email"}, "x", 0),
        ({"contentEncoding": "base64"}, "AP8=", 0), ({"contentEncoding": "base64"}, "AP8", 1),
        ({"type": "integer"}, 5.0, 0), ({"type": "number"}, 5, 0), ({}, object(), 0),
        ({"$ref": "#/$defs/n", "minimum": 2, "$defs": {"n": {"minimum": 5}}}, 3, 1),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["b"]}, {"b": 1, "a": {"a": {}}}, 2),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": False}}, 1, 1), ({"not": {"type": "string"}}, "a", 1),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, 1), ({"minProperties": 1}, {}, 1),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1.5, 0), ({"maxProperties": 0}, {"a": 1}, 1),
        ({"if": {"type": "integer"}, "then": {"minimum": 2}, "else": False}, 1, 1),
        ({"if": {"type": "integer"}, "then": {"minimum": 2}, "else": False}, "a", 1),
        ({"contains": {"type": "integer"}}, ["a"], 1), ({"contains": True, "maxContains": 1}, [1, 2], 1),
        ({"uniqueItems": True}, [1, 1.0], 1), ({"uniqueItems": True}, [1, True, [1], {"a": 1}], 0),
        ({"prefixItems": [{}], "items": False}, [1, 2], 1),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 1),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, 1),
        ({"propertyNames": False}, {"a": 1}, 1),
        ({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False}, {"ab": 1}, 0),
        ({"patternProperties": {"^a": {"type": "integer"}}}, {"ab": "x"}, 1), ({"properties": {"a": False}},
        {"a": 1}, 1),
    ],
)  # fmt: skip
def test_keywords(schema: dict[str, Any], value: Any, wrong: int) -> None:
    assert len(list(problems(value, schema))) == wrong


def version(**properties: Any) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if schema.pop("must", False)]
    return {"type": "object", "properties": properties, "required": required}


def test_a_breaking_version_is_refused_unless_it_is_forced(tmp_path: Path) -> None:
    registry = SchemaRegistry(tmp_path / "schemas.json")
    assert registry.attach(Order).version == 1
    assert registry.attach(Order).version == 1
    with pytest.raises(SchemaError, match="lines is gone"):
        registry.attach({"properties": {"id": {"type": "integer"}}}, type="Order")
    assert registry.attach({"type": "object"}, type="Order", force=True).version == 2
    assert registry.attach(Order, topic="shop/#").version == 1
    again = SchemaRegistry(tmp_path / "schemas.json")
    assert [(row["for"], row["name"], row["version"]) for row in again.rows()] == [
        ("type", "Order", 2), ("topic", "shop/#", 1),
    ]  # fmt: skip
    with pytest.raises(SchemaError, match="'shop/#'"):
        again.check(event({}, topic="shop/x"))
    assert again.detach(topic="shop/#")
    again.check(event({}, topic="shop/x"))


def test_mistakes_are_named() -> None:
    with pytest.raises(SchemaError, match="has no schema"):
        schema_of(int)
    with pytest.raises(SchemaError, match="for a type or for a topic"):
        SCHEMAS.attach(Order, type="a", topic="b")
    with pytest.raises(SchemaError, match="no type"):
        SCHEMAS.attach({})


@pytest.fixture
def in_force() -> Iterator[None]:
    SCHEMAS.attach(Order)
    yield
    SCHEMAS.detach(type="Order")


@pytest.mark.usefixtures("in_force")
def test_a_publish_that_does_not_fit_is_refused() -> None:
    async def run() -> None:
        async with tidings.connect() as bus:
            received = await bus.subscribe(Order)
            await bus.publish(Order(7, [Line("a", Decimal("1.10"))]))
            with pytest.raises(SchemaError, match="lines is missing"):
                await bus.publish({"id": 7}, type="Order")
            assert await received.get() == Order(7, [Line("a", Decimal("1.10"))])

    asyncio.run(run())


class And(msgspec.Struct, tag="and"):
    left: And | Or | Leaf


class Or(msgspec.Struct, tag="or"):
    left: And | Or | Leaf


class Leaf(msgspec.Struct, tag="leaf"):
    value: int


class Rule(msgspec.Struct):
    when: And | Or | Leaf


def nested(depth: int, value: Any) -> dict[str, Any]:
    """A rule whose tag stands behind its parts, so that alternatives are told apart late."""
    made: dict[str, Any] = {"value": value, "type": "leaf"}
    for _ in range(depth):
        made = {"left": made, "type": "and"}
    return {"when": made}


def test_nested_alternatives_are_each_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were tried again for each alternative above: 2 to the depth."""
    monkeypatch.setattr(schema_checking, "MOST_STEPS", 1000)
    registry = SchemaRegistry()
    registry.attach(Rule)
    registry.check(event(nested(30, 1), type="Rule"))
    with pytest.raises(SchemaError, match="fits none of 3 alternatives"):
        registry.check(event(nested(30, "no"), type="Rule"))


def test_a_check_has_a_budget_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_checking, "MOST_STEPS", 100)
    registry = SchemaRegistry()
    registry.attach(
        {"properties": {"n": {"items": {"type": "integer"}}, "t": {"pattern": "a+b"}}}, type="Order"
    )
    registry.check(event({"n": [1] * 90}))
    with pytest.raises(SchemaError, match="takes more than 100 steps"):
        registry.check(event({"n": [1] * 101}))
    with pytest.raises(SchemaError, match="takes more than 100 steps"):
        registry.check(event({"t": "a" * 10_000}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"}, {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}},
    ],
)  # fmt: skip
def test_a_schema_that_is_its_own_part_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="refers to itself without end"):
        SchemaRegistry().attach(schema, type="Order")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {"f": {"unevaluatedProperties": False}}},
         r"#/properties/f has the keyword 'unevaluatedProperties'.*write additionalProperties"),
        ({"minLenght": 1}, "# has the keyword 'minLenght', which is not checked"),
        ({"allOf": [{"nullable": True}]}, r'#/allOf/0 has the keyword \'nullable\'.*"null"'),
        ({"properties": {"f": {"$ref": "https://example.com/a"}}}, "#/properties/f has .ref .*leads nowhere"),
        ({"$ref": "#/$defs/x"}, "leads nowhere"),
        ({"minimum": "1"}, "# has minimum '1' .minimum is a number"),
        ({"exclusiveMinimum": True}, "is a number"), ({"type": "int"}, "type is one of object, array"),
        ({"items": [{}]}, "# ?/items is .*no schema"), ({"then": {}}, "has then without if"),
        ({"multipleOf": 0}, "a number above 0"), ({"required": "a"}, "a list of names"),
        ({"anyOf": []}, "a list of schemas"), ({"properties": {"$id": {"$id": "x"}}}, "'.id', which is not"),
        ({"contentEncoding": "base16"}, "base64 is checked"), ({"patternProperties": {"(?=a)": {}}}, "RE2"),
        ({"dependentRequired": {"a": "b"}}, "an object of lists of names"),
        ({"uniqueItems": 1}, "true or false"),
    ],
)  # fmt: skip
def test_a_schema_with_what_is_not_checked_is_refused_by_name(
    tmp_path: Path, schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        SchemaRegistry().attach(schema, type="Order")
    (tmp_path / "older.json").write_bytes(
        msgspec.json.encode({"types": {"Order": {"version": 1, "schema": schema}}})
    )
    with pytest.raises(SchemaError, match=r"older\.json, 'Order'"):
        SchemaRegistry(tmp_path / "older.json")


def test_notes_of_a_schema_are_taken() -> None:
    notes: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/order",
    }
    notes |= {"title": "t", "x-owner": "shop", "examples": [{"unevaluatedItems": 1}], "format": "email"}
    registry = SchemaRegistry()
    attached = registry.attach(notes, type="Order")
    assert (attached.version, attached.schema) == (1, notes)
    registry.check(event({"email": "no address", "unevaluated": 1}))  # they say nothing of what fits


def test_the_schema_of_a_class_says_what_the_class_reads(tmp_path: Path) -> None:
    """A set is read from a list with an element twice; a class may pick an alternative by a function."""

    class Cat(pydantic.BaseModel):
        name: str

    class Dog(pydantic.BaseModel):
        name: str

    class Pet(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(json_schema_extra={"nullable": False})
        marks: set[int]
        animal: Annotated[
            Annotated[Cat, pydantic.Tag("cat")] | Annotated[Dog, pydantic.Tag("dog")],
            pydantic.Discriminator(lambda value: "cat"),
        ]

    body = event({"marks": [1, 1], "animal": {"name": "x"}}, type="Pet")
    build_instance(Pet, body)
    other = event({"marks": ["a"], "animal": {"name": "x"}}, type="Pet")
    registry = SchemaRegistry()
    registry.attach(Pet)
    registry.check(body)
    with pytest.raises(SchemaError, match="marks"):
        registry.check(other)
    stored = {
        "version": 1,
        "schema": Pet.model_json_schema(),
        "of_class": True,
    }  # as earlier ones wrote it
    (tmp_path / "older.json").write_bytes(msgspec.json.encode({"types": {"Pet": stored}}))
    older = SchemaRegistry(tmp_path / "older.json")
    older.check(body)
    with pytest.raises(SchemaError, match="marks"):
        older.check(other)


def test_a_pattern_has_the_syntax_of_re2_and_never_backtracks(tmp_path: Path) -> None:
    registry = SchemaRegistry(tmp_path / "schemas.json")
    schema = {"properties": {"name": {"pattern": r"^([a-zA-Z0-9]+[ .-]?)+$"}}}
    registry.attach(schema, type="Order")
    registry.check(event({"name": "a" * 60}))
    with pytest.raises(SchemaError, match="does not fit the pattern"):
        registry.check(event({"name": "a" * 60 + "!"}))  # a backtracking engine never answers
    backwards = {"properties": {"name": {"anyOf": [{"pattern": "^(?=a)"}]}}}
    with pytest.raises(SchemaError, match=r"pattern that cannot be used.*RE2"):
        registry.attach(backwards, topic="shop")
    stored = {"types": {"Order": {"version": 1, "schema": backwards}}}
    (tmp_path / "older.json").write_bytes(msgspec.json.encode(stored))
    with pytest.raises(SchemaError, match="pattern that cannot be used"):
        SchemaRegistry(tmp_path / "older.json")


@dataclass
class Stay:
    at: datetime
    clock: time = time(8)
    length: timedelta = timedelta(0)
    seen: dict[UUID, datetime] = field(default_factory=dict)
    pair: tuple[int, time] = (1, time(8))
    until: datetime | None = None
    by_number: dict[int, str] = field(default_factory=dict)


class Price(pydantic.BaseModel):
    amount: Decimal
    reduced: Decimal | None = None
    lasts: timedelta = timedelta(0)


class Level(IntEnum):
    LOW = 1
    HIGH = 3


class Letter(Enum):
    A = "a"
    B = "b"


FIVES = Annotated[int, msgspec.Meta(multiple_of=5)]


class Keyed(msgspec.Struct):
    names: dict[Letter, int] = {}
    levels: dict[Level, int] = {}
    kinds: dict[Literal["x", "y"], int] = {}
    counted: dict[Annotated[int, msgspec.Meta(ge=0)], int] = {}
    fives: FIVES = 5
    level: Level = Level.LOW
    zoned: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    local: Annotated[datetime, msgspec.Meta(tz=False)] | None = None


class KeyedModel(pydantic.BaseModel):
    levels: dict[Level, int] = {}
    counted: dict[Annotated[int, pydantic.Field(ge=0)], int] = {}
    lettered: dict[Annotated[str, pydantic.Field(pattern="^a")], int] = {}
    fives: Annotated[int, pydantic.Field(multiple_of=5)] = 5
    level: Level = Level.LOW
    url: pydantic.HttpUrl | None = None
    address: pydantic.IPvAnyAddress | None = None
    network: pydantic.IPvAnyNetwork | None = None
    aware: pydantic.AwareDatetime | None = None
    naive: pydantic.NaiveDatetime | None = None
    four: pydantic.UUID4 | None = None


MOMENT, KEY = "2026-03-01T08:30:00Z", str(UUID(int=7))


@pytest.mark.parametrize(
    ("cls", "body", "fits"),
    [
        (Stay, {"at": MOMENT}, True), (Stay, {"at": "soon"}, False), (Stay, {"at": "2026-03-01"}, False),
        (Stay, {"at": datetime(2026, 3, 1)}, True), (Stay, {"at": MOMENT, "clock": "08:30:00"}, True),
        (Stay, {"at": MOMENT, "clock": "noon"}, False), (Stay, {"at": MOMENT, "clock": time(9)}, True),
        (Stay, {"at": MOMENT, "length": "P1DT2H"}, True), (Stay, {"at": MOMENT, "length": "long"}, False),
        (Stay, {"at": MOMENT, "length": timedelta(-1, 5)}, True),
        (Stay, {"at": MOMENT, "seen": {KEY: MOMENT}}, True),
        (Stay, {"at": MOMENT, "seen": {KEY: "x"}}, False),
        (Stay, {"at": MOMENT, "seen": {"x": MOMENT}}, False),
        (Stay, {"at": MOMENT, "by_number": {"x": "y"}}, False),
        (Stay, {"at": MOMENT, "by_number": {"-7": "y"}}, True),
        (Stay, {"at": MOMENT, "pair": [1, "08:30:00"]}, True),
        (Stay, {"at": MOMENT, "pair": [1, "x"]}, False),
        (Stay, {"at": MOMENT, "pair": ["x", "08:30:00"]}, False), (Stay, {"at": MOMENT, "pair": [1]}, False),
        (Stay, {"at": MOMENT, "until": None}, True), (Stay, {"at": MOMENT, "until": "x"}, False),
        (Price, {"amount": "12.10"}, True), (Price, {"amount": "dear"}, False), (Price, {"amount": 5}, True),
        (Price, {"amount": Decimal("1E+3")}, True), (Price, {"amount": "NaN"}, False),
        (Price, {"amount": 1, "reduced": "x"}, False), (Price, {"amount": 1, "reduced": None}, True),
        (Price, {"amount": 1, "lasts": "P1D"}, True), (Price, {"amount": 1, "lasts": "x"}, False),
        (Keyed, {"names": {"a": 1}}, True), (Keyed, {"names": {"c": 1}}, False),
        (Keyed, {"levels": {"1": 1}}, True), (Keyed, {"levels": {"2": 1}}, False),
        (Keyed, {"kinds": {"x": 1}}, True), (Keyed, {"kinds": {"z": 1}}, False),
        (Keyed, {"counted": {"3": 1}}, True), (Keyed, {"counted": {"-3": 1}}, False),
        (Keyed, {"fives": 10}, True), (Keyed, {"fives": 11}, False), (Keyed, {"fives": 10.0}, True),
        (Keyed, {"fives": 10.5}, False), (Keyed, {"level": 1}, True), (Keyed, {"level": 1.0}, True),
        (Keyed, {"level": True}, False), (Keyed, {"level": 2}, False), (Keyed, {"zoned": MOMENT}, True),
        (Keyed, {"zoned": "2026-03-01T08:30:00"}, False), (Keyed, {"zoned": datetime(2026, 3, 1)}, False),
        (Keyed, {"local": MOMENT}, False), (Keyed, {"local": "2026-03-01T08:30:00"}, True),
        (KeyedModel, {"levels": {"1": 1}}, True), (KeyedModel, {"levels": {"2": 1}}, False),
        (KeyedModel, {"counted": {"3": 1}}, True), (KeyedModel, {"counted": {"x": 1}}, False),
        (KeyedModel, {"counted": {"-3": 1}}, False), (KeyedModel, {"lettered": {"ab": 1}}, True),
        (KeyedModel, {"lettered": {"b": 1}}, False), (KeyedModel, {"fives": 11}, False),
        (KeyedModel, {"fives": 10.0}, True), (KeyedModel, {"level": 2}, False),
        (KeyedModel, {"url": "https://example.com/a"}, True), (KeyedModel, {"url": "ftp://a.com"}, False),
        (KeyedModel, {"url": "no url"}, False), (KeyedModel, {"url": "http://"}, False),
        (KeyedModel, {"url": "http://[::1"}, False), (KeyedModel, {"url": "http://a:99999/"}, False),
        (KeyedModel, {"address": "10.0.0.1"}, True), (KeyedModel, {"address": "::1"}, True),
        (KeyedModel, {"address": "10.0.0.256"}, False), (KeyedModel, {"network": "10.0.0.0/8"}, True),
        (KeyedModel, {"network": "x"}, False), (KeyedModel, {"aware": MOMENT}, True),
        (KeyedModel, {"aware": "2026-03-01T08:30:00"}, False),
        (KeyedModel, {"aware": datetime(2026, 3, 1)}, False), (KeyedModel, {"naive": MOMENT}, False),
        (KeyedModel, {"naive": datetime(2026, 3, 1)}, True), (KeyedModel, {"four": str(uuid4())}, True),
        (KeyedModel, {"four": KEY}, False),
    ],
)  # fmt: skip
def test_an_event_fits_just_when_it_can_be_read_as_the_class(
    cls: Any, body: dict[str, Any], fits: bool
) -> None:
    registry = SchemaRegistry()
    registry.attach(cls)
    made = event(body, type=cls.__name__)
    readable = True
    try:
        build_instance(cls, made)
    except EventError:
        readable = False
    assert readable is fits
    if fits:
        registry.check(made)
    else:
        with pytest.raises(SchemaError):
            registry.check(made)


@dataclass
class Texts:
    text: str = ""
    key: UUID | None = None
    raw: bytes = b""


class TextsModel(pydantic.BaseModel):
    raw: Annotated[bytes, pydantic.Field(max_length=3)] = b""
    price: Decimal = Decimal(0)
    any_price: Annotated[Decimal, pydantic.Field(allow_inf_nan=True)] = Decimal(0)
    took: timedelta = timedelta()


class Rights(Flag):
    READ = 1
    WRITE = 2


class Gaps(Flag):
    LOW = 1
    HIGH = 4
    NONE = 0


class Marks(IntFlag):
    FIRST = 1
    SECOND = 2


@dataclass
class Flagged:
    rights: Rights = Rights.READ
    gaps: Gaps = Gaps.NONE
    marks: Marks = Marks.FIRST
    counted: dict[Rights, int] = field(default_factory=dict)


class FlaggedModel(pydantic.BaseModel):
    rights: Rights = Rights.READ
    gaps: Gaps = Gaps.NONE
    marks: Marks = Marks.FIRST
    counted: dict[str, int] = {}  # Pydantic reads no combination as a key


@pytest.mark.parametrize("cls", [Flagged, FlaggedModel])
def test_combinations_of_flags_fit_the_schema_of_their_class(cls: Any) -> None:
    registry = SchemaRegistry()
    registry.attach(cls)
    both = Rights.READ | Rights.WRITE
    keyed: dict[str, Any] = {"counted": {both: 1}} if cls is Flagged else {}
    for fields in (
        {"rights": both}, {"rights": Rights(0)}, {"gaps": Gaps.LOW | Gaps.HIGH}, {"gaps": Gaps.NONE},
        {"marks": Marks.FIRST | Marks.SECOND}, {"marks": Marks(8)}, keyed,
    ):  # fmt: skip
        instance = cls(**fields)
        made = event(event_fields(instance)[1], type=cls.__name__)
        registry.check(made)
        assert build_instance(cls, made) == instance
    for wrong in ({"rights": 4}, {"gaps": 2}, {"gaps": "x"}, {"marks": "x"}, {"counted": {"x": "y"}}):
        made = event(wrong, type=cls.__name__)
        with pytest.raises(SchemaError):
            registry.check(made)
        with pytest.raises(EventError):
            build_instance(cls, made)


def test_classes_without_a_schema_are_named() -> None:
    class Numbers(pydantic.RootModel[list[int]]):
        pass

    def inner(hint: Any) -> Any:
        return make_dataclass("Inner", [("x", hint)])

    with pytest.raises(SchemaError, match="Numbers has no schema: a RootModel stands for one value"):
        SchemaRegistry().attach(Numbers)
    two = make_dataclass("Two", [("one", inner(int)), ("other", inner(str))])
    with pytest.raises(
        SchemaError, match=r"Two has no schema: another class inside it has the name of .*Inner"
    ):
        SchemaRegistry().attach(two)


@pytest.mark.parametrize(
    ("cls", "body", "problem"),
    [
        (Texts, {"text": Decimal("1.5")}, "text is the decimal '1.5', not a text"),
        (Texts, {"text": b"a"}, "text is the base64 'YQ==', not a text"),
        (Texts, {"text": UUID(int=7)}, "text is the uuid"), (Texts, {"text": time(8)}, "text is the time"),
        (Texts, {"key": f"urn:uuid:{KEY}"}, "key fits none"), (Texts, {"key": f"{{{KEY}}}"}, "key fits none"),
        (Texts, {"raw": Decimal("Infinity")}, "raw is the decimal 'Infinity', not base64"),
        (TextsModel, {"raw": UUID(int=7)}, "raw is longer"),
        (TextsModel, {"raw": b"abcd"}, "raw is longer than 3"), (TextsModel, {"took": "p1d"}, "no duration"),
        (TextsModel, {"price": float("nan")}, "price fits none"),
        (TextsModel, {"price": float("inf")}, "price fits none"),
    ],
)  # fmt: skip
def test_the_schema_of_a_class_takes_values_of_its_kinds_alone(
    cls: Any, body: dict[str, Any], problem: str
) -> None:
    registry = SchemaRegistry()
    registry.attach(cls)
    with pytest.raises(SchemaError, match=problem):
        registry.check(event(body, type=cls.__name__))
    with pytest.raises(EventError):
        build_instance(cls, event(body, type=cls.__name__))


def test_a_schema_that_is_given_takes_the_text_of_a_value(tmp_path: Path) -> None:
    registry = SchemaRegistry(tmp_path / "schemas.json")
    registry.attach({"properties": {"text": {"type": "string"}}}, type="T")
    registry.check(event({"text": UUID(int=7)}, type="T"))
    registry.attach(Texts)
    with pytest.raises(SchemaError, match="text is the uuid"):
        SchemaRegistry(tmp_path / "schemas.json").check(event({"text": UUID(int=7)}, type="Texts"))
    numbers = {"raw": b"\xff\xfe\xfd", "any_price": float("inf")}
    registry.attach(TextsModel)
    registry.check(event(numbers, type="TextsModel"))


def test_a_time_of_day_whose_offset_has_seconds_fits_and_is_read_from_json() -> None:
    clock = time(8, 30, 0, 5, tzinfo=timezone(timedelta(hours=5, minutes=45, seconds=13)))
    for cls in (Stay, pydantic.create_model("Model", at=(datetime, ...), clock=(time, ...))):
        registry = SchemaRegistry()
        registry.attach(cls)
        for body in ({"at": MOMENT, "clock": clock}, {"at": MOMENT, "clock": clock.isoformat()}):
            made = event(body, type=cls.__name__)
            registry.check(made)
            assert build_instance(cls, made).clock == clock
