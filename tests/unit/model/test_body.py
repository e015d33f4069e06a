"""Bodies: what people's programs have goes in, travels, and comes out as it left."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from typing import Any, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy
import pytest
from msgspec.msgpack import Ext
from pydantic import BaseModel

from tidings.errors import EventError
from tidings.model.body import OPAQUE
from tidings.model.event import Event, make_event
from tidings.model.fields import required_values
from tidings.model.typed import build_instance, event_fields

KEY = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


def travelled(event: Event) -> Event:
    """The event after the wire, as a broker of this version reads it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, None), (b"\x00\xff", OPAQUE), (Decimal("12.50"), Decimal("12.50")), (Decimal("NaN"), None),
        (Decimal(2**70), Decimal(2**70)), (Decimal("1E+30"), Decimal("1E+30")), (2**64, 2**64),
        (-(10**40), -(10**40)),
        (KEY, str(KEY)), (date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)), (time(8, 30), "08:30:00"),
        (time(8, 30, tzinfo=UTC), "08:30:00+00:00"), (datetime(2026, 1, 1, 12), NOON), (NOON, NOON),
        (timedelta(days=2, microseconds=1), OPAQUE), ([], ()), ([1, "a", None], (1, "a", None)),
        ([[1], [2, [3]]], ((1,), (2, (3,)))), ([{"sku": "a", "at": {"x": 1}}, {}], ({"sku": "a",
        "at.x": 1}, {})),
    ],
)  # fmt: skip
def test_a_value_arrives_as_it_left_and_filters_see_it(given: Any, seen: Any) -> None:
    event = travelled(make_event({"x": given, "deep": {"er": given}}, source="s", id="1"))
    assert event == make_event({"x": given, "deep": {"er": given}}, source="s", id="1")
    for value in (event["x"], event["deep.er"], event.attributes["x"], event["deep"]["er"]):
        assert repr(value) == repr(given)
        assert type(value) is type(given)
    assert event.view.get("x") == event.view.get("deep.er") == seen


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Colour.RED, "red"), (Size.BIG, 3), ((1, 2), [1, 2]), ({"b", "a"}, ["a", "b"]),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (datetime(2026, 1, 1, 14, tzinfo=EAST), NOON), (bytearray(b"x"), b"x"), ({1: 2}, {"1": 2}),
        ({Colour.RED: 1}, {"red": 1}),
    ],
)  # fmt: skip
def test_a_value_without_a_form_of_its_own_travels_as_the_nearest(given: Any, kept: Any) -> None:
    event = travelled(make_event({"x": given}, source="s", id="1"))
    assert event["x"] == kept
    assert type(event["x"]) is type(kept)


def test_a_flat_body_is_not_rich_and_its_bytes_are_those_of_earlier_versions() -> None:
    event = make_event({"a": 1, "b": {"c": "x"}, "t": NOON}, source="s", id="1")
    assert not event.rich
    assert event.attributes == event.shared_attributes == event.body
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event)) == {
        "source": "s", "id": "1", "attributes": {"a": 1, "b": {"c": "x"}, "t": NOON},
    }  # fmt: skip


def test_a_name_leads_to_a_nested_mapping_a_list_and_none() -> None:
    event = make_event({"size": {"h": 1, "w.x": 2}, "tags": ["a"], "none": None}, source="s", id="1")
    assert event["size"] == {"h": 1, "w.x": 2}
    assert event["size.w.x"] == 2
    assert event["tags"] == ["a"]
    assert event["none"] is None
    assert event.get("tags") == ["a"]
    assert event.get("size.d", 5) == 5
    for name in ("size.d", "nothing", "data.id", "topic", "size.h.x"):
        with pytest.raises(KeyError):
            event[name]


def test_an_extension_of_a_younger_version_is_kept_and_no_filter_sees_its_value() -> None:
    event = make_event({"x": Ext(99, b"?"), "y": [Ext(1, b"7.5")]}, source="s", id="1")
    assert event["x"] == Ext(99, b"?")
    assert event["y"] == [Decimal("7.5")]
    assert event.view["x"] is OPAQUE
    with pytest.raises(Exception, match="code 1 that cannot be read"):
        make_event({"x": Ext(1, b"seven")}, source="s", id="1")


