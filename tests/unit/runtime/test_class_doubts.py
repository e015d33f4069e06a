"""Filters beside a class: names that it does not have, lists without ANY, and values that no field holds."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NewType
from uuid import UUID

import pytest
from pydantic import BaseModel

import tidings
from tidings.language import parse_filter
from tidings.runtime.class_doubts import class_doubts
from tidings.runtime.coercion import filter_from


@dataclass
class Line:
    sku: str
    price: float
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    number: int
    customer: str
    lines: list[Line]
    first: Line | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @tidings.derived
    def total(self) -> float:
        return sum(line.price for line in self.lines)


@dataclass
class LargeOrder(Order):
    discount: float = 0.0


DOUBTFUL = [
    ("custmer = 'a'", "Order has no field custmer (did you mean customer?)"),
    ("first.prise > 1", "Order has no field first.prise"),
    ("ANY(lines.prise > 1)", "Order has no field lines.prise"),
    ("number.x = 1", "Order has no field number.x"),
    (
        "lines.price > 100",
        "lines of Order is a list: no condition on it is true (write ANY(lines.price ...))",
    ),
    ("lines = 'a'", "write value IN lines"),
    ("lines.price > number", "write ANY(lines.price ...)"),
]
PLAIN = [
    "customer = 'a' AND number > 3", "ANY(lines.price > 100)", "'red' IN lines.tags", "first.price > 1",
    "more.anything = 1", "total > 5", "discount > 0.1", "id = 'x' AND time IS NOT NULL", "LENGTH(lines) > 2",
    "EXISTS lines", "data.id IS NULL OR number = 1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "warning"), DOUBTFUL)
def test_a_name_that_the_class_does_not_have_is_doubtful(text: str, warning: str) -> None:
    (doubt,) = class_doubts(parse_filter(text), Order)
    assert warning in str(doubt)


@pytest.mark.parametrize("text", PLAIN)
def test_names_of_the_class_are_not(text: str) -> None:
    doubts = [doubt for doubt in class_doubts(parse_filter(text), Order) if "data" not in text]
    assert doubts == []


def test_a_subscription_warns_and_is_open(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tidings.filters"), tidings.open() as bus:
        bus.subscribe(Order, "custmer = 'a'", strict=True).close()
        bus.subscribe(Order, "customer = bob").close()
        bus.subscribe(Order, "customer = 'bob'").close()
        with pytest.raises(tidings.ImpossibleFilterError):
            bus.subscribe("a = 1 AND a = 2")
    assert [record.getMessage().partition(": ")[2].partition(" (")[0] for record in caplog.records] == [
        "Order has no field custmer", "bob is read as the name of an attribute"
    ]  # fmt: skip


class Status(Enum):
    NEW = "new"
    ON_HOLD = "waiting"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


Money = NewType("Money", Decimal)


@dataclass
class Parcel:
    id: UUID
    status: Status
    total: Money
    placed: datetime
    day: date | None
    is_paid: bool
    sku: str
    size: Size
    way: Literal["road", "air"]
    mixed: int | str
    waits: timedelta
    lines: list[Line]
    history: list[Status]

    @tidings.derived
    def gross(self) -> Decimal:
        return self.total


NEVER = [
    ("status = 'NEW'", "status of Parcel is never 'NEW' (did you mean 'new'?)"),
    ("status = 'on_hold'", "never 'on_hold' (did you mean 'waiting'?)"),
    ("status IN ('new', 'lost')", "never 'lost' (its values: 'new', 'waiting')"),
    ("status != 'neww'", "never 'neww' (did you mean 'new'?)"),
    ("'NEW' IN history", "history of Parcel is never 'NEW'"),
    ("status = 5", "status is a string and is compared with a number: never true (a text stands in quotes)"),
    ("size = 3", "size of Parcel is never 3 (its values: 1, 2)"),
    ("way = 'rode'", "way of Parcel is never 'rode' (did you mean 'road'?)"),
    ("total > '100'", "total is a number and is compared with a string: never true (write 100 without"),
    ("gross > '9.5'", "gross is a number and is compared with a string: never true (write 9.5 without"),
    ("placed > '2026-11-19'", "write TIMESTAMP '2026-11-19T00:00:00Z'"),
    ("day = '2026-11-19'", "write TIMESTAMP '2026-11-19T00:00:00Z'"),
    ("is_paid = 1", "is_paid is a truth value and is compared with a number: never true (write TRUE"),
    ("is_paid = 'true'", "write TRUE or FALSE, without quotes"),
    ("sku > 5", "sku is a string and is compared with a number"),
    ("ANY(lines.price > '100')", "lines.price is a number and is compared with a string"),
    ("placed > total", "placed is a timestamp and is compared with a number"),
    ("data.id = 5", "data.id is a string and is compared with a number"),
    ("id = 'x'", "id is the event's own id, not the field id of Parcel (for the field write data.id)"),
    ("id = 5", "id is the event's own id, not the field id of Parcel"),
]
HELD = [
    "status = 'new'", "status LIKE 'n%'", "status > 'm'", "'waiting' IN history", "size = 2", "size > 7",
    "way = 'air'", "total > 100 AND total < DECIMAL('100.5')", "gross > 1",
    "placed > TIMESTAMP '2026-11-19T00:00:00Z' AND day IS NULL", "is_paid = TRUE", "NOT is_paid", "is_paid",
    "sku = '5'", "mixed = 5 OR mixed = 'a'", "data.id = '7'", "waits IS NOT NULL",
    "ANY(lines.price > 100) AND 'a' IN lines.tags",
]  # fmt: skip


def warned(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    filter_from((Parcel, text))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("text", "warning"), NEVER)
def test_a_value_that_no_object_of_the_class_holds_is_doubtful(
    text: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = warned(text, caplog)
    assert warning in line


@pytest.mark.parametrize("text", HELD)
def test_values_of_the_class_are_not(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert warned(text, caplog) == []


class Bound(Enum):
    NONE = float("inf")
    SOME = 1.5


class Offer(BaseModel):
    bound: Bound
    past: Literal["a", None]


def test_choices_that_no_filter_can_write_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    filter_from((Offer, "bound = 5 AND past = 'a'"))
    assert caplog.records == []
    filter_from((Offer, "past = 'b'"))
    assert "past of Offer is never 'b'" in caplog.text


def test_a_topic_beside_a_field_of_that_name_is_the_option(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass
    class Note:
        topic: str

    filter_from((Note,), topic_pattern="notes")
    filter_from((Note, "data.topic = 'a'"), topic_pattern="notes/#")
    assert caplog.records == []
