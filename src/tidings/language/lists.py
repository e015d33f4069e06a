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
- `x IN name` is `ANY(name = x)`. Such a membership, and its negation `ALL(name != x)`, is looked up in a set
  of the elements, which is made once for an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from tidings.language.measure import children
from tidings.model.body import HAS_LIST
from tidings.model.expression import (
    AllOf,
    AnyOf,
    Attribute,
    Call,
    Compare,
    ExistsTest,
    Expression,
    In,
    Literal,
    Not,
)
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import Kind, kind_of

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


class ListMembership(NamedTuple):
    """`ANY(name = x)` or `ANY(name IN (x, y))` of constants; negated, `ALL` of the opposite."""

    name: str
    values: tuple[Any, ...]
    negated: bool


def membership(node: Expression) -> ListMembership | None:
    """The node as a membership; None for any other condition."""
    if not isinstance(node, AnyOf | AllOf):
        return None
    condition, negated = node.condition, isinstance(node, AllOf)
    items: tuple[Expression, ...]
    is_denied = isinstance(condition, Not)
    if isinstance(condition, Not):
        condition = condition.operand
    wanted = negated is not is_denied  # the form that the innermost condition must have
    if isinstance(condition, Compare) and condition.op == ("!=" if wanted else "="):
        operand, items = condition.left, (condition.right,)
        if not isinstance(operand, Attribute):
            operand, items = condition.right, (condition.left,)
    elif isinstance(condition, In) and condition.negated is wanted:
        operand, items = condition.operand, condition.items
    else:
        return None
    if not isinstance(operand, Attribute) or operand.name == "topic":
        return None
    values = tuple(item.value for item in items if isinstance(item, Literal))
    return ListMembership(operand.name, values, negated) if len(values) == len(items) else None


def looking_up(wanted: ListMembership) -> Program:
    """A membership as a function of a view."""
    name, negated = wanted.name, wanted.negated
    kinds = {kind_of(value) for value in wanted.values}
    keys = [(kind_of(value), value) for value in wanted.values if kind_of(value) is not None]

    def run(view: View) -> bool | None:
        elements = _index(view, name)
        if any(value in elements.get(kind, ()) for kind, value in keys):
            return not negated
        # each element differs from each constant, unless one of them is of another kind, or NULL
        is_known = not elements or (elements.keys() == kinds and len(kinds) == 1 and None not in kinds)
        return negated if is_known else None

    return run


Index: TypeAlias = dict[Kind | None, set[Any]]  # the elements by kind
_indexes: tuple[Any, dict[str, Index]] = (None, {})  # of the view that was asked last


def _index(view: View, name: str) -> Index:
    global _indexes
    known = _indexes
    if known[0] is not view:
        known = _indexes = (view, {})
    found = known[1].get(name)
    if found is None:
        values = _values(view, name)
        if type(values) is tuple and set(map(type, values)) == {str}:
            found = {Kind.STRING: set(values)}
        else:
            found = {}
            for value in values:
                kind = kind_of(value)
                found.setdefault(kind, set()).add(None if kind is None else value)
        known[1][name] = found
    return found


def _values(view: View, name: str) -> Iterable[Any]:
    """The values that a name leads to; those of a list of plain values without a view for each of them."""
    found = view.get(name)
    if type(found) is not tuple or any(
        type(view.get(each)) is tuple for each in prefixes(name) if each != name
    ):
        return elements_at(view, name)
    return found if not _COMPOUND & set(map(type, found)) else elements_at(view, name)


_COMPOUND = {tuple, dict}
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
