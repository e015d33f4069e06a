"""Breaking changes between two versions of a JSON Schema.

Rules
- A change breaks when an event of the old version may not fit the new one, or when readers miss a field. Each
  keyword that is checked (`schema_checking.py`) is compared; a change that cannot be decided breaks.
- One change is none: a new optional field, beside fields that the old version names. Events that had a field
  of this name by chance may not fit.
- Fields, elements, values and keys of mappings are compared at every depth. The new version is a conjunction:
  what stands beside a reference or alternatives, and each part of `allOf`, has to take all that the old one
  took. Of alternatives one has to, for each alternative of the old version (`schema_views.py`).
- A pair of parts is compared once, however often it is met: references that lead to themselves end. A
  comparison has a budget of pairs (`MOST_PAIRS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings.model.pattern import regexp_matches
from tidings.model.schema_bounds import narrowed
from tidings.model.schema_checking import as_key, problems
from tidings.model.schema_keywords import CHECKED
from tidings.model.schema_parts import Schema, is_same, target_of
from tidings.model.schema_views import ONE_OF, Conjunction, SchemaReader, SchemaView, kinds_of, values_of

MOST_PAIRS = 10_000
_DEEPEST = 100  # pairs inside pairs; a body has 64 levels

Break = tuple[str, str]  # the path below the compared parts, and what changed there
Names = frozenset[str] | None  # of fields that the new version has at this place; None: those that are gone
# are reported above


def breaking_changes(
    old: Schema, new: Schema, *, was_by_kind: bool = False, by_kind: bool = False
) -> list[str]:
    """Why events of the old version may not fit the new one, or its readers miss a field. By kind: a version
    takes values that JSON lacks in the fields of their kind alone, as the schema of a class does."""
    try:
        found = _SchemaComparison(old, new, was_by_kind, by_kind).breaks((old,), new, frozenset(), 0)
    except RecursionError:
        found = [("", "nests too deeply to be compared")]
    return list(dict.fromkeys(f"{path or 'the body'} {text}" for path, text in found))


class _SchemaComparison:
    """The two versions, and the pairs of their parts that were compared."""

    def __init__(self, old: Schema, new: Schema, was_by_kind: bool, by_kind: bool) -> None:
        self._before, self._after = SchemaReader(old), SchemaReader(new)
        self._by_kind = (was_by_kind, by_kind)
        self._left = MOST_PAIRS
        self._known: dict[tuple[Any, ...], list[Break]] = {}  # by identities: the parts outlive this
        self._known_gone: dict[tuple[Any, ...], list[Break]] = {}
        self._named: Names = frozenset()  # of the place that is compared

    def breaks(self, olds: Conjunction, new: Any, named: Names, depth: int) -> list[Break]:
        olds, new = tuple(map(self._before.followed, olds)), self._after.followed(new)
        key = (tuple(map(id, olds)), id(new), named)
        if key in self._known:
            return self._known[key]
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return [("", "is too large to be compared")]
        before, above = len(self._known), self._named
        self._known[key] = []  # while it is compared: what leads back here breaks nothing more
        self._named = named
        found = list(dict.fromkeys(self._compared(olds, new, named, depth)))
        self._named = above
        if found:  # what was found to break nothing may have been so because of this pair
            for other in list(self._known)[before:]:
                if not self._known[other]:
                    del self._known[other]
        self._known[key] = found
        return found

    def _compared(self, olds: Conjunction, new: Any, named: Names, depth: int) -> Iterator[Break]:
        views = self._before.alternatives(olds)
        if not views or new is True:
            yield from self._gone(views, named)
            return
        if new is False:
            yield "", "accepts nothing any more"
            return
        groups = [word for word in ("anyOf", "oneOf") if word in new]
        parts = [*new.get("allOf", ()), *([self._after.target(new)] if "$ref" in new else ())]
        if named is not None and len(parts) + len(groups) + (not _OWN.isdisjoint(new)) > 1:
            yield from self._gone_within(olds, (new,), depth)  # one part may lack what another one has
            named = self._named = None
        if named is not None and not groups:
            yield from self._gone(views, named.union(new.get("properties", ())))
        yield from self._own(views, new, depth)
        for part in parts:
            yield from self.breaks(olds, part, named, depth + 1)
        for word in groups:
            yield from self._alternatives(views, new, word, named, depth)

    def _gone(self, views: list[SchemaView], named: Names) -> Iterator[Break]:
        for view in views if named is not None else ():
            for name in view.names:
                if name not in named and self._before.alternatives(view.member(name)):  # type: ignore[operator]
                    yield name, "is gone"

    def _gone_within(self, olds: Conjunction, news: Conjunction, depth: int) -> list[Break]:
        """Fields that the old version has at a place or below it, and no part of the new one."""
        key = (tuple(map(id, olds)), tuple(map(id, news)))
        if key not in self._known_gone and depth < _DEEPEST:
            self._known_gone[key] = []
            self._left -= 1
            others = self._after.alternatives(news)
            for view in self._before.alternatives(olds) if self._left >= 0 else ():
                found = [
                    list(self._gone_between(view, other, depth))
                    for other in others
                    if _overlap(view.kinds, other.kinds)
                ]
                if found and all(found):
                    least = min(found, key=len)
                    self._known_gone[key] += least
        return self._known_gone.get(key, [])

    def _gone_between(self, view: SchemaView, other: SchemaView, depth: int) -> Iterator[Break]:
        for name in view.names:
            if name in other.names:
                pair = view.member(name), other.member(name)
                yield from _under(name, self._gone_within(*pair, depth + 1))
            elif self._before.alternatives(view.member(name)):
                yield name, "is gone"
        for number in range(max(view.prefix, other.prefix)):
            yield from _under(
                f"[{number}]", self._gone_within(view.item(number), other.item(number), depth + 1)
            )
        yield from _under("[]", self._gone_within(view.other_items, other.other_items, depth + 1))
        yield from _under("*", self._gone_within(view.other_members, other.other_members, depth + 1))

    # Alternatives

    def _alternatives(
        self, views: list[SchemaView], new: Schema, word: str, named: Names, depth: int
    ) -> Iterator[Break]:
        parts = new[word]
        views = [view for view in views if not self._is_kept(view, word, parts)]
        if not views:
            return
        views = [view for view in views if self._lost(view, {word: parts}) != []]
        was, now = (
            _union(views),
            _union([each for part in parts for each in self._after.alternatives((part,))]),
        )
        is_other = now is not None and (was is None or not was <= now)
        if views and is_other:
            yield "", f"was {_words(was)} and is {_words(now)}"
        for view in views:
            lost = self._lost(view, {word: parts})
            if lost is not None:
                if not is_other:
                    yield "", f"no longer accepts {lost}"
                continue
            found = [
                self.breaks(view.parts, part, named, depth + 1)
                for part in parts
                if _overlap(view.kinds, _union(self._after.alternatives((part,))))
            ]
            if not found and not is_other:
                yield "", "fits no alternative any more"
            elif found and all(found):
                yield from min(found, key=len)
        if word == "oneOf" and not self._are_disjoint(parts):
            yield "", "may fit more than one alternative"

    def _is_kept(self, view: SchemaView, word: str, parts: Any) -> bool:
        """Has the old version just this `oneOf`?"""
        return word == "oneOf" and any(
            ONE_OF in part and self._is_identical(part[ONE_OF], parts) for part in view.parts
        )

    def _are_disjoint(self, parts: Any) -> bool:
        views = [self._after.alternatives((part,)) for part in parts]
        return all(
            self._exclude(one, other, 0)
            for number, ones in enumerate(views)
            for others in views[:number]
            for one in ones
            for other in others
        )

    def _exclude(self, one: SchemaView, other: SchemaView, depth: int) -> bool:
        """Can no value fit both, by its kind, the values that they name, or a field that both demand?"""
        if not _overlap(one.kinds, other.kinds):
            return True
        if one.values is not None and other.values is not None:
            return not any(is_same(value, each) for value in one.values for each in other.values)
        if depth > 3 or not one.kinds == other.kinds == {"object"}:
            return False
        for name in one.required & other.required:
            pairs = (
                (each, more)
                for each in self._after.alternatives(one.member(name))
                for more in self._after.alternatives(other.member(name))
            )
            if all(self._exclude(each, more, depth + 1) for each, more in pairs):
                return True
        return False

    # One alternative, and a part without alternatives

    def _own(self, views: list[SchemaView], new: Schema, depth: int) -> Iterator[Break]:
        own = {word: value for word, value in new.items() if word in _OWN}
        if not own:
            return
        views = [view for view in views if self._lost(view, own) != []]
        was, now = _union(views), kinds_of(own)
        is_other = bool(views) and now is not None and (was is None or not was <= now)
        if is_other:
            yield "", f"was {_words(was)} and is {_words(now)}"
        for view in views:
            lost = self._lost(view, own)
            if lost is not None:
                if not is_other or _overlap(kinds_of({"enum": lost}), now):
                    yield "", f"no longer accepts {lost}"
            elif _overlap(view.kinds, now):
                yield from self._one(view, own, depth)

    def _lost(self, view: SchemaView, new: Schema) -> list[Any] | None:
        """The values that an alternative names and the new part does not take; None when it names none."""
        if view.values is None:
            return None
        return [
            value
            for value in view.values
            if all(self._fits(value, part, self._before) for part in view.parts)
            and not self._fits(value, new, self._after)
        ]

    def _fits(self, value: Any, schema: Any, reader: SchemaReader) -> bool:
        return next(problems(value, schema, reader.root), None) is None

    def _one(self, view: SchemaView, new: Schema, depth: int) -> Iterator[Break]:
        if values_of(new) is not None:
            yield "", "no longer accepts every value"
        yield from narrowed(view, new, *self._by_kind)
        if "not" in new and not self._is_shared(view, new, "not"):
            others = self._after.alternatives((new["not"],))
            if any(_overlap(view.kinds, other.kinds) for other in others):
                yield "", "may fit the schema of `not`"
        if "if" in new and not self._is_shared(view, new, "if", "then", "else"):
            yield "", "may not fit `then` or `else`"
        if view.takes("object"):
            yield from self._members(view, new, depth)
        if view.takes("array"):
            yield from self._elements(view, new, depth)

    def _is_shared(self, view: SchemaView, new: Schema, *words: str) -> bool:
        """Has the old version just these keywords?"""
        return any(
            all(self._is_identical(part.get(word, _ABSENT), new.get(word, _ABSENT)) for word in words)
            for part in view.parts
        )

    def _is_identical(self, old: Any, new: Any) -> bool:
        return _is_identical(old, new, self._before.root, self._after.root, set())

    def _members(self, view: SchemaView, new: Schema, depth: int) -> Iterator[Break]:
        for name in new.get("required", ()):
            if name not in view.required:
                yield name, "is required, and was not"
        for name, others in new.get("dependentRequired", {}).items():
            for other in others:
                if not _is_demanded(view, name, other):
                    yield other, f"is required beside {name}, and was not"
        for name, part in new.get("dependentSchemas", {}).items():
            if not any(
                self._is_identical(each.get("dependentSchemas", {}).get(name, _ABSENT), part)
                for each in view.parts
            ):
                yield "", f"may not fit the schema for events with {name}"
        properties, patterns = new.get("properties", {}), new.get("patternProperties", {})
        for name, part in properties.items():
            is_known = name in view.names or name in view.required
            is_added = view.has_fields and not is_known and not view.member(name)
            if not is_added:
                yield from self._below(name, view.member(name), part, depth)
        for pattern, part in patterns.items():
            for name in _stated_names(view):
                if regexp_matches(pattern, name):
                    yield from self._below(name, view.member(name), part, depth)
            yield from self._below(f"({pattern})", view.members_like(pattern), part, depth)
        yield from self._others(view, new, depth)
        names = new.get("propertyNames", True)
        if names is not True:
            yield from self._keys(view, names, depth)

    def _others(self, view: SchemaView, new: Schema, depth: int) -> Iterator[Break]:
        """Fields that the new part does not name."""
        extra = new.get("additionalProperties", True)
        if extra is True:
            return
        patterns = new.get("patternProperties", {})
        rest = [name for name in _stated_names(view) if not _is_named(name, new)]
        old_patterns = [pattern for pattern in view.patterns if pattern not in patterns]
        if extra is False and not view.closed:
            yield "", "no longer accepts other fields"
            return
        for name in rest:
            for _ in self._below(name, view.member(name), extra, depth) if extra is False else ():
                yield name, "is gone"
            yield from self._below(name, view.member(name), extra, depth) if extra is not False else ()
        for pattern in old_patterns:
            yield from self._below(f"({pattern})", view.members_like(pattern), extra, depth)
        yield from self._below("*", view.other_members, extra, depth)

    def _keys(self, view: SchemaView, names: Any, depth: int) -> Iterator[Break]:
        keys = self._after.followed(names)
        if any("patternProperties" not in part for part in view.closed):
            for name in view.names:
                is_used = bool(self._before.alternatives(view.member(name)))
                if is_used and not self._fits(as_key(name, keys), names, self._after):
                    yield f"{name} (a key)", "is no longer accepted"
            return
        olds = tuple(map(self._before.keys, view.key_schemas))
        found = self._before.alternatives(olds)
        if not found or any(each.values is None for each in found):
            yield from self._below("(keys)", olds, self._after.keys(names), depth)
            return
        values = [value for each in found for value in each.values or () if isinstance(value, str)]
        lost = [value for value in values if not self._fits(as_key(value, keys), names, self._after)]
        if lost:
            yield "(keys)", f"no longer accepts {lost}"

    def _elements(self, view: SchemaView, new: Schema, depth: int) -> Iterator[Break]:
        first, rest = new.get("prefixItems", ()), new.get("items", True)
        most, known = view.strictest("maxItems"), max(view.prefix, len(first))
        for number in range(known if most is None else min(known, most)):
            part = first[number] if number < len(first) else rest
            yield from self._below(f"[{number}]", view.item(number), part, depth)
        if rest is not True and (most is None or most > known):
            yield from self._below("[]", view.other_items, rest, depth)
        if "contains" in new and not self._is_shared(view, new, "contains", "minContains", "maxContains"):
            yield "", "may have too few or too many elements for `contains`"
        if new.get("uniqueItems") and not view.has("uniqueItems", True) and (most is None or most > 1):
            yield "", "may have an element twice, and must not"

    def _below(self, name: str, olds: Conjunction, new: Any, depth: int) -> Iterator[Break]:
        if new is True and not olds:
            return
        below: Names = None if self._named is None else frozenset()
        yield from _under(name, self.breaks(olds, new, below, depth + 1))


_ABSENT = object()
_OWN = CHECKED - {"$ref", "allOf", "anyOf", "oneOf"}


def _under(name: str, found: list[Break]) -> Iterator[Break]:
    for path, text in found:
        yield (f"{name}.{path}" if path and not path.startswith("[") else f"{name}{path}"), text


def _is_named(name: str, schema: Schema) -> bool:
    return name in schema.get("properties", ()) or any(
        regexp_matches(pattern, name) for pattern in schema.get("patternProperties", ())
    )


def _stated_names(view: SchemaView) -> list[str]:
    return [*view.names, *sorted(view.required.difference(view.names))]


def _is_demanded(view: SchemaView, name: str, other: str) -> bool:
    """Do events of the old version that have a field have the other one?"""
    return (
        name == other
        or other in view.required
        or any(other in part.get("dependentRequired", {}).get(name, ()) for part in view.parts)
    )


def _is_identical(old: Any, new: Any, before: Any, after: Any, seen: set[tuple[int, int]]) -> bool:
    """Are two parts the same, with all that their references lead to?"""
    if old is _ABSENT or new is _ABSENT:
        return old is new
    if isinstance(old, list) and isinstance(new, list):
        pairs = zip(old, new, strict=False)
        return len(old) == len(new) and all(_is_identical(*pair, before, after, seen) for pair in pairs)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return is_same(old, new)
    if (id(old), id(new)) in seen:
        return True
    seen.add((id(old), id(new)))
    if old.keys() != new.keys() or not all(
        _is_identical(old[key], new[key], before, after, seen) for key in old
    ):
        return False
    reference = old.get("$ref")
    if not isinstance(reference, str):
        return True
    targets = target_of(reference, before), target_of(reference, after)
    return _is_identical(*targets, before, after, seen)


def _overlap(ones: set[str] | None, others: set[str] | None) -> bool:
    return ones is None or others is None or not ones.isdisjoint(others)


def _union(views: list[SchemaView]) -> set[str] | None:
    """The kinds of value that alternatives accept; None for every kind."""
    found: set[str] = set()
    for view in views:
        if view.kinds is None:
            return None
        found |= view.kinds
    return found


def _words(kinds: set[str] | None) -> str:
    return "anything" if kinds is None else " or ".join(sorted(kinds))


__all__ = ["breaking_changes"]
