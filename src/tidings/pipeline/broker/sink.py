"""`df.write` and `df.writeStream` to a broker: staged by the tasks, published at once by the driver.

Rules
- A task stages its rows at the broker in parts, invisible to subscribers. The driver commits the parts of the
  tasks that counted, under the query's id and the batch's number, in one atomic write at the broker. A second
  commit of a batch has no effect. So events are published exactly once, in spite of killed processes.
- The broker remembers which query a writer is. A lost checkpoint makes Spark begin anew under another id:
  that is refused, because everything that it reads again would be published twice.
- A broker that does not know a writer with earlier batches has lost its disk, or is another one:
  refused too.
- After a crash Spark repeats the last batch, and no earlier one. A batch before the last is of an old copy
  of a checkpoint, and may hold other rows under its number: refused.
- The broker forgets staged parts without a commit after a time.
- A row is a new event, with an identity made of query, batch and row, or it is the event that its columns
  `id` and `source` name. An `id` without a `source` is refused unless the option `identity` says which: ids
  are unique to their sources, and rows of one identity count as one event.
- A stream with `identity=row` that reads an event of its own would make a new one of it, for ever: such a
  row is refused. The id of a new event begins with the hash of its query, so it is known again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from pyarrow.types import is_nested
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidings.errors import EventError, InputError, SettingsError, TidingsError
from tidings.model.event import Event, event_size
from tidings.pipeline.broker.columns import event_of
from tidings.pipeline.broker.kinds import mapped
from tidings.pipeline.broker.lines import Ask, BrokerConnection, line_to
from tidings.pipeline.broker.options import GO_ON, ROW, WriteOptions

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
WRITER, JOB = "writer:", "job:"  # before the names that the broker remembers
PARTITION_BITS, ATTEMPT_BITS = 36, 20  # of a part's number: partition, attempt, chunk
PART_BYTES = 4 << 20  # of events in one part, at most


class StagedCommit(WriterCommitMessage):  # type: ignore[misc]
    """Rows that a task has staged."""

    def __init__(self, query: str, parts: Sequence[int], events: int) -> None:
        self.query, self.parts, self.events = query, list(parts), events


class _Stager:
    """Stages the rows of one task."""

    def __init__(self, writing: WriteOptions, query: str, batch: int, *, refuses_own: bool = False) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        self._writing, self._query, self._batch = writing, query, batch
        self._refuses_own = refuses_own  # events that this query published before
        self._partition = 0 if context is None else context.partitionId()
        self._attempt = 0 if context is None else context.attemptNumber()
        self._line = line_to(writing.broker)

    def stage(self, batches: Iterable[Any]) -> StagedCommit:
        numbers: list[int] = []
        rows = 0
        for part in _parts(self._events(batches), self._writing.part_events):
            number = self._number(len(numbers))
            self._line.ask(self._staging(number, part))
            numbers.append(number)
            rows += len(part)
        return StagedCommit(self._query, numbers, rows)

    def _staging(self, number: int, part: list[Event]) -> Ask[None]:
        return lambda bus: bus.stage(self._query, self._batch, number, part)

    def _number(self, chunk: int) -> int:
        return self._partition << PARTITION_BITS | self._attempt << ATTEMPT_BITS | chunk

    def _events(self, batches: Iterable[Any]) -> Iterator[Event]:
        writing, count = self._writing, 0
        own = f"{_short(self._query)}-"
        prefix = f"{own}{self._batch}-{self._partition}"
        for batch in batches:
            kinds = {each.name: each.type for each in batch.schema if is_nested(each.type)}
            for row in batch.to_pylist():
                count += 1
                if self._refuses_own and str(row.get("id")).startswith(own):
                    raise _loop(f"row {count} of partition {self._partition}", row["id"])
                row |= {name: mapped(row[name], kind) for name, kind in kinds.items()}
                try:
                    yield event_of(
                        row, source=writing.broker.name, id=f"{prefix}-{count}",
                        topic=writing.topic, lifetime=writing.lifetime, identity=writing.identity,
                    )  # fmt: skip
                except EventError as error:
                    raise EventError(
                        f"row {count} of partition {self._partition} is no event: {error.message}",
                        hint=error.hint,
                    ) from None


def _loop(where: str, id: str) -> InputError:
    return InputError(
        f"{where} is the event {id!r}, which this query published itself: the source accepts what the sink "
        "publishes, and each event would come round again for ever",
        hint="leave these events out by the filter of the source: AND NOT EXISTS event, or by their topic; "
        "or set onLoop to 'go on', if the rows come to an end by themselves",
    )


def _short(query: str) -> str:
    """What stands for a query in the ids of its rows: of all of its name, since those of jobs begin alike."""
    return blake2b(query.encode(), digest_size=8).hexdigest()


def _parts(events: Iterator[Event], most: int) -> Iterator[list[Event]]:
    part: list[Event] = []
    size = 0
    for event in events:
        if part and size + event_size(event) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(event)
        size += event_size(event)
        if len(part) >= most:
            yield part
            part, size = [], 0
    if part:
        yield part


def _numbers(messages: Sequence[Any]) -> list[int]:
    return sorted(number for message in messages if message is not None for number in message.parts)


class BrokerStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, writing: WriteOptions) -> None:
        if not writing.writer:
            raise SettingsError(
                "a stream into a broker needs a name, by which the broker knows a lost checkpoint",
                hint='.option("checkpointLocation", ...) or .option("writer", "alerts")',
            )
        self._writing = writing

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        batch = None if context is None else context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise InputError("Spark does not say which query and batch a task is of", hint="use foreachBatch")
        writing = self._writing
        refuses_own = writing.identity == ROW and writing.on_loop != GO_ON
        return _Stager(writing, query, int(batch), refuses_own=refuses_own).stage(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        queries = {message.query for message in messages if message is not None}
        if not queries:
            return
        (query,) = queries
        line = line_to(self._writing.broker)
        register_query(self._writing, line, query, batchId, query)
        if line.ask(lambda bus: bus.commit_parts(query, batchId, _numbers(messages))):
            return
        last = line.ask(lambda bus: bus.committed(query))
        if last > batchId:
            _refuse(
                self._writing,
                f"the writer {self._writing.writer!r} published batch {last} before, and Spark repeats batch "
                f"{batchId}: its checkpoint is an old copy, and the rows of this batch were not published",
                "restore the latest checkpoint, or give a new one together with another writer",
            )

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """The batch was not published; it comes again, and its staged parts are replaced or forgotten."""


class BrokerBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One job is one batch. With the option `job` a second run of the same job has no effect; a job of
    many batches numbers them (`batch`)."""

    def __init__(self, writing: WriteOptions) -> None:
        self._writing = writing
        self._query = JOB + (writing.job or str(uuid4()))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Stager(self._writing, self._query, self._writing.batch).stage(iterator)

    def commit(self, messages: list[Any]) -> None:
        line_to(self._writing.broker).ask(
            lambda bus: bus.commit_parts(self._query, self._writing.batch, _numbers(messages))
        )

    def abort(self, messages: list[Any]) -> None:
        """The batch was not published; its staged parts are forgotten after a time."""


