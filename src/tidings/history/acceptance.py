"""Filters that accept an event: the language of all packages, evaluated from text.

`FilterIndex` answers for many filters at once with one small idea: if every conjunction of a filter
fixes some attribute to a value, the filter is looked up by that value; the others are tried. A caller
with a better matcher (`tidings.matching` stands above this package) passes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from tidings.errors import FilterError, HistoryError
from tidings.language import read_filter
from tidings.language.evaluate import accepts
from tidings.model.constraint import Equals, OneOf
from tidings.model.event import Event, row_event
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import kind_of

_REMEMBERED = 1 << 17  # filters; more are parsed again


@lru_cache(maxsize=_REMEMBERED)
def filter_of(text: str, dialect: str) -> Filter:
    """The filter of a subscription in a history."""
    try:
        return read_filter(text, dialect)
    except FilterError as error:
        raise HistoryError(f"the history holds a filter that cannot be read: {text!r}: {error}") from None


def accepts_event(text: str, dialect: str, event: Event) -> bool:
    return accepts(filter_of(text, dialect), event)


def event_of(
    source: str, event: str, attributes: Mapping[str, Any], topic: str | None, type: tuple[str, ...]
) -> Event:
    """The event as filters see it; its own time travelled among the attributes."""
    own = dict(attributes)
    time = own.pop("time", None)
    return row_event(own, source=source, id=event, topic=topic, type=type, time=time)


class AcceptanceMatcher(Protocol):
    """The part of a matcher that a check needs: two of the six methods of `tidings.matching.matcher`."""

    def add(self, filter: Filter, /) -> int: ...

    def match(self, event: Event, /) -> Sequence[int]: ...


class AcceptanceIndex(Protocol):
    def accepting(self, event: Event) -> list[int]:
        """The numbers of the filters that accept the event, in rising order."""


def index_of(
    filters: Iterable[tuple[str, str]], matcher: Callable[[], AcceptanceMatcher] | None
) -> AcceptanceIndex:
    """The filters, numbered from 0 in the given order, behind the matcher if there is one."""
    return FilterIndex(filters) if matcher is None else MatcherIndex(filters, matcher())


class MatcherIndex:
    """Filters behind a matcher; its handles become our numbers."""

    def __init__(self, filters: Iterable[tuple[str, str]], matcher: AcceptanceMatcher) -> None:
        self._matcher = matcher
        self._numbers = {matcher.add(filter_of(*each)): number for number, each in enumerate(filters)}

    def accepting(self, event: Event) -> list[int]:
        return sorted(self._numbers[int(handle)] for handle in self._matcher.match(event))


class FilterIndex:
    """Distinct filters, each with a number, and the numbers of those that accept an event."""

    def __init__(self, filters: Iterable[tuple[str, str]]) -> None:
        self._filters = [filter_of(text, dialect) for text, dialect in filters]
        self._by_value: dict[str, dict[Hashable, list[int]]] = {}
        self._others: list[int] = []
        for number, filter in enumerate(self._filters):
            self._place(number, filter)

    def accepting(self, event: Event) -> list[int]:
        """In rising order, each once."""
        found = set(self._others)
        for attribute, numbers in self._by_value.items():
            value = event.view.get(attribute)
            if kind_of(value) is not None:  # a list equals no constant
                found.update(numbers.get(_key(value), ()))
        return [number for number in sorted(found) if accepts(self._filters[number], event)]

    def _place(self, number: int, filter: Filter) -> None:
        fixed = [found for conjunction in filter.conjunctions if (found := _fixed(conjunction))]
        if len(fixed) < len(filter.conjunctions):
            self._others.append(number)
            return
        for attribute, values in fixed:
            numbers = self._by_value.setdefault(attribute, {})
            for value in values:
                numbers.setdefault(_key(value), []).append(number)


def _fixed(conjunction: Conjunction) -> tuple[str, tuple[Any, ...]] | None:
    """An attribute of the conjunction that must have one of a few values."""
    for constraint in conjunction.constraints:
        if isinstance(constraint, Equals):
            return constraint.attribute, (constraint.value,)
        if isinstance(constraint, OneOf):
            return constraint.attribute, tuple(constraint.values)
    return None


def _key(value: Any) -> Hashable:
    """Equal keys for equal values of one kind; in Python 1 == True, in filters not."""
    return (kind_of(value), value)
