"""From the columns of a table to the attributes that filters see.

Rules
- A column is an attribute; a member of a struct is a nested one (`venue.city`). Names have case here,
  regardless of Spark's setting. NULL and NaN are absent.
- Booleans, integers, floats, decimals, strings, timestamps (with and without a time zone), dates, binary
  columns and arrays, of structs too, are values as they are. Anything else (a map, an interval) is refused
  when some filter asks for it; `casts` says what to take it for, and the column itself leaves as it came.
- A name that leads through an array of structs (`lines.price`) is read from the column of the array.
- `topic` is a string, `time` a timestamp, `type` a string or, as a lineage, an array of strings; a
  column `type.lineage` gives the lineage beside a plain `type`. `id` and `source` are taken as text;
  every event has both, so that a table without the column is refused when some filter asks for it.
- A column that no filter asks for is not sent to Python, unless it is kept for the answer.
- An attribute that no column holds is absent from every row. That is legal, and reported: a misspelt name
  would otherwise never match without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from tidings.errors import InputError, SettingsError
from tidings.language.lists import prefixes
from tidings.model.event import LINEAGE, RESERVED
from tidings.pipeline.tables import About

# Spark's types that are a value of ours, by their simple name -> kind of slot
KINDS = {
    "boolean": "b", "tinyint": "n", "smallint": "n", "int": "n", "bigint": "n", "float": "n",
    "double": "n", "string": "s", "timestamp": "t",
}  # fmt: skip
WIDE_KINDS = {
    "decimal": "n",
    "date": "t",
    "timestamp_ntz": "t",
    "array": "",
    "binary": "",
}  # by the type's first word
WORDS = {"b": "a boolean", "n": "a number", "s": "a string", "t": "a timestamp"}
OWN = {"topic": "string", "time": "timestamp"}  # of the event itself; no other type is meant by these
AS_TEXT = ("id", "source")
LINEAGE_TYPE = "array<string>"


class ColumnLeaf(NamedTuple):
    """A column that is no struct, or a member of one."""

    column: Any  # of Spark
    type: str
    top: int | None  # its number when it is a whole column


class ColumnPlan(NamedTuple):
    """Columns sent to Python: the kept columns first, then attributes that are not among them."""

    frame: Any
    kept: tuple[Any, ...]  # StructFields, under their own names
    attributes: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]


def plan(
    events: Any, about: About, *, keep: Sequence[str] | None = None, casts: Mapping[str, str] | None = None
) -> ColumnPlan:
    """Choose the columns that matching needs."""
    fields = list(events.schema.fields)
    numbered = events.toDF(*(f"c{n}" for n in range(len(fields))))
    kept = _kept(fields, keep)
    leaves = _leaves_by_name(numbered, fields)
    columns = [numbered[f"c{n}"] for n in kept]
    positions = {number: position for position, number in enumerate(kept)}
    attributes: list[tuple[str, int]] = []
    wanted = wanted_names(about, leaves)
    for name, leaf in _chosen(wanted, leaves, dict(casts or {})):
        if leaf.top in positions:
            attributes.append((name, positions[leaf.top]))
        else:
            attributes.append((name, len(columns)))
            columns.append(leaf.column)
    named = [column.alias(f"p{n}") for n, column in enumerate(columns)]
    notes = tuple(_notes(about, leaves, dict(casts or {})))
    return ColumnPlan(numbered.select(*named), tuple(fields[n] for n in kept), tuple(attributes), notes)


def value_columns(events: Any, casts: Mapping[str, str]) -> dict[str, str]:
    """The attributes that columns hold, with their kinds; those of the event itself left out."""
    fields = list(events.schema.fields)
    numbered = events.toDF(*(f"c{n}" for n in range(len(fields))))
    return {
        name: kind
        for name, found in _leaves_by_name(numbered, fields).items()
        if len(found) == 1 and name not in RESERVED and (kind := KINDS.get(casts.get(name, found[0].type)))
    }


def _kept(fields: list[Any], keep: Sequence[str] | None) -> list[int]:
    if keep is None:
        return list(range(len(fields)))
    numbers = {field.name: number for number, field in enumerate(fields)}
    for name in keep:
        if name not in numbers:
            raise InputError(
                f"the events have no column {name!r} to keep",
                hint=_near(name, numbers) or f"they have {', '.join(numbers)}",
            )
    return [numbers[name] for name in dict.fromkeys(keep)]


def _leaves_by_name(frame: Any, fields: list[Any]) -> dict[str, list[ColumnLeaf]]:
    found: dict[str, list[ColumnLeaf]] = {}
    for number, field in enumerate(fields):
        column = frame[f"c{number}"]
        for name, leaf in _leaves(column, field.name, field.dataType, number):
            found.setdefault(name, []).append(leaf)
    return found


def _leaves(column: Any, name: str, kind: Any, top: int | None) -> Iterator[tuple[str, ColumnLeaf]]:
    members = getattr(kind, "fields", None)
    if members is None:
        yield name, ColumnLeaf(column, simple_type(kind), top)
        return
    if len({member.name.lower() for member in members}) < len(members):
        column = column.cast(_numbered(kind))  # Spark cannot tell names apart that differ in case only
        for number, member in enumerate(members):
            yield from _leaves(column.getField(f"f{number}"), f"{name}.{member.name}", member.dataType, None)
        return
    for member in members:
        yield from _leaves(column.getField(member.name), f"{name}.{member.name}", member.dataType, None)


def _numbered(kind: Any) -> Any:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f"f{n}", m.dataType) for n, m in enumerate(kind.fields)])


def simple_type(kind: Any) -> str:
    """Spark's simple name of a type; bounded strings are strings."""
    name = str(kind.simpleString())
    return "string" if name.startswith(("varchar", "char", "string")) else name


