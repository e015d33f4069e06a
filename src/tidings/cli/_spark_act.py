"""The act of `tidings demo` on Spark: a table of events, a table of subscriptions, a table of notifications.

The expected deliveries are computed beside it, by a join of Spark SQL that does not use filters;
the notifications, written as a history, are then judged by the same properties as a live broker's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tidings.cli.stage import Stage
from tidings.errors import install_command

SUBSCRIPTIONS = 20_000
EVENTS = 2_000
SYMBOLS = 1_000
TRADES = (
    "CAST(id AS string) AS id", "concat('S', pmod(xxhash64(id), {symbols})) AS symbol",
    "pmod(xxhash64(id, 'price'), 10000) / 100.0D AS price", "id AS n",
)  # fmt: skip
ALERTS = (
    "concat('alert-', id) AS id", "concat('user-', id) AS subscriber",
    "concat('S', pmod(xxhash64(id, 'symbol'), {symbols})) AS wanted",
    "pmod(xxhash64(id, 'low'), 9000) / 100.0D AS low",
)  # fmt: skip
FILTER = "concat(\"symbol = '\", wanted, \"' AND price BETWEEN \", low, ' AND ', low + 10.0D)"


async def on_spark(stage: Stage, folder: Path, spark: Any) -> None:
    """The act, with a session of Spark; None: Spark is not installed."""
    stage.act(
        "A table of events on Spark",
        f"{EVENTS:,} trades in a table, {SUBSCRIPTIONS:,} price alerts in another: who receives what?",
        gain="Use the same filters on Spark: a table of events against a table of alerts",
    )
    if spark is None:
        command = install_command("tidings[spark]")
        stage.skip(f"Spark is not installed, so this act is left out; to have it: {command}")
        return
    await asyncio.to_thread(play, stage, spark, folder)


def play(stage: Stage, spark: Any, folder: Path) -> None:
    from tidings.pipeline import match

    trades = spark.range(EVENTS).selectExpr(*(text.format(symbols=SYMBOLS) for text in TRADES)).cache()
    alerts = spark.range(SUBSCRIPTIONS).selectExpr(*(text.format(symbols=SYMBOLS) for text in ALERTS))
    alerts = alerts.selectExpr("*", f"{FILTER} AS filter").cache()
    one = alerts.first()
    stage.table(("alert", "filter"), [(one["id"], one["filter"])])
    matched = match(trades, alerts, output="pairs")
    notifications = matched.result.cache()
    stage.say(matched.explain())
    count = notifications.count()
    joined = trades.join(
        alerts, (trades.symbol == alerts.wanted) & trades.price.between(alerts.low, alerts.low + 10.0)
    )
    wanted = joined.select(trades["id"], alerts["id"].alias("subscription"))
    found = notifications.select("id", "subscription")
    same = found.exceptAll(wanted).isEmpty() and wanted.exceptAll(found).isEmpty()
    stage.claim(
        f"{count:,} notifications of {EVENTS:,} trades to {SUBSCRIPTIONS:,} alerts, the same as a "
        "join in SQL finds",
        same and count > 0,
        short=f"{count:,} notifications on Spark for {SUBSCRIPTIONS:,} alerts, as SQL has it",
    )
    judge(stage, spark, write_history(alerts, trades, notifications, folder))


def write_history(alerts: Any, trades: Any, notifications: Any, folder: Path) -> Path:
    """Subscriptions, publications and notifications as rows of one history."""
    empty = "CAST(NULL AS string)"
    text = "CAST(n + 1 AS double)"

    def rows(frame: Any, **columns: str) -> Any:
        names = (
            "time",
            "process",
            "op",
            "subscription",
            "filter",
            "event",
            "source",
            "sequence",
            "attributes",
            "outcome",
        )
        kinds = {"sequence": "CAST(NULL AS bigint)"}
        return frame.selectExpr(
            "'demo' AS run", *(f"{columns.get(n, kinds.get(n, empty))} AS {n}" for n in names)
        )

    subscribed = rows(
        alerts,
        time="0.0D",
        process="subscriber",
        op="'sub'",
        subscription="id",
        filter="filter",
        outcome="'ok'",
    )
    published = rows(
        trades, time=text, process="'market'", op="'pub'", event="id", source="'market'", sequence="n + 1",
        attributes="to_json(struct(symbol, price))", outcome="'ok'",
    )  # fmt: skip
    received = rows(
        notifications, time=f"{text} + 0.5D", process="subscriber", op="'ntfy'", subscription="subscription",
        event="id", source="'market'", sequence="n + 1",
    )  # fmt: skip
    path = folder / "spark-history"
    subscribed.unionByName(published).unionByName(received).write.mode("overwrite").parquet(str(path))
    return path


def judge(stage: Stage, spark: Any, history: Path) -> None:
    from tidings.pipeline.checks import check_on_spark

    report = check_on_spark([history], spark=spark, t_sub=0.0, t_diff=0.1)
    holding = [name for name, verdict in report.verdicts.items() if verdict.holds]
    stage.table(
        ("property", "verdict"),
        [
            (name, "holds" if verdict.holds else f"broken: {verdict.story}")
            for name, verdict in report.verdicts.items()
            if verdict.holds is not None
        ],
    )
    stage.claim(
        f"{len(holding)} properties hold over the notifications that Spark made",
        "completeness" in holding and not report.broken,
        short=f"{len(holding)} properties hold over Spark's notifications",
    )
