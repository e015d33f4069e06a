"""Doubts about a filter beside a class: names that the class does not have, and lists without ANY or ALL.

Rules
- A doubt is a warning and never a refusal: an event may have more attributes than its class has fields.
- Fields of known subclasses count, since a subscription to a class receives them too, and derived ones.
- A hint that cannot be resolved, and one that admits any value, says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from tidings.language.doubts import Doubt
from tidings.language.lists import names_in
from tidings.language.measure import children
from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.fields import DATA, RESERVED, field_names, is_typed_mapping, takes_extra
from tidings.model.filter import TIDINGS, Filter
from tidings.model.typed import derived_names, is_event_class, known_types

_LISTS = (list, tuple, set, frozenset, Sequence, Set)
_ANYTHING: Any = object()


def class_doubts(filter: Filter, cls: type) -> list[Doubt]:
    """Doubts about names of the filter that events of this class do not have, or have as lists."""
    if filter.dialect != TIDINGS:
        return []
    found: dict[str, Doubt] = {}
    for conjunction in filter.conjunctions:
        uses = [_of_constraint(each) for each in conjunction.constraints]
        uses += [use for residual in conjunction.residuals for use in _of_residual(residual)]
        for name, ranges in uses:
            doubt = _doubt(cls, name, ranges)
            if doubt is not None:
                found.setdefault(doubt.message, doubt)
    return list(found.values())


def known_names(filter: Filter, cls: type) -> set[str]:
    """The names of the filter that the class has."""
    named = {each.attribute for part in filter.conjunctions for each in part.constraints}
    named |= {name for part in filter.conjunctions for each in part.residuals for name in names_in(each)}
    return {name for name in named if _missing(cls, name) is None}


def _of_constraint(constraint: c.Constraint) -> tuple[str, bool]:
    """The name, and whether a list may stand there."""
    return constraint.attribute, isinstance(constraint, c.Exists | c.Missing | c.IsA)


def _of_residual(node: e.Expression, ranges: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(node, e.Attribute | e.ExistsTest):
        yield node.name, ranges or isinstance(node, e.ExistsTest)
    ranges = ranges or isinstance(node, e.AnyOf | e.AllOf | e.Call | e.NullTest)
    for child in children(node):
        yield from _of_residual(child, ranges)


def _doubt(cls: type, name: str, ranges: bool) -> Doubt | None:
    missing = _missing(cls, name)
    if missing is not None:
        near = get_close_matches(missing, list(_fields(cls)), n=1)
        hint = f"did you mean {near[0]}?" if near else f"its fields: {', '.join(sorted(_fields(cls)))}"
        return Doubt("field", f"{cls.__name__} has no field {missing}", hint, (name,))
    listed = None if ranges else _list_in(cls, name)
    if listed is None:
        return None
    hint = f"write ANY({name} ...)" if name != listed else f"write value IN {name}, or ANY({name} ...)"
    return Doubt("list", f"{listed} of {cls.__name__} is a list: no condition on it is true", hint, (name,))


def _own_name(name: str) -> list[str]:
    """The parts of a name below the event's body; none: it is of the envelope."""
    parts = name.split(".")
    if parts[0] == DATA and len(parts) > 1 and parts[1] in RESERVED:
        return parts[1:]
    return [] if parts[0] in RESERVED else parts


def _missing(cls: type, name: str) -> str | None:
    """The part of a name that events of the class do not have; None: they may have it."""
    return next((part for part, hints in _walked(cls, name) if not hints), None)


def _list_in(cls: type, name: str) -> str | None:
    """The list that a name leads to or through."""
    return next((part for part, hints in _walked(cls, name) if hints and all(map(_is_list, hints))), None)


def _walked(cls: type, name: str) -> Iterator[tuple[str, list[Any]]]:
    """Each leading part of a name with the hints of its field, up to one that admits any value."""
    hints: list[Any] = [cls]
    parts = _own_name(name)
    for count, part in enumerate(parts, 1):
        below = [_below(hint, part) for hint in hints]
        if _ANYTHING in below:
            return
        hints = [hint for each in below for hint in each]
        yield ".".join(parts[:count]), hints


def _below(hint: Any, part: str) -> Any:
    """The hints of a field of this name, through lists; `_ANYTHING` when any value may be there."""
    if _is_list(hint):
        inner = [arm for arg in get_args(hint) if arg is not Ellipsis for arm in _arms(arg)]
        if not inner:
            return _ANYTHING
        below = [_below(each, part) for each in inner]
        return _ANYTHING if _ANYTHING in below else [arm for each in below for arm in each]
    if not is_event_class(hint):
        plain = get_origin(hint) or hint
        is_open = not isinstance(plain, type) or plain is object or issubclass(plain, Mapping)
        return _ANYTHING if is_open else []
    if any(map(takes_extra, known_types(hint).values() if not is_typed_mapping(hint) else ())):
        return _ANYTHING
    fields = _fields(hint)
    return _ANYTHING if fields.get(part) is _ANYTHING else fields.get(part, [])


def _fields(cls: type) -> dict[str, Any]:
    """Fields of a class and its subclasses by name: the hints of each."""
    fields: dict[str, Any] = {}
    for one in [cls] if is_typed_mapping(cls) else known_types(cls).values():
        try:
            hints = get_type_hints(one, include_extras=True)
        except Exception:  # a name that is not there at run time
            hints = {}
        for name in hints if is_typed_mapping(one) else field_names(one) or ():
            arms = _arms(hints[name]) if name in hints else [Any]
            known = fields.setdefault(name, [])
            fields[name] = _ANYTHING if known is _ANYTHING or Any in arms else [*known, *arms]
        fields |= dict.fromkeys(derived_names(one), _ANYTHING)
    return fields


def _arms(hint: Any) -> list[Any]:
    """The alternatives of a hint, without None."""
    plain = get_origin(hint)
    if plain is Annotated or (
        plain is not None and getattr(plain, "_name", "") in ("Required", "NotRequired")
    ):
        return _arms(get_args(hint)[0])
    if plain in (Union, UnionType):
        return [arm for each in get_args(hint) if each is not type(None) for arm in _arms(each)]
    return [hint]


def _is_list(hint: Any) -> bool:
    plain = get_origin(hint) or hint
    return isinstance(plain, type) and issubclass(plain, _LISTS) and not issubclass(plain, str | bytes)


__all__ = ["class_doubts", "known_names"]
