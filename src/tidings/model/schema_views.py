"""The older of two schemas that are compared: the alternatives that a conjunction of its parts has, and what
each alternative says together.

Rules
- A place of the older schema is a conjunction: all the schemas that hold for the values there. It becomes a
  list of alternatives, each a conjunction of plain parts, which have neither references nor alternatives.
- An alternative may say less than the schema does (past `MOST_ALTERNATIVES`, or of an `oneOf`), never more:
  what it takes is compared with the newer schema, so that nothing is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from tidings.model.pattern import regexp_matches
from tidings.model.schema_keywords import TYPES, followed
from tidings.model.schema_parts import Schema, form_of, is_same, target_of

MOST_ALTERNATIVES = 64
_DEEPEST = 40
ONE_OF = "(oneOf)"  # in a plain part: an `oneOf` that its alternatives stand for

Conjunction = tuple[Any, ...]  # of schemas


class SchemaReader:
    """One version of a schema, and the parts that were made of it; they live as long as their identities are
    known."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._plain: dict[tuple[int, str], dict[str, Any]] = {}
        self._is_plain: set[int] = set()
        self._made: dict[int, Any] = {}
        self._known: dict[tuple[int, ...], list[SchemaView]] = {}

    def followed(self, schema: Any) -> Any:
        return followed(schema, self.root)

    def target(self, schema: Schema) -> Any:
        return target_of(schema["$ref"], self.root)

    def alternatives(self, parts: Conjunction) -> list[SchemaView]:
        """The alternatives of a conjunction that a value can fit."""
        key = tuple(map(id, parts))
        if key not in self._known:
            found: list[Conjunction] = [()]
            for part in parts:
                found = _product(found, self._of(part, 0))
            self._known[key] = [view for view in map(SchemaView, found) if view.is_possible]
        return self._known[key]

    def _of(self, schema: Any, depth: int) -> list[Conjunction]:
        schema = self.followed(schema)
        if schema is False:
            return []
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return [()]
        if id(schema) in self._is_plain:
            return [(schema,)]
        types = schema.get("type")
        kinds = types if isinstance(types, list) else [types]
        found: list[Conjunction] = [self._plain_part(schema, kind) for kind in kinds]
        if "$ref" in schema:
            found = _product(found, self._of(self.target(schema), depth + 1))
        for part in schema.get("allOf", ()):
            found = _product(found, self._of(part, depth + 1))
        for word in ("anyOf", "oneOf"):
            if word in schema:
                found = _product(found, [one for part in schema[word] for one in self._of(part, depth + 1)])
        return found

    def _plain_part(self, schema: Schema, kind: str | None) -> Conjunction:
        key = (id(schema), kind or "")
        if key not in self._plain:
            left_out = ("$ref", "allOf", "anyOf", "oneOf")
            plain = {word: value for word, value in schema.items() if word not in left_out}
            if kind is not None:
                plain["type"] = kind
            if "oneOf" in schema:
                plain[ONE_OF] = schema["oneOf"]
            self._plain[key] = plain
            self._is_plain.add(id(plain))
        return (self._plain[key],)

    def keys(self, names: Any) -> Any:
        """A schema of keys, which are texts, whatever their type is called."""
        names = self.followed(names)
        if not isinstance(names, Mapping):
            return names
        if id(names) not in self._made:
            kinds = names.get("type", "string")
            kinds = [kinds] if isinstance(kinds, str) else kinds
            made: Any = {word: stated for word, stated in names.items() if word != "type"}
            if "integer" in (names.get("type"), names.get("format")):
                made["format"] = "integer"
                for word in ("enum", "const"):
                    if word in made:
                        made[word] = list(map(str, made[word])) if word == "enum" else str(made[word])
            elif "string" not in kinds:
                made = False
            self._made[id(names)] = (names, made)
        return self._made[id(names)][1]


def _product(ones: list[Conjunction], others: list[Conjunction]) -> list[Conjunction]:
    if len(ones) * len(others) > MOST_ALTERNATIVES:
        return ones  # which say less
    return [(*one, *other) for one in ones for other in others]


