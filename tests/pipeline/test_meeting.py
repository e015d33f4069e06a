"""Brokers and Spark together, on a real session and real brokers: SQL, a round trip, catching up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers

from tidings.archive.state import Archive
from tidings.archive.writing import ArchiveEntry, ArchiveWriter
from tidings.errors import InputError
from tidings.language import accepts, parse_filter
from tidings.language.spark import to_spark_sql
from tidings.model.event import FOREVER, make_event
from tidings.pipeline.broker import register
from tidings.pipeline.broker.catching import catch_up
from tidings.pipeline.flow_run import RunningFlow
from tidings.pipeline.flows import read_flow

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
SLOW_START = (
    "failed to connect back"  # Spark gives its Python ten seconds to start, which a busy machine may miss
)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path / "brokers", 2) as brokers:
        yield brokers


def example(folder: str, name: str) -> Any:
    spec = spec_from_file_location(name, ROOT / "examples" / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(start: Any) -> None:
    """A query to its end; once more when Spark's own Python started too slowly."""
    from pyspark.errors import StreamingQueryException

    for _ in range(3):
        try:
            start().awaitTermination()
            return
        except StreamingQueryException as error:
            if SLOW_START not in str(error):
                raise
    raise AssertionError("Spark's Python did not start within its ten seconds, three times")


