"""A quality factory on Spark: the columns mean what the plain measures say, and only changes are told."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.parquet as pq  # noqa: E402

from tidings.errors import InputError  # noqa: E402
from tidings_quality.model import QUALITY_COLUMNS  # noqa: E402
from tidings_quality.spark.factory import Factory, FactoryStep, files_of, quality_rows  # noqa: E402
from tidings_quality.spark.plain import Quality, evaluate_plain  # noqa: E402
from tidings_quality.spark.settings import (  # noqa: E402
    ColumnDomain,
    Dependency,
    FactoryPlan,
    MeasuredProperty,
    QualityRule,
    Reference,
)

pytestmark = pytest.mark.spark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MICROS = int(NOW.timestamp()) * 10**6
SCHEMA = "id string, name string, city string, zip string, kind string, updated timestamp"
COLUMNS = ("id", "name", "city", "zip", "kind", "updated")
CITIES = ("Roma", "Milano", "Pagani", "Torino")
CHECKS = {
    "Name": lambda row: None if row["kind"] is None else row["kind"] == "none",
    "digits": lambda row: None if row["zip"] is None else row["zip"].isdigit(),
    "apart": lambda row: None if None in (row["name"], row["city"]) else row["name"] != row["city"],
}


def plan_of(folder: Path, **changes: Any) -> FactoryPlan:
    plan = FactoryPlan(
        organisation="INPS", data_class="Enterprise/Holder", key="id", updated="updated",
        table=str(folder / "table"), state=str(folder / "state"),
        properties={
            "Name": MeasuredProperty(column="name", inapplicable="kind = 'none'", missing=("", "n/a"),
                volatility="100 days",
                             reference=Reference(table=str(folder / "right"), key="id", column="name")),
            "City": MeasuredProperty(column="city", parts=("city", "zip"), domain=ColumnDomain(values=CITIES),
                volatility="10 days"),
        },
        rules={
            "digits": QualityRule(of=("City",), check="zip RLIKE '^[0-9]+$'"),
            "apart": QualityRule(of=("Name", "City"), check="name <> city"),
        },
        dependencies={
            "zip-city": Dependency(of=("City",), determining=("zip",), determined=("city",)),
            "kind": Dependency(of=("Name",), determining=("kind", "zip"), determined=("name",)),
        },
    )  # fmt: skip
    return msgspec.structs.replace(plan, **changes)


texts = st.sampled_from([None, "", "n/a", "Roma", "Rma", "Milano", "àèì", "M. Mecella", "12", "12a"])
row_values = st.fixed_dictionaries(
    {
        "name": texts,
        "city": texts,
        "zip": st.sampled_from([None, "1", "2", "x"]),
        "kind": st.sampled_from([None, "none", "person"]),
        "age": st.one_of(st.none(), st.integers(-(10**6), 120 * 86_400 * 10**6)),
    }
)
REFERENCE = {
    str(n): name for n, name in enumerate(["Roma", "M. Mecella", "", "àèj", "12"])
}  # of the first keys


def rows_of(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": str(key), **{name: row[name] for name in COLUMNS[1:5]},
         "updated": None if row["age"] is None else NOW - timedelta(microseconds=row["age"])}
        for key, row in enumerate(drawn)
    ]  # fmt: skip


def frame(spark: Any, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame([tuple(row[name] for name in COLUMNS) for row in rows], SCHEMA)


def oracle(plan: FactoryPlan, rows: list[dict[str, Any]], now: int = NOW_MICROS) -> dict[str, Quality]:
    return evaluate_plain(plan, rows, now, checks=CHECKS, references={"Name": REFERENCE})


def put_reference(folder: Path) -> None:
    right = [{"id": key, "name": name} for key, name in REFERENCE.items()]
    pq.write_table(pa.Table.from_pylist(right), folder / "right")


def current(factory: Factory) -> dict[str, Quality]:
    return {row["_object"]: row["_quality"] for row in factory.state.current().collect()}


def told(step: FactoryStep) -> dict[tuple[str, str], tuple[float | None, float]]:
    rows = step.changes().collect()
    found = {
        (row["object"], f"{row['property']}.{row['dimension']}"): (row["before"], row["value"])
        for row in rows
    }
    assert len(found) == len(rows)  # each changed value once
    return found


def differences(before: dict[str, Quality], after: dict[str, Quality]) -> dict[Any, Any]:
    return {
        (key, name): (before[key].get(name), value)
        for key, qualities in after.items()
        if key in before
        for name, value in qualities.items()
        if before[key].get(name) != value
    }


def drawn_rows(seed: int) -> tuple[list[Any], list[Any]]:
    """Two tables of many rows each: a plan of Spark costs seconds, a row of it nothing."""
    some = st.lists(row_values, min_size=40, max_size=60)
    found: list[tuple[list[Any], list[Any]]] = []

    @hypothesis.seed(seed)
    @settings(max_examples=3, phases=[Phase.generate])
    @given(some, some)
    def draw(one: list[Any], two: list[Any]) -> None:
        found.append((one, two))

    draw()
    return found[-1]  # the first is the simplest that there is


def test_vir5_3_two_tables_are_measured_as_the_plain_measures_have_it_and_the_differences_are_told(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    one, two = drawn_rows(seed)
    folder = tmp_path
    put_reference(folder)
    clock = [NOW_MICROS, NOW_MICROS + 3 * 86_400 * 10**6]  # three days later: what has not changed has aged
    now = iter(clock)
    factory = Factory(spark, plan_of(folder), now=lambda: next(now))
    first, second = rows_of(one), rows_of(one[:10] + two)
    assert told(factory.snapshot(frame(spark, first))) == {}
    before = oracle(factory.plan, first)
    assert current(factory) == before
    step = factory.snapshot(frame(spark, second))
    after = oracle(factory.plan, second, clock[1])
    assert current(factory) == after
    assert told(step) == differences(before, after)


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / "table").mkdir(exist_ok=True)
    arrow = pa.schema(
        [(name, pa.string()) for name in COLUMNS[:5]] + [("updated", pa.timestamp("us", "UTC"))]
    )
    pq.write_table(pa.Table.from_pylist(rows, arrow), folder / "table" / name)


def person(key: int, *, days: float = 0.0, **values: Any) -> dict[str, Any]:
    stored = {"name": f"M. Mecella {key}", "city": "Roma", "zip": "1", "kind": "person", **values}
    return {"id": str(key), **stored, "updated": NOW - timedelta(days=20 - days)}


def run(factory: Factory) -> list[FactoryStep]:
    steps: list[FactoryStep] = []
    changes = files_of(factory.spark, factory.plan, files_per_step=1)
    query = factory.stream(changes, tell=steps.append, once=True)
    query.awaitTermination()
    return steps


def test_vir5_3_a_stream_tells_each_change_once_and_nothing_when_nothing_changed(
    spark: Any, tmp_path: Path
) -> None:
    put_reference(tmp_path)
    pq.write_table(pa.table({"town": [*CITIES, CITIES[0], None]}), tmp_path / "towns")
    plan = plan_of(tmp_path)
    domain = ColumnDomain(table=str(tmp_path / "towns"), column="town")  # the same values, in a table
    city = msgspec.structs.replace(plan.properties["City"], domain=domain)
    tabled = msgspec.structs.replace(plan, properties={**plan.properties, "City": city})
    factory = Factory(spark, tabled, now=lambda: NOW_MICROS)
    people = [person(key) for key in range(8)]
    write(tmp_path, "a.parquet", people)
    assert [told(step) for step in run(factory)] == [{}]
    dirty = person(3, days=1, city="Rmoa")
    write(tmp_path, "b.parquet", [dirty, person(3, city="older")])  # of two rows the newest counts
    (step,) = run(factory)
    after = oracle(plan, [*people[:3], dirty, *people[4:]])
    expected = differences(oracle(plan, people), after)
    assert told(step) == expected
    assert ("3", "City.accuracy") in expected
    assert ("5", "City.consistency") in expected  # its group holds an object that disagrees
    assert current(factory) == after
    late = person(7, days=-0.5, city="Milano")  # older than what is known
    write(tmp_path, "c.parquet", [dirty, person(5), late])  # the others are as they were
    (step,) = run(factory)
    assert told(step) == {}
    assert step.objects.count() == 0  # nothing was measured again
    table = quality_rows(factory.state.current(), factory.plan)
    assert [(field.name, field.dataType.simpleString()) for field in table.schema] == list(QUALITY_COLUMNS)
    found = {
        (row["object"], f"{row['property']}.{row['dimension']}"): row["value"] for row in table.collect()
    }
    assert found == {(key, name): value for key, stored in after.items() for name, value in stored.items()}


@pytest.mark.soak
def test_many_steps_are_put_in_one_place_and_mean_the_same(
    spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tidings_quality.spark.factory.COMPACT_EVERY", 1)
    put_reference(tmp_path)
    factory = Factory(spark, plan_of(tmp_path, deleted="gone"), now=lambda: NOW_MICROS)
    rng = random.Random(5)
    stored: dict[str, dict[str, Any]] = {}
    for number in range(3):
        some = [
            {
                **person(key, days=number, city=rng.choice(CITIES), zip=rng.choice("12")),
                "gone": rng.random() < 0.3,
            }
            for key in rng.sample(range(9), 4)
        ]
        arrow = pa.schema(
            [(name, pa.string()) for name in COLUMNS[:5]]
            + [("updated", pa.timestamp("us", "UTC")), ("gone", pa.bool_())]
        )
        (tmp_path / "table").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(some, arrow), tmp_path / "table" / f"{number}.parquet")
        for row in some:
            stored.pop(row["id"], None) if row["gone"] else stored.update({row["id"]: row})
        run(factory)
        assert current(factory) == oracle(factory.plan, list(stored.values()))
    assert factory.state.steps() == [2]  # what stood before it is in one place


def test_a_state_is_only_good_for_its_plan(spark: Any, tmp_path: Path) -> None:
    Factory(spark, plan_of(tmp_path))
    with pytest.raises(InputError, match="another plan"):
        Factory(spark, plan_of(tmp_path, digits=2))
    factory, lacking = Factory(spark, plan_of(tmp_path)), frame(spark, [person(1)]).drop("zip")
    with pytest.raises(InputError, match="no column 'zip', which dependencies"):
        factory.snapshot(lacking)


def test_changes_of_a_whole_table_that_were_not_told_are_told_before_the_next(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_quality.spark.factory.COMPACT_EVERY", 1)
    plan = FactoryPlan(
        organisation="INPS", data_class="Enterprise", key="id", state=str(tmp_path / "state"),
        properties={"Name": MeasuredProperty(column="name")}, announce_new=True,
    )  # fmt: skip
    factory = Factory(spark, plan)

    def fails(step: FactoryStep) -> None:
        raise ConnectionError(step.version)

    with pytest.raises(ConnectionError, match="snapshots-0"):
        factory.snapshot(spark.createDataFrame([("1", "a")], "id string, name string"), fails)
    received: list[tuple[str, bool, Any]] = []  # read when it is told: later a step may be put elsewhere
    gone = spark.createDataFrame([("1", None)], "id string, name string")
    factory.snapshot(gone, lambda step: received.append((step.version, step.replayed, told(step))))
    changed = ("1", "Name.completeness")
    assert received == [
        ("snapshots-0", True, {changed: (None, 1.0)}),
        ("snapshots-1", False, {changed: (1.0, 0.0)}),
    ]
    assert factory.state.steps() == [1]  # what stood before it is in one place
    assert current(factory) == {"1": {"Name.completeness": 0.0}}
