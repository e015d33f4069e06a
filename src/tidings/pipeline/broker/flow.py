"""Brokers in flows: as a source, as the place where subscriptions are stated, and as a sink that delivers.

    [sources.prices]        kind = "broker"   events of the brokers' logs that a filter accepts
    [subscriptions.users]   kind = "broker"   each event with an attribute `filter` states a subscription
    [sinks.alerts]          kind = "broker"   each row is published, under the topic of its subscriber

A subscription is stated by publishing an event: `{"filter": "price > 100", "name": "dear"}` with a key and a
lifetime of forever, under a topic that the flow names. Its identity is (source, name), so a principal states
only its own. The same key again replaces it; without a `filter` it is withdrawn. They are read before each
batch.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.errors import InputError

PLACE = re.compile(r"\{(\w+)\}")
Rows = Literal["matched", "problems", "all"]
SAID = "topic = 'subscriptions/#'"


class _BrokerOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Broker connection of a flow: address and credentials. Secrets stand in files."""

    user: str = ""
    password_file: str = ""
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    timeout: float = 60.0

    def identity(self) -> dict[str, str]:
        given = {
            "user": self.user, "passwordFile": self.password_file, "tokenFile": self.token_file,
            "certificate": self.certificate, "key": self.key, "authority": self.authority,
            "timeout": str(self.timeout),
        }  # fmt: skip
        return {name: value for name, value in given.items() if value}


class BrokerSource(_BrokerOptions, forbid_unknown_fields=True, kw_only=True):
    brokers: str
    reader: str  # its name at the brokers, which keep what it has not read
    columns: str | None = None  # as in SQL; without it those of a sample
    filter: str | None = None
    events_per_batch: int = 500_000
    starting: str = "earliest"
    superseding: bool = False  # true: of the events with one key only the newest is read


class BrokerSubscribers(_BrokerOptions, forbid_unknown_fields=True, kw_only=True):
    brokers: str
    filter: str = SAID  # which events state subscriptions
    compiled: str = "subscriptions"  # a folder for compiled versions


class BrokerSink(_BrokerOptions, forbid_unknown_fields=True, kw_only=True):
    broker: str
    topic: str = "alerts/{subscriber}"  # {NAME}: the value of that column
    lifetime: str = "0"
    rows: Rows = "matched"


def _open_source(spark: Any, settings: BrokerSource) -> Any:
    from tidings.pipeline.broker import register

    register(spark)
    reader = spark.readStream.format("tidings").options(
        brokers=settings.brokers, reader=settings.reader, startingOffsets=settings.starting,
        maxEventsPerBatch=str(settings.events_per_batch), superseding=str(settings.superseding).lower(),
        **settings.identity(),
    )  # fmt: skip
    if settings.filter is not None:
        reader = reader.option("filter", settings.filter)
    return (reader if settings.columns is None else reader.schema(settings.columns)).load()


# -- subscriptions -----------------------------------------------------------------------------------


class StatedSubscriptions:
    """The table of subscriptions that were stated to brokers, as it stands at each batch."""

    shared = False

    def __init__(self, settings: BrokerSubscribers) -> None:
        from tidings.pipeline.broker import options
        from tidings.pipeline.tables import Table

        self._reading = options.reading(
            {"brokers": settings.brokers, "filter": settings.filter, **settings.identity()}
        )
        self.table = Table(Path(settings.compiled))
        self._stamp = self.table.version().about.note if self.table.numbers() else ""
        self._read: dict[str, int] = {}
        self._stated: dict[tuple[str, str], tuple[str, str, str]] = {}  # by source and name

    def current(self) -> Any:
        """The version to match the next batch with; compiled anew after a new statement."""
        import pyarrow as pa

        self._receive()
        rows = [(f"{source}/{name}", *stated) for (source, name), stated in sorted(self._stated.items())]
        stamp = blake2b(repr(rows).encode(), digest_size=16).hexdigest()
        if stamp != self._stamp or not self.table.numbers():
            names = ("id", "subscriber", "filter", "dialect")
            columns = [pa.array([row[n] for row in rows], pa.string()) for n in range(len(names))]
            self.table.publish(pa.table(dict(zip(names, columns, strict=True))), note=stamp)
            self._stamp = stamp
        return self.table.version()

    def _receive(self) -> None:
        from tidings.pipeline.broker.reading import LogSpan, pages, state_of

        reading = self._reading
        for where in reading.brokers:
            state = state_of(where)
            span = LogSpan(
                where, state.log, self._read.get(state.log, 0), state.end, reading.filter, reading.dialect
            )
            for page in pages(span):
                for _, stored in page:
                    self._take(stored.event)
            self._read[state.log] = state.end

    def _take(self, event: Any) -> None:
        own = (event.source, str(event.get("name") or event.key or event.id))
        filter = event.get("filter")
        if filter is None:
            self._stated.pop(own, None)
        else:
            self._stated[own] = (event.source, str(filter), str(event.get("dialect") or "tidings"))


