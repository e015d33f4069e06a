"""Every kind of value that a body may have, and the classes that may hold them, for the tests of all paths.

A case is a body, the body as a subscriber receives it, and the body as JSON has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
from pydantic import BaseModel, ConfigDict


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Case(NamedTuple):
    body: Any
    arrives: Any
    as_json: Any


def _case(value: Any, as_json: Any = ..., arrives: Any = ...) -> Case:
    kept = value if arrives is ... else arrives
    return Case({"x": value}, {"x": kept}, {"x": kept if as_json is ... else as_json})


def _own(name: str, value: Any, as_json: Any = ...) -> Case:
    """A field of the body that is also a name of the envelope."""
    return Case({name: value}, {name: value}, {name: value if as_json is ... else as_json})


_KEY, _MOMENT, _LOCAL = UUID(int=7), datetime(2026, 3, 1, 8, 30, tzinfo=UTC), datetime(2026, 3, 1, 8, 30)
_DEEP: Any = {"n": 0}
for _ in range(30):
    _DEEP = {"in": [_DEEP]}

KINDS: dict[str, Case] = {
    "id": _own("id", 7),
    "type": _own("type", "sale"),
    "time": _own("time", _LOCAL, "2026-03-01T08:30:00"),
    "source": _own("source", ["till", 4]),
    "topic": _own("topic", {"a": 1}),
    "bool": _case(True),
    "int": _case(-5),
    "wide int": _case(2**70),
    "float": _case(0.1),
    "text": _case("é∅"),
    "None": _case(None),
    "list": _case(["red", None, 3]),
    "empty list": _case([]),
    "list of lists": _case([[1], [2, 3]]),
    "list of objects": _case([{"price": Decimal("1.10")}, {"s": None}], [{"price": "1.10"}, {"s": None}]),
    "deep nesting": _case(_DEEP),
    "date": _case(date(2026, 3, 1), "2026-03-01"),
    "datetime, UTC": _case(_MOMENT, "2026-03-01T08:30:00Z"),
    "datetime, other zone": _case(
        datetime(2026, 3, 1, 10, 30, tzinfo=timezone(timedelta(hours=2))), "2026-03-01T08:30:00Z", _MOMENT
    ),
    "datetime, no zone": _case(_LOCAL, "2026-03-01T08:30:00"),
    "time of day": _case(time(8, 30, 0, 5), "08:30:00.000005"),
    "Decimal": _case(Decimal("12.10"), "12.10"),
    "UUID": _case(_KEY, str(_KEY)),
    "Enum, text": _case(Colour.RED, "red", "red"),
    "Enum, number": _case(Level.HIGH, 3, 3),
    "bytes": _case(b"\x00\xff", "AP8="),
    "timedelta": _case(timedelta(seconds=90), "PT90S"),
    "infinity": _case(math.inf, "Infinity"),
    "NaN": _case(math.nan, "NaN"),
    "empty name": Case(*[{"": 1, "o": {"": [2]}}] * 3),
    "dotted name": Case(*[{"service.name": "a", "o": {"x.y": [1]}}] * 3),
}  # fmt: skip


# -- classes ---------------------------------------------------------------------------------------


@dataclass
class Line:
    sku: str | None
    price: Decimal


@dataclass
class DataOrder:
    id: UUID
    type: Colour
    time: datetime
    source: list[str]
    topic: dict[str, int]
    day: date
    local: datetime
    clock: time
    price: Decimal
    level: Level
    raw: bytes
    lines: list[Line]
    note: str | None = None


class StructLine(msgspec.Struct):
    sku: str | None
    price: Decimal


class StructOrder(msgspec.Struct):
    id: UUID
    type: Colour
    time: datetime
    source: list[str]
    topic: dict[str, int]
    day: date
    local: datetime
    clock: time
    price: Decimal
    level: Level
    raw: bytes
    lines: list[StructLine]
    note: str | None = None


class ModelLine(BaseModel):
    sku: str | None
    price: Decimal


class ModelOrder(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")

    id: UUID
    type: Colour
    source: list[str]
    topic: dict[str, int]
    day: date
    local: datetime
    clock: time
    price: Decimal
    level: Level
    lines: list[ModelLine]
    raw: bytes = b""
    note: str | None = None


@attrs.define
class AttrsLine:
    sku: str | None
    price: Decimal


@attrs.define
class AttrsOrder:
    id: UUID
    type: Colour
    time: datetime
    source: list[str]
    topic: dict[str, int]
    day: date
    local: datetime
    clock: time
    price: Decimal
    level: Level
    raw: bytes
    lines: list[AttrsLine]
    note: str | None = None


class NotedLine(TypedDict):
    sku: str | None
    price: Decimal


class TypedOrder(TypedDict):
    id: UUID
    type: Colour
    time: datetime
    source: list[str]
    topic: dict[str, int]
    day: date
    local: datetime
    clock: time
    price: Decimal
    level: Level
    raw: bytes
    lines: list[NotedLine]
    note: str | None


_FIELDS: dict[str, Any] = {
    "id": _KEY, "type": Colour.RED, "time": _MOMENT, "source": ["till"], "topic": {"a": 1},
    "day": date(2026, 3, 1), "local": _LOCAL, "clock": time(8, 30), "price": Decimal("12.10"),
    "level": Level.HIGH, "raw": b"\x00\xff", "note": None,
}  # fmt: skip
_LINES = ((None, Decimal("0.5")), ("a", Decimal("1.10")))
CLASSES: dict[str, tuple[Any, Any]] = {
    "dataclass": (DataOrder, DataOrder(**_FIELDS, lines=[Line(*line) for line in _LINES])),
    "Struct": (StructOrder, StructOrder(**_FIELDS, lines=[StructLine(*line) for line in _LINES])),
    "attrs": (AttrsOrder, AttrsOrder(**_FIELDS, lines=[AttrsLine(*line) for line in _LINES])),
    "Pydantic": (
        ModelOrder,
        ModelOrder(
            **{name: value for name, value in _FIELDS.items() if name not in ("time", "raw")},
            raw=b"\x00\xff",
            lines=[ModelLine(sku=sku, price=price) for sku, price in _LINES],
        ),
    ),
    "TypedDict": (TypedOrder, {**_FIELDS, "lines": [NotedLine(sku=sku, price=p) for sku, p in _LINES]}),
}  # fmt: skip
