"""Keywords of JSON Schemas: those that are checked, notes, and others, which are refused by name and place.

Rules
- A schema that is given has keywords that are checked (`CHECKED`), and notes (`NOTES`, `x-...`, formats that
  `schema_parts.FORMATS` lacks). Any other keyword is refused when the schema is attached: it would never be
  checked. In the schema of a class others are notes, since the class says what is read.
- A keyword has the value that JSON Schema 2020-12 gives it, whatever `$schema` says, and patterns have the
  syntax of RE2: another engine's time has no bound.
- References lead inside the schema, and end: a schema that is its own part is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tidings.errors import FilterError, SchemaError
from tidings.model.pattern import check_regexp
from tidings.model.schema_parts import FORMATS, target_of

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float), "null": (type(None),),
}  # fmt: skip

_SCHEMA = ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else")
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
    "maxContains",
)  # fmt: skip
_TEXTS = ("pattern", "format", "contentEncoding", "$ref")
CHECKED = frozenset(
    (
        *_SCHEMA, *_SCHEMAS, *_BY_NAME[:3], *_NUMBERS, *_COUNTS, *_TEXTS, "type", "enum", "const", "required",
        "dependentRequired", "uniqueItems",
    )
)  # fmt: skip
NOTES = frozenset(
    {
        "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples",
        "example", "deprecated", "readOnly", "writeOnly", "discriminator", "contentMediaType",
        "contentSchema", "externalDocs", "xml",
    }
)  # fmt: skip
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_ALONE = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_INSTEAD = {
    "unevaluatedProperties": "write additionalProperties beside all properties",
    "unevaluatedItems": "write items beside prefixItems",
    "additionalItems": "write prefixItems, and items for the elements behind them",
    "dependencies": "write dependentRequired or dependentSchemas",
    "nullable": 'write "type": [..., "null"]',
    "$dynamicRef": "write $ref with the place of the schema: #/$defs/NAME",
    "$recursiveRef": "write $ref with the place of the schema: #",
    "$anchor": "take it out, and write $ref with the place of the schema: #/$defs/NAME",
    "$id": "take it out below the root: references are read from the root",
    "id": "write $id, at the root",
}
_DEEPEST = 100


def check_keywords(schema: Mapping[str, Any], *, of_class: bool) -> None:
    """Refuse a schema that cannot be checked as it is written. Raises `SchemaError`."""
    graph: dict[int, list[int]] = {}
    waiting: list[tuple[Any, str, int]] = [(schema, "#", 0)]
    while waiting:
        part, place, depth = waiting.pop()
        if isinstance(part, bool) or id(part) in graph:
            continue
        if not isinstance(part, Mapping):
            raise _refusal(place, f"is {part!r}, which is no schema", "write an object, true or false")
        if depth > _DEEPEST:
            raise _refusal(place, f"lies more than {_DEEPEST} schemas deep", "write parts of it to $defs")
        _check_words(part, place, of_class=of_class)
        inside = [(each, f"{place}/{where}") for where, each in parts_of(part)]
        if "$ref" in part:
            target = target_of(part["$ref"], schema)
            if target is None:
                raise _refusal(
                    place, f"has $ref {part['$ref']!r}, which leads nowhere",
                    "references lead to a place in the schema itself: #/$defs/NAME",
                )  # fmt: skip
            waiting.append((target, part["$ref"], 0))
        waiting += [(each, where, depth + 1) for each, where in inside]
        graph[id(part)] = [id(each) for each in _in_place(part, schema)]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        raise SchemaError(
            "the schema refers to itself without end",
            hint="a schema may lie inside a field or an element of itself, and be no part of itself",
        ) from None


def parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas that lie in a schema, each with the place where it lies."""
    for word in _SCHEMA:
        if word in schema:
            yield word, schema[word]
    for word in _SCHEMAS:
        found = schema.get(word)
        for number, part in enumerate(found if isinstance(found, list) else ()):
            yield f"{word}/{number}", part
    for word in _BY_NAME:
        found = schema.get(word)
        for name, part in found.items() if isinstance(found, Mapping) else ():
            yield f"{word}/{name}", part


