"""Schemas: a JSON Schema for the events of a type or of a topic, checked at publish.

Rules
- A schema comes from a class (dataclass, msgspec Struct, attrs class, TypedDict, Pydantic model) or is given.
- It is attached to a type's name or to a topic pattern. An event must fit every schema that is attached to a
  name of its lineage or to a pattern that its topic matches; otherwise the publish is refused and the error
  names the field.
- Attributes are only added: a new version of a schema is *breaking* when it demands a field that was not
  demanded, drops a field, or accepts less in a field, at any depth (`schema_changes.py`). A breaking version
  is refused unless it is forced.
- A keyword that is not checked is refused when the schema is attached (`schema_keywords.py`); the others are
  checked within a budget of steps (`schema_checking.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import InputError, SchemaError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import Event
from tidings.model.fields import field_names, is_model, is_root_model, is_typed_mapping, with_types
from tidings.model.schema_changes import breaking_changes
from tidings.model.schema_checking import as_checked, first_problem, problems
from tidings.model.schema_keywords import as_class_reads, check_keywords
from tidings.model.schema_models import schema_of_model
from tidings.model.schema_parts import add_formats, resolved
from tidings.model.topic import check_pattern, topic_matches
from tidings.model.typed import lineage_of


def schema_of(cls: Any) -> dict[str, Any]:
    """The JSON Schema of a class."""
    if isinstance(cls, type) and is_root_model(cls):
        raise SchemaError(
            f"{cls.__name__} has no schema: a RootModel stands for one value, and an event has fields",
            hint="put it into a field of a model, or attach a JSON Schema with the field `root`",
        )
    if isinstance(cls, type) and is_model(cls):
        return as_class_reads(_made(cls, partial(schema_of_model, cls)))
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
                self._read()
            except UNREADABLE as error:
                raise InputError(f"{self.path} is no file of schemas: {error}") from None
        self.active = False  # is any schema in force? Asked at every publish, without a call
        self._changed()

    def _read(self) -> None:
        for table in (self._contents.types, self._contents.topics):
            for name, stored in table.items():
                if stored.of_class:  # of an earlier version, whose schemas say more than the class
                    table[name] = msgspec.structs.replace(stored, schema=as_class_reads(stored.schema))
                try:
                    check_keywords(table[name].schema, of_class=stored.of_class)
                except SchemaError as error:
                    raise SchemaError(f"{self.path}, {name!r}: {error.message}", hint=error.hint) from None

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
        check_keywords(made, of_class=of_class)
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
        broken = []
        if known is not None and not force:
            broken = breaking_changes(known.schema, made, was_by_kind=known.of_class, by_kind=of_class)
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
            found = first_problem(as_checked(event.shared_attributes, by_kind=stored.of_class), stored.schema)
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
