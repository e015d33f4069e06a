"""Lists, decimals, dates and bytes of a broker's log in columns of their own types, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting import _schema
from tests.meeting._brokers import Brokers

from tidings.errors import EventError
from tidings.model.event import FOREVER, make_event
from tidings.pipeline.broker import options
from tidings.pipeline.broker.columns import event_of, inferred
from tidings.pipeline.broker.source import BrokerBatchReader

BODY: dict[str, Any] = {
    "price": Decimal("12.10"), "day": date(2026, 3, 1), "at": time(8, 30), "key": UUID(int=7),
    "local": datetime(2026, 3, 1, 8, 30), "moment": datetime(2026, 3, 1, tzinfo=UTC), "raw": b"\x00",
    "wide": 2**70, "tags": ["red", None], "deep": [[1], []], "empty": [],
    "lines": [{"sku": "a", "price": Decimal("0.125"), "id": 1}, {"sku": None, "price": Decimal(3)}],
    "nested": {"id": 1, "list": [1.5, 2]},
}  # fmt: skip


def made(body: dict[str, Any]) -> Any:
    return make_event(body, source="s", id="1")


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 1) as brokers:
        yield brokers


def read(brokers: Brokers, text: str) -> list[dict[str, Any]]:
    reader = BrokerBatchReader(options.reading({"brokers": brokers.all}), _schema.schema(text))
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_sample_gives_columns_of_the_same_types() -> None:
    assert inferred([made(BODY)]) == (
        "id string, source string, topic string, type array<string>, time timestamp, "
        "`price` decimal(38,2), `day` date, `at` string, `key` string, `local` timestamp_ntz, "
        "`moment` timestamp, `raw` binary, `wide` decimal(38,0), `tags` array<string>, "
        "`deep` array<array<bigint>>, `empty` array<string>, "
        "`lines` array<struct<`sku`: string, `price`: decimal(38,3), `id`: bigint>>, "
        "`nested` struct<`id`: bigint, `list`: array<double>>, "
        "_rest string, _log string, _offset bigint"
    )
    assert "`x` decimal(38,1)" in inferred([made({"x": 1}), made({"x": Decimal("0.5")})])
    assert "`x` array<struct<`a`: bigint>>" in inferred([made({"x": [{"a": 1, "n": None}]}), made({"x": 3})])
    assert "`x`" not in inferred([made({"x": Decimal("NaN")}), made({"x": {"n": None}})])


def test_a_log_is_read_into_them_and_written_back_the_same(one: Brokers) -> None:
    one.bus(0, "ann").publish(BODY, lifetime=60)
    (row,) = read(one, inferred([made(BODY)]))
    assert row["_rest"] is None
    assert row["price"] == Decimal("12.10")
    assert (row["day"], row["local"], row["raw"]) == (BODY["day"], BODY["local"], BODY["raw"])
    assert (row["at"], row["key"]) == ("08:30:00", str(UUID(int=7)))
    assert row["lines"] == [
        {"sku": "a", "price": Decimal("0.125"), "id": 1},
        {"sku": None, "price": Decimal("3.000"), "id": None},
    ]  # fmt: skip
    again = event_of(row, source="s", id="1", topic=None, lifetime=0.0)
    assert again.view == made(BODY).view | {"source": again.source, "id": again.id}


FITTING = [
    ("decimal(4,2)", Decimal("1.5000"), Decimal("1.50")), ("decimal(4,2)", 12, Decimal("12.00")),
    ("decimal(4,2)", Decimal("0.125"), None), ("decimal(4,2)", Decimal(100), None),
    ("decimal(4,2)", 1.5, None), ("decimal(38,0)", 2**70, Decimal(2**70)),
    ("date", datetime(2026, 1, 1, tzinfo=UTC), None), ("timestamp", datetime(2026, 1, 1), None),
    ("timestamp_ntz", datetime(2026, 1, 1, tzinfo=UTC), None), ("string", 5, None), ("string", b"a", None),
    ("array<bigint>", [1, True], None), ("array<bigint>", [1, None], [1, None]), ("array<bigint>", 1, None),
    ("array<string>", [UUID(int=1)], [str(UUID(int=1))]), ("struct<a: bigint>", {"a": 1, "b": 2}, None),
    ("struct<a: bigint>", {"a": 1, "b": None}, {"a": 1}), ("array<struct<a: bigint>>", [{"b": 1}], None),
]  # fmt: skip


def test_a_value_fits_its_column_or_goes_to_the_rest(one: Brokers) -> None:
    one.bus(0, "ann").publish({f"x{n}": value for n, (_, value, _) in enumerate(FITTING)}, lifetime=60)
    columns = ", ".join(f"x{n} {declared}" for n, (declared, _, _) in enumerate(FITTING))
    (row,) = read(one, f"{columns}, _rest string")
    assert [row[f"x{n}"] for n in range(len(FITTING))] == [fits for _, _, fits in FITTING]
    assert set(json.loads(row["_rest"])) == {
        f"x{n}" for n, (_, _, fits) in enumerate(FITTING) if fits is None
    }


@pytest.mark.parametrize(
    ("given", "lifetime"), [(None, 5.0), (60, 60.0), ("60", 60.0), (FOREVER, FOREVER), ("inf", FOREVER)]
)
def test_the_lifetime_of_a_row_is_seconds_or_their_text(given: Any, lifetime: float) -> None:
    options = {"source": "s", "id": "1", "topic": None, "lifetime": 5.0}
    assert event_of({"n": 1, "_lifetime": given}, **options).lifetime == lifetime
    with pytest.raises(EventError, match="lifetime is 'soon'"):
        event_of({"n": 1, "_lifetime": "soon"}, **options)