def followed(schema: Any, root: Any) -> Any:
    """The schema that a mere reference leads to; a schema with more to check is itself."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            break
        if len(schema) > 1 and not CHECKED.isdisjoint(schema.keys() - {"$ref"}):
            break
        target = target_of(schema["$ref"], root)
        schema = True if target is None else target
    return schema


def as_class_reads(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a class as the class reads events: a set is read from a list with an element twice, and
    an alternative is picked by a tag, however many fit."""
    made: dict[str, Any] = deepcopy(schema)
    waiting: list[Any] = [made]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            part.pop("uniqueItems", None)
            if "anyOf" not in part and "oneOf" in part:
                part["anyOf"] = part.pop("oneOf")
            waiting += [each for _, each in parts_of(part)]
    return made


def _in_place(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that look at the same value as a schema does."""
    if "$ref" in schema:
        yield target_of(schema["$ref"], root)
    for word in _IN_PLACE:
        found = schema.get(word, ())
        if isinstance(found, list):
            yield from found
        elif word == "dependentSchemas":
            yield from found.values() if isinstance(found, Mapping) else ()
        elif word in schema:
            yield found


def _check_words(schema: Mapping[str, Any], place: str, *, of_class: bool) -> None:
    for word, value in schema.items():
        if word in CHECKED or word in _BY_NAME:
            wrong = _misuse(word, value)
            if wrong is not None:
                raise _refusal(place, f"has {word} {value!r}", f"{word} is {wrong}")
        elif not of_class and not (
            word in NOTES or word.startswith("x-") or (word, place) in (("$id", "#"), ("id", "#"))
        ):
            raise _refusal(
                place, f"has the keyword {word!r}, which is not checked",
                _INSTEAD.get(word, "take it out, or say it with keywords that are checked (docs/events.md)"),
            )  # fmt: skip
    pattern_texts = [schema["pattern"]] if "pattern" in schema else []
    for pattern in (*pattern_texts, *schema.get("patternProperties", ())):
        try:
            check_regexp(pattern)
        except FilterError as error:
            raise SchemaError(
                f"the schema has a pattern that cannot be used, at {place}: {error.message}",
                hint="patterns have the syntax of RE2: no look-around, no back-references",
            ) from None
    if of_class:
        return
    for word, other in _ALONE.items():
        if word in schema and other not in schema:
            raise _refusal(place, f"has {word} without {other}", f"write {other}, or take {word} out")
    if schema.get("contentEncoding", "base64") not in FORMATS:
        raise _refusal(
            place, f"has contentEncoding {schema['contentEncoding']!r}, which is not checked",
            "base64 is checked",
        )  # fmt: skip
    if "contentEncoding" in schema and schema.get("format") in FORMATS:
        raise _refusal(place, "has contentEncoding and format", "write one of them")


def _misuse(word: str, value: Any) -> str | None:
    """The values that a keyword takes, where this is none of them."""
    if word in _SCHEMAS:
        right = isinstance(value, list) and bool(value)
        return None if right else "a list of schemas"
    if word in _BY_NAME:
        return None if isinstance(value, Mapping) else "an object of schemas"
    if word in _NUMBERS:
        is_number = type(value) is int or (type(value) is float and math.isfinite(value))
        right = is_number and (word != "multipleOf" or value > 0)
        return None if right else "a number" if word != "multipleOf" else "a number above 0"
    if word in _COUNTS:
        return None if type(value) is int and value >= 0 else "an integer from 0 on"
    if word in _TEXTS:
        return None if isinstance(value, str) else "a text"
    if word == "type":
        kinds = [value] if isinstance(value, str) else value
        right = isinstance(kinds, list) and bool(kinds)
        right = right and all(isinstance(kind, str) and kind in TYPES for kind in kinds)
        return None if right else f"one of {', '.join(TYPES)}, or a list of them"
    if word in ("enum", "required"):
        right = isinstance(value, list) and (word == "enum" or all(isinstance(each, str) for each in value))
        return None if right else "a list of values" if word == "enum" else "a list of names"
    if word == "dependentRequired":
        right = isinstance(value, Mapping) and all(
            _misuse("required", names) is None for names in value.values()
        )
        return None if right else "an object of lists of names"
    if word == "uniqueItems":
        return None if isinstance(value, bool) else "true or false"
    return None


def _refusal(place: str, what: str, hint: str) -> SchemaError:
    return SchemaError(f"the schema cannot be attached: {place} {what}", hint=hint)


__all__ = ["CHECKED", "NOTES", "TYPES", "as_class_reads", "check_keywords", "followed", "parts_of"]
