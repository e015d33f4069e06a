"""Classes as event types, in all three kinds."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from array import array
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from collections.abc import Generator, Hashable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from tidings.errors import EventError
from tidings.model.event import Event, make_event
from tidings.model.fields import check_readable
from tidings.model.serialisers import JSON, encode
from tidings.model.typed import (
    build_instance,
    derived,
    event_fields,
    is_event_class,
    is_typed,
    known_types,
    lineage_of,
)


class Side(StrEnum):
    BUY = "buy"
    SELL = "sell"


class Level(Enum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Place:
    city: str
    at: datetime


@dataclasses.dataclass(frozen=True)
class Quote:
    symbol: str
    price: float


@dataclasses.dataclass(frozen=True)
class Trade(Quote):
    volume: int = 1
    side: Side = Side.BUY

    @derived
    def value(self) -> float:
        return self.price * self.volume


class Reading(msgspec.Struct):
    sensor: str
    place: Place | None = None


class Temperature(Reading, kw_only=True):
    celsius: float

    @derived
    def fahrenheit(self) -> float:
        return self.celsius * 9 / 5 + 32


class Order(pydantic.BaseModel):
    number: int
    note: str | None = None


class RushOrder(Order):
    minutes: int

    @derived
    def late(self) -> bool:
        return self.minutes > 30


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CASES: list[tuple[type, Any, tuple[str, ...], dict[str, Any]]] = [
    (
        Quote,
        Trade("IBM", 2.5, 4, Side.SELL),
        ("Trade", "Quote"),
        {"symbol": "IBM", "price": 2.5, "volume": 4, "side": "sell", "value": 10.0},
    ),
    (
        Reading,
        Temperature(sensor="s1", place=Place("Rome", NOON), celsius=100.0),
        ("Temperature", "Reading"),
        {"sensor": "s1", "place": {"city": "Rome", "at": NOON}, "celsius": 100.0, "fahrenheit": 212.0},
    ),
    (Order, RushOrder(number=7, minutes=45), ("RushOrder", "Order"),
        {"number": 7, "note": None, "minutes": 45, "late": True}),
]  # fmt: skip


def published(instance: object) -> Event:
    lineage, attributes = event_fields(instance)
    return make_event(attributes, source="s", id="1", type=lineage)


@pytest.mark.parametrize(("base", "instance", "lineage", "attributes"), CASES)
def test_fields_are_attributes_and_come_back(
    base: type, instance: Any, lineage: tuple[str, ...], attributes: dict[str, Any]
) -> None:
    assert event_fields(instance)[0] == lineage
    assert published(instance).attributes == attributes
    assert build_instance(base, published(instance)) == instance
    assert type(build_instance(base, published(instance))) is type(instance)
    assert is_typed(instance)
    assert is_event_class(base)


def test_the_most_specific_known_class_is_made() -> None:
    event = make_event(
        {"symbol": "X", "price": 1.0, "extra": 5}, source="s", id="1", type=("Future", "Quote")
    )
    assert build_instance(Quote, event) == Quote("X", 1.0)
    assert build_instance({"Quote": Quote, "Trade": Trade}, event) == Quote("X", 1.0)
    assert known_types(Quote) == {"Quote": Quote, "Trade": Trade}


def test_a_class_can_name_its_type() -> None:
    @dataclasses.dataclass
    class Named:
        __event_type__ = "com.example.named"
        x: int

    @dataclasses.dataclass
    class Child(Named):
        pass

    assert lineage_of(Child) == ("Child", "com.example.named")
    assert build_instance(Named, published(Child(3))) == Child(3)
    Named.__event_type__ = ""
    with pytest.raises(EventError, match="__event_type__ of Named"):
        lineage_of(Named)


def test_enums_travel_as_their_values_and_uuids_as_themselves() -> None:
    class Sample(msgspec.Struct):
        level: Level
        uid: UUID
        more: dict[str, int]

    sample = Sample(Level.LOW, UUID(int=7), {"n": 1})
    assert published(sample).attributes == {"level": 1, "uid": UUID(int=7), "more": {"n": 1}}
    assert build_instance(Sample, published(sample)) == sample


def test_what_cannot_be_published_says_so() -> None:
    with pytest.raises(EventError, match="a list cannot be published"):
        event_fields([1])
    assert not is_typed({"a": 1})
    assert not is_typed(make_event(source="s", id="1"))  # an event is an event already
    assert not is_event_class(dict)
    assert not is_event_class(Quote("X", 1.0))


def test_a_field_with_a_name_of_the_envelope_comes_back() -> None:
    @dataclasses.dataclass
    class Record:
        id: str
        type: int

    assert build_instance(Record, published(Record("x", 5))) == Record("x", 5)


def test_a_derived_attribute_that_fails_is_named() -> None:
    @dataclasses.dataclass
    class Ratio:
        a: int
        b: int

        @derived
        def ratio(self) -> float:
            return self.a / self.b

    with pytest.raises(EventError, match="derived attribute 'ratio' of a Ratio fails: division by zero"):
        event_fields(Ratio(1, 0))


def test_a_derived_attribute_can_be_overridden() -> None:
    class Base(msgspec.Struct):
        x: int

        @derived
        def size(self) -> int:
            return self.x

    class Bigger(Base):
        @derived
        def size(self) -> int:
            return self.x * 100

    class Silent(Base):
        @property
        def size(self) -> int:
            return self.x

    assert event_fields(Bigger(2))[1] == {"x": 2, "size": 200}
    assert event_fields(Silent(2))[1] == {"x": 2}


@pytest.mark.parametrize(
    ("base", "event", "problem"),
    [
        (
            Quote,
            make_event({"symbol": "X"}, source="s", id="9", type="Quote"),
            "event 9 cannot be read as a Quote",
        ),
        (
            Order,
            make_event({"number": "x"}, source="s", id="9", type="Order"),
            "event 9 cannot be read as a Order",
        ),
        (
            Quote,
            make_event(source="s", id="9", type="Other"),
            "event 9 is a Other .*known here: Quote, Trade",
        ),
        (Quote, make_event(source="s", id="9"), "event without a type"),
    ],
)
def test_an_event_that_does_not_fit_says_why(base: type, event: Event, problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        build_instance(base, event)


def test_a_registry_of_anything_else_is_refused() -> None:
    with pytest.raises(EventError, match="dict is no dataclass"):
        build_instance({"Quote": dict}, make_event(source="s", id="1", type="Quote"))


def test_pydantic_is_not_imported_for_other_classes() -> None:
    code = (
        "import sys, dataclasses\n"
        "from tidings.model.typed import event_fields\n"
        "A = dataclasses.make_dataclass('A', [('x', int)])\n"
        "event_fields(A(1))\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


@dataclasses.dataclass
class Containers:
    d: deque[int]
    f: defaultdict[str, list[UUID]]
    i: Iterable[datetime]
    c: Counter[str]
    o: OrderedDict[int, str]


def test_containers_that_msgspec_does_not_know_are_read() -> None:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    made = Containers(
        deque([1]), defaultdict(list, a=[UUID(int=7)]), [moment], Counter("aab"), OrderedDict({7: "x"})
    )
    for body in (event_fields(made)[1], json.loads(encode(event_fields(made)[1], JSON))):
        read = build_instance(Containers, make_event(body, source="s", id="1", type="Containers"))
        assert read == made
        assert [type(value) for value in vars(read).values()] == [
            type(value) for value in vars(made).values()
        ]
        assert read.f["new"] == []


@pytest.mark.parametrize(
    "hint",
    [
        Iterator[int],
        ChainMap[str, int],
        Hashable,
        list[Iterator[int]],
        dict[str, Generator[int, None, None]],
        array,
    ],
)
def test_a_class_with_a_type_that_no_body_has_is_refused_at_subscribe(hint: Any) -> None:
    made = dataclasses.make_dataclass("Made", [("x", hint)])
    with pytest.raises(TypeError, match="no body has"):
        check_readable(made)


@dataclasses.dataclass
class Measured:
    value: float
    more: list[float]
    lasts: timedelta
    count: int = 0


class MeasuredModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    value: float
    more: list[float]


def test_doubles_that_json_lacks_and_durations_are_read_from_json() -> None:
    body: dict[str, Any] = {
        "value": math.inf,
        "more": [-math.inf, 1.0],
        "count": -(2**70),
        "lasts": timedelta(days=2, microseconds=-1),
    }
    event = make_event(json.loads(encode(body, JSON)), source="s", id="1", type=("Measured", "MeasuredModel"))
    assert build_instance(Measured, event) == Measured(**body)
    assert build_instance(MeasuredModel, event).more == [-math.inf, 1.0]
    with pytest.raises(EventError, match="Expected `float`"):
        build_instance(Measured, make_event({**body, "value": "5"}, source="s", id="1", type="Measured"))
