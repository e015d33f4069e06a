"""Reading an archive: the events that a filter accepts, in the order of each log, file by file.

Rules
- Files that cannot hold an event for the filter are not opened (`pruning.py`).
- Each event is judged by the filter itself, from its own bytes: columns only decide what to leave out.
- A place {log: offset} says where to go on: what is at or below it was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tidings.archive.pruning import file_may_hold, row_groups
from tidings.archive.state import Archive, ArchiveState, opened
from tidings.errors import CorruptionError
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter

_decode = msgspec.msgpack.Decoder(Event).decode


class ArchivedEvent(NamedTuple):
    """An event as the archive holds it."""

    log: str
    offset: int
    accepted: float
    event: Event


class ArchivePiece(NamedTuple):
    """Row groups of a file, for one reader. It can travel to another process."""

    place: str
    log: str
    groups: tuple[int, ...]
    rows: int


def pieces(
    archive: Archive,
    state: ArchiveState,
    filters: Sequence[Filter],
    *,
    after: Mapping[str, int] | None = None,
) -> list[ArchivePiece]:
    """The pieces to read for these filters, in the order of the logs."""
    import pyarrow.parquet as parquet

    found: list[ArchivePiece] = []
    for file in state.files:
        if file.last <= (after or {}).get(file.log, 0) or not file_may_hold(file, filters):
            continue
        path = archive.find(file, state)
        metadata = _sound(path, parquet.read_metadata)
        groups = row_groups(metadata, filters, has_odd=bool(file.odd))
        if groups:
            rows = sum(metadata.row_group(number).num_rows for number in groups)
            found.append(ArchivePiece(str(path), file.log, tuple(groups), rows))
    return found


def events(
    archive: Archive,
    state: ArchiveState,
    filter: Filter,
    *,
    after: Mapping[str, int] | None = None,
    upto: Mapping[str, int] | None = None,
) -> Iterator[ArchivedEvent]:
    """Events that the filter accepts beyond `after`, up to `upto` (default: the offsets of the state)."""
    begins = after or {}
    ends = state.places if upto is None else upto
    for piece in pieces(archive, state, [filter], after=begins):
        begin, end = begins.get(piece.log, 0), ends.get(piece.log, 0)
        for batch in batches(piece, ["_offset", "_accepted", "_event"]):
            for offset, accepted, raw in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if begin < offset <= end and accepts(filter, event := _decode(raw)):
                    yield ArchivedEvent(piece.log, offset, accepted.timestamp(), event)


class ArchivePage(NamedTuple):
    """A part of what a filter accepts, and where to go on."""

    found: list[ArchivedEvent]
    after: dict[str, int]
    is_last: bool


def page(
    archive: Archive,
    state: ArchiveState,
    filter: Filter,
    *,
    after: Mapping[str, int],
    upto: Mapping[str, int],
    limit: int,
    most_rows: int,
    most_bytes: int,
) -> ArchivePage:
    """At most so many events and bytes, but always one event, from at most so many rows (and the rest of a
    row group)."""
    position, looked, size = dict(after), 0, 0
    found: list[ArchivedEvent] = []
    for piece in pieces(archive, state, [filter], after=position):
        begin, end = position.get(piece.log, 0), upto.get(piece.log, 0)
        for batch in batches(piece, ["_offset", "_accepted", "_event"]):
            if len(found) >= limit or looked >= most_rows:
                return ArchivePage(found, position, False)
            looked += len(batch)
            for offset, accepted, raw in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if offset > end:
                    break
                if offset > begin and accepts(filter, event := _decode(raw)):
                    size += len(raw)
                    if found and size > most_bytes:
                        return ArchivePage(found, position, False)
                    found.append(ArchivedEvent(piece.log, offset, accepted.timestamp(), event))
                    if len(found) >= limit:
                        return ArchivePage(found, {**position, piece.log: offset}, False)
                position[piece.log] = max(position.get(piece.log, 0), offset)
    return ArchivePage(found, {**position, **upto}, True)


def batches(piece: ArchivePiece, columns: list[str] | None = None) -> Iterator[Any]:
    """The rows of a piece as Arrow batches."""
    import pyarrow.parquet as parquet

    file = _sound(piece.place, parquet.ParquetFile)
    for number in piece.groups:
        yield from _sound(
            piece.place, lambda _, n=number: file.read_row_group(n, columns=columns)
        ).to_batches()


def _sound(position: Any, read: Any) -> Any:
    import pyarrow as pa

    try:
        return opened(position, read)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(
            f"{position} cannot be read: {error}", hint="restore it from a copy; nothing of it is served"
        ) from None
