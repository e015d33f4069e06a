"""Breaking changes between two versions of a JSON Schema.

Rules
- A change breaks when an event of the old version may not fit the new one, or when readers miss a field.
- Fields, elements of lists and tuples, values and keys of mappings, and alternatives (`anyOf`, `oneOf`,
  Optional) are compared at every depth. An alternative of the old version breaks unless one of the new
  version takes all that it took.
- A pair of parts is compared once, however often it is met: references that lead to themselves end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from tidings.model.schema_parts import KIND_FORMS, Schema, alternatives, form_of, is_multiple, resolved

_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_DEEPEST = 200

Break = tuple[str, str]  # the path below the compared parts, and what changed there


def breaking_changes(old: Schema, new: Schema, *, by_kind: bool = False) -> list[str]:
    """Why events of the old version may not fit the new one, or its readers miss a field. `by_kind`: the new
    one takes values that JSON lacks in the fields of their kind alone, as the schema of a class does."""
    found = _SchemaComparison(old, new, by_kind).breaks(old, new, 0)
    return [f"{path or 'the body'} {text}" for path, text in found]


class _SchemaComparison:
    """The two versions, and the pairs of their parts that were compared."""

    def __init__(self, old: Schema, new: Schema, by_kind: bool) -> None:
        self._before, self._after = old, new
        self._by_kind = by_kind
        self._keys: list[Schema] = []  # made here: they live as long as their identities are known
        self._known: dict[tuple[int, int], list[Break]] = {}  # by identities: the parts outlive this

    def breaks(self, old: Schema, new: Schema, depth: int) -> list[Break]:
        key = (id(old), id(new))
        if key not in self._known and depth < _DEEPEST:
            self._known[key] = []  # while it is compared: what leads back here breaks nothing more
            self._known[key] = list(self._compared(old, new, depth))
        return self._known.get(key, [])

    def _compared(self, old: Schema, new: Schema, depth: int) -> Iterator[Break]:
        olds = alternatives(resolved(old, self._before), self._before)
        news = alternatives(resolved(new, self._after), self._after)
        if len(olds) == len(news) == 1:
            yield from self._one(olds[0], news[0], depth)
            return
        was, now = _kinds(olds), _kinds(news)
        if now is not None and (was is None or not was <= now):
            yield "", f"was {_words(was)} and is {_words(now)}"
        for each in olds:
            found = [list(self._one(each, other, depth)) for other in news if _may_take(each, other)]
            if found and all(found):
                yield from min(found, key=len)

    def _one(self, old: Schema, new: Schema, depth: int) -> Iterator[Break]:
        """Two schemas without alternatives."""
        was, now = _kinds([old]), _kinds([new])
        if now is not None and (was is None or not was <= now):
            yield "", f"was {_words(was)} and is {_words(now)}"
        had, has = _values(old), _values(new)
        lost = [value for value in had or () if has is not None and value not in has]
        if lost or (has is not None and had is None):
            yield "", f"no longer accepts {lost or 'every value'}"
        yield from _narrowed(old, new)
        forms = form_of(old), form_of(new)
        if forms[1] is not None and forms[0] != forms[1] and "string" in (was or ("string",)):
            yield "", f"was {forms[0] or 'any text'} and is {forms[1]}"
        if self._by_kind and forms[0] in KIND_FORMS and forms[1] is None and now is not None and had is None:
            yield "", f"was {forms[0]} and is any text"
        yield from self._members(old, new, depth)
        yield from self._elements(old, new, depth)

    def _members(self, old: Schema, new: Schema, depth: int) -> Iterator[Break]:
        olds, news = old.get("properties", {}), new.get("properties", {})
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                yield name, "is required, and was not"
        for name in olds:
            if name in news:
                yield from self._below(name, olds[name], news[name], depth)
            else:
                yield name, "is gone"
        extra = old.get("additionalProperties", True)
        is_mapping = isinstance(extra, Mapping) or "properties" not in old
        if is_mapping and extra is not False and "object" in (_kinds([old]) or ()):
            for name in news.keys() - olds.keys():  # it had values of the mapping
                yield from self._below(name, _any(extra), news[name], depth)
        if isinstance(new.get("additionalProperties"), Mapping) and extra is not False:
            yield from self._below("*", _any(extra), new["additionalProperties"], depth)
        if isinstance(new.get("propertyNames"), Mapping) and extra is not False:
            names = old.get("propertyNames", {})
            pair = _texts(resolved(names, self._before)), _texts(resolved(new["propertyNames"], self._after))
            self._keys += pair
            yield from self._below("(keys)", *pair, depth)

    def _elements(self, old: Schema, new: Schema, depth: int) -> Iterator[Break]:
        if "array" not in (_kinds([old]) or ("array",)):
            return
        olds, news = old.get("prefixItems", ()), new.get("prefixItems", ())
        for number in range(max(len(olds), len(news))):
            before = olds[number] if number < len(olds) else old.get("items", True)
            after = news[number] if number < len(news) else new.get("items", True)
            if before is not False and isinstance(after, Mapping):
                yield from self._below(f"[{number}]", _any(before), after, depth)
        if isinstance(new.get("items"), Mapping) and old.get("items", True) is not False:
            yield from self._below("[]", _any(old.get("items", True)), new["items"], depth)

    def _below(self, name: str, old: Schema, new: Schema, depth: int) -> Iterator[Break]:
        for path, text in self.breaks(old, new, depth + 1):
            yield (f"{name}.{path}" if path and not path.startswith("[") else f"{name}{path}"), text


_ANYTHING: Schema = {}


def _texts(names: Schema) -> Schema:
    """A schema of keys, which are texts, whatever their type is called."""
    plain = {word: stated for word, stated in names.items() if word != "type"}
    return {**plain, "enum": list(map(str, plain["enum"]))} if "enum" in plain else plain


def _any(schema: Any) -> Schema:
    return schema if isinstance(schema, Mapping) else _ANYTHING


def _narrowed(old: Schema, new: Schema) -> Iterator[Break]:
    """Bounds and patterns that the new schema has and the old one had not, or wider."""
    named = _values(old)
    if named and all(type(value) is int for value in named):
        old = {"minimum": min(named), "maximum": max(named), **old}
    for words, is_wider in ((_LEAST, operator.le), (_MOST, operator.ge)):
        for word in words:
            if word in new and not (word in old and is_wider(new[word], old[word])):
                yield "", f"has {word} {new[word]}, and had {old.get(word, 'none')}"
    if "multipleOf" in new and not (
        "multipleOf" in old and is_multiple(old["multipleOf"], new["multipleOf"])
    ):
        yield "", f"has multipleOf {new['multipleOf']}, and had {old.get('multipleOf', 'none')}"
    if "pattern" in new and old.get("pattern") != new["pattern"]:
        yield "", f"has pattern {new['pattern']!r}, and had {old.get('pattern', 'none')!r}"
    if new.get("additionalProperties") is False and old.get("additionalProperties", True) is not False:
        yield "", "no longer accepts other fields"


def _values(schema: Schema) -> list[Any] | None:
    """The values that a schema names; None when it names none."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _may_take(old: Schema, new: Schema) -> bool:
    was, now = _kinds([old]), _kinds([new])
    return was is None or now is None or bool(was & now)


_WORDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", list: "array",
    dict: "object",
}  # fmt: skip


def _kinds(parts: list[Schema]) -> set[str] | None:
    """The kinds of value that alternatives accept; None for every kind."""
    found: set[str] = set()
    for part in parts:
        kinds, values = part.get("type"), _values(part)
        if kinds is None and values is None:
            return None
        if kinds is None:
            kinds = [_WORDS[type(value)] for value in values or () if type(value) in _WORDS]
        found |= {kinds} if isinstance(kinds, str) else set(kinds)
    return found | {"integer"} if "number" in found else found


def _words(kinds: set[str] | None) -> str:
    return "anything" if kinds is None else " or ".join(sorted(kinds))


__all__ = ["breaking_changes"]
