"""Schemas: a JSON Schema for the events of a type or of a topic, checked at publish.

Rules
- A schema comes from a class (dataclass, msgspec Struct, attrs class, TypedDict, Pydantic model) or is given.
- It is attached to a type's name or to a topic pattern. An event must fit every schema that is attached to a
  name of its lineage or to a pattern that its topic matches; otherwise the publish is refused and the error
  names the field.
- Attributes are only added: a new version of a schema is *breaking* when it demands a field that was not
  demanded, drops a field, or accepts less in a field, at any depth (`schema_changes.py`). A breaking version
  is refused unless it is forced.
- Values that JSON lacks are checked as the text that stands for them; by the schema of a class in the fields
  of their kind alone, since the class reads them nowhere else.
- The keywords that classes give are checked: type, properties, required, additionalProperties, propertyNames,
  items, prefixItems, enum, const, anyOf, oneOf, allOf, $ref, minimum and maximum (exclusive too), lengths,
  multipleOf, pattern, contentEncoding base64, and the formats of `schema_parts.FORMATS`. Others are ignored.
- A pattern has the syntax of RE2, which never backtracks; a schema with another one is refused. A check has a
  budget of steps (`MOST_STEPS`): an event past it is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import FilterError, InputError, SchemaError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import Event
from tidings.model.fields import field_names, is_model, is_root_model, is_typed_mapping, with_types
from tidings.model.pattern import check_regexp, regexp_matches, regexp_weight
from tidings.model.schema_changes import breaking_changes
from tidings.model.schema_models import schema_of_model
from tidings.model.schema_parts import (
    BYTES,
    FORM_OF_KIND,
    Schema,
    add_formats,
    form_of,
    is_multiple,
    is_of_format,
    resolved,
)
from tidings.model.textual import json_ready
from tidings.model.topic import check_pattern, topic_matches
from tidings.model.typed import lineage_of

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float), "null": (type(None),),
}  # fmt: skip

MOST_STEPS = 1 << 18  # of one check: a look at a value by a part of the schema; some 0.3 s
SEARCHED = 64  # characters of a text, times the weight of a pattern, that count as a step
_SIZES: dict[Any, tuple[str, str]] = {str: ("minLength", "maxLength"), list: ("minItems", "maxItems")}


def schema_of(cls: Any) -> dict[str, Any]:
    """The JSON Schema of a class."""
    if isinstance(cls, type) and is_root_model(cls):
        raise SchemaError(
            f"{cls.__name__} has no schema: a RootModel stands for one value, and an event has fields",
            hint="put it into a field of a model, or attach a JSON Schema with the field `root`",
        )
    if isinstance(cls, type) and is_model(cls):
        return _made(cls, partial(schema_of_model, cls))
    if not isinstance(cls, type) or (field_names(cls) is None and not is_typed_mapping(cls)):
        raise SchemaError(
            f"{cls!r} has no schema",
            hint="give a dataclass, a Struct, a model, an attrs class or a TypedDict",
        )
    schema = add_formats(_made(cls, partial(msgspec.json.schema, with_types(cls))), cls)
    return _by_field_names(cls, schema) if issubclass(cls, msgspec.Struct) else schema


def _by_field_names(cls: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a Struct as an event has it: fields by their names in the class, and no tag, since the
    event's type says what it is. Structs inside keep both."""
    own = dict(resolved(schema, schema))
    names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
    tag = cls.__struct_config__.tag_field
    if "properties" not in own or (tag is None and all(key == name for key, name in names.items())):
        return schema
    own["properties"] = {names[key]: each for key, each in own["properties"].items() if key != tag}
    own["required"] = [names[key] for key in own.get("required", ()) if key != tag]
    return own if "$defs" not in schema else {**own, "$defs": schema["$defs"]}