def wanted_names(about: About, leaves: Iterable[str]) -> list[str]:
    """The attributes that filters ask for; those of dialect cesql by any case."""
    folded = set(about.folded)
    names = set(about.attributes) | {name for name in leaves if name.lower() in folded}
    names |= folded.intersection(AS_TEXT)
    if LINEAGE in names or LINEAGE in about.folded or "type" in names:
        names |= {"type", LINEAGE}
    return sorted(names)


def _chosen(
    wanted: list[str], leaves: dict[str, list[ColumnLeaf]], casts: dict[str, str]
) -> Iterator[tuple[str, ColumnLeaf]]:
    unknown = sorted(set(casts) - set(leaves))
    if unknown:
        raise SettingsError(f"casts names {unknown[0]!r}, which is no column", hint=_near(unknown[0], leaves))
    for name in _with_arrays(wanted, leaves):
        if name in ("type", LINEAGE):
            continue
        if name in AS_TEXT and name not in leaves:
            raise InputError(
                f"filters ask for {name!r}, which every event has, and no column of the events is called so",
                hint=f"add it, as in events.withColumn({name!r}, ...)",
            )
        for leaf in leaves.get(name, [])[:1]:
            if len(leaves[name]) > 1:
                raise InputError(f"two columns are the attribute {name!r}", hint="rename one of them")
            yield name, _value(name, leaf, casts.get(name))
    if "type" in wanted:
        yield from _types(leaves)


def _with_arrays(wanted: list[str], leaves: Mapping[str, list[ColumnLeaf]]) -> list[str]:
    """The wanted names; in place of one that no column holds, the array that it leads through."""
    return list(dict.fromkeys(array_of(name, leaves) or name for name in wanted))


def array_of(name: str, leaves: Mapping[str, list[ColumnLeaf]]) -> str | None:
    """The column of an array on the way to a name; None when there is none."""
    if name in leaves:
        return None
    found = (prefix for prefix in prefixes(name) if prefix in leaves)
    return next((prefix for prefix in found if leaves[prefix][0].type.startswith("array<")), None)


def _wide_kind(type: str) -> str | None:
    """The kind of slot of a column whose values are more than Spark's plain ones."""
    return WIDE_KINDS.get(type.partition("(")[0].partition("<")[0])


def _value(name: str, leaf: ColumnLeaf, cast: str | None) -> ColumnLeaf:
    if cast is not None:
        leaf = ColumnLeaf(leaf.column.cast(cast), cast.strip().lower(), None)
    if name in AS_TEXT:
        return leaf if leaf.type == "string" else ColumnLeaf(leaf.column.cast("string"), "string", None)
    expected = OWN.get(name)
    if expected is not None and leaf.type != expected:
        raise InputError(
            f"the column {name!r} is of type {leaf.type}, and an event's {name} is a {expected}",
            hint=f"casts={{{name!r}: {expected!r}}} takes it for one, or rename the column",
        )
    if leaf.type not in KINDS and _wide_kind(leaf.type) is None:
        raise InputError(
            f"filters ask for {name!r}, and its column is of type {leaf.type}, which is no attribute value",
            hint=f"say what to take it for, as in casts={{{name!r}: 'string'}}",
        )
    return leaf


def _types(leaves: dict[str, list[ColumnLeaf]]) -> Iterator[tuple[str, ColumnLeaf]]:
    """The type's own name and its lineage, from whichever of the two is there."""
    from pyspark.sql import functions as F  # noqa: N812

    own, lineage = leaves.get("type", []), leaves.get(LINEAGE, [])
    if own and own[0].type == LINEAGE_TYPE:
        own, lineage = [], own
    if lineage:
        if lineage[0].type != LINEAGE_TYPE:
            raise InputError(f"the lineage is of type {lineage[0].type}", hint="make it an array of strings")
        yield LINEAGE, lineage[0]
        first = F.get(lineage[0].column, 0)
        column = F.coalesce(own[0].column, first) if own else first
        yield "type", ColumnLeaf(column, "string", None)
    elif own:
        text = _value("type", own[0], None)
        if text.type != "string":
            raise InputError(f"the column 'type' is of type {text.type}", hint="make it a string")
        yield "type", text
        yield LINEAGE, ColumnLeaf(F.when(text.column.isNotNull(), F.array(text.column)), LINEAGE_TYPE, None)


def _notes(about: About, leaves: dict[str, list[ColumnLeaf]], casts: dict[str, str]) -> Iterator[str]:
    """Legal input that looks like a mistake."""
    for name in about.attributes:
        if name == LINEAGE or name == "type":
            if "type" not in leaves and LINEAGE not in leaves:
                yield "filters ask for the type, and no column 'type' or 'type.lineage' holds it"
        elif array_of(name, leaves) is not None:
            continue
        elif name not in leaves:
            near = _near(name, leaves)
            yield f"filters ask for {name!r}, which no column holds" + (f" ({near})" if near else "")
        else:
            declared = casts.get(name, leaves[name][0].type)
            kind = KINDS.get(declared) or _wide_kind(declared) or ("s" if name in AS_TEXT else "")
            if declared.startswith("array<"):
                continue
            for other in sorted(set(about.kinds.get(name, "")) & set(WORDS) - {kind}):
                yield (
                    f"some filter compares {name!r} with {WORDS[other]}; its column is {leaves[name][0].type}"
                )


def _near(name: str, names: Iterable[str]) -> str | None:
    names = list(names)
    folded = [other for other in names if other.lower() == name.lower() and other != name]
    near = folded or get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else None
