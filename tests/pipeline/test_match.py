"""`match` on small tables whose answers can be read off."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import InputError, SettingsError
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.pipeline import Table, match

pytestmark = pytest.mark.spark

EVENTS = [
    ("e1", 120.0, 5, "plant/a", ("Cat", "Animal"), ("Rome", 3)),
    ("e2", 80.0, None, "plant/b/c", ("Dog",), None),
    ("e3", float("nan"), 2**53 + 1, None, None, ("Oslo", None)),
]
EVENTS_DDL = (
    "id string, price double, qty bigint, topic string, lineage array<string>, venue struct<City: "
    "string, floor: int>"
)
SUBSCRIPTIONS = [
    ("s1", "ann", "price > 100"),
    ("s2", "bob", "price < 100 OR venue.City = 'Oslo'"),
    ("s3", "ann", "topic = 'plant/#'"),
    ("s4", "cyd", "type IS A Animal"),
    ("s5", "cyd", "qty = 9007199254740993"),
    ("s6", "dee", "price * 2 > 150 AND NOT EXISTS qty"),
    ("s7", "dee", "NOT EXISTS price"),
]
EXPECTED = {"e1": ["s1", "s3", "s4"], "e2": ["s2", "s3", "s6"], "e3": ["s2", "s5", "s7"]}


@pytest.fixture
def events(spark: Any) -> Any:
    return spark.createDataFrame(EVENTS, EVENTS_DDL).withColumnRenamed("lineage", "type.lineage")


@pytest.fixture
def subscriptions(spark: Any) -> Any:
    return spark.createDataFrame(SUBSCRIPTIONS, "id string, subscriber string, filter string")


def lists(matched: Any) -> dict[str, list[Any]]:
    return {row["id"]: list(row["subscriptions"]) for row in matched.result.collect()}


def test_one_row_an_event_with_the_list_of_its_subscriptions(events: Any, subscriptions: Any) -> None:
    matched = match(events, subscriptions)
    assert matched.result.columns == [*events.columns, "subscriptions", "version"]
    assert lists(matched) == EXPECTED
    assert matched.rejects.collect() == []


def test_one_row_for_each_pair_with_the_subscriber(events: Any, subscriptions: Any) -> None:
    matched = match(events, subscriptions, output="pairs", keep=["id"])
    owners = {id: who for id, who, _ in SUBSCRIPTIONS}
    pairs = [
        (row["id"], row["subscription"], row["subscriber"], row["version"])
        for row in matched.result.collect()
    ]
    assert pairs == [(event, s, owners[s], 1) for event, found in EXPECTED.items() for s in found]


def test_subscriptions_from_parquet(spark: Any, events: Any, subscriptions: Any, tmp_path: Path) -> None:
    subscriptions.write.parquet(str(tmp_path / "subscriptions"))
    assert lists(match(events, tmp_path / "subscriptions")) == EXPECTED


def test_subscriptions_from_a_compiled_table(events: Any, subscriptions: Any, tmp_path: Path) -> None:
    table = Table(tmp_path / "table")
    table.publish(subscriptions)
    assert lists(match(events, table)) == EXPECTED
    assert lists(match(events, str(tmp_path / "table"))) == EXPECTED
    table.publish(subscriptions.where("id = 's1'"))
    assert lists(match(events, table)) == {"e1": ["s1"], "e2": [], "e3": []}
    assert lists(match(events, table, version=1)) == EXPECTED


def test_events_that_match_nothing_can_be_left_out(events: Any, subscriptions: Any) -> None:
    matched = match(events, subscriptions.where("id = 's1'"), unmatched=False, keep=["id"])
    assert lists(matched) == {"e1": ["s1"]}


def test_ids_may_be_integers(spark: Any, events: Any) -> None:
    table = spark.createDataFrame([(7, "price > 100"), (5, "EXISTS price")], "id int, filter string")
    matched = match(events, table, keep=["id"])
    assert dict(matched.result.dtypes)["subscriptions"] == "array<int>"
    assert lists(matched) == {"e1": [7, 5], "e2": [5], "e3": []}


def test_what_cannot_be_a_subscription_is_rejected_with_its_reason(spark: Any, events: Any) -> None:
    rows = [
        ("good", "price > 1"),
        ("bad", "price >"),
        (None, "price > 1"),
        ("none", None),
        ("good", "price > 2"),
        ("never", "price > 1 AND price < 0"),
        ("neither", "price > price"),
    ]
    matched = match(events, spark.createDataFrame(rows, "id string, filter string"))
    assert lists(matched) == {"e1": ["good"], "e2": ["good"], "e3": []}
    found = {(row["id"], row["text"]): row["reason"] for row in matched.rejects.collect()}
    assert set(found) == {(id, text) for id, text in rows if (id, text) != ("good", "price > 1")}
    assert "at line 1, column 8" in found["bad", "price >"]
    assert found[None, "price > 1"] == "it has no id"
    assert found["none", None] == "it has no filter"
    assert found["good", "price > 2"] == "its id was in the table before"
    assert found["never", "price > 1 AND price < 0"] == "its filter can never be true"
    assert found["neither", "price > price"] == "its filter can never be true"
    assert "6 rejected" in matched.explain()


def test_filters_of_dialect_cesql(spark: Any, events: Any) -> None:
    rows = [("c", "QTY = 5", "cesql"), ("t", "price > 100", None), ("x", "price > 1", "klingon")]
    matched = match(
        events, spark.createDataFrame(rows, "id string, filter string, dialect string"), keep=["id"]
    )
    assert lists(matched)["e1"] == ["c", "t"]
    assert [row["id"] for row in matched.rejects.collect()] == ["x"]


# -- bad input


def test_a_table_of_subscriptions_without_its_columns(spark: Any, events: Any) -> None:
    with pytest.raises(InputError, match=r"no column 'filter'; it has 'id', 'text'.*rename"):
        match(events, spark.createDataFrame([("s", "TRUE")], "id string, text string"))


def test_a_table_of_subscriptions_of_wrong_types(spark: Any, events: Any) -> None:
    with pytest.raises(InputError, match="'filter' of the subscriptions is of type int64"):
        match(events, spark.createDataFrame([("s", 5)], "id string, filter bigint"))


def test_columns_of_types_that_are_no_value(spark: Any) -> None:
    events = spark.createDataFrame([("e", {"a": 1})], "id string, odd map<string, int>")
    requests = spark.createDataFrame([("s", "EXISTS odd")], "id string, filter string")
    with pytest.raises(InputError, match=r"'odd'.*is of type .*no attribute value.*'odd': 'string'"):
        match(events, requests)
    matched = match(events, requests, casts={"odd": "string"})
    assert lists(matched) == {"e": ["s"]}
    assert matched.result.schema["odd"] == events.schema["odd"]
    silent = spark.createDataFrame([("s", "TRUE")], "id string, filter string")
    assert lists(match(events, silent)) == {"e": ["s"]}


def test_decimals_dates_arrays_and_structs_are_seen_as_in_events(spark: Any) -> None:
    day, local = datetime.date(2026, 3, 1), datetime.datetime(2026, 3, 1, 12)
    rows = [
        ("a", Decimal("0.10"), day, local, ["red"], [("x", Decimal("100.10"))], b"r"),
        ("b", Decimal("0.50"), None, None, [], [("y", Decimal("5.00")), ("x", None)], None),
        ("c", None, day, None, None, None, None),
    ]
    events = spark.createDataFrame(
        rows,
        "id string, price decimal(10,2), day date, local timestamp_ntz, tags array<string>, "
        "lines array<struct<sku: string, price: decimal(10,2)>>, raw binary",
    )
    texts = [
        "price > 0.1", "price < 0.1", "price = DECIMAL('0.1')", "price = 0.5", "price * 2 = 1.0",
        "'red' IN tags",
        "LENGTH(tags) = 0", "tags IS NULL", "ANY(lines.price > 100)", "ALL(lines.price > 0)",
        "ANY(lines.sku = 'x' AND lines.price > 100)", "EXISTS raw", "LENGTH(lines) = 2",
        "day = TIMESTAMP '2026-03-01T00:00:00Z'", "local > TIMESTAMP '2026-03-01T11:00:00Z'",
    ]  # fmt: skip
    requests = spark.createDataFrame([(text, text) for text in texts], "id string, filter string")
    names = ("price", "day", "local", "tags", "lines", "raw")
    expected: dict[str, list[str]] = {}
    for id, *values in rows:
        body = dict(zip(names, values, strict=True))
        if body["lines"] is not None:
            body["lines"] = [{"sku": sku, "price": price} for sku, price in body["lines"]]
        event = make_event(body, source="s", id=id)
        expected[id] = [text for text in texts if accepts(parse_filter(text), event)]
    matched = match(events, requests)
    assert {id: sorted(found) for id, found in lists(matched).items()} == {
        id: sorted(found) for id, found in expected.items() if found
    }


def test_columns_that_the_event_itself_owns_have_their_types(spark: Any) -> None:
    requests = spark.createDataFrame([("s", "EXISTS time OR EXISTS topic")], "id string, filter string")
    with pytest.raises(InputError, match="'time' is of type bigint, and an event's time is a timestamp"):
        match(spark.createDataFrame([(1, "a")], "time bigint, topic string"), requests)


def test_attributes_that_no_column_holds_are_told(spark: Any, events: Any) -> None:
    requests = spark.createDataFrame(
        [("s", "prise > 1 OR Price > 2 OR price = 'x'")], "id string, filter string"
    )
    reported = match(events, requests).explain()
    assert "'prise', which no column holds (did you mean 'price'?)" in reported
    assert "'Price', which no column holds (did you mean 'price'?)" in reported
    assert "some filter compares 'price' with a string; its column is double" in reported


def test_every_event_has_an_id_and_a_source(spark: Any) -> None:
    """A filter that asks for them cannot be answered without; the embedded matcher always has them."""
    requests = spark.createDataFrame(
        [("s", "LENGTH(id) = 1 OR price < 0", None), ("t", "ID = 'b'", "cesql")],
        "id string, filter string, dialect string",
    )
    with pytest.raises(InputError, match=r"filters ask for 'id', which every event has.*withColumn"):
        match(spark.createDataFrame([(1.0,)], "price double"), requests)
    events = spark.createDataFrame(
        [("a", 1.0), (None, 2.0), ("bb", 3.0), ("b", 4.0)], "id string, price double"
    )
    matched = match(events, requests, keep=["id"])
    assert lists(matched) == {"a": ["s"], "bb": [], "b": ["s", "t"]}
    (bad,) = matched.rejects.collect()
    assert "its id is NULL" in bad["reason"]


def test_columns_to_keep_must_be_there(events: Any, subscriptions: Any) -> None:
    with pytest.raises(InputError, match=r"no column 'Id' to keep.*did you mean 'id'"):
        match(events, subscriptions, keep=["Id"])
    with pytest.raises(InputError, match="have a column 'version', and so has the answer"):
        match(events.withColumnRenamed("price", "version"), subscriptions)


@pytest.mark.parametrize("wrong", [{"output": "rows"}, {"strategy": "magic"}, {"bad_rows": "hide"}])
def test_settings_that_do_not_exist(events: Any, subscriptions: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="cannot be"):
        match(events, subscriptions, **wrong)


def test_casts_of_what_is_no_column(events: Any, subscriptions: Any) -> None:
    with pytest.raises(SettingsError, match=r"casts names 'prize'.*did you mean 'price'"):
        match(events, subscriptions, casts={"prize": "double"})


def test_a_path_that_holds_nothing(events: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither Parquet nor a compiled table"):
        match(events, tmp_path / "nowhere")
    with pytest.raises(InputError, match="subscriptions cannot be a list"):
        match(events, [("s", "TRUE")])


def test_poison_rows_leave_with_their_problem_and_spare_their_neighbours(spark: Any) -> None:
    events = spark.range(100).selectExpr(
        "CAST(id AS string) AS id",
        "CASE WHEN id = 41 THEN CAST(X'C328' AS string) ELSE 'fine' END AS word",
        "CASE WHEN id = 7 THEN 'a/+' ELSE 'a/b' END AS topic",
    )
    requests = spark.createDataFrame([("s", "word LIKE '%e' AND topic = 'a/#'")], "id string, filter string")
    matched = match(events, requests, keep=["id", "topic"])
    assert lists(matched) == {str(n): ["s"] for n in range(100) if n not in (7, 41)}
    bad = {row["id"]: row for row in matched.rejects.collect()}
    assert set(bad) == {"7", "41"}
    assert bad["7"]["what"] == "event"
    assert "holds + or #" in bad["7"]["reason"]
    assert bad["7"]["text"] == '{"id":"7","topic":"a/+"}'
    assert "UnicodeDecodeError" in bad["41"]["reason"]
    pairs = match(events, requests, output="pairs", keep=["id"])
    assert pairs.result.count() == 98
    assert pairs.rejects.count() == 2


def test_a_time_beyond_the_calendar_spares_its_neighbours(spark: Any) -> None:
    events = spark.range(20).selectExpr(
        "CAST(id AS string) AS id",
        "'x' AS word",
        "timestamp_micros(CASE WHEN id = 3 THEN 253402300800000000 ELSE id END) AS at",  # the year 10000
    )
    requests = spark.createDataFrame([("s", "word = 'x'")], "id string, filter string")
    matched = match(events, requests, keep=["id"])
    bad = {row["id"] for row in matched.rejects.collect()}
    assert bad <= {"3"}
    assert lists(matched) == {str(number): ["s"] for number in range(20) if str(number) not in bad}


def test_poison_rows_may_fail_the_job(spark: Any) -> None:
    events = spark.createDataFrame([("a/+",)], "topic string")
    requests = spark.createDataFrame([("s", "topic = 'a/#'")], "id string, filter string")
    with pytest.raises(Exception, match="a row of the events cannot be matched: EventError: topic 'a/\\+'"):
        match(events, requests, bad_rows="fail").result.collect()


def test_a_torn_table_is_told_and_never_served(events: Any, subscriptions: Any, tmp_path: Path) -> None:
    version = Table(tmp_path / "table").publish(subscriptions)
    path = version.folder / "table"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 200])
    with pytest.raises(Exception, match="CorruptionError"):
        match(events, tmp_path / "table").result.collect()
    path.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    with pytest.raises(Exception, match="fail their checksum"):
        match(events, tmp_path / "table").result.collect()


def test_a_half_written_version_is_not_seen(events: Any, subscriptions: Any, tmp_path: Path) -> None:
    table = Table(tmp_path / "table")
    table.publish(subscriptions)
    (tmp_path / "table" / ".draft-1-2").mkdir()
    assert table.version().number == 1


def test_names_that_differ_in_case_only_are_different_attributes(spark: Any) -> None:
    from pyspark.sql import Row

    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        events = spark.createDataFrame([Row(a=1, A=2, n=Row(b=3, B=4))])
        events.schema  # noqa: B018  (resolved while Spark could tell them apart)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    rows = [("s1", "a = 1 AND A = 2"), ("s2", "a = 2"), ("s3", "n.b = 3 AND n.B = 4"), ("s4", "n.b = 4")]
    matched = match(events, spark.createDataFrame(rows, "id string, filter string"), keep=["A"])
    assert [row["subscriptions"] for row in matched.result.collect()] == [["s1", "s3"]]


# -- machines that share no folder


@pytest.fixture
def elsewhere(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session that believes its executors are on other machines."""
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    return spark


