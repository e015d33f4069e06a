"""A plain-Python index for some hundreds of subscriptions: no NumPy, nothing to compile.

Rules
- Each conjunction is filed once, under the *entry point* that the fewest others share; an event
  visits the entry points that its own attributes open, and tests what is left of each conjunction
  that it finds there.
- Entry points, best first: a value (`=`, `IN`), a type name (`IS A`), the beginning of a text
  (`LIKE 'x%'`), the first level of a topic pattern, the presence of an attribute (ranges and all
  else that an absent value cannot satisfy).
- What needs no attribute (IS NULL alone, a residual alone, TRUE) is tested for every event.
- A boolean is no number, though Python says True == 1: the two have different keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tidings.language.evaluate import residual_test
from tidings.matching.acceptors import acceptor
from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.model.constraint import Constraint, Equals, IsA, Missing, OneOf, Prefix, TopicIs
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter

Place: TypeAlias = tuple[str, Any]  # the kind of entry point, and its key
Bucket: TypeAlias = dict[tuple[int, int], "_Entry"]  # (handle, number of the conjunction)

VALUE, NAME, START, LEVEL, PRESENT = "value", "name", "start", "level", "present"
_RANK = {VALUE: 0, NAME: 1, START: 2, LEVEL: 3, PRESENT: 4}
ANY: Place = (PRESENT, None)
_SURE = {VALUE, NAME, START}  # being found there proves the constraint


class _Entry:
    """What is left to test of one conjunction, once an event has come to its entry point."""

    __slots__ = ("constraints", "handle", "residuals")

    def __init__(
        self, handle: int, rest: Iterable[Constraint], residuals: list[Callable[[Event], bool]]
    ) -> None:
        self.handle = handle
        self.constraints = [(constraint.attribute, acceptor(constraint)) for constraint in rest]
        self.residuals = residuals

    def accepts(self, event: Event, view: Mapping[str, Any]) -> bool:
        for attribute, holds in self.constraints:
            if not holds(view.get(attribute)):
                return False
        return not self.residuals or all(residual(event) for residual in self.residuals)


class _Attribute:
    """The entry points of one attribute."""

    def __init__(self) -> None:
        self.buckets: dict[Place, Bucket] = {}
        self.lengths: dict[int, int] = {}  # of the prefixes in START -> how many buckets

    def bucket(self, place: Place) -> Bucket:
        found = self.buckets.get(place)
        if found is None:
            found = self.buckets[place] = {}
            if place[0] == START:
                self.lengths[len(place[1])] = self.lengths.get(len(place[1]), 0) + 1
        return found

    def size(self, place: Place) -> int:
        return len(self.buckets.get(place, ()))

    def drop(self, place: Place, key: tuple[int, int]) -> None:
        bucket = self.buckets[place]
        del bucket[key]
        if not bucket:
            del self.buckets[place]
            if place[0] == START:
                length = len(place[1])
                self.lengths[length] -= 1
                if not self.lengths[length]:
                    del self.lengths[length]

    def opened_by(self, value: Any) -> list[Place]:
        """The entry points that an attribute of this value opens."""
        if type(value) is tuple:
            return [ANY, *((NAME, name) for name in value)]
        places = [ANY, (VALUE, _key(value))]
        if type(value) is str:
            places += [(START, value[:length]) for length in self.lengths]
            places.append((LEVEL, value.partition("/")[0]))
        return places


class SmallMatcher:
    """Entry points by attribute, and a list of what has none."""

    def __init__(self) -> None:
        self._handles = Handles()
        self._attributes: dict[str, _Attribute] = {}
        self._everywhere: Bucket = {}
        self._filed: dict[int, list[tuple[str | None, Place, tuple[int, int]]]] = {}

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        filed = self._filed[handle] = []
        for number, conjunction in enumerate(filter.conjunctions):
            self._file(filed, (handle, number), conjunction, filter.dialect)
        return handle

    def _file(
        self,
        filed: list[tuple[str | None, Place, tuple[int, int]]],
        key: tuple[int, int],
        conjunction: Conjunction,
        dialect: str,
    ) -> None:
        residuals = [residual_test(residual, dialect) for residual in conjunction.residuals]
        choices = [
            (constraint, places) for constraint in conjunction.constraints if (places := _places(constraint))
        ]
        if not choices:
            self._everywhere[key] = _Entry(key[0], conjunction.constraints, residuals)
            filed.append((None, (PRESENT, None), key))
            return
        chosen, places = min(choices, key=self._cost)
        sure = places[0][0] in _SURE
        rest = [c for c in conjunction.constraints if not (sure and c is chosen)]
        entry = _Entry(key[0], rest, residuals)
        index = self._attributes.setdefault(chosen.attribute, _Attribute())
        for place in places:
            index.bucket(place)[key] = entry
            filed.append((chosen.attribute, place, key))

    def _cost(self, choice: tuple[Constraint, Sequence[Place]]) -> tuple[int, int, str]:
        """Fewer neighbours are better; the name decides between equals, so that runs are alike."""
        constraint, places = choice
        index = self._attributes.get(constraint.attribute)
        crowd = sum(index.size(place) for place in places) if index else 0
        return _RANK[places[0][0]], crowd, constraint.attribute

    def remove(self, handle: int) -> None:
        for attribute, place, key in self._filed.pop(handle):
            if attribute is None:
                del self._everywhere[key]
                continue
            index = self._attributes[attribute]
            index.drop(place, key)
            if not index.buckets:
                del self._attributes[attribute]
        self._handles.give_back(handle)

    def match(self, event: Event) -> list[int]:
        found: set[int] = set()
        view = event.view
        if self._everywhere:
            _test(self._everywhere, event, view, found)
        for attribute, index in self._attributes.items():
            value = view.get(attribute)
            if value is None:
                continue
            buckets = index.buckets
            for place in index.opened_by(value):
                bucket = buckets.get(place)
                if bucket is not None:
                    _test(bucket, event, view, found)
        return sorted(found)

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:  # noqa: ARG002
        return 0

    def stats(self) -> dict[str, Any]:
        sizes = dict.fromkeys(_RANK, 0)
        for index in self._attributes.values():
            for place, bucket in index.buckets.items():
                sizes[place[0]] += len(bucket)
        entries = {f"by {kind}": size for kind, size in sizes.items()}
        return {
            "engine": "small",
            "filters": len(self._filed),
            **entries,
            "everywhere": len(self._everywhere),
        }


def _test(bucket: Bucket, event: Event, view: Mapping[str, Any], found: set[int]) -> None:
    for entry in bucket.values():
        if entry.handle not in found and entry.accepts(event, view):
            found.add(entry.handle)


def _key(value: Any) -> Any:
    return ("bool", value) if type(value) is bool else value


def _places(constraint: Constraint) -> list[Place]:
    """Where a conjunction with this constraint can be filed; nowhere when absence satisfies it."""
    if isinstance(constraint, Missing):
        return []
    if isinstance(constraint, Equals):
        return [(VALUE, _key(constraint.value))]
    if isinstance(constraint, OneOf):
        return [(VALUE, key) for key in dict.fromkeys(map(_key, constraint.values))]
    if isinstance(constraint, IsA) and not constraint.negated:
        return [(NAME, constraint.name)]
    if isinstance(constraint, Prefix):
        return [(START, constraint.prefix)]
    if isinstance(constraint, TopicIs) and not constraint.negated:
        level = constraint.pattern.partition("/")[0]
        return [(LEVEL, level)] if level not in ("+", "#") else [(PRESENT, None)]
    return [(PRESENT, None)]
