"""`catch_up`: an archive against many new subscriptions in one pass on Spark, up to an exact place in each
log.

Rules
- Only the files and row groups that may hold an event for one of the filters are read (`archive/pruning.py`).
- The answer is the matcher's, on the columns of the archive; rows with attributes outside the columns are
  matched from the whole event.
- A task reads files, matches, and passes only matching rows through Spark. If types
  are asked for, or the subscriptions are too many for one machine, all rows are handed to `match`.
- `places` holds the archived offset of each log. A subscriber with `since=places` at a broker goes on
  from there: events up to the places come from here, events beyond them live. Open that subscription first (a
  durable one), then catch up: events that the log drops meanwhile are in the archive by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tidings.archive.reading import ArchivePiece, batches, pieces
from tidings.archive.state import Archive, ArchiveState
from tidings.archive.writing import arrow_kind
from tidings.language import parse_filter
from tidings.model.event import LINEAGE, RESERVED, Event
from tidings.model.filter import EVERYTHING, Filter

OWN = (
    "id string, source string, topic string, type array<string>, time timestamp, _log string, _offset bigint"
)
KEPT = ["_log", "_offset", "id", "source"]
SPARK_KINDS = {"bool": "boolean", "int": "bigint", "float": "double", "str": "string", "time": "timestamp"}
PIECE_ROWS = 500_000  # that one task reads at most

_decode = msgspec.msgpack.Decoder(Event).decode


class CaughtUp(NamedTuple):
    """What `catch_up` gives. `result`: `_log`, `_offset`, `id`, `source`, `subscriptions`, and `_event` (the
    whole event in MessagePack); `places`: the seam, by log; the rest says what was read."""

    result: Any
    places: dict[str, int]
    rows: int
    rows_read: int
    files: int
    files_read: int
    rejects: Any


def catch_up(
    spark: Any,
    archive: str | os.PathLike[str],
    subscriptions: Any,
    *,
    after: Mapping[str, int] | None = None,
    prune: bool = True,
    whole: bool = True,
) -> CaughtUp:
    """Match an archive with a table of subscriptions (`id`, `filter`, …: see `match`).

    `after` leaves out what lies at or before a place of a log. `prune` False reads everything, for
    comparison. `whole` False leaves out `_event`.
    """
    from tidings.pipeline.matching import subscription_rows

    opened = Archive(archive)
    state = opened.checked()
    table = subscription_rows(spark, subscriptions)
    filters = _filters(table) if prune else [EVERYTHING]
    found = _cut(pieces(opened, state, filters, after=after))
    plain = _matched(spark, found, state, table, dict(after or {}), whole=whole)
    result = plain.result.drop("version")
    if any(file.odd for file in state.files):
        odd = _odd_frame(spark, found, table, dict(after or {}), result.schema, whole=whole)
        result = result.unionByName(odd)
    return CaughtUp(
        result=result,
        places=dict(state.places),
        rows=sum(file.rows for file in state.files),
        rows_read=sum(piece.rows for piece in found),
        files=len(state.files),
        files_read=len({piece.place for piece in found}),
        rejects=plain.rejects,
    )


def _matched(
    spark: Any,
    found: Sequence[ArchivePiece],
    state: ArchiveState,
    table: Any,
    after: dict[str, int],
    *,
    whole: bool,
) -> Any:
    """The rows that columns tell everything of, matched."""
    from tidings.pipeline import matching as m
    from tidings.pipeline.attributes import plan
    from tidings.pipeline.executing import matching_with
    from tidings.pipeline.sizing import BYTES_EACH, choose
    from tidings.pipeline.tables import Table

    frame = _frame(spark, found, state, after, whole=whole).where("NOT _odd").drop("_odd")
    kept = [*KEPT, "_event"] if whole else KEPT
    decision = choose(spark, table.count() * BYTES_EACH, "auto", None, cut=True)
    if decision.strategy == "partitioned":
        return m.match(frame, table, keep=kept, unmatched=False)
    version = Table(m.scratch_folder()).publish(table)  # sampling is a job that reads much to keep little
    options = m.Options(keep=tuple(kept), unmatched=False)
    planned = plan(frame, version.about, keep=kept)
    names = _plain_names(planned)
    if names is None:
        return m.match_everywhere(frame, version, decision, options, shared=False)
    location, _ = m.place_for(spark, version, shared=False)
    job = m.job_of(planned, version.about, options)
    run, kinds = matching_with(location, job), dict(state.columns)

    def wanted(tables: Iterator[Any]) -> Iterator[Any]:
        return _wanted(run(_picked(tables, names, kinds, after)), job.kept)

    answered = _spread(spark, found).mapInArrow(wanted, m.answer_schema(planned, version.about, job))
    return m.finished(answered, planned, version.rejected(), decision, options, version)


def _plain_names(planned: Any) -> list[str] | None:
    """The columns that matching asks for, as the files name them; None: some of them Spark has to make."""
    names = [field.name for field in planned.kept]
    for name, number in planned.attributes:
        if name in ("type", LINEAGE):
            return None
        if number == len(names):
            names.append(name)
    return names


def _picked(
    tables: Iterator[Any], names: Sequence[str], kinds: Mapping[str, str], after: Mapping[str, int]
) -> Iterator[Any]:
    """The rows of the pieces that are not odd, with these columns in this order."""
    import pyarrow as pa
    import pyarrow.compute as compute

    for table in tables:
        for piece in _pieces_in(table):
            begin = after.get(piece.log, 0)
            for batch in batches(piece, [*dict.fromkeys([*names, "_odd", "_offset"])]):
                taken = compute.invert(batch.column("_odd"))
                if begin:
                    taken = compute.and_(taken, compute.greater(batch.column("_offset"), begin))
                if not compute.all(taken, min_count=0).as_py():
                    batch = batch.filter(taken)
                arrays = [_column(batch, name, piece.log, kinds) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))


def _column(batch: Any, name: str, log: str, kinds: Mapping[str, str]) -> Any:
    import pyarrow as pa

    if name == "_log":
        return pa.repeat(log, len(batch))
    if name in RESERVED or name not in kinds:
        return batch.column(name)
    wanted = arrow_kind(kinds[name])
    return batch.column(name).cast(wanted) if name in batch.schema.names else pa.nulls(len(batch), wanted)


def _wanted(answers: Iterator[Any], lists: int) -> Iterator[Any]:
    """Of the answers those with a subscription, or with a problem; `lists` is the place of the
    subscriptions."""
    import pyarrow.compute as compute

    for answer in answers:
        delivered = compute.greater(compute.list_value_length(answer.column(lists)), 0)
        delivered = compute.or_(delivered, compute.is_valid(answer.column(answer.num_columns - 1)))
        some = answer.filter(delivered)
        if len(some):
            yield some


def _filters(table: Any) -> list[Filter]:
    """The filters of the subscriptions, each once; `match` reports those that cannot be read."""
    from tidings.errors import FilterError

    names = table.column_names if hasattr(table, "column_names") else table.columns
    rows = table.select([n for n in ("filter", "dialect") if n in names])
    rows = rows if hasattr(rows, "to_pylist") else rows.toArrow()
    found: dict[str, Filter] = {}
    for row in rows.to_pylist():
        try:
            filter = parse_filter(row["filter"] or "", dialect=row.get("dialect") or "tidings")
        except FilterError:
            continue
        found[filter.digest] = filter
    return list(found.values())


def _cut(found: Sequence[ArchivePiece]) -> list[ArchivePiece]:
    """Pieces that tasks can share: none much larger than others."""
    cut: list[ArchivePiece] = []
    for piece in found:
        per = max(1, len(piece.groups) * PIECE_ROWS // max(1, piece.rows))
        for first in range(0, len(piece.groups), per):
            groups = piece.groups[first : first + per]
            cut.append(
                ArchivePiece(piece.place, piece.log, groups, piece.rows * len(groups) // len(piece.groups))
            )
    return cut


def _spread(spark: Any, found: Sequence[ArchivePiece]) -> Any:
    """The pieces as a table, some for each task."""
    rows = [(piece.place, piece.log, list(piece.groups), piece.rows) for piece in found]
    frame = spark.createDataFrame(rows, "place string, log string, groups array<int>, rows bigint")
    return frame.repartition(max(1, min(len(rows), 4 * spark.sparkContext.defaultParallelism)))


def _pieces_in(batch: Any) -> Iterator[ArchivePiece]:
    for row in batch.to_pylist():
        yield ArchivePiece(row["place"], row["log"], tuple(row["groups"]), row["rows"])


def _frame(
    spark: Any, found: Sequence[ArchivePiece], state: ArchiveState, after: dict[str, int], *, whole: bool
) -> Any:
    """The rows of the pieces, with the attributes as columns."""
    kinds = {name: kind for name, kind in state.columns.items() if name not in RESERVED}
    own = ", ".join(f"`{name}` {SPARK_KINDS[kind]}" for name, kind in kinds.items())
    schema = f"{OWN}, _odd boolean{', _event binary' if whole else ''}{', ' + own if own else ''}"

    def read(tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            for piece in _pieces_in(table):
                for batch in batches(piece):
                    yield evened(batch, piece.log, kinds, after.get(piece.log, 0), whole=whole)

    return _spread(spark, found).mapInArrow(read, schema)


def evened(batch: Any, log: str, kinds: Mapping[str, str], after: int, *, whole: bool) -> Any:
    """A batch with all columns of the archive, also those that its file lacks."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if after:
        batch = batch.filter(compute.greater(batch.column("_offset"), after))
    names = batch.schema.names
    arrays, fields = [], []
    for name in ("id", "source", "topic", "type", "time"):
        arrays.append(batch.column(name))
        fields.append(name)
    arrays += [pa.array([log] * len(batch), pa.string()), batch.column("_offset"), batch.column("_odd")]
    fields += ["_log", "_offset", "_odd"]
    if whole:
        arrays.append(batch.column("_event"))
        fields.append("_event")
    for name, kind in kinds.items():
        wanted = arrow_kind(kind)
        has = name in names
        arrays.append(batch.column(name).cast(wanted) if has else pa.nulls(len(batch), wanted))
        fields.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=fields)