def test_a_view_of_brokers_answers_sql_and_events_go_round_once(
    spark: Any, two: Brokers, tmp_path: Path
) -> None:
    register(spark)
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    for n in range(20):
        (ann if n % 2 else bob).publish({"n": n, "price": n / 2}, lifetime=600, topic="in")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW trades USING tidings OPTIONS (brokers '{two.all}', "
        "filter 'price >= 5')"
    )
    assert spark.sql("SELECT count(*) AS c, sum(n) AS s FROM trades WHERE n < 19").collect() == [(9, 126)]

    received = two.bus(1, "cyd").subscribe("topic = 'out'", name="out", durable=True)

    def start() -> Any:
        events = (
            spark.readStream.format("tidings")
            .schema("n bigint, price double")
            .options(brokers=two.all, filter="topic = 'in'", reader="round", maxEventsPerBatch=15)
            .load()
        )
        doubled = events.selectExpr("n", "price * 2 AS twice")
        return (
            doubled.writeStream.format("tidings")
            .options(broker=two.addresses[0], topic="out", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    run(start)
    ann.publish({"n": 20, "price": 10.0}, topic="in")
    run(start)
    got = [received.get(timeout=120) for _ in range(21)]
    assert sorted((event["n"], event["twice"]) for event in got) == [(n, float(n)) for n in range(21)]
    with pytest.raises(TimeoutError):
        received.get(timeout=0.5)

    written = spark.createDataFrame([(1, "a")], "n int, word string").write.format("tidings")
    written.options(broker=two.addresses[1], topic="out", job="j").mode("append").save()
    assert received.get(timeout=120)["word"] == "a"


def test_a_wrong_option_is_told_in_a_sentence(spark: Any) -> None:
    register(spark)
    with pytest.raises(Exception, match=r"unknown option 'brokrs' \(did you mean 'brokers'\?\)"):
        spark.read.format("tidings").option("brokrs", "x:1").load()


def test_catching_up_gives_every_new_subscription_what_its_filter_accepts(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(3)
    entries = [
        ArchiveEntry(
            offset,
            1.8e9 + offset,
            make_event(
                {"n": offset, "x": rng.choice([rng.random(), rng.randrange(3), "odd"]),
                    "venue": {"city": rng.choice("ab")}},
                source="s", id=f"e{offset}", topic=rng.choice(["t/1", "t/2"]), lifetime=FOREVER,
                type=rng.choice([None, "Trade", ("Sale", "Trade")]),
            ),
        )
        for offset in range(1, 301)
    ]  # fmt: skip
    archive = Archive(tmp_path)
    with archive.locked():
        writer = ArchiveWriter(archive)
        for first in range(0, 300, 50):
            writer.append("b1#1", entries[first : first + 50], first + 50)
    texts = {
        "low": "n < 40", "half": "x < 0.5 AND n > 100", "odd": "x = 'odd' AND n < 60",
        "city": "venue.city = 'a' AND n < 99",
        "topic": "topic = 't/+' AND n BETWEEN 20 AND 30", "sum": "x * 2 > 1 AND n < 80", "bad": "n >",
    }  # fmt: skip
    types = {"type": "type IS A 'Trade' AND n < 90", "low": "n < 40"}  # these Spark makes from the lineage
    for requested in (texts, types):
        repeated = ("low", "n < 200")  # its id was there before, for plain rows and odd ones
        table = spark.createDataFrame([*requested.items(), repeated], "id string, filter string")
        done = catch_up(spark, tmp_path, table, after={"b1#1": 10})
        found: dict[str, set[int]] = {}
        for row in done.result.collect():
            assert len(row["subscriptions"]) == len(set(row["subscriptions"]))
            for id in row["subscriptions"]:
                found.setdefault(id, set()).add(row["_offset"])
        assert found == {
            id: {e.offset for e in entries if e.offset > 10 and accepts(parse_filter(text), e.event)}
            for id, text in requested.items()
            if id != "bad"
        }
        assert done.places == {"b1#1": 300}
        rejected = [row["id"] for row in done.rejects.collect()]
        assert rejected == [*(id for id in requested if id == "bad"), "low"]
    few = catch_up(spark, tmp_path, table.where("id = 'low'"), whole=False)
    assert (few.files, few.rows) == (6, 300)
    assert {row["_offset"] for row in few.result.collect()} == set(range(1, 40))


def test_alerts_that_users_state_at_brokers_are_matched_on_spark_and_delivered_by_brokers(
    spark: Any, two: Brokers, tmp_path: Path
) -> None:
    people = example("broker_alerts", "people")
    users, ticks = list(people.wishes(60, 1)), list(people.prices(120, 1))
    one = two.bus(0, "people")
    one.stage("u", 0, 0, users)
    one.commit_staged("u", 0, 1)
    two.bus(1, "market").stage("p", 0, 0, ticks)
    two._buses[-1].commit_staged("p", 0, 1)
    flow = read_flow(
        ROOT / "examples/broker_alerts/flow.toml",
        {"data": str(tmp_path / "data"), "brokers": two.all, "sink": two.addresses[0]},
    )
    expected = {
        (user.source, tick.id)
        for user in users
        for tick in ticks
        if accepts(parse_filter(user["filter"]), tick)
    }
    assert len(expected) > 20
    for again in range(3):
        try:
            RunningFlow(flow, spark).start(once=True).wait()
        except InputError as error:
            if SLOW_START not in str(error):
                raise
        else:
            if again:
                break  # run a second time it finds nothing new
    with two.bus(1, "judge").subscribe("topic = 'alerts/#'") as alerts:
        got = [alerts.get(timeout=120) for _ in range(len(expected))]
        with pytest.raises(TimeoutError):
            alerts.get(timeout=0.5)
    assert {(str(event.topic).removeprefix("alerts/"), event["event"]) for event in got} == expected


def test_lists_and_decimals_of_a_log_are_columns_that_sql_and_filters_reach(spark: Any, two: Brokers) -> None:
    register(spark)
    ann = two.bus(0, "ann")
    for n in range(4):
        lines = [{"sku": "ab"[n % 2], "price": Decimal(n) + Decimal("0.10")}]
        ann.publish(
            {"n": n, "lines": lines, "tags": ["red"][n % 2 :], "day": date(2026, 1, 1 + n)}, lifetime=600
        )
    frame = spark.read.format("tidings").options(brokers=two.all).load()
    assert dict(frame.dtypes)["lines"] == "array<struct<sku:string,price:decimal(38,2)>>"
    assert dict(frame.dtypes)["day"] == "date"
    text = "ANY(lines.price > DECIMAL('1.1') AND lines.sku = 'a') AND 'red' IN tags"
    assert [row["n"] for row in frame.where(to_spark_sql(parse_filter(text), frame.schema)).collect()] == [2]
    assert frame.selectExpr("sum(lines[0].price)").collect()[0][0] == Decimal("6.40")
    received = two.bus(1, "bob").subscribe(text, name="bob")
    out = frame.select("n", "lines", "tags", "day").write.format("tidings")
    out.options(broker=two.addresses[1], job="rich").mode("append").save()
    event = received.get(timeout=120)
    assert (event["n"], event["day"], event["lines"][0]["price"]) == (2, date(2026, 1, 3), Decimal("2.10"))
