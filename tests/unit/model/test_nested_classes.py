"""Classes of one kind inside classes of another, roots of Pydantic, generic classes, foreign TypedDicts."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec
import pydantic
import pytest
import typing_extensions

from tidings.errors import FilterError
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import Event, make_event
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


@dataclasses.dataclass
class Reading:
    at: datetime
    count: int


class Price(pydantic.BaseModel):
    amount: Decimal
    days: dict[date, int] = {}


class Prices(pydantic.RootModel[list[Price]]):
    pass


class Members(pydantic.RootModel[dict[str, int]]):
    pass


class Counted(pydantic.RootModel[Reading]):
    pass


@dataclasses.dataclass
class WithModels:
    price: Price
    all: Prices
    more: list[Price | None]


class StructWithModels(msgspec.Struct):
    price: Price
    named: dict[str, Members]


class ModelWithRoots(pydantic.BaseModel):
    all: list[Prices]
    named: Members
    one: Counted


PRICE = Price(amount=Decimal("1.10"), days={date(2026, 1, 1): 2})


@pytest.mark.parametrize(
    "instance",
    [
        WithModels(PRICE, Prices([PRICE]), [PRICE, None]),
        StructWithModels(PRICE, {"a": Members({"root": 1})}),
        ModelWithRoots(all=[Prices([PRICE])], named=Members({"a": 1}), one=Counted(Reading(MOMENT, 1))),
        Prices([PRICE]),
        Members({"root": 5, "a": 1}),
    ],
)
def test_models_come_back_inside_other_classes_and_as_roots(instance: Any) -> None:
    filter_from((type(instance),))
    assert there_and_back(instance) == instance


def test_a_filter_sees_the_value_of_a_root_model() -> None:
    event = typed_event(ModelWithRoots(all=[], named=Members({"a": 1}), one=Counted(Reading(MOMENT, 7))))
    assert accepts(parse_filter("named.a = 1 AND one.count = 7 AND NOT EXISTS named.root"), event)


Item = TypeVar("Item")


@dataclasses.dataclass
class Page(Generic[Item]):
    items: list[Item]


class Readings(Page[Reading]):
    pass


def test_a_generic_class_with_parameters_is_refused_with_what_to_do() -> None:
    with pytest.raises(FilterError, match="has parameters") as caught:
        filter_from((Page[Reading],))
    assert "subclass" in str(caught.value.hint)
    page = Readings([Reading(MOMENT, 1)])
    assert there_and_back(page) == page


class ExtendedTyped(typing_extensions.TypedDict):
    sku: str
    sizes: typing_extensions.NotRequired[list[Price]]


def test_a_typed_dict_of_typing_extensions_is_one() -> None:
    filter, read = filter_from((ExtendedTyped,))
    event = an_event({"sku": "a", "sizes": [PRICE]})
    assert accepts(filter, event)
    assert not accepts(filter, an_event({"sizes": []}))
    assert read is not None
    assert read(event) == {"sku": "a", "sizes": [PRICE]}