class SchemaView:
    """What the plain parts of one alternative say together."""

    def __init__(self, parts: Iterable[Schema]) -> None:
        self.parts: Conjunction = tuple({id(part): part for part in parts}.values())

    @cached_property
    def kinds(self) -> set[str] | None:
        """The kinds of value that all parts accept; None for every kind."""
        found: set[str] | None = None
        for part in self.parts:
            kinds = kinds_of(part)
            if kinds is not None:
                found = kinds if found is None else found & kinds
        return found

    @cached_property
    def values(self) -> list[Any] | None:
        """The values that it names; None when it names none."""
        named = [each for part in self.parts if (each := values_of(part)) is not None]
        if named:
            return [each for each in named[0] if all(_is_among(each, more) for more in named[1:])]
        if self.kinds is None or not self.kinds <= {"null", "boolean"}:
            return None
        return [each for kind in sorted(self.kinds) for each in _FEW[kind]]

    @property
    def is_possible(self) -> bool:
        return self.kinds != set() and self.values != []

    def takes(self, *kinds: str) -> bool:
        return self.kinds is None or not self.kinds.isdisjoint(kinds)

    def strictest(self, word: str) -> Any:
        """The closest bound of this name; None without one."""
        found = [part[word] for part in self.parts if word in part]
        if not found:
            return None
        return max(found) if word.startswith(("min", "exclusiveMin")) else min(found)

    def has(self, word: str, value: Any) -> bool:
        return any(part.get(word) == value for part in self.parts)

    @cached_property
    def forms(self) -> list[str]:
        return [form for part in self.parts if (form := form_of(part)) is not None]

    @cached_property
    def required(self) -> set[str]:
        return {name for part in self.parts for name in part.get("required", ())}

    # Fields

    @property
    def has_fields(self) -> bool:
        """Does it name its fields, as a class does and a mapping does not?"""
        return any("properties" in part for part in self.parts)

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for part in self.parts for name in part.get("properties", ())))

    @cached_property
    def patterns(self) -> list[str]:
        found = (pattern for part in self.parts for pattern in part.get("patternProperties", ()))
        return list(dict.fromkeys(found))

    def member(self, name: str) -> Conjunction:
        """The schemas that hold for the field of this name."""
        found: list[Any] = []
        for part in self.parts:
            own = [part["properties"][name]] if name in part.get("properties", ()) else []
            own += [
                each
                for pattern, each in part.get("patternProperties", {}).items()
                if regexp_matches(pattern, name)
            ]
            found += own or [part.get("additionalProperties", True)]
        return _stated(found)

    def members_like(self, pattern: str) -> Conjunction:
        """The schemas that hold for every other field whose name fits a pattern."""
        found: list[Any] = []
        for part in self.parts:
            patterns = part.get("patternProperties", {})
            if pattern in patterns:
                found.append(patterns[pattern])
            elif not patterns:
                found.append(part.get("additionalProperties", True))
        return _stated(found)

    @cached_property
    def other_members(self) -> Conjunction:
        """The schemas that hold for fields which no part names."""
        return _stated([part.get("additionalProperties", True) for part in self.parts])

    @cached_property
    def closed(self) -> list[Schema]:
        """The parts that accept no other fields."""
        return [part for part in self.parts if part.get("additionalProperties") is False]

    @cached_property
    def key_schemas(self) -> list[Any]:
        return [part["propertyNames"] for part in self.parts if part.get("propertyNames", True) is not True]

    # Elements

    @cached_property
    def prefix(self) -> int:
        return max((len(part.get("prefixItems", ())) for part in self.parts), default=0)

    def item(self, number: int) -> Conjunction:
        return _stated([_item(part, number) for part in self.parts])

    @cached_property
    def other_items(self) -> Conjunction:
        return _stated([part.get("items", True) for part in self.parts])


_FEW: dict[str, list[Any]] = {"null": [None], "boolean": [False, True]}


def _stated(found: list[Any]) -> Conjunction:
    return tuple({id(part): part for part in found if part is not True}.values())


def _item(part: Schema, number: int) -> Any:
    first = part.get("prefixItems", ())
    return first[number] if number < len(first) else part.get("items", True)


def _is_among(value: Any, values: Iterable[Any]) -> bool:
    return any(is_same(value, each) for each in values)


def values_of(schema: Schema) -> list[Any] | None:
    """The values that a plain part names; None when it names none."""
    if "const" in schema and "enum" in schema:
        return [schema["const"]] if _is_among(schema["const"], schema["enum"]) else []
    return [schema["const"]] if "const" in schema else schema.get("enum")


def kinds_of(schema: Schema) -> set[str] | None:
    """The kinds of value that a plain part accepts; None for every kind."""
    kinds, values = schema.get("type"), values_of(schema)
    if kinds is None and values is None:
        return None
    found = {kinds} if isinstance(kinds, str) else set(kinds or _kinds_of_values(values or ()))
    return found | {"integer"} if "number" in found else found


def _kinds_of_values(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        found = next((kind for kind, types in TYPES.items() if type(value) in types), None)
        if found is not None:
            yield found
        if type(value) is float:
            yield "integer"


__all__ = ["ONE_OF", "Conjunction", "SchemaReader", "SchemaView", "kinds_of", "values_of"]
