"""Doubts about a filter beside a class: names that the class does not have, lists without ANY or ALL, values
that its fields never have, and names of the envelope that are fields too.

Rules
- A doubt is a warning and never a refusal: an event may have more attributes than its class has fields.
- Fields of known subclasses count, since a subscription to a class receives them too, and derived ones.
- A hint that cannot be resolved, and one that admits any value, says nothing.
- Kinds and values are those of the objects that a program publishes. JSON of other programs may have text
  there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum, Flag
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from tidings.language.doubts import Doubt
from tidings.language.lists import names_in
from tidings.language.measure import children, walk
from tidings.language.printer import print_value
from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.fields import DATA, RESERVED, field_names, is_typed_mapping, takes_extra
from tidings.model.filter import TIDINGS, Conjunction, Filter
from tidings.model.typed import derived_names, is_event_class, known_types
from tidings.model.value import Kind, kind_of

_LISTS = (list, tuple, set, frozenset, Sequence, Set)
_ANYTHING: Any = object()
_KINDS: dict[Kind, tuple[type, ...]] = {  # of objects, as filters see their values
    Kind.BOOL: (bool,),
    Kind.NUMBER: (int, float, Decimal),
    Kind.STRING: (str, UUID, time, PurePath),
    Kind.TIME: (datetime, date),
}
_AS_TEXT = ("ipaddress", "pydantic_core")  # modules of values that are written as text
SHOWN_CHOICES = 8  # that a doubt lists


def class_doubts(filter: Filter, cls: type) -> list[Doubt]:
    """Doubts about names of the filter that events of this class do not have, or have as lists."""
    if filter.dialect != TIDINGS:
        return []
    found: dict[str, Doubt] = {}
    doubts = [_doubt(cls, name, ranges) for name, ranges in _uses(filter)]
    doubts += [_never_held(cls, name, values) for name, values in _compared(filter).items()]
    for doubt in doubts:
        if doubt is not None:
            found.setdefault(doubt.message, doubt)
    return list(found.values())


def known_names(filter: Filter, cls: type) -> set[str]:
    """The names of the filter that the class has."""
    named = {each.attribute for part in filter.conjunctions for each in part.constraints}
    named |= {name for part in filter.conjunctions for each in part.residuals for name in names_in(each)}
    return {name for name in named if _missing(cls, name) is None}


def class_kinds(filter: Filter, cls: type) -> dict[str, Kind]:
    """The kind of each name of the filter whose values, in objects of the class, are of one kind. A name that
    stands for a list, without ANY or ALL, has none."""
    uses = _uses(filter)
    listed = {name for name, ranges in uses if not ranges and _list_in(cls, name) is not None}
    kinds = {name: _kind_at(cls, name) for name in {name for name, _ in uses} - listed}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _uses(filter: Filter) -> list[tuple[str, bool]]:
    """The names of a filter, and whether a list may stand there, each of these once."""
    uses: dict[tuple[str, bool], None] = {}
    for part in filter.conjunctions:
        uses |= dict.fromkeys(
            _of_constraint(each) for each in part.constraints if not isinstance(each, c.IsA)
        )
        uses |= dict.fromkeys(use for residual in part.residuals for use in _of_residual(residual))
    return list(uses)


def _of_constraint(constraint: c.Constraint) -> tuple[str, bool]:
    """The name, and whether a list may stand there."""
    return constraint.attribute, isinstance(constraint, c.Exists | c.Missing)


def _of_residual(node: e.Expression, ranges: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(node, e.Attribute | e.ExistsTest):
        yield node.name, ranges or isinstance(node, e.ExistsTest)
    ranges = ranges or isinstance(node, e.AnyOf | e.AllOf | e.Call | e.NullTest)
    for child in children(node):
        yield from _of_residual(child, ranges)


def _compared(filter: Filter) -> dict[str, list[Any]]:
    """By name, the values that it is compared with for equality."""
    values: dict[str, list[Any]] = {}
    for conjunction in filter.conjunctions:
        for name, value in _comparisons(conjunction):
            values.setdefault(name, []).append(value)
    return values


def _comparisons(conjunction: Conjunction) -> Iterator[tuple[str, Any]]:
    for constraint in conjunction.constraints:
        if isinstance(constraint, c.Equals):
            yield constraint.attribute, constraint.value
        elif isinstance(constraint, c.OneOf | c.NotOneOf):
            yield from ((constraint.attribute, value) for value in constraint.values)
    for node in (node for residual in conjunction.residuals for node in walk(residual)):
        if isinstance(node, e.Compare) and node.op in ("=", "!="):
            pairs = [(node.left, node.right), (node.right, node.left)]
        elif isinstance(node, e.In):
            pairs = [(node.operand, item) for item in node.items]
        else:
            continue
        for one, other in pairs:
            if isinstance(one, e.Attribute) and isinstance(other, e.Literal):
                yield one.name, other.value


def _never_held(cls: type, name: str, values: list[Any]) -> Doubt | None:
    """The doubt about the first value that is none of those that a field chooses from. Values of another kind
    are in doubt already."""
    hints = _hints_at(cls, name)
    choices = [choice for hint in hints for choice in _choices(hint) or ()]
    if not choices or not all(map(_choices, hints)):
        return None
    kinds = {kind_of(choice) for choice in choices}
    strange = [value for value in values if kind_of(value) in kinds and value not in choices]
    if not strange:
        return None
    value = strange[0]
    meant = _meant(value, hints, choices)
    listed = ", ".join(print_value(choice) for choice in choices[:SHOWN_CHOICES])
    more = "" if len(choices) <= SHOWN_CHOICES else ", …"
    hint = f"did you mean {print_value(meant)}?" if meant is not None else f"its values: {listed}{more}"
    return Doubt("value", f"{name} of {cls.__name__} is never {print_value(value)}", hint, (name,))


def _meant(value: Any, hints: list[Any], choices: list[Any]) -> Any:
    """The choice that a text stands for: in other letters, by a member's name, or nearly the same."""
    if type(value) is not str:
        return None
    texts = {choice.lower(): choice for choice in choices if type(choice) is str}
    members = {one.name.lower(): one.value for hint in hints for one in _members(hint)}
    near = get_close_matches(value.lower(), list(texts), n=1)
    exact = texts.get(value.lower(), members.get(value.lower()))
    return exact if exact is not None or not near else texts[near[0]]


