"""Parts of JSON Schemas: references, alternatives, formats; and formats that msgspec leaves out."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from msgspec import inspect as kinds

Schema = Mapping[str, Any]


def _reader(cls: Any) -> Callable[[str], Any]:
    """As classes read the text, so that a text that fits can be read."""
    return lambda text: msgspec.convert(text, cls)


FORMATS: dict[str, Callable[[str], Any]] = {
    "uuid": UUID, "date": date.fromisoformat, "date-time": _reader(datetime), "time": _reader(time),
    "duration": _reader(timedelta), "decimal": Decimal, "base64": partial(base64.b64decode, validate=True),
    "integer": int,
}  # fmt: skip


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference leads to, and what stands beside the reference."""
    for _ in range(32):  # a reference to itself ends
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        schema = {**found, **{name: stored for name, stored in schema.items() if name != "$ref"}}
    return schema if isinstance(schema, Mapping) else {}


def alternatives(schema: Schema, root: Schema, depth: int = 0) -> list[Schema]:
    """The schemas of which a value fits one, each without alternatives of its own."""
    for word in ("anyOf", "oneOf"):
        if word in schema and depth < 8:
            rest = {name: stored for name, stored in schema.items() if name not in (word, "title", "default")}
            parts = [{**rest, **resolved(part, root)} for part in schema[word]]
            return [each for part in parts for each in alternatives(part, root, depth + 1)]
    types = schema.get("type")
    if isinstance(types, list) and len(types) > 1:
        return [{**schema, "type": kind} for kind in types]
    return [schema]


def form_of(schema: Schema) -> str | None:
    """The format that a schema demands of a text; None for any text."""
    found = schema.get("contentEncoding", schema.get("format"))
    return found if found in FORMATS else None


def is_of_format(text: str, form: str) -> bool:
    try:
        FORMATS[form](text)
    except (ValueError, ArithmeticError, msgspec.ValidationError):
        return False
    return True


_MISSING: dict[type, str] = {
    kinds.DateTimeType: "date-time", kinds.TimeType: "time", kinds.TimeDeltaType: "duration",
}  # fmt: skip
_KEYS: dict[type, str] = {
    **_MISSING, kinds.DateType: "date", kinds.UUIDType: "uuid", kinds.DecimalType: "decimal",
    kinds.IntType: "integer",
}  # fmt: skip


def add_formats(schema: Any, cls: Any) -> Any:
    """Write the formats that msgspec leaves out into its schema of a class: moments, times of day, durations,
    and keys of mappings."""
    _Formats(schema).add(schema, kinds.type_info(cls))
    return schema


class _Formats:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._seen: set[tuple[int, int]] = set()

    def add(self, schema: Any, info: Any) -> None:
        while isinstance(schema, dict) and str(schema.get("$ref", "")).startswith("#/$defs/"):
            schema = self._root["$defs"].get(schema["$ref"].removeprefix("#/$defs/"))
        key = (id(schema), id(info))
        if not isinstance(schema, dict) or key in self._seen:
            return
        self._seen.add(key)
        if isinstance(info, kinds.UnionType):
            for part in schema.get("anyOf", ()):
                for each in info.types:
                    if self._is_of(part, each):
                        self.add(part, each)
            return
        if isinstance(info, kinds.Metadata):
            self.add(schema, info.type)
            return
        form = _MISSING.get(type(info))
        if form is not None:
            schema.setdefault("format", form)
        for field in getattr(info, "fields", ()):
            self.add(schema.get("properties", {}).get(field.encode_name), field.type)
        self.add(schema.get("items"), getattr(info, "item_type", None))
        parts, types = schema.get("prefixItems", ()), getattr(info, "item_types", ())
        for part, each in zip(parts, types, strict=False):
            self.add(part, each)
        if isinstance(info, kinds.DictType):
            self.add(schema.get("additionalProperties"), info.value_type)
            if type(info.key_type) in _KEYS:
                schema.setdefault("propertyNames", {"format": _KEYS[type(info.key_type)]})

    def _is_of(self, part: Any, info: Any) -> bool:
        """Is this part of a union the schema of this type? A union has one type of text, of list, of object
        without a tag; classes are named by their references."""
        cls = getattr(info, "cls", None)
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return cls is not None and name.endswith(cls.__name__)
        kind = part.get("type")
        if isinstance(info, kinds.DictType):
            return bool(kind == "object")
        if hasattr(info, "item_type") or hasattr(info, "item_types"):
            return bool(kind == "array")
        return bool(kind == "string") and type(info) in _MISSING
