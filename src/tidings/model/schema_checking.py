"""Checking a value against a JSON Schema, within a budget of steps.

Rules
- Every keyword of `schema_keywords.CHECKED` is checked, as JSON Schema 2020-12 has it: keywords beside a
  reference hold together with what it leads to, `oneOf` means exactly one, `true` and `false` are schemas.
- Values that JSON lacks are checked as the text that stands for them; by the schema of a class in the fields
  of their kind alone, since the class reads them nowhere else (`KindText`).
- A text has the format of the schema where that is one of `schema_parts.FORMATS`; other formats are notes.
- A pattern has the syntax of RE2, which never backtracks. A check has a budget of steps (`MOST_STEPS`): an
  event past it is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tidings.errors import SchemaError
from tidings.model.pattern import regexp_matches, regexp_weight
from tidings.model.schema_keywords import TYPES, followed
from tidings.model.schema_parts import (
    BYTES,
    FORM_OF_KIND,
    Schema,
    form_of,
    is_multiple,
    is_of_format,
    is_same,
    target_of,
)
from tidings.model.textual import json_ready

MOST_STEPS = 1 << 18  # of one check: a look at a value by a part of the schema; some 0.3 s
SEARCHED = 64  # characters of a text, times the weight of a pattern, that count as a step
_SIZES: dict[Any, tuple[str, str]] = {str: ("minLength", "maxLength"), list: ("minItems", "maxItems")}
_BOUNDS = (
    ("minimum", operator.ge), ("maximum", operator.le), ("exclusiveMinimum", operator.gt),
    ("exclusiveMaximum", operator.lt),
)  # fmt: skip
_SELDOM = frozenset({"oneOf", "not", "if"})
_OF_MEMBERS = frozenset({"minProperties", "maxProperties", "dependentRequired", "dependentSchemas"})


class KindText(str):
    """The text of a value that JSON lacks, and the format of its kind. A text is of every kind, and this one
    of its own alone."""

    __slots__ = ("form", "size")

    form: str
    size: int  # of bytes; of others that of the text


def as_checked(value: Any, *, by_kind: bool) -> Any:
    """A value as schemas of classes describe it: moments are text, and an integer has any width."""
    cls = type(value)
    if cls is dict:
        return {name: as_checked(item, by_kind=by_kind) for name, item in value.items()}
    if cls is list or cls is tuple:
        return [as_checked(item, by_kind=by_kind) for item in value]
    if cls is int or cls is float:
        return value
    text = value.isoformat() if cls is datetime else json_ready(value)
    if not by_kind or cls not in FORM_OF_KIND:
        return text
    marked = KindText(text)
    marked.form, marked.size = FORM_OF_KIND[cls], len(value if cls is bytes else text)
    return marked


def problems(value: Any, schema: Any, root: Schema | None = None) -> Iterator[str]:
    """What is wrong with a JSON value, field by field; `root` is where references of the schema lead to.
    Raises `SchemaError` past the budget of steps."""
    return _Checking(schema if root is None else root).problems(value, schema, "")


def first_problem(value: Any, schema: Schema) -> str | None:
    """The first thing that is wrong with a JSON value; None when it fits."""
    try:
        return next(problems(value, schema), None)
    except RecursionError:
        return "the schema refers to itself without end"


class _Checking:
    """One look at a value by a schema. A value that lies below several alternatives is looked at once by
    each part of the schema, however many of them nest; a budget of steps bounds all other repetition."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MOST_STEPS
        self._known: dict[tuple[int, int], bool] = {}  # does the object or list fit the part? By identities

    def problems(self, value: Any, schema: Any, path: str) -> Iterator[str]:
        self._step(1)
        schema = followed(schema, self._root)
        if not isinstance(schema, Mapping):
            if schema is False:
                yield f"{path or 'the body'} is not allowed"
            return
        where = path or "the body"
        kinds = schema.get("type")
        if kinds is not None and not _is_of(value, [kinds] if isinstance(kinds, str) else kinds):
            yield f"{where} is {_kind(value)}, not {kinds}"
            return
        if "enum" in schema and not any(is_same(value, each) for each in schema["enum"]):
            yield f"{where} is {value!r}, not one of {schema['enum']}"
        if "const" in schema and not is_same(value, schema["const"]):
            yield f"{where} is {value!r}, not {schema['const']!r}"
        if "$ref" in schema:
            yield from self.problems(value, target_of(schema["$ref"], self._root), path)
        for part in schema.get("allOf", ()):
            yield from self.problems(value, part, path)
        if "anyOf" in schema and not any(self._fits(value, part, path) for part in schema["anyOf"]):
            yield f"{where} fits none of {len(schema['anyOf'])} alternatives"
        if not _SELDOM.isdisjoint(schema):
            yield from self._choices(value, schema, path)
        yield from self._bounds(value, schema, where)
        if isinstance(value, dict):
            yield from self._members(value, schema, path)
        if isinstance(value, list):
            yield from self._elements(value, schema, path)

    def _fits(self, value: Any, part: Any, path: str) -> bool:
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

    def _choices(self, value: Any, schema: Schema, path: str) -> Iterator[str]:
        """Keywords that turn on whether the value fits another schema."""
        where = path or "the body"
        if "oneOf" in schema:
            count = sum(self._fits(value, part, path) for part in schema["oneOf"])
            if count != 1:
                yield f"{where} fits {count or 'none'} of {len(schema['oneOf'])} alternatives"
        if "not" in schema and self._fits(value, schema["not"], path):
            yield f"{where} is {_kind(value)} that fits the schema of `not`"
        if "if" in schema:
            branch = "then" if self._fits(value, schema["if"], path) else "else"
            yield from self.problems(value, schema.get(branch, True), path)

    def _bounds(self, value: Any, schema: Schema, where: str) -> Iterator[str]:
        if isinstance(value, int | float) and not isinstance(value, bool):
            for word, holds in _BOUNDS:
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
        if isinstance(value, str) and isinstance(pattern, str) and not self._matches(pattern, value):
            yield f"{where} does not fit the pattern {pattern!r}"
        if isinstance(value, KindText) and not _is_of_kind(value, schema, form):
            yield f"{where} is the {value.form} {value!r}, not {form or 'a text'}"
        elif isinstance(value, str) and form is not None and not is_of_format(value, form):
            yield f"{where} is {value!r}, which is no {form}"
        if isinstance(value, float) and form == "decimal" and not math.isfinite(value):
            yield f"{where} is {value}, which is no number"

    def _matches(self, pattern: str, text: str) -> bool:
        self._step(regexp_weight(pattern) * len(text) // SEARCHED)
        return regexp_matches(pattern, text)

    def _members(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
        properties = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        prefix = f"{path}." if path else ""
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{prefix}{name} is missing"
        if not _OF_MEMBERS.isdisjoint(schema):
            yield from self._together(value, schema, path)
        extra, names = schema.get("additionalProperties", True), schema.get("propertyNames", True)
        if names is not True:
            keys = followed(names, self._root)
            for name in value:
                yield from self.problems(as_key(name, keys), names, f"{prefix}{name} (a key)")
        for name, member in value.items():
            is_known = name in properties
            if is_known:
                yield from self.problems(member, properties[name], f"{prefix}{name}")
            for pattern, part in patterns.items():
                if self._matches(pattern, name):
                    is_known = True
                    yield from self.problems(member, part, f"{prefix}{name}")
            if is_known or extra is True:
                continue
            if extra is False:
                yield f"{prefix}{name} is no field of the schema"
            else:
                yield from self.problems(member, extra, f"{prefix}{name}")

    def _together(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
        """Keywords about the members of an object together."""
        where, prefix = path or "the body", f"{path}." if path else ""
        if len(value) < schema.get("minProperties", 0):
            yield f"{where} has fewer than {schema['minProperties']} fields"
        if len(value) > schema.get("maxProperties", len(value)):
            yield f"{where} has more than {schema['maxProperties']} fields"
        for name, others in schema.get("dependentRequired", {}).items():
            for other in others if name in value else ():
                if other not in value:
                    yield f"{prefix}{other} is missing beside {name}"
        for name, part in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self.problems(value, part, path)

    def _elements(self, value: list[Any], schema: Schema, path: str) -> Iterator[str]:
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        for number, item in enumerate(value if first or rest is not True else ()):
            part = first[number] if number < len(first) else rest
            if part is not True:
                yield from self.problems(item, part, f"{path}[{number}]")
        where = path or "the body"
        if "contains" in schema:
            least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
            count = sum(self._fits(item, schema["contains"], path) for item in value)
            if not least <= count <= most:
                yield f"{where} has {count} elements that fit the schema of `contains`"
        if schema.get("uniqueItems") and not self._is_unique(value):
            yield f"{where} has an element twice"

    def _is_unique(self, value: list[Any]) -> bool:
        found = [self._exact(item) for item in value]
        return len(set(found)) == len(found)

    def _exact(self, value: Any) -> Any:
        """A value that can be looked up, equal where JSON values are: TRUE is no 1, and 1.0 is."""
        self._step(1)
        if isinstance(value, list):
            return (list, *map(self._exact, value))
        if isinstance(value, dict):
            return (dict, frozenset((name, self._exact(item)) for name, item in value.items()))
        return (bool, value) if isinstance(value, bool) else value


def _is_of(value: Any, kinds: Iterable[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return True
    return any(isinstance(value, TYPES.get(kind, ())) for kind in kinds)


def _is_of_kind(value: KindText, schema: Schema, form: str | None) -> bool:
    """Is a value that JSON lacks of the kind that the schema of a class asks for?"""
    if form is None:
        return "string" not in schema.get("type", ()) or "enum" in schema or "const" in schema
    if value.form == "uuid" and form.startswith("uuid"):
        return is_of_format(value, form)
    return form == value.form or (value.form, form) == ("base64", BYTES)


def as_key(name: str, names: Any) -> Any:
    """A key of a mapping as the schema of its keys describes it: numbers are keys as their text."""
    if not isinstance(names, Mapping) or "integer" not in (names.get("type"), names.get("format")):
        return name
    return int(name) if is_of_format(name, "integer") else name


def _kind(value: Any) -> str:
    if isinstance(value, KindText):
        return value.form
    return next((name for name, types in TYPES.items() if type(value) in types), type(value).__name__)


__all__ = ["KindText", "as_checked", "as_key", "first_problem", "problems"]