def _members(hint: Any) -> list[Enum]:
    """The members of an enumeration, if the hint is one and its values are not combined."""
    return (
        list(hint) if isinstance(hint, type) and issubclass(hint, Enum) and not issubclass(hint, Flag) else []
    )


def _choices(hint: Any) -> list[Any] | None:
    """The values of an enumeration or of a `Literal`; None: the hint admits others."""
    if get_origin(hint) is Literal:
        values = [value.value if isinstance(value, Enum) else value for value in get_args(hint)]
    elif members := _members(hint):
        values = [member.value for member in members]
    else:
        return None
    known = [value for value in values if value is not None]
    return known if all(type(value) in (bool, int, str) for value in known) else None


def _kind_at(cls: type, name: str) -> Kind | None:
    """The one kind of the values at a name, of a list that of its elements."""
    kinds = {_kind_of_hint(hint) for hint in _hints_at(cls, name)}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of_hint(hint: Any) -> Kind | None:
    choices = _choices(hint)
    if choices:
        kinds = {kind_of(choice) for choice in choices}
        return kinds.pop() if len(kinds) == 1 else None
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if not isinstance(hint, type) or issubclass(hint, Enum):
        return None
    module = hint.__module__
    if module.partition(".")[0] in _AS_TEXT or module == "pydantic.networks":
        return Kind.STRING
    return next((kind for kind, classes in _KINDS.items() if issubclass(hint, classes)), None)


def _hints_at(cls: type, name: str) -> list[Any]:
    """The hints of the values at a name, of a list those of its elements; none: any value may be there."""
    walked = list(_walked(cls, name))
    if not walked or len(walked) < len(_own_name(name)):
        return []
    return [arm for hint in walked[-1][1] for arm in _elements(hint)]


def _elements(hint: Any) -> list[Any]:
    if not _is_list(hint):
        return [hint]
    inner = [arm for arg in get_args(hint) if arg is not Ellipsis for arm in _arms(arg)]
    return [one for arm in inner for one in _elements(arm)] or [Any]


def _doubt(cls: type, name: str, ranges: bool) -> Doubt | None:
    if name in RESERVED - {"topic"} and name in _fields(cls):  # the option `topic` is a condition too
        message = f"{name} is the event's own {name}, not the field {name} of {cls.__name__}"
        return Doubt("envelope", message, f"for the field write {DATA}.{name}", (name,))
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
        fields |= {name: _returned(one, name) for name in derived_names(one)}
    return fields


def _returned(cls: type, name: str) -> Any:
    """The hints of a derived attribute: those of what its function returns."""
    try:
        hint = get_type_hints(getattr(cls, name).fget).get("return", Any)
    except Exception:  # a name that is not there at run time
        return _ANYTHING
    return _ANYTHING if Any in _arms(hint) else _arms(hint)


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


__all__ = ["class_doubts", "class_kinds", "known_names"]