# -- delivering --------------------------------------------------------------------------------------


class BrokerDelivery:
    """Publishes the rows of a batch at a broker, once: under the query's id and the batch's number."""

    def __init__(self, spark: Any, settings: BrokerSink, checkpoint: str) -> None:
        from tidings.pipeline.broker import options, register
        from tidings.pipeline.files import Files
        from tidings.pipeline.sink import Checkpoint

        register(spark)
        self._settings = settings
        self._given = {
            "broker": settings.broker, "lifetime": settings.lifetime, "writer": checkpoint,
            **settings.identity(),
        }  # fmt: skip
        self._writing = options.writing(self._given)
        self._checkpoint = Checkpoint(Files(spark), checkpoint)

    def _run(self) -> str:
        run = self._checkpoint.query_id()
        if run is None:
            raise InputError(f"the checkpoint {self._checkpoint.path} vanished while its query ran")
        return run

    def is_published(self, batch: int) -> bool:
        from tidings.pipeline.broker.lines import line_to
        from tidings.pipeline.broker.sink import JOB, register_query

        line, run = line_to(self._writing.broker), self._run()
        register_query(self._writing, line, run, batch, JOB + run)
        return line.ask(lambda bus: bus.committed(JOB + run)) >= batch

    def publish(self, frame: Any, batch: int) -> None:
        written = addressed(frame, self._settings.topic).write.format("tidings").mode("append")
        written.options(**self._given, job=self._run(), batch=str(batch)).save()


def addressed(frame: Any, topic: str) -> Any:
    """The rows as events of their own: each has a topic, and names the event that it is about."""
    from pyspark.sql import functions as F  # noqa: N812

    if "subscriptions" in frame.columns:
        raise InputError(
            "a broker delivers a row to one subscriber", hint='set output = "pairs" for the match'
        )
    missing = [name for name in PLACE.findall(topic) if name not in frame.columns]
    if missing:
        raise InputError(f"the topic {topic!r} names {missing[0]!r}, which is no column of the rows")
    parts: list[Any] = []
    for number, text in enumerate(PLACE.split(topic)):
        parts.append(F.col(text).cast("string") if number % 2 else F.lit(text))
    for name, other in (("id", "event"), ("source", "event_source"), ("topic", "event_topic")):
        if name in frame.columns:
            frame = frame.withColumnRenamed(name, other)
    return frame.withColumn("topic", F.concat(*parts))


def _says(what: str) -> Any:
    return lambda settings: f"{what} {getattr(settings, 'brokers', None) or settings.broker}"


def broker_kinds(kind: Any) -> dict[str, Any]:
    """The kind `broker` of each table, for the registry of kinds."""
    opened = lambda spark, settings: StatedSubscriptions(settings)  # noqa: E731
    return {
        "sources": kind(BrokerSource, _open_source, _says("events of"), ()),
        "subscriptions": kind(BrokerSubscribers, opened, _says("stated to"), ("compiled",)),
        "sinks": kind(BrokerSink, BrokerDelivery, _says("published at"), ()),
    }
