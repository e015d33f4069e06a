"""Classes as events: an instance comes back whatever its aliases are, and what fits the schema of a class can
be read as it, for fields of every kind and values at the edges."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import EventError, SchemaError
from tidings.model.event import make_event
from tidings.model.schemas import SchemaRegistry
from tidings.model.serialisers import JSON, decode, encode
from tidings.model.typed import build_instance, event_fields


class Letter(Enum):
    A = "a"
    B = "b"


class Number(IntEnum):
    ONE = 1
    FIVE = 5


class Right(Flag):
    READ = 1
    WRITE = 4


KEY = UUID(int=7)
ODD_OFFSET = timezone(timedelta(hours=5, minutes=45, seconds=13))
TEXTS = (
    "", "a", "5", "-7", "1.5", "NaN", "Infinity", "nan", "inf", "+5", " 5", "1_0", "٣", "0", "true", "a\0",
    str(KEY), f"urn:uuid:{KEY}", f"{{{KEY}}}", KEY.hex, str(KEY).upper(), "P1D", "p1d", "PT5S", "pt5s", "P1W",
    "P1Y", "-P1D", "P-1D", "PT", "P1DT", "PT1.5H", "PT1.5S", "5 days", "YQ==", "YQ", "Y Q==", "Y-_=", "12:00",
    "08:30:00", "08:30:00Z", "08:30:00.1234567", "24:00:00", "08:30:00+01:00", "08:30:00+05:45:13",
    "2026-03-01", "20260301", "2026-W01-1", "2026-02-30", "2026-03-01T08:30:00", "2026-03-01T08:30:00Z",
    "2026-03-01 08:30:00Z", "2026-03-01T08:30", "2026-03-01T08:30:00,5Z", "2026-03-01t08:30:00z",
    "2026-03-01T24:00:00Z", "2026-03-01T08:30:60Z", "0001-01-01T00:00:00+14:00",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *TEXTS, None, True, False, 0, 1, 5, -7, 1.5, 5.0, math.nan, math.inf, 2**53 + 1, 2**63, 2**70, 1e300,
    Decimal("1.5"), Decimal("5"), Decimal("NaN"), Decimal("Infinity"), Decimal("1E+400"), KEY, b"a",
    b"\xff", b"", date(2026, 3, 1), datetime(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC),
    datetime(2026, 3, 1, 8, 30, 1, 5),
    time(8, 30), time(8, 30, tzinfo=UTC), time(8, 30, tzinfo=ODD_OFFSET), timedelta(1), timedelta(-1, 5),
    timedelta(microseconds=1), [], [1], ["a"], [KEY], {}, {"a": 1}, {"5": 1}, {str(KEY): 1},
)  # fmt: skip
SIMPLE: tuple[Any, ...] = (
    str, int, float, bool, bytes, Decimal, UUID, date, datetime, time, timedelta, Letter, Number, Right,
    Literal["a", "b"], Literal[5],
)  # fmt: skip
HINTS = (
    *SIMPLE, *(hint | None for hint in SIMPLE[:11]), *(list[hint] for hint in SIMPLE), int | float,
    dict[str, int], dict[int, int], dict[UUID, int], tuple[int, ...], set[str], Any,
)  # fmt: skip


def a_dataclass(hint: Any) -> Any:
    return dataclasses.make_dataclass("Made", [("x", hint)])


def a_struct(hint: Any) -> Any:
    return msgspec.defstruct("Made", [("x", hint)])


def a_model(hint: Any) -> Any:
    return pydantic.create_model("Made", x=(hint, ...))


def a_strict_model(hint: Any) -> Any:
    return pydantic.create_model("Made", __config__={"strict": True}, x=(hint, ...))


KINDS: tuple[Callable[[Any], Any], ...] = (a_dataclass, a_struct, a_model, a_strict_model)


def is_no_error(act: Callable[[], Any]) -> bool:
    try:
        act()
    except (SchemaError, EventError):
        return False
    return True


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_a_value_that_fits_can_be_read_as_the_class(make: Callable[[Any], Any], hint: Any) -> None:
    cls, registry = make(hint), SchemaRegistry()
    registry.attach(cls)
    fitting = 0
    for value in [*VALUES, *([value] for value in VALUES)]:
        event = make_event({"x": value}, source="s", id="1", type="Made")
        if is_no_error(lambda event=event: registry.check(event)):
            fitting += 1
            assert is_no_error(lambda event=event: build_instance(cls, event)), value
    assert fitting > 0


OF_HINT: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=3), int: st.integers(), float: st.floats(allow_nan=False), bool: st.booleans(),
    bytes: st.binary(max_size=3), Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    UUID: st.uuids(), date: st.dates(), datetime: st.datetimes(timezones=st.just(UTC)),
    time: st.times(timezones=st.sampled_from([None, UTC, ODD_OFFSET])),
    timedelta: st.timedeltas(timedelta(-9999), timedelta(9999)), Letter: st.sampled_from(Letter),
    Number: st.sampled_from(Number), Right: st.sampled_from([Right.READ, Right.READ | Right.WRITE]),
    list[int]: st.lists(st.integers(), max_size=2), tuple[str, ...]: st.tuples(st.text(max_size=2)),
    dict[int, date]: st.dictionaries(st.integers(), st.dates(), max_size=2),
    dict[UUID, Decimal | None]: st.dictionaries(st.uuids(), st.none(), max_size=2),
}  # fmt: skip
NAMES = ("id", "type", "a", "b", "c")


@st.composite
def models(draw: st.DrawFn) -> Any:
    """An instance of a model, lenient or strict, whose aliases may be names of other fields."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    others = draw(st.permutations([*names, "x", "y"]))
    hints = {name: draw(st.sampled_from(list(OF_HINT))) for name in names}
    fields = {
        name: (hints[name], pydantic.Field(alias=draw(st.sampled_from([None, other]))))
        for name, other in zip(names, others, strict=False)
    }
    aliases = [field.alias or name for name, (_, field) in fields.items()]
    if len(set(aliases)) < len(aliases):  # two fields of one alias cannot be told apart by Pydantic
        fields = {name: (hint, pydantic.Field()) for name, (hint, _) in fields.items()}
    config = pydantic.ConfigDict(strict=draw(st.booleans()), val_json_bytes="base64")
    inner = pydantic.create_model("Inner", __config__=config, **fields)
    values = {name: draw(OF_HINT[hint]) for name, hint in hints.items()}
    made = inner.model_validate(values, by_name=True, by_alias=False)
    if draw(st.booleans()):
        return made
    return pydantic.create_model("Outer", inner=(inner, ...), all=(list[inner], ...))(inner=made, all=[made])


@settings(max_examples=400, deadline=None)
@given(models())
def test_a_model_comes_back_whatever_its_aliases_are(instance: Any) -> None:
    cls = type(instance)
    lineage, fields = event_fields(instance)
    event = make_event(fields, source="s", id="1", type=lineage)
    assert build_instance(cls, event) == instance
    registry = SchemaRegistry()
    registry.attach(cls)
    registry.check(event)
    plain = decode(encode(fields, JSON), JSON)
    assert build_instance(cls, make_event(plain, source="s", id="1", type=lineage)) == instance
