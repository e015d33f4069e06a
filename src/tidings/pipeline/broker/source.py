"""`spark.read` and `spark.readStream` from brokers: offsets are places in their logs.

Rules
- Each broker that is named is read at its own log. An offset of a stream is, for each log, the place up to
  which everything was read; with it stands the name of the reader.
- A stream holds the logs under its name (`Bus.hold_log`): events that its filter accepts are kept until a
  batch that read them is done. So no event is missed between two batches, with any lifetime.
- A batch is a span of each log between two offsets, so a batch that is repeated reads the same events. The
  end of the first batch holds its begin too, which Spark's checkpoint has nowhere else.
- Spark asks for an initial offset in two cases: a query without a checkpoint, which then asks for the latest
  offset; and a repetition of the first batch, which the checkpoint holds and Spark plans at once. The first
  case under the name of a reader that has begun is a lost checkpoint.
- An event that a newer one of its key supersedes is read all the same, unless `superseding` is set: a batch
  that is repeated after the newer event came would else lack what it had read.
- No event is skipped silently: a hold that is gone, a log that is gone, a stream that begins anew where one
  of its name has been are errors, and an option says how to go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidings.errors import InputError, SettingsError
from tidings.language import parse_filter
from tidings.pipeline.broker.columns import Columns
from tidings.pipeline.broker.lines import line_to
from tidings.pipeline.broker.options import GO_ON, BrokerTarget, ReadOptions, places, shown
from tidings.pipeline.broker.reading import LogExtent, LogSpan, next_place, state_of
from tidings.protocol.messages import LogHeld

SPAN_EVENTS = 25_000  # places of a log that one task reads at least
MOST_TASKS = 8  # that read one log, unless the option partitions says otherwise
INITIAL = "initial"  # of an offset: no batch has been read yet
FROM = "from"  # of the end of the first batch: where it begins
BEGUN = "reader:"  # before a reader's name: the note at the broker that it has begun


class LogPartition(InputPartition):  # type: ignore[misc]
    def __init__(self, span: LogSpan) -> None:
        self.span = span


def read_part(schema: Any, part: Any) -> Iterator[Any]:
    return Columns(schema).read(part.span)


class BrokerBatchReader(DataSourceReader):  # type: ignore[misc]
    """Rows of the logs: all present ones, or those between two sets of offsets."""

    def __init__(self, reading: ReadOptions, schema: Any) -> None:
        # no hold keeps superseded events for a batch
        self._reading, self._schema = msgspec.structs.replace(reading, superseding=True), schema
        _check(reading, schema)

    def partitions(self) -> Sequence[InputPartition]:
        reading = self._reading
        states = _once({where: state_of(where) for where in reading.brokers})
        starts = _starting(reading, states)
        ends = {state.log: state.end for state in states.values()}
        if reading.ending != "latest":
            ends |= _chosen(reading.ending, "endingOffsets", states)
        for where, state in states.items():
            if starts[state.log] > 0:
                _refuse_trimmed(reading, where, state.log, starts[state.log], state.begin)
        return [
            LogPartition(span)
            for where, state in states.items()
            for span in _spans(reading, where, state.log, starts[state.log], min(ends[state.log], state.end))
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._schema, partition)


class BrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, reading: ReadOptions, schema: Any) -> None:
        if not reading.reader:
            raise SettingsError(
                "a stream needs a name at the brokers, under which they keep what it has not read",
                hint='.option("reader", "price-alerts")',
            )
        self._reading, self._schema = reading, schema
        self._last: dict[str, int] | None = None  # of a query that ends with what is there
        self._has_begun = False
        self._initial: dict[str, Any] | None = None
        self._known: BrokerTarget | None = None  # a broker that this reader has read from before
        self._renewed: set[str] = set()  # logs of such brokers that kept nothing for it any more
        self._has_chosen = False  # is the first batch one that Spark had no end for?
        _check(reading, schema)

    # -- offsets -----------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:
            reading = self._reading
            stored = {where: _hold(reading, where) for where in reading.brokers}
            begun = [where for where in stored if _was_begun(reading, where)]
            self._known = next((where for where in begun if not stored[where].is_new), None)
            self._renewed = {stored[where].log for where in begun if stored[where].is_new}
            logs = {one.log: one.upto for one in stored.values()}
            if self._known is None or reading.on_lost_checkpoint == "restart":
                states = {where: LogExtent(one.log, one.begin, one.end) for where, one in stored.items()}
                logs = _starting(reading, states)
            self._initial = self._offset(logs) | {INITIAL: True}
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        reading, read = self._reading, self._read(start)
        begins = dict(read)
        is_first = INITIAL in start
        if is_first:
            self._refuse_lost_checkpoint()
        ends: dict[str, int] = {}
        for where in reading.brokers:
            hold = _hold(reading, where)
            if hold.log in read:
                self._refuse_gap(where, hold, read[hold.log])
            if read.get(hold.log, 0) > hold.end:
                next_place(where, hold.log, read[hold.log])  # an error, unless others of a group are further
            ends[hold.log] = max(hold.end, read.get(hold.log, 0))
            if self._last is not None:
                ends[hold.log] = max(min(ends[hold.log], self._last.get(hold.log, 0)), read.get(hold.log, 0))
            read.setdefault(hold.log, 0)
            if isinstance(limit, ReadMaxRows) and ends[hold.log] - read[hold.log] > limit.max_rows:
                read[hold.log] = min(ends[hold.log], next_place(where, hold.log, read[hold.log]))
        self._refuse_missing(set(read) - set(ends))
        ends |= {log: read[log] for log in read if log not in ends}
        if isinstance(limit, ReadMaxRows):
            ends = within(read, ends, limit.max_rows)
        if is_first:
            return self._offset(ends) | {FROM: begins}
        return start if ends == begins else self._offset(ends)

    def _refuse_lost_checkpoint(self) -> None:
        """A query that asks what its first batch holds has no checkpoint."""
        self._has_chosen = True
        if self._known is not None and not self._has_begun and self._reading.on_lost_checkpoint == "fail":
            raise InputError(
                f"the reader {self._reading.reader!r} has read from {self._known.address} before, and this "
                "query has no checkpoint: it was lost, or the name is another query's",
                hint="restore the checkpoint; or set onLostCheckpoint to resume (from what was "
                "committed last: the "
                "batch after it comes again) or restart (from startingOffsets); or choose another reader",
            )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._reading.most_events)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._offset({state.log: state.end for state in map(state_of, self._reading.brokers)})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = {state.log: state.end for state in map(state_of, self._reading.brokers)}

    def _offset(self, logs: Mapping[str, int]) -> dict[str, Any]:
        return {"reader": self._reading.reader, "logs": dict(sorted(logs.items()))}

    def _read(self, offset: Mapping[str, Any]) -> dict[str, int]:
        if offset["reader"] != self._reading.reader:
            raise InputError(
                f"the checkpoint is of the reader {offset['reader']!r}, not of {self._reading.reader!r}",
                hint="give the reader its name back, or begin with a new checkpoint",
            )
        return dict(offset["logs"])

    def _refuse_gap(self, where: BrokerTarget, hold: LogHeld, read: int) -> None:
        """A hold that began anew: what was not read may be gone."""
        if not hold.is_new or self._reading.on_trimmed == GO_ON:
            return
        line = line_to(where)
        line.ask(lambda bus: bus.end_hold(self._reading.reader))  # so that asking again finds the same
        gone = f"offsets {read + 1} to {hold.begin - 1} are gone" if hold.begin > read + 1 else (
            f"what came after offset {read} may be gone"
        )  # fmt: skip
        raise InputError(
            f"no hold keeps the log {hold.log} at {where.address} for the reader "
            f"{self._reading.reader!r} any more: "
            f"{gone}, as far as lifetimes were over",
            hint="set onTrimmed to 'go on' to read on with what is there; keepSeconds makes brokers "
            "hold longer",
        )

    def _refuse_missing(self, missing: set[str]) -> None:
        if missing and self._reading.on_missing_log != GO_ON:
            raise InputError(
                f"no broker that was named has the log {min(missing)}, which this query has read from",
                hint="name its broker again; if its disk is lost for good, so is what was not read of "
                "it: set "
                "onMissingLog to 'go on'",
            )

    # -- batches -----------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        reading = self._reading
        self._note_begun()
        begins, ends = self._read(start), self._read(end)
        if INITIAL in start:
            begins |= end.get(FROM, {})
        is_repeated = INITIAL in start and not self._has_chosen
        homes: dict[str, BrokerTarget] = {}
        for where in reading.brokers:
            hold = _hold(reading, where)
            homes[hold.log] = where
            begin = begins.get(hold.log, 0)
            if ends.get(hold.log, 0) > begin:  # a batch that is repeated, perhaps
                if is_repeated and hold.log in self._renewed:
                    hold = msgspec.structs.replace(hold, is_new=True)
                if begin > 0 or is_repeated:
                    self._refuse_gap(where, hold, begin)
        self._refuse_missing({log for log, upto in ends.items() if upto > begins.get(log, 0)} - set(homes))
        return [
            LogPartition(span)
            for log, where in homes.items()
            for span in _spans(reading, where, log, begins.get(log, 0), ends.get(log, 0))
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        ends = self._read(end)
        for where in self._reading.brokers:
            if _hold(self._reading, where, ends).is_new and ends:
                line_to(where).ask(
                    lambda bus: bus.end_hold(self._reading.reader)
                )  # the next batch reports it

    def stop(self) -> None:
        """The hold stays: the query may restart."""

    def _note_begun(self) -> None:
        """By now the checkpoint knows where the query began; from now on a lost hold is an error."""
        if not self._has_begun:
            for where in self._reading.brokers:
                line_to(where).ask(lambda bus: bus.commit_parts(BEGUN + self._reading.reader, 0, ()))
            self._has_begun = True


def _check(reading: ReadOptions, schema: Any) -> None:
    Columns(schema)
    if reading.filter is not None:
        parse_filter(reading.filter, dialect=reading.dialect)


def _hold(reading: ReadOptions, where: BrokerTarget, ends: Mapping[str, int] | None = None) -> LogHeld:
    line = line_to(where)

    async def hold(bus: Any) -> LogHeld:
        about: dict[str, Any] = {
            "seconds": reading.keep_seconds, "dialect": reading.dialect, "superseding": reading.superseding,
        }  # fmt: skip
        log_hold: LogHeld = await bus.hold_log(reading.reader, reading.filter, **about)
        upto = (ends or {}).get(log_hold.log, 0)
        if upto > log_hold.upto:
            moved: LogHeld = await bus.hold_log(
                reading.reader, reading.filter, upto=upto, log=log_hold.log, **about
            )
            return msgspec.structs.replace(moved, is_new=log_hold.is_new)
        return log_hold

    return line.ask(hold)


def _was_begun(reading: ReadOptions, where: BrokerTarget) -> bool:
    return line_to(where).ask(lambda bus: bus.committed(BEGUN + reading.reader)) >= 0


def _once(states: Mapping[BrokerTarget, LogExtent]) -> dict[BrokerTarget, LogExtent]:
    """Each log once, though several of the addresses lead to its broker."""
    return dict({state.log: (where, state) for where, state in states.items()}.values())


def _starting(reading: ReadOptions, states: Mapping[BrokerTarget, LogExtent]) -> dict[str, int]:
    if reading.starting == "earliest":
        return {state.log: 0 for state in states.values()}
    if reading.starting == "latest":
        return {state.log: state.end for state in states.values()}
    return {state.log: 0 for state in states.values()} | _chosen(reading.starting, "startingOffsets", states)


def _chosen(text: str, option: str, states: Mapping[BrokerTarget, LogExtent]) -> dict[str, int]:
    chosen = places(text, option)
    logs = {state.log for state in states.values()}
    unknown = sorted(set(chosen) - logs)
    if unknown:
        raise SettingsError(
            f"{option} names the log {unknown[0]}, which none of the brokers has",
            hint=f"they have {', '.join(sorted(logs))}",
        )
    return chosen


def _refuse_trimmed(reading: ReadOptions, where: BrokerTarget, log: str, after: int, begin: int) -> None:
    if begin > after + 1 and reading.on_trimmed != GO_ON:
        raise InputError(
            f"the log {log} at {where.address} begins at {begin} now: offsets {after + 1} to "
            f"{begin - 1} are gone",
            hint=f"start from {shown({log: begin - 1})}, or set onTrimmed to 'go on'",
        )


def within(read: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Ends that lie at most so many places beyond what was read; each log gets its share of them."""
    left = {log: ends[log] - read.get(log, 0) for log in sorted(ends)}
    total = sum(left.values())
    if total <= most:
        return dict(ends)
    share = {log: count * most // total for log, count in left.items()}
    for log in left:  # what rounding left over goes to those that have more
        more = min(left[log] - share[log], most - sum(share.values()))
        share[log] += more
    return {log: read.get(log, 0) + share[log] for log in left}


def _spans(reading: ReadOptions, where: BrokerTarget, log: str, after: int, upto: int) -> list[LogSpan]:
    """A span cut into the tasks that read it."""
    size = upto - after
    if size <= 0:
        return []
    count = reading.partitions or min(MOST_TASKS, -(-size // SPAN_EVENTS))
    count = min(count, size)
    cuts = [after + size * number // count for number in range(count + 1)]
    return [
        LogSpan(where, log, first, last, reading.filter, reading.dialect, not reading.superseding)
        for first, last in pairwise(cuts)
    ]
