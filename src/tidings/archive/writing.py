"""Writing an archive: entries of a log become Parquet files, and small files become large ones.

Each file has the events of one log and one day, in the order of the log:

| column | meaning |
|---|---|
| `id`, `source`, `topic`, `type` (a list: the lineage), `time` | the event's own |
| any name without `_` before it | the attribute of that name; nested ones by dotted names |
| `_offset`, `_accepted` | its place in the log, and when the broker took it in |
| `_lifetime` | seconds; infinite: it lives forever |
| `_event` | the whole event in MessagePack, exactly as it was |
| `_odd` | it has attributes that the columns do not hold: of another kind than the column's, or too many |

Rules
- The kind of an attribute's column is that of the first value that came, for ever, with one exception: a
  column of integers becomes one of floats when a float comes. A number is stored in a column only if it is
  exactly the same there.
- Archived events: those that live forever, and those that the policy's filter accepts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from tidings.archive.state import STAGED, Archive, ArchiveFile, ArchiveState, Stats
from tidings.errors import InputError
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.body import HAS_LIST
from tidings.model.event import FOREVER, LINEAGE, RESERVED, Event
from tidings.model.filter import Filter
from tidings.model.value import INT_MAX, INT_MIN

ROW_GROUP = 65_536  # rows; smaller ones are pruned better and scanned slower
SMALL_ROWS = 500_000  # a file with fewer is compacted with its neighbours
MOST_COLUMNS = 1_000  # of attributes
EXACT = 2**53
KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", datetime: "time"}

_encode = msgspec.msgpack.Encoder().encode


class ArchiveEntry(NamedTuple):
    """An event of a log, on its way into the archive."""

    offset: int
    accepted: float
    event: Event


def belongs(event: Event, policy: Filter | None) -> bool:
    """Is it archived?"""
    return event.lifetime == FOREVER or (policy is not None and accepts(policy, event))


class ArchiveWriter:
    """Writes to an archive; inside `archive.locked()`."""

    def __init__(self, archive: Archive, *, policy: str | None = None) -> None:
        self.archive = archive
        self.state = archive.state()
        if self.state.number and self.state.policy != policy:
            raise InputError(
                f"the archive {archive.path} has the policy {self.state.policy!r}, not {policy!r}",
                hint="another policy is another archive: what was passed over is not in this one",
            )
        self._policy_text = policy
        self._policy = None if policy is None else parse_filter(policy)

    def append(self, log: str, entries: Iterable[ArchiveEntry], upto: int) -> ArchiveState:
        """Add what belongs in the archive of these entries of a log, which reach up to this place."""
        before = self.state.places.get(log, 0)
        chosen = [entry for entry in entries if entry.offset > before and belongs(entry.event, self._policy)]
        columns = dict(self.state.columns)
        _widen(columns, chosen)
        days: dict[str, list[ArchiveEntry]] = {}
        for entry in chosen:
            days.setdefault(datetime.fromtimestamp(entry.accepted, UTC).date().isoformat(), []).append(entry)
        number = self.state.number + 1
        files = [self._write(log, day, some, columns, number) for day, some in days.items()]
        return self._publish(
            columns=columns, positions={**self.state.places, log: max(upto, before)}, adds=files, removes=()
        )

    def _write(
        self, log: str, day: str, entries: list[ArchiveEntry], columns: Mapping[str, str], number: int
    ) -> ArchiveFile:
        table = table_of(entries, columns)
        return write_table(self.archive, table, log, day, number)

    def _publish(
        self,
        *,
        columns: Mapping[str, str],
        positions: Mapping[str, int],
        adds: Iterable[ArchiveFile],
        removes: Iterable[ArchiveFile],
    ) -> ArchiveState:
        adds, gone = list(adds), {file.path for file in removes}
        kept = [file for file in self.state.files if file.path not in gone]
        self.state = ArchiveState(
            number=self.state.number + 1,
            policy=self._policy_text,
            places=dict(positions),
            columns=dict(columns),
            files=tuple(sorted((*kept, *adds), key=lambda file: (file.log, file.first))),
            added=tuple(file.path for file in adds),
            removed=tuple(sorted(gone)),
        )
        self.archive.publish(self.state)
        return self.state

    def compact(self, *, small_rows: int = SMALL_ROWS) -> int:
        """Join small files that are neighbours in a log and a day; how many went."""
        from pyarrow import concat_tables

        removes: list[ArchiveFile] = []
        adds: list[ArchiveFile] = []
        number = self.state.number + 1
        for group in _groups(self.state.files, small_rows):
            tables = [read_table(self.archive, file, self.state) for file in group]
            columns = self.state.columns
            whole = concat_tables([evened(table, columns) for table in tables]).sort_by("_offset")
            day = Path(group[0].path).parent.name.removeprefix("date=")
            adds.append(write_table(self.archive, whole, group[0].log, day, number))
            removes += group
        if adds:
            self._publish(columns=self.state.columns, positions=self.state.places, adds=adds, removes=removes)
        return len(removes)


def _groups(files: Iterable[ArchiveFile], small_rows: int) -> list[list[ArchiveFile]]:
    """Runs of small files of one folder that together make one file of a good size."""
    groups: list[list[ArchiveFile]] = []
    run: list[ArchiveFile] = []
    for file in sorted(files, key=lambda file: (str(Path(file.path).parent), file.first)):
        same = bool(run) and Path(run[0].path).parent == Path(file.path).parent
        if file.rows < small_rows and same and sum(f.rows for f in run) < small_rows:
            run.append(file)
            continue
        groups.append(run)
        run = [file] if file.rows < small_rows else []
    groups.append(run)
    return [group for group in groups if len(group) > 1]


# -- tables ----------------------------------------------------------------------------------------


def _widen(columns: dict[str, str], entries: Iterable[ArchiveEntry]) -> None:
    """Columns for attributes that are new; integers give way to floats."""
    for entry in entries:
        for name, value in _attributes(entry.event):
            kind = _kind(value)
            known = columns.get(name)
            if kind is None:
                continue  # no column holds it: its row is odd
            if known is None and len(columns) < MOST_COLUMNS and not name.startswith("_"):
                columns[name] = kind
            elif known == "int" and kind == "float":
                columns[name] = "float"


def _attributes(event: Event) -> Iterable[tuple[str, Any]]:
    own = RESERVED | {LINEAGE, HAS_LIST}
    return [(name, value) for name, value in event.view.items() if name not in own]


def _kind(value: Any) -> str | None:
    """The kind of column that holds a value; None for lists, decimals, wide integers and opaque values."""
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        return None
    return KINDS.get(type(value))


def _fits(value: Any, kind: str) -> bool:
    own = _kind(value)
    if own == kind:
        return True
    return kind == "float" and own == "int" and -EXACT <= value <= EXACT


def arrow_kind(kind: str) -> Any:
    import pyarrow as pa

    return {
        "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string(),
        "time": pa.timestamp("us", tz="UTC"),
    }[kind]  # fmt: skip


def schema_of(columns: Mapping[str, str]) -> Any:
    """The Arrow schema of a file."""
    import pyarrow as pa

    at = pa.timestamp("us", tz="UTC")
    own = [
        ("id", pa.string()), ("source", pa.string()), ("topic", pa.string()), ("type", pa.list_(pa.string())),
        ("time", at), ("_offset", pa.int64()), ("_accepted", at), ("_lifetime", pa.float64()),
        ("_odd", pa.bool_()), ("_event", pa.binary()),
    ]  # fmt: skip
    return pa.schema([*own, *((name, arrow_kind(kind)) for name, kind in columns.items())])


def table_of(entries: list[ArchiveEntry], columns: Mapping[str, str]) -> Any:
    """The rows of these entries, in the order of the log."""
    import pyarrow as pa

    entries = sorted(entries)
    events = [entry.event for entry in entries]
    present = sorted({name for event in events for name, _ in _attributes(event)} & columns.keys())
    values: dict[str, list[Any]] = {name: [None] * len(events) for name in present}
    odd = [False] * len(events)
    for number, event in enumerate(events):
        for name, value in _attributes(event):
            kind = columns.get(name)
            if kind is not None and _fits(value, kind):
                values[name][number] = value
            else:
                odd[number] = True
    schema = schema_of({name: columns[name] for name in present})
    own = {
        "id": [event.id for event in events],
        "source": [event.source for event in events],
        "topic": [event.topic for event in events],
        "type": [list(event.type) or None for event in events],
        "time": [event.time for event in events],
        "_offset": [entry.offset for entry in entries],
        "_accepted": [datetime.fromtimestamp(entry.accepted, UTC) for entry in entries],
        "_lifetime": [event.lifetime for event in events],
        "_odd": odd,
        "_event": [_encode(event) for event in events],
    }
    return pa.table({**own, **values}, schema=schema)


def evened(table: Any, columns: Mapping[str, str]) -> Any:
    """The table with these columns: those that it lacks are empty, integers are floats where they are now."""
    import pyarrow as pa

    schema = schema_of(columns)
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            arrays.append(pa.nulls(len(table), field.type))
        else:
            arrays.append(table.column(field.name).cast(field.type, safe=False))
    return pa.table(arrays, schema=schema)


def write_table(archive: Archive, table: Any, log: str, day: str, number: int) -> ArchiveFile:
    """Stage a file; the state that names it comes after."""
    import pyarrow.parquet as parquet

    offsets = table.column("_offset")
    first, last = offsets[0].as_py(), offsets[len(table) - 1].as_py()
    mark = blake2b(f"{log} {day}".encode(), digest_size=4).hexdigest()  # other logs have the same offsets
    name = f"{first:016d}-{last:016d}-{number}-{mark}.parquet"
    path = archive.path / STAGED / name
    plain = ["_event", "_offset", "_accepted", "id"]  # hardly ever the same twice
    others = [column for column in table.column_names if column not in plain]
    parquet.write_table(
        table,
        path,
        row_group_size=ROW_GROUP,
        compression="zstd",
        use_dictionary=others,
        write_statistics=True,
    )
    with path.open("rb") as written:
        os.fsync(written.fileno())
    return ArchiveFile(
        path=f"log={quote(log, safe='')}/date={day}/{name}",
        log=log,
        first=first,
        last=last,
        rows=len(table),
        bytes=path.stat().st_size,
        odd=_count_true(table.column("_odd")),
        stats=_stats(table),
    )


def _count_true(column: Any) -> int:
    from pyarrow import compute

    return int(compute.sum(column).as_py() or 0)


def _stats(table: Any) -> dict[str, Stats]:
    from pyarrow import compute

    found: dict[str, Stats] = {}
    for field in table.schema:
        if field.name.startswith("_") or field.name == "type":
            continue
        column = table.column(field.name)
        has_nulls = column.null_count > 0
        if column.null_count == len(column):
            found[field.name] = Stats(None, None, False, True)
            continue
        bounds = compute.min_max(column).as_py()
        found[field.name] = Stats(_plain(bounds["min"]), _plain(bounds["max"]), True, has_nulls)
    return found


def _plain(value: Any) -> Any:
    """The bound in JSON; a value that JSON cannot hold has no bound."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and value != value:
        return None
    return value


def read_table(
    archive: Archive, file: ArchiveFile, state: ArchiveState, columns: list[str] | None = None
) -> Any:
    """A complete file. A damaged file raises an error and is never served."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from tidings.errors import CorruptionError

    path = archive.find(file, state)
    try:
        return parquet.ParquetFile(path).read(columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"{path} cannot be read: {error}", hint="restore it from a copy") from None