def test_without_a_shared_folder_spark_carries_the_files(
    elsewhere: Any, events: Any, subscriptions: Any
) -> None:
    matched = match(events, subscriptions)
    assert "carried to each machine by Spark" in matched.explain()
    assert lists(matched) == EXPECTED
    assert lists(matched) == EXPECTED  # and once more, from the same files


def test_with_a_shared_folder_they_are_mapped_from_there(
    elsewhere: Any, events: Any, subscriptions: Any, tmp_path: Path
) -> None:
    matched = match(events, subscriptions, folder=tmp_path / "shared")
    assert "which all machines are said to see" in matched.explain()
    assert lists(matched) == EXPECTED


def test_cells_are_carried_too(elsewhere: Any, events: Any, subscriptions: Any) -> None:
    matched = match(events, subscriptions, strategy="partitioned")
    assert lists(matched) == EXPECTED
    assert "cut along" in matched.explain()


def test_rejects_of_a_partitioned_table(spark: Any, events: Any) -> None:
    rows = [("a", "price > 1"), ("b", "price >"), ("a", "price > 2"), (None, "price > 3"), ("c", None)]
    table = spark.createDataFrame(rows, "id string, filter string").coalesce(1)
    whole, parted = (match(events, table, strategy=strategy) for strategy in ("everywhere", "partitioned"))
    assert lists(parted) == lists(whole)
    assert parted.rejects.collect() == whole.rejects.collect()


