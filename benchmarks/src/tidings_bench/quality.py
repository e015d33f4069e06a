"""A quality factory on Spark: objects evaluated a second, and what it costs when a part of them changed.

A table of people with reference data, a domain, two rules and a functional dependency, nine qualities each.
- `first`: every object is new.
- `again`: a whole table in which one object in a hundred is otherwise; figures count all its objects.
- `changed`: one object in a hundred comes as a stream's step would bring it; figures count those.
- `all`: every object comes and differs: a million objects re-evaluated.
The engine `plain` is the same in plain Python, on one core, for sizes that it can hold; the answers of
the two are compared. From Parquet to Parquet; starting Spark is not counted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidings_quality.spark.settings import (
    ColumnDomain,
    Dependency,
    FactoryPlan,
    MeasuredProperty,
    QualityRule,
    Reference,
)

SIZES = (10_000, 100_000, 1_000_000)
PLAIN_UP_TO = 10_000
CHANGED = 100  # one object in so many
NOW_MICROS = 1_767_225_600_000_000  # the first moment of 2026
TOWNS = ("Roma", "Milano", "Torino", "Napoli", "Bologna", "Firenze", "Bari", "Palermo")
Row = dict[str, Any]


def plan_for(folder: Path) -> FactoryPlan:
    return FactoryPlan(
        organisation="bench", data_class="Enterprise/Holder", key="id", updated="updated",
        state=str(folder / "state"),
        properties={
            "Name": MeasuredProperty(column="name", volatility="20 years",
                             reference=Reference(table=str(folder / "right"), key="id", column="name")),
            "Town": MeasuredProperty(column="town", domain=ColumnDomain(values=TOWNS), volatility="10 years"),
            "Code": MeasuredProperty(column="code", parts=("code", "postcode")),
        },
        rules={
            "code": QualityRule(of=("Code",), check="code RLIKE '^[A-Z]{2}[0-9]+$'"),
            "apart": QualityRule(of=("Name",), check="name <> code"),
        },
        dependencies={"postcode": Dependency(of=("Town",), determining=("block",), determined=("postcode",))},
    )  # fmt: skip


def people(spark: Any, count: int, seed: int) -> Any:
    """Rows from a seed: the fields hang on the number alone, one in ten is dirty."""
    towns = ", ".join(f"'{town}'" for town in TOWNS)
    dirty = f"pmod(xxhash64(id, {seed}), 10) = 0"
    return spark.range(count).selectExpr(
        "CAST(id AS string) AS id",
        f"CASE WHEN {dirty} THEN concat('Nmae ', hex(id * 7)) ELSE concat('Name ', hex(id * 7)) END AS name",
        f"concat(element_at(array({towns}), CAST(pmod(id, {len(TOWNS)}) AS int) + 1), "
        f"CASE WHEN {dirty} THEN 'x' ELSE '' END) AS town",
        f"CASE WHEN pmod(xxhash64(id, {seed}, 'c'), 20) = 0 THEN NULL ELSE concat('IT', id) END AS code",
        "id DIV 5 AS block",
        "CAST(id DIV 20 AS string) AS postcode",
        f"timestamp_micros({NOW_MICROS} - pmod(xxhash64(id, {seed}, 'age'), 300000000) * 1000000) AS updated",
    )


def run(*, quick: bool = False, seed: int = 1) -> Iterator[Row]:
    """Rows of figures; `quick` takes a minute or so, most of it for Spark's start."""
    from tidings.pipeline.session import session

    spark = session()
    for size in SIZES[:1] if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            yield from _one_size(spark, Path(folder), size, seed)


def _one_size(spark: Any, folder: Path, size: int, seed: int) -> Iterator[Row]:
    from tidings_quality.spark.factory import Factory

    plan = plan_for(folder)
    people(spark, size, seed).write.parquet(str(folder / "table"))
    people(spark, size, seed).selectExpr(
        "id", "concat('Name ', hex(CAST(id AS bigint) * 7)) AS name"
    ).write.parquet(str(folder / "right"))
    table = spark.read.parquet(str(folder / "table"))
    later = "updated + INTERVAL 1 SECOND AS updated"
    one_in = f"pmod(CAST(id AS bigint), {CHANGED}) = 0"
    other = f"CASE WHEN {one_in} THEN concat(name, '!') ELSE name END AS name"
    rest = ["id", "town", "code", "block", "postcode"]
    table.selectExpr(*rest, "updated", other).write.parquet(str(folder / "again"))
    table.where(one_in).selectExpr(*rest, later, "concat(name, '?') AS name").write.parquet(
        str(folder / "changed")
    )
    table.selectExpr(*rest, later, "concat(name, '-') AS name").write.parquet(str(folder / "all"))
    factory = Factory(spark, plan, now=lambda: NOW_MICROS)

    def read(name: str) -> Any:
        return spark.read.parquet(str(folder / name))

    yield _row("first", size, "spark", size / _seconds(lambda: factory.snapshot(read("table"))))
    if size <= PLAIN_UP_TO:
        yield _row("first", size, "plain", size / _plain(factory, read("table"), folder))
    yield _row("again", size, "spark", size / _seconds(lambda: factory.snapshot(read("again"))))
    for work, count in (("changed", size // CHANGED), ("all", size)):
        yield _row(work, size, "spark", count / _seconds(lambda: factory.take(read(work))))  # noqa: B023


def _seconds(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _plain(factory: Any, table: Any, folder: Path) -> float:
    """Seconds of the plain measures on the same rows; their answer must be the same."""
    from tidings_quality.spark.plain import evaluate_plain

    rows = table.toArrow().to_pylist()
    right = {
        row["id"]: row["name"]
        for row in factory.spark.read.parquet(str(folder / "right")).toArrow().to_pylist()
    }
    checks: dict[str, Any] = {
        "code": lambda row: (
            None if row["code"] is None else row["code"][:2].isupper() and row["code"][2:].isdigit()
        ),
        "apart": lambda row: None if row["code"] is None else row["name"] != row["code"],
    }
    began = time.perf_counter()
    found = evaluate_plain(factory.plan, rows, NOW_MICROS, checks=checks, references={"Name": right})
    seconds = time.perf_counter() - began
    stored = {row["_object"]: row["_quality"] for row in factory.state.current().collect()}
    assert stored == found, "the engines disagree"
    return seconds


def _row(work: str, size: int, engine: str, figure: float) -> Row:
    return {
        "work": work, "size": size, "engine": engine, "figure": round(figure), "unit": "objects/s",
        "ratio_to_best_peer": None,
    }  # fmt: skip
