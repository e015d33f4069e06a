"""ANY and ALL: conditions on the elements of a list.

Rules
- ANY and ALL range over one list: the one that the first name inside leads to, through lists in lists and
  lists of objects to the last one. Names below that list mean the fields of its present element; other
  names mean the event.
- ANY is true when the condition is true for one element, false when it is false for all of them, else
  unknown. ALL is true when it is true for all, false when it is false for one, else unknown. So ANY of an
  empty list is false and ALL of it is true, and `NOT ANY(c)` is `ALL(NOT c)`.
- A name that leads to no list is a list of one: ANY and ALL then are the condition itself. So an absent
  list gives what the condition gives for an absent value, mostly unknown.
- `x IN name` is `ANY(name = x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from tidings.language.measure import children
from tidings.model.body import HAS_LIST
from tidings.model.expression import AllOf, AnyOf, Attribute, Call, ExistsTest, Expression
from tidings.model.filter import Conjunction, Filter

View: TypeAlias = Mapping[str, Any]
Program: TypeAlias = Callable[[View], Any]


def names_in(expression: Expression) -> Iterator[str]:
    """The names of the attributes of an expression, in the order in which they are written."""
    if isinstance(expression, Attribute | ExistsTest):
        yield expression.name
    for child in children(expression):
        yield from names_in(child)


def has_lists(expression: Expression) -> bool:
    """Does the expression range over a list anywhere?"""
    return isinstance(expression, AnyOf | AllOf) or any(map(has_lists, children(expression)))


def _is_new(expression: Expression) -> bool:
    """Is this a condition that the version before cannot read: on a list, or with an exact decimal?"""
    is_one = isinstance(expression, AnyOf | AllOf) or (
        isinstance(expression, Call) and expression.function == "DECIMAL"
    )
    return is_one or any(map(_is_new, children(expression)))


def is_beyond_earlier(filter: Filter) -> bool:
    """Has the filter a condition that the version before cannot read?"""
    return any(_is_new(residual) for part in filter.conjunctions for residual in part.residuals)


def without_lists(filter: Filter) -> Filter:
    """The filter without such conditions, which accepts more; itself when it has none."""
    if not is_beyond_earlier(filter):
        return filter
    parts = (
        Conjunction(part.constraints, tuple(each for each in part.residuals if not _is_new(each)))
        for part in filter.conjunctions
    )
    return Filter(filter.text, tuple(dict.fromkeys(parts)), filter.dialect)


def prefixes(name: str) -> Iterator[str]:
    """The name up to each of its dots, the shortest first, and the name itself."""
    position = name.find(".")
    while position > 0:
        yield name[:position]
        position = name.find(".", position + 1)
    yield name


def ranging(node: AnyOf | AllOf, condition: Program) -> Program:
    """The node as a function of a view, from that of its condition."""
    decisive: bool = isinstance(node, AnyOf)
    names = list(dict.fromkeys(names_in(node.condition)))
    first = names[0]
    positions = tuple(prefixes(first))
    needed = frozenset(prefix for name in names for prefix in prefixes(name))

    key = (positions, needed)

    def run(view: View) -> bool | None:
        known = True
        for element in _elements(view, key):
            value: bool | None = condition(element)
            if value is decisive:
                return decisive
            known = known and type(value) is bool
        return not decisive if known else None

    return run


_table: tuple[Any, dict[Any, list[View] | None]] = (None, {})  # elements of the view that was asked last


def _elements(view: View, key: tuple[tuple[str, ...], frozenset[str]]) -> Iterable[View]:
    """What the condition sees, element by element. The elements of an event are kept from the second filter
    on that asks about them: many filters do, one after the other."""
    global _table
    if HAS_LIST not in view:  # an element of an outer list, or no list at all
        return elements_of(view, *key)
    known = _table
    if known[0] is not view:
        known = _table = (view, {})
    found = known[1].get(key)
    if found is None:
        if key not in known[1]:
            known[1][key] = None
            return elements_of(view, *key)
        found = known[1][key] = list(elements_of(view, *key))
    return found


def elements_of(view: View, positions: tuple[str, ...], needed: frozenset[str]) -> Iterator[View]:
    """What the condition sees, element by element; the view itself when no list is there."""
    for position in positions:
        found = view.get(position)
        if type(found) is tuple:
            outside = {name: view[name] for name in needed if name in view and name != position}
            yield from _within(found, position, outside, positions, needed)
            return
    yield view


def _within(
    items: tuple[Any, ...],
    position: str,
    outside: dict[str, Any],
    positions: tuple[str, ...],
    needed: frozenset[str],
) -> Iterator[View]:
    for item in items:
        kind = type(item)
        if kind is tuple:
            yield from _within(item, position, outside, positions, needed)
        elif kind is dict:
            inside = ((f"{position}.{name}", value) for name, value in item.items())
            yield from elements_of(
                outside | {name: value for name, value in inside if name in needed}, positions, needed
            )
        else:
            yield outside if item is None else outside | {position: item}


def elements_at(view: View, name: str) -> Iterator[Any]:
    """The values that a name leads to, through every list on its way; None for a NULL."""
    positions = tuple(prefixes(name))
    for element in elements_of(view, positions, frozenset(positions)):
        yield element.get(name)
