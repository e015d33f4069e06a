"""Events: what they hold, what filters see of them, what is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tidings.errors import EventError
from tidings.model.event import FOREVER, LINEAGE, Event, make_event

EAST = timezone(timedelta(hours=2))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_identity_is_source_and_id() -> None:
    assert make_event(source="s", id="1").identity == ("s", "1")


def test_the_view_is_flat_and_holds_no_nulls() -> None:
    event = make_event(
        {
            "a": 1,
            "n": {"x": {"y": True}, "none": None},
            "none": None,
            "nan": math.nan,
            "d.e": "f",
            "inf": math.inf,
        },
        source="s",
        id="1",
        topic="t/u",
        type=("Cat", "Animal"),
        time=NOON,
    )
    assert event.view == {
        "a": 1, "n.x.y": True, "d.e": "f", "inf": math.inf,
        "id": "1", "source": "s", "topic": "t/u", "type": "Cat", LINEAGE: ("Cat", "Animal"), "time": NOON,
    }  # fmt: skip
    assert event.view is event.view
    assert (event.get("n.x.y"), event.get("none"), event["a"]) == (True, None, 1)
    assert event["none"] is None
    with pytest.raises(KeyError):
        event["nothing"]


def test_what_was_not_given_is_not_seen() -> None:
    assert make_event(source="s", id="1").view == {"id": "1", "source": "s"}


def test_an_event_is_a_copy_of_what_was_handed_over() -> None:
    mine: dict[str, Any] = {"n": {"x": 1}}
    event = make_event(mine, source="s", id="1")
    mine["n"]["x"] = 2
    assert event["n.x"] == 1
    with pytest.raises(AttributeError):
        event.id = "2"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["id", "source", "type", "time", "topic"])
def test_a_field_with_a_name_of_the_envelope_is_carried_beside_it(name: str) -> None:
    event = make_event({name: 1}, source="s", id="e")
    assert event.attributes == {name: 1}
    assert event["data." + name] == event.view["data." + name] == 1
    assert event.view.get(name) == {"id": "e", "source": "s"}.get(name)
    nested = make_event({f"{name}.x": 1, "data": {name: 2}}, source="s", id="e")
    assert nested[f"data.{name}.x"] == nested.view[f"data.{name}.x"] == 1
    assert nested[f"data.{name}"] == nested.view[f"data.{name}"] == 2


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({5.5: 1}, "name 5.5 is no text"), ({"a": {True: 1}}, "name True is no text"),
        ({"a": {"b": 1}, "a.b": 2}, "given twice"), ({"a": [1j]}, "'a' is a complex"),
        ({"a": {"b": object()}}, "'a.b' is a object"),
        ({"a": list(range(65_537))}, "65537 elements"), ({"a": Decimal("sNaN")}, "signalling"),
        ({"a": 10**5000}, "4096 digits"),
        ({str(n): n for n in range(1025)}, "1025 attributes"),
    ],
)  # fmt: skip
def test_attributes_that_cannot_be(attributes: Any, problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        make_event(attributes, source="s", id="1")


def test_nesting_has_a_limit() -> None:
    nested: dict[str, Any] = {"x": 1}
    for _ in range(63):
        nested = {"n": nested}
    assert make_event(nested, source="s", id="1").view
    with pytest.raises(EventError, match="nested 65 deep"):
        make_event({"n": nested}, source="s", id="1")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"source": ""}, "source and an id"), ({"id": ""}, "source and an id"),
        ({"time": datetime(2026, 1, 1)}, "no time zone"),
        ({"time": datetime(1, 1, 1, tzinfo=EAST)}, "outside the years"), ({"topic": "a/+"}, "holds"),
        ({"lifetime": -1}, "lifetime is -1"), ({"lifetime": math.nan}, "lifetime is nan"),
        ({"lifetime": "soon"}, "lifetime is 'soon'"), ({"expires": -0.5}, "expires is -0.5"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        make_event(**({"source": "s", "id": "1"} | options))


def test_lifetimes() -> None:
    assert make_event(source="s", id="1").lifetime == 0
    assert make_event(source="s", id="1", lifetime=5).lifetime == 5.0
    assert make_event(source="s", id="1", lifetime=FOREVER).lifetime == math.inf
    assert make_event(source="s", id="1", expires=3).expires == 3.0


def test_one_name_is_a_lineage_of_one() -> None:
    assert make_event(source="s", id="1", type="Cat").type == ("Cat",)
    assert make_event(source="s", id="1").type == ()


def test_an_event_survives_the_wire() -> None:
    event = make_event({"a": {"b": 1}}, source="s", id="1", topic="t", type="Cat", payload=b"x", lifetime=5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event


@pytest.mark.parametrize("given", [1_700_000_000.25, 17, "2026-01-31T00:00:00Z"])
def test_a_time_that_is_no_datetime_is_an_error_with_a_hint(given: Any) -> None:
    with pytest.raises(EventError, match=r"not a datetime \(give a datetime with a zone"):
        make_event({}, source="s", id="1", time=given)


def test_an_event_shows_the_values_of_its_body() -> None:
    rich = make_event({"price": Decimal("12.10"), "day": date(2026, 1, 2)}, source="s", id="1", topic="t")
    assert "Decimal('12.10')" in repr(rich)
    assert "datetime.date(2026, 1, 2)" in str(rich)
    assert repr(make_event({"n": 1}, source="s", id="1")).startswith(
        "Event(source='s', id='1', body={'n': 1}"
    )


def test_a_name_is_in_an_event_when_the_event_has_its_value() -> None:
    event = make_event({"price": 5, "seller": {"city": None}, "id": 3}, source="s", id="1", topic="a")
    present = ("price", "seller", "seller.city", "id", "source", "topic", "data.id")
    assert [name in event for name in present] == [True] * len(present)
    assert [name in event for name in ("symbol", "seller.name", "data.type", 0, None)] == [False] * 5
    with pytest.raises(TypeError, match="not iterable"):
        list(event)  # type: ignore[call-overload]