def test_a_table_that_is_too_large_is_cut(events: Any, subscriptions: Any) -> None:
    matched = match(events, subscriptions, most_mb=0)
    assert matched.strategy == "partitioned"
    assert "up to 0 MB is held by every executor (as asked)" in matched.explain()
    assert lists(matched) == EXPECTED


def test_integers_between_two_doubles_are_matched(spark: Any) -> None:
    """Nanosecond clocks: bounds and values that no double holds."""
    clock = 1_700_000_000_000_000_000
    steps = (-257, -200, -1, 0, 1, 129, 200, 256)
    events = spark.createDataFrame([(str(step), clock + step) for step in steps], "id string, ts bigint")
    filters = [("gt", f"ts > {clock}"), ("lt", f"ts < {clock}"), ("out", f"ts NOT BETWEEN 0 AND {clock}")]
    filters += [("twice", f"ts + 1 > {clock + 1}"), *((f"n{n}", f"other = {n}") for n in range(40))]
    wanted = {"gt": lambda step: step > 0, "lt": lambda step: step < 0, "out": lambda step: step > 0}
    wanted["twice"] = lambda step: step > 0
    found = lists(match(events, spark.createDataFrame(filters, "id string, filter string")))
    assert found == {str(step): [name for name, holds in wanted.items() if holds(step)] for step in steps}