# -- which query a writer is -----------------------------------------------------------------------

_TURN = 1 << 32  # a writer's number: how often it was taken over, then a hash of its query


def register_query(
    writing: WriteOptions, line: BrokerConnection, query: str, batch: int, committed_as: str
) -> None:
    """Make sure that this query is the writer's, and that the broker knows its earlier batches."""
    name = WRITER + blake2b(writing.writer.encode(), digest_size=16).hexdigest()
    mine = int.from_bytes(blake2b(query.encode(), digest_size=4).digest(), "big")
    known = line.ask(lambda bus: bus.committed(name))
    if known >= 0 and known % _TURN == mine:
        return
    if known < 0 and batch > 0 and line.ask(lambda bus: bus.committed(committed_as)) < 0:
        _refuse(
            writing,
            f"the broker at {writing.broker.address} knows nothing of the writer "
            f"{writing.writer!r}, whose batches "
            f"up to {batch - 1} it should have: its disk was lost, or it is another broker",
            "go back to that broker; or set onLostCheckpoint to 'go on', if batches that were "
            "published elsewhere "
            "may come again",
        )
    if known >= 0:
        _refuse(
            writing,
            f"the writer {writing.writer!r} was another query before: its checkpoint was lost, or replaced",
            "restore the checkpoint, or give a new one together with another writer; "
            "onLostCheckpoint = 'go on' "
            "publishes all the same whatever is read again",
        )
    taken = (known // _TURN + 1 if known >= 0 else 0) * _TURN + mine
    line.ask(lambda bus: bus.commit_parts(name, taken, ()))
    if line.ask(lambda bus: bus.committed(name)) != taken:
        raise TidingsError(f"two queries are the writer {writing.writer!r} at once")


def _refuse(writing: WriteOptions, problem: str, hint: str) -> None:
    if writing.on_lost_checkpoint != GO_ON:
        raise InputError(problem, hint=hint)
