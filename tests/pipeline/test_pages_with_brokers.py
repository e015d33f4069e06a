"""Programs on brokers and Spark, taken from their pages and run with real brokers and a session."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers
from tests.pipeline.test_meeting import SLOW_START, run
from tests.tidy._sources import ROOT
from tests.tidy.run_page import blocks

from tidings.archive.state import Archive
from tidings.archive.writing import ArchiveEntry, ArchiveWriter
from tidings.model.event import FOREVER, make_event
from tidings.pipeline.broker import register, use_here

pytestmark = pytest.mark.spark
HOW_TO = ROOT / "docs" / "how-to" / "spark-structured-streaming.md"
MEETING = ROOT / "docs" / "meeting.md"
PROGRAM = re.compile(r"^```python file=alerts\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOP_FREE = " AND NOT EXISTS event"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path / "brokers", 2) as brokers:
        yield brokers


def placed(code: str, two: Brokers, folder: Path) -> str:
    """A program of a page, with these brokers' addresses and this folder."""
    first, second = (address.removeprefix("tidings://") for address in two.addresses)
    code = code.replace("127.0.0.1:7117", first).replace("127.0.0.1:7118", second)
    return code.replace('"checkpoint"', repr(str(folder / "checkpoint"))).replace(
        '"archive"', repr(str(folder / "archive"))
    )


def started(program: Path, spark: Any) -> Future[None]:
    """A program in a thread; begun again when Spark's own Python started too slowly."""
    from pyspark.errors import StreamingQueryException

    def go() -> None:
        use_here(spark)
        for _ in range(3):
            try:
                runpy.run_path(str(program), run_name="__main__")
                return
            except StreamingQueryException as error:
                if SLOW_START not in str(error):
                    raise

    pool = ThreadPoolExecutor(1)
    ended = pool.submit(go)
    pool.shutdown(wait=False)
    return ended


def ended(spark: Any, running: Future[None]) -> None:
    for query in spark.streams.active:
        query.stop()
    running.exception(120)


def test_the_alerts_of_the_how_to_come_once_each(spark: Any, two: Brokers, tmp_path: Path) -> None:
    """Found by a user: the alerts were read as trades, and became alerts again, without end."""
    (code,) = PROGRAM.findall(HOW_TO.read_text())
    assert LOOP_FREE in code
    register(spark)
    program = tmp_path / "alerts.py"
    program.write_text(placed(code, two, tmp_path).replace(LOOP_FREE, ""))  # as it was printed once
    market, other = two.bus(0, "market"), two.bus(1, "other")
    desk = two.bus(0, "desk").subscribe("topic = 'alerts'", name="desk", durable=True)
    market.publish({"symbol": "IBM", "price": 131.0}, lifetime=600)
    looping = started(program, spark)
    assert desk.get(timeout=120)["price"] == 131.0
    with pytest.raises(Exception, match="which this query published itself"):
        looping.result(120)

    program.write_text(placed(code, two, tmp_path))  # mended, with the same checkpoint
    running = started(program, spark)
    try:
        for wave in range(3):
            market.publish({"symbol": "IBM", "price": 99.5}, lifetime=600)
            market.publish({"symbol": "IBM", "price": 200.0 + wave}, lifetime=600)
            other.publish({"symbol": "DEC", "price": 300.0 + wave}, lifetime=600)
            # an alert that came round would stand in the log before the trades of the next wave
            got = [desk.get(timeout=120) for _ in range(2)]
            assert sorted(event["price"] for event in got) == [200.0 + wave, 300.0 + wave]
            assert all(event.get("event") and event.get("event_source") for event in got)
    finally:
        ended(spark, running)


def test_the_functions_of_the_page_on_brokers_do_what_it_says(
    spark: Any, two: Brokers, tmp_path: Path
) -> None:
    register(spark)
    page: dict[str, Any] = {}
    for _, code in blocks(MEETING.read_text()):
        if "\ndef " in f"\n{code}":
            exec(placed(code, two, tmp_path), page)
    market, other = two.bus(0, "market"), two.bus(1, "other")
    market.publish({"symbol": "IBM", "price": 5.0}, topic="prices/ibm", lifetime=600)
    for bus in (market, other):  # one identity, in two logs
        bus.publish({"price": 20.0}, id="7", source="market", topic="prices/ibm", lifetime=600)
    assert sorted(row["price"] for row in page["trades"](spark).collect()) == [20.0, 20.0]
    assert received_once(spark, two, page["once"], tmp_path) == [5.0, 20.0]

    desk = two.bus(1, "desk").subscribe("topic = 'alerts'", name="desk", durable=True)
    run(lambda: stopping(page["publish"](page["live_trades"](spark).select("price"), str(tmp_path / "out"))))
    assert sorted(desk.get(timeout=120)["price"] for _ in range(3)) == [5.0, 20.0, 20.0]

    archive = Archive(tmp_path / "archive")
    event = make_event({"price": 50}, source="s", id="e1", lifetime=FOREVER)
    with archive.locked():
        ArchiveWriter(archive).append("b1#1", [ArchiveEntry(1, datetime.now(UTC).timestamp(), event)], 1)
    asked = spark.createDataFrame([("high", "price > 40"), ("low", "price < 40")], "id string, filter string")
    result, places = page["catch_up_all"](spark, asked)
    assert [row["subscriptions"] for row in result.collect()] == [["high"]]
    assert places == {"b1#1": 1}


def received_once(spark: Any, two: Brokers, once: Any, folder: Path) -> list[float]:
    """Prices of a stream of both logs in which each identity counts once."""
    prices: list[float] = []
    reader = spark.readStream.format("tidings").options(brokers=two.all, reader="once")
    trades = reader.schema("id string, source string, price double, _accepted timestamp").load()
    writer = once(trades).writeStream.foreachBatch(
        lambda rows, _: prices.extend(row["price"] for row in rows.collect())
    )
    writer = writer.option("checkpointLocation", str(folder / "once")).trigger(availableNow=True)
    run(writer.start)
    return sorted(prices)


def stopping(query: Any) -> Any:
    """A query that ends when all that was published is processed."""
    query.processAllAvailable()
    query.stop()
    return query