def _odd_frame(
    spark: Any, found: Sequence[ArchivePiece], table: Any, after: dict[str, int], schema: Any, *, whole: bool
) -> Any:
    """Rows with attributes that the columns do not hold, matched from the whole event."""
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = table if hasattr(table, "to_pylist") else table.toArrow()
    wanted = [
        (row["id"], row["filter"], row.get("dialect") or "tidings")
        for row in rows.to_pylist()
        if row["filter"]
    ]
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(tables: Iterator[Any]) -> Iterator[Any]:
        filters = _parsed(wanted)
        for batch in tables:
            for piece in _pieces_in(batch):
                yield from _odd_rows(piece, filters, after.get(piece.log, 0), arrow, whole=whole)

    return _spread(spark, found).mapInArrow(read, schema)


def _parsed(wanted: Sequence[tuple[Any, str, str]]) -> list[tuple[Any, Filter]]:
    """The subscriptions that the match took; the others are among its rejects."""
    from tidings.pipeline.compiling import SubscriptionReader

    reading = SubscriptionReader()
    ids, texts, dialects = ([row[n] for row in wanted] for n in range(3))
    filters = list(reading.filters(ids, texts, dialects))
    return [(ids[number], filter) for number, filter in zip(reading.kept, filters, strict=True)]


def _odd_rows(
    piece: ArchivePiece, filters: Sequence[tuple[Any, Filter]], after: int, arrow: Any, *, whole: bool
) -> Iterator[Any]:
    import pyarrow as pa

    from tidings.language.evaluate import accepts

    for batch in batches(piece, ["_offset", "_odd", "_event"]):
        rows = []
        for row in batch.to_pylist():
            if not row["_odd"] or row["_offset"] <= after:
                continue
            event = _decode(row["_event"])
            ids = [id for id, filter in filters if accepts(filter, event)]
            if ids:
                own = {"_log": piece.log, "_offset": row["_offset"], "id": event.id, "source": event.source}
                rows.append({**own, "subscriptions": ids} | ({"_event": row["_event"]} if whole else {}))
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=arrow)
