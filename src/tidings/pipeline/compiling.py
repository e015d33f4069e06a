"""From a table of subscriptions to a compiled one: every row is compiled or rejected with its reason.

A table of subscriptions has the columns `id` (string or integer) and `filter` (text); it may have
`subscriber` (string) and `dialect` (`tidings`, the default, or `cesql`). No row is dropped
silently: a filter that does not parse or can never be true (`tidings.algebra.can_match`), a missing id or
filter, and a duplicate id are all rejects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tidings.algebra import can_match
from tidings.errors import FilterError, InputError
from tidings.language import read_filter
from tidings.matching.columnar.programs import nodes
from tidings.model.constraint import IsA
from tidings.model.event import LINEAGE, Event
from tidings.model.expression import Attribute, ExistsTest, TypeTest
from tidings.model.filter import CESQL, TIDINGS, Filter

WANTED = ("id", "subscriber", "filter", "dialect")
NEEDED = ("id", "filter")


class Rejected(NamedTuple):
    """A row that could not be taken, and why."""

    id: str | None
    reason: str
    text: str | None


class Compiled(NamedTuple):
    """A compiled table of subscriptions: `ids[handle]` and `subscribers[handle]` name a filter."""

    matcher: Any
    ids: Any  # pyarrow.Array
    subscribers: Any  # pyarrow.Array, or None when the table has no such column
    rejected: list[Rejected]
    attributes: frozenset[str]  # that some filter asks for
    folded: frozenset[str]  # the same of dialect cesql, which ignores the case of names; in lower case


class SubscriptionReader:
    """Reads rows of subscriptions, keeps what is wrong with them and which attributes they ask for."""

    def __init__(self) -> None:
        self.rejected: list[Rejected] = []
        self.attributes: set[str] = set()
        self.folded: set[str] = set()
        self.kept: list[int] = []
        self._seen: set[Any] = set()

    def filters(self, ids: list[Any], texts: list[Any], dialects: Iterable[Any]) -> Iterator[Filter]:
        """The filters of the rows that can be taken, in order; `kept` holds their numbers."""
        for number, (id, text, dialect) in enumerate(zip(ids, texts, dialects, strict=True)):
            found = self._read(id, text, TIDINGS if dialect is None else dialect)
            if isinstance(found, str):
                self.rejected.append(Rejected(None if id is None else str(id), found, text))
                continue
            self._seen.add(id)
            self.kept.append(number)
            self.note(found)
            yield found

    def _read(self, id: Any, text: Any, dialect: str) -> Filter | str:
        if id is None:
            return "it has no id"
        if id in self._seen:
            return "its id was in the table before"
        if text is None:
            return "it has no filter"
        try:
            found = read_filter(text, dialect=dialect)
        except FilterError as error:
            return str(error)
        return "its filter can never be true" if can_match(found) is False else found

    def note(self, filter: Filter) -> None:
        """Remember which attributes the filter asks for."""
        add = (self.folded if filter.dialect == CESQL else self.attributes).add
        for conjunction in filter.conjunctions:
            for constraint in conjunction.constraints:
                add(LINEAGE if isinstance(constraint, IsA) else constraint.attribute)
            for residual in conjunction.residuals:
                for name in _names(residual):
                    add(name.lower() if filter.dialect == CESQL else name)


def _names(residual: Any) -> Iterator[str]:
    for node in nodes(residual):
        if isinstance(node, Attribute | ExistsTest):
            yield node.name
        elif isinstance(node, TypeTest):
            yield LINEAGE


def compile_rows(rows: Any, *, sample: Iterable[Event] = ()) -> Compiled:
    """Compile an Arrow table of subscriptions. `sample`: events that the cells are cut by."""
    from tidings.matching.engine import columnar_matcher

    check_columns(rows.schema)
    reading = SubscriptionReader()
    ids, texts = rows.column("id"), rows.column("filter")
    dialects = rows.column("dialect").to_pylist() if "dialect" in rows.schema.names else [None] * len(rows)
    matcher = columnar_matcher()
    matcher.load(reading.filters(ids.to_pylist(), texts.to_pylist(), dialects), sample=sample)
    subscribers = rows.column("subscriber") if "subscriber" in rows.schema.names else None
    return Compiled(
        matcher,
        _taken(ids, reading.kept),
        None if subscribers is None else _taken(subscribers, reading.kept),
        reading.rejected,
        frozenset(reading.attributes),
        frozenset(reading.folded),
    )


def check_columns(schema: Any) -> None:
    """A table of subscriptions must have an id and a filter, of types that can be either."""
    import pyarrow as pa

    names = schema.names
    check_names(names)
    for name in WANTED:
        if name in names:
            kind = schema.field(name).type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            if not (text or (name == "id" and pa.types.is_signed_integer(kind))):
                raise InputError(
                    f"the column {name!r} of the subscriptions is of type {kind}",
                    hint="it must be a string" + (" or an integer" if name == "id" else ""),
                )


def check_names(names: list[str]) -> None:
    """The columns that a table of subscriptions must have."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise InputError(
            f"the table of subscriptions has no column {' and no '.join(map(repr, missing))}; "
            f"it has {', '.join(map(repr, names))}",
            hint="rename its columns to id, subscriber (optional), filter, dialect (optional)",
        )


def _taken(column: Any, kept: list[int]) -> Any:
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if len(kept) == len(whole) else whole.take(pa.array(kept, pa.int64()))