def test_a_rich_event_can_be_pickled_with_its_view() -> None:
    event = make_event({"x": Decimal("0.1"), "raw": b"x"}, source="s", id="1")
    again = pickle.loads(pickle.dumps((event, event.view)))
    assert again == (event, event.view)
    assert again[1]["raw"] is OPAQUE


# Classes


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


@dataclasses.dataclass
class Order:
    id: UUID
    type: Colour
    time: datetime
    lines: list[Line]
    day: date
    tags: set[str] = dataclasses.field(default_factory=set)
    address: IPv4Address | None = None
    stock: dict[int, Decimal] = dataclasses.field(default_factory=dict)


class StructLine(msgspec.Struct, rename="camel"):
    unit_price: Decimal


class StructOrder(msgspec.Struct, rename="camel"):
    order_id: UUID
    lines: list[StructLine]
    raw: bytes = b""


class ModelLine(BaseModel):
    price: Decimal


class ModelOrder(BaseModel):
    id: UUID
    lines: list[ModelLine]
    at: time
    colour: Colour


@attrs.define
class AttrsOrder:
    id: int
    tags: list[str]
    price: Decimal
    local: datetime


class Noted(TypedDict):
    id: str
    tags: list[str]
    size: dict[str, int]
    note: NotRequired[str]


@pytest.mark.parametrize(
    "order",
    [
        Order(KEY, Colour.RED, datetime(2026, 1, 1),
              [Line("a", Decimal("1.10")), Line("b", Decimal(2))], date(2026, 2, 1),
              {"x", "y"}, IPv4Address("10.0.0.1"), {7: Decimal("0.5")}),
        StructOrder(KEY, [StructLine(Decimal("1.10"))], b"\xff"),
        ModelOrder(id=KEY, lines=[ModelLine(price=Decimal("1.10"))], at=time(8, 30), colour=Colour.RED),
        AttrsOrder(1, ["a"], Decimal("1.10"), datetime(2026, 1, 1)),
    ],
)  # fmt: skip
def test_an_object_arrives_as_the_same_object(order: Any) -> None:
    lineage, attributes = event_fields(order)
    event = travelled(make_event(attributes, source="s", id="1", type=lineage))
    assert build_instance(type(order), event) == order
    assert event.type == (type(order).__name__,)


def test_a_mapping_is_read_as_a_typed_dictionary_by_its_required_keys() -> None:
    noted: Noted = {"id": "n", "tags": ["a"], "size": {"h": 1}}
    event = travelled(make_event(noted, source="s", id="1"))
    assert build_instance(Noted, event) == noted
    assert required_values(Noted) == ["data.id", "tags"]


def test_objects_inside_a_mapping_travel_by_their_fields() -> None:
    event = make_event({"lines": [Line("a", Decimal(1))], "first": Line("b", Decimal(2))}, source="s", id="1")
    assert event["lines"] == [{"sku": "a", "price": Decimal(1)}]
    assert event["first.price"] == Decimal(2)


def test_a_time_of_day_in_a_named_zone_is_refused() -> None:
    """Its offset depends on the day: it would arrive without the zone."""
    with pytest.raises(EventError, match="Europe/Berlin"):
        make_event({"at": [time(8, 30, tzinfo=ZoneInfo("Europe/Berlin"))]}, source="s", id="1")
    kept = time(8, 30, tzinfo=timezone(timedelta(hours=2)))
    assert make_event({"at": kept}, source="s", id="1").attributes["at"] == kept


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (numpy.longdouble(1), " a longdouble"),
        (numpy.complex64(1), " a complex64"),
        (numpy.array([numpy.longdouble(1)]), " a longdouble"),
        (numpy.timedelta64(1, "M"), "months, which have no length"),
        (numpy.array([1, 2], dtype="m8[Y]"), "years, which have no length"),
        (numpy.datetime64("30000-01-01"), "beyond the moments and durations of Python"),
        (numpy.timedelta64(2**40, "D"), "beyond the moments and durations of Python"),
    ],
)
def test_a_value_of_numpy_that_no_body_holds_is_refused_by_name(given: Any, problem: str) -> None:
    with pytest.raises(EventError, match=f"attribute 'x' is.*{problem}"):
        make_event({"x": given}, source="s", id="1")