def _made(cls: type, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make()
    except KeyError as error:  # msgspec's, whose definitions have one class of each name
        raise SchemaError(
            f"{cls.__name__} has no schema: another class inside it has the name of {error}",
            hint="rename one of the two",
        ) from error
    except (TypeError, ValueError, RuntimeError, NameError) as error:
        raise SchemaError(
            f"{cls.__name__} has no schema: {error}",
            hint="change the type of that field, or attach a JSON Schema: attach({...}, type=...)",
        ) from error


class KindText(str):
    """The text of a value that JSON lacks, and the format of its kind. A text is of every kind, and this one
    of its own alone."""

    __slots__ = ("form", "size")

    form: str
    size: int  # of bytes; of others that of the text


def _as_checked(value: Any, *, by_kind: bool) -> Any:
    """A value as schemas of classes describe it: moments are text, and an integer has any width."""
    cls = type(value)
    if cls is dict:
        return {name: _as_checked(item, by_kind=by_kind) for name, item in value.items()}
    if cls is list or cls is tuple:
        return [_as_checked(item, by_kind=by_kind) for item in value]
    if cls is int or cls is float:
        return value
    text = value.isoformat() if cls is datetime else json_ready(value)
    if not by_kind or cls not in FORM_OF_KIND:
        return text
    marked = KindText(text)
    marked.form, marked.size = FORM_OF_KIND[cls], len(value if cls is bytes else text)
    return marked


# Checking


def problems(value: Any, schema: Schema) -> Iterator[str]:
    """What is wrong with a JSON value, field by field. Raises `SchemaError` past the budget of steps."""
    return _Checking(schema).problems(value, schema, "")


class _Checking:
    """One look at a value by a schema. A value that lies below several alternatives is looked at once by
    each part of the schema, however many of them nest; a budget of steps bounds all other repetition."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MOST_STEPS
        self._known: dict[tuple[int, int], bool] = {}  # does the object or list fit the part? By identities

    def problems(self, value: Any, schema: Schema, path: str) -> Iterator[str]:
        self._step(1)
        schema = resolved(schema, self._root)
        where = path or "the body"
        kinds = schema.get("type")
        if kinds is not None and not _is_of(value, [kinds] if isinstance(kinds, str) else kinds):
            yield f"{where} is {_kind(value)}, not {kinds}"
            return
        if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
            yield f"{where} is {value!r}, not one of {schema['enum']}"
        if "const" in schema and not _is_same(value, schema["const"]):
            yield f"{where} is {value!r}, not {schema['const']!r}"
        for part in schema.get("allOf", ()):
            yield from self.problems(value, part, path)
        for word in ("anyOf", "oneOf"):
            if word in schema and not any(self._fits(value, part, path) for part in schema[word]):
                yield f"{where} fits none of {len(schema[word])} alternatives"
        yield from self._bounds(value, schema, where)
        if isinstance(value, dict):
            yield from self._members(value, schema, path)
        if isinstance(value, list):
            first, rest = schema.get("prefixItems", ()), schema.get("items")
            for number, item in enumerate(value):
                part = first[number] if number < len(first) else rest
                if isinstance(part, Mapping):
                    yield from self.problems(item, part, f"{path}[{number}]")

    def _fits(self, value: Any, part: Schema, path: str) -> bool:
        if not isinstance(value, dict | list):
            return next(self.problems(value, part, path), None) is None
        key = (id(part), id(value))  # both outlive this check
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = next(self.problems(value, part, path), None) is None
        return known

    def _step(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise SchemaError(
                f"checking the event takes more than {MOST_STEPS} steps",
                hint="publish a smaller event, or attach a schema with fewer alternatives",
            )

    def _bounds(self, value: Any, schema: Schema, where: str) -> Iterator[str]:
        if isinstance(value, int | float) and not isinstance(value, bool):
            for word, holds in (
                ("minimum", operator.ge), ("maximum", operator.le), ("exclusiveMinimum", operator.gt),
                ("exclusiveMaximum", operator.lt),
            ):  # fmt: skip
                if word in schema and not holds(value, schema[word]):
                    yield f"{where} is {value}, against {word} {schema[word]}"
            if "multipleOf" in schema and not is_multiple(value, schema["multipleOf"]):
                yield f"{where} is {value}, which is no multiple of {schema['multipleOf']}"
        form = form_of(schema)
        sized = _SIZES.get(str if isinstance(value, str) else type(value))
        if sized is not None:
            size = value.size if isinstance(value, KindText) and form == BYTES else len(value)
            if size < schema.get(sized[0], 0):
                yield f"{where} is shorter than {schema[sized[0]]}"
            if size > schema.get(sized[1], size):
                yield f"{where} is longer than {schema[sized[1]]}"
        pattern = schema.get("pattern")
        if isinstance(value, str) and isinstance(pattern, str):
            self._step(regexp_weight(pattern) * len(value) // SEARCHED)
            if not regexp_matches(pattern, value):
                yield f"{where} does not fit the pattern {pattern!r}"
        if isinstance(value, KindText) and not _is_of_kind(value, schema, form):
            yield f"{where} is the {value.form} {value!r}, not {form or 'a text'}"
        elif isinstance(value, str) and form is not None and not is_of_format(value, form):
            yield f"{where} is {value!r}, which is no {form}"
        if isinstance(value, float) and form == "decimal" and not math.isfinite(value):
            yield f"{where} is {value}, which is no number"

    def _members(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
        properties = schema.get("properties", {})
        prefix = f"{path}." if path else ""
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{prefix}{name} is missing"
        extra, names = schema.get("additionalProperties", True), schema.get("propertyNames")
        if isinstance(names, Mapping):
            keys = resolved(names, self._root)
            for name in value:
                yield from self.problems(_as_key(name, keys), names, f"{prefix}{name} (a key)")
        for name, member in value.items():
            if name in properties:
                yield from self.problems(member, properties[name], f"{prefix}{name}")
            elif extra is False:
                yield f"{prefix}{name} is no field of the schema"
            elif isinstance(extra, Mapping):
                yield from self.problems(member, extra, f"{prefix}{name}")


def _is_of(value: Any, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return True
    return any(isinstance(value, _TYPES.get(kind, ())) for kind in kinds)


def _is_of_kind(value: KindText, schema: Schema, form: str | None) -> bool:
    """Is a value that JSON lacks of the kind that the schema of a class asks for?"""
    if form is None:
        return "string" not in schema.get("type", ()) or "enum" in schema or "const" in schema
    if value.form == "uuid" and form.startswith("uuid"):
        return is_of_format(value, form)
    return form == value.form or (value.form, form) == ("base64", BYTES)


def _is_same(value: Any, other: Any) -> bool:
    """Equal as JSON has it: TRUE is no 1, also inside lists and objects."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(each, other[key]) for key, each in value.items())
    return bool(value == other)


def _as_key(name: str, names: Schema) -> Any:
    """A key of a mapping as the schema of its keys describes it: numbers are keys as their text."""
    if "integer" not in (names.get("type"), names.get("format")) or not is_of_format(name, "integer"):
        return name
    return int(name)


def _kind(value: Any) -> str:
    if isinstance(value, KindText):
        return value.form
    return next((name for name, types in _TYPES.items() if type(value) in types), type(value).__name__)


def check_patterns(schema: Any) -> None:
    """Refuse a schema with a pattern that RE2 does not take: another engine's time has no bound."""
    if isinstance(schema, list):
        for part in schema:
            check_patterns(part)
    if not isinstance(schema, Mapping):
        return
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            check_regexp(pattern)
        except FilterError as error:
            raise SchemaError(
                f"the schema has a pattern that cannot be used: {error.message}",
                hint="patterns have the syntax of RE2: no look-around, no back-references",
            ) from None
    for part in schema.values():
        check_patterns(part)


def _first_problem(value: Any, schema: Schema) -> str | None:
    try:
        return next(problems(value, schema), None)
    except RecursionError:
        return "the schema refers to itself without end"


# The registry


class AttachedSchema(msgspec.Struct, frozen=True):
    """A schema in force: its version grows with each change."""

    version: int
    schema: dict[str, Any]
    of_class: bool = False  # then a value has to be of the kind of its field, since the class reads no other


class _SchemaFile(msgspec.Struct):
    types: dict[str, AttachedSchema] = {}
    topics: dict[str, AttachedSchema] = {}


class SchemaRegistry:
    """Schemas by type and by topic pattern, in memory and, with a path, in a JSON file."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._contents = _SchemaFile()
        if self.path is not None and self.path.exists():
            try:
                self._contents = msgspec.json.decode(self.path.read_bytes(), type=_SchemaFile)
                for row in self.rows():
                    check_patterns(row["schema"])
            except UNREADABLE as error:
                raise InputError(f"{self.path} is no file of schemas: {error}") from None
        self.active = False  # is any schema in force? Asked at every publish, without a call
        self._changed()

    def load(self, path: str | Path) -> None:
        """Take the schemas of a file in place of those in force; the file is not written by this registry."""
        self._contents = SchemaRegistry(path)._contents
        self._changed()

    def _changed(self) -> None:
        self.active = bool(self._contents.types or self._contents.topics)

    def attach(
        self,
        schema: Any,
        *,
        type: str | None = None,
        topic: str | None = None,
        force: bool = False,
    ) -> AttachedSchema:
        """Put a schema, or that of a class, in force for a type (the class's own by default) or a topic.

        Raises `SchemaError` for a breaking change, unless `force` says that it is meant.
        """
        of_class = not isinstance(schema, Mapping)
        made = schema_of(schema) if of_class else dict(schema)
        check_patterns(made)
        if type is not None and topic is not None:
            raise SchemaError("a schema is for a type or for a topic", hint="attach it twice for both")
        if topic is not None:
            stored, key = self._contents.topics, check_pattern(topic)
        elif type is not None or of_class:
            stored, key = self._contents.types, type or lineage_of(schema)[0]
        else:
            raise SchemaError("the schema has no type", hint="give type= or topic=")
        known = stored.get(key)
        if known is not None and (known.schema, known.of_class) == (made, of_class):
            return known
        broken = [] if known is None or force else breaking_changes(known.schema, made, by_kind=of_class)
        if broken:
            raise SchemaError(
                f"the new schema of {key!r} breaks the one in force: {'; '.join(broken)}",
                hint="only add optional fields, name a new type, or force it",
            )
        stored[key] = AttachedSchema(1 if known is None else known.version + 1, made, of_class)
        self._save()
        return stored[key]

    def detach(self, *, type: str | None = None, topic: str | None = None) -> bool:
        """Take a schema out of force; was it there?"""
        stored, key = (self._contents.types, type) if type is not None else (self._contents.topics, topic)
        found = stored.pop(str(key), None) is not None
        self._save()
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Every schema in force, with what it is attached to."""
        return [
            {"for": word, "name": name, "version": stored.version, "schema": stored.schema}
            for word, table in (("type", self._contents.types), ("topic", self._contents.topics))
            for name, stored in sorted(table.items())
        ]

    def check(self, event: Event) -> None:
        """Refuse an event that does not fit. Raises `SchemaError`."""
        wanted = [(name, self._contents.types[name]) for name in event.type if name in self._contents.types]
        if event.topic is not None and self._contents.topics:
            wanted += [
                (p, stored) for p, stored in self._contents.topics.items() if topic_matches(p, event.topic)
            ]
        for name, stored in wanted:
            found = _first_problem(
                _as_checked(event.shared_attributes, by_kind=stored.of_class), stored.schema
            )
            if found is not None:
                raise SchemaError(
                    f"the event does not fit the schema of {name!r}, version {stored.version}: {found}",
                    hint="`tidings schema show` prints the schema",
                )

    def _save(self) -> None:
        self._changed()
        if self.path is not None:
            written = msgspec.json.format(msgspec.json.encode(self._contents), indent=2)
            fresh = self.path.with_suffix(self.path.suffix + ".new")
            fresh.write_bytes(written + b"\n")
            fresh.replace(self.path)


SCHEMAS = SchemaRegistry()  # of this process: checked at every publish
attach = SCHEMAS.attach

__all__ = [
    "SCHEMAS",
    "AttachedSchema",
    "SchemaRegistry",
    "attach",
    "breaking_changes",
    "problems",
    "schema_of",
]
