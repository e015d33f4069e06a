"""Filters beside a class: names that it does not have, and lists without ANY."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

import tidings
from tidings.language import parse_filter
from tidings.runtime.class_doubts import class_doubts


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
