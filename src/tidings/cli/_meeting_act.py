"""The act where brokers and Spark meet: events go round once, and a late subscriber is caught up.

The expected deliveries are the published events; the act claims only results that agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tidings
from tidings.cli._spark_act import on_spark
from tidings.cli.stage import Stage, side_by_side
from tidings.extensions import blaming, load_all
from tidings.runtime.cluster import Cluster

EVENTS = 200
PATIENCE = 60.0  # seconds to wait for an event that is owed, on a loaded machine
SILENCE = 0.5

SparkAct = Callable[[Stage, Path, Any], Coroutine[Any, Any, None]]


async def spark_acts(stage: Stage, folder: Path) -> None:
    """The acts that need Spark, in one session, side by side: each leaves the processors idle now and then.
    They are shown one after the other."""
    if find_spec("pyspark") is None:
        await on_spark(stage, folder, None)  # it says so
        return
    from pyspark import SparkContext

    from tidings.pipeline import session

    was_there = SparkContext._active_spark_context is not None
    spark = await asyncio.to_thread(session, quick=True, progress=stage.say)
    try:
        acts: list[SparkAct] = [
            on_spark,
            meeting,
            *(_blamed(name, act) for name, act in load_all("tidings.acts", ())),
        ]
        await side_by_side(stage, [partial(_play, act, folder, spark) for act in acts])
    finally:
        if not was_there:
            spark.stop()


async def _play(act: SparkAct, folder: Path, spark: Any, stage: Stage) -> None:
    await act(stage, folder, spark)


def _blamed(name: str, act: SparkAct) -> SparkAct:
    """An extension's act, whose errors name the extension."""

    async def play(stage: Stage, folder: Path, spark: Any) -> None:
        with blaming("tidings.acts", name):
            await act(stage, folder, spark)

    return play


async def meeting(stage: Stage, folder: Path, spark: Any) -> None:
    stage.act(
        "Brokers and Spark together",
        f"{EVENTS} prices go from a broker into a stream of Spark, and doubled to another broker.",
        gain="Join brokers and Spark: exactly once through a stream, and late from an archive",
    )
    async with Cluster(2, store=folder / "meeting", archive=folder / "archive", log="error") as cluster:
        first, second = (member.address for member in cluster.members)
        async with (
            tidings.connect(first, name="market") as market,
            tidings.connect(first, name="ear") as listener,
        ):
            async with listener.subscribe("topic = 'doubled'", name="doubled", durable=True) as doubled:
                for n in range(EVENTS):
                    await market.publish({"n": n, "price": n / 2}, topic="prices", lifetime=tidings.FOREVER)
                for _ in range(2):  # the second run finds no new event
                    await asyncio.to_thread(_go_round, spark, first, second, folder)
                received = await _received(doubled)
            stage.claim(
                f"{EVENTS} events went from a broker through Spark to a broker and its subscriber, each once",
                sorted(received) == list(range(EVENTS)),
                short=f"{EVENTS} events went round through Spark once",
            )
            await _late(stage, folder, first, market)


def _go_round(spark: Any, source: str, sink: str, folder: Path) -> None:
    from tidings.pipeline.broker import register, use_here

    register(spark)
    use_here(spark)
    reader = spark.readStream.format("tidings").schema("n bigint, price double")
    events = reader.options(brokers=source, filter="topic = 'prices'", reader="demo").load()
    writer = events.selectExpr("n", "price * 2 AS price").writeStream.format("tidings")
    writer = writer.options(broker=sink, topic="doubled", checkpointLocation=str(folder / "round"))
    writer.trigger(availableNow=True).start().awaitTermination()


async def _late(stage: Stage, folder: Path, address: str, market: tidings.Bus) -> None:
    from tidings.pipeline.broker.archiving import Archiver
    from tidings.pipeline.broker.lines import close_lines

    archiver = Archiver(folder / "archive", address, release=True)
    archived = await asyncio.to_thread(archiver.run_once)
    await asyncio.to_thread(close_lines)
    stage.say(f"{archived} events that live forever are in the archive now, and the broker lets go of them")
    await market.publish({"n": EVENTS, "price": 0.0}, topic="prices", lifetime=tidings.FOREVER)
    async with (
        tidings.connect(address, name="late") as late,
        late.subscribe("topic = 'prices'", since="forever") as news,
    ):
        received = await _received(news)
    stage.claim(
        f"a late subscriber received {len(received)} events: the archive up to an exact offset of the "
        "log, then live",
        received == list(range(EVENTS + 1)),
        short=f"a late subscriber caught up with {len(received)} events",
    )


async def _received(listener: tidings.Listener[tidings.Event]) -> list[int]:
    received: list[int] = []
    while True:
        try:
            event = await listener.get(timeout=PATIENCE if len(received) < EVENTS else SILENCE)
        except TimeoutError:
            return received
        received.append(int(str(event["n"])))
