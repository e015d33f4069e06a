"""Classes as event types: a dataclass, a msgspec Struct, a Pydantic model, an attrs class or a TypedDict.

Rules
- A class's name is its type; its ancestors' names are the rest of the lineage. `__event_type__`
  in a class body gives another name. Bases that only carry machinery have no name.
- Fields are attributes; a field that is such an object itself, or a list of these, is a nested one.
- A property marked `@derived` (pure, no arguments) is a further attribute, computed at publish.
- Reading back makes an instance of the most specific class that is known here; attributes that it
  has no field for (derived ones, those of a younger version) are left in the event.
- A TypedDict has no type at run time: it selects the events with its required keys and reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from tidings.errors import EventError
from tidings.model.event import Event
from tidings.model.fields import (
    field_names,
    is_typed_mapping,
    names_in_events,
    own_fields,
    read_as,
    takes_extra,
)

T = TypeVar("T")

_MACHINERY = (
    "builtins",
    "abc",
    "typing",
    "msgspec",
    "pydantic",
    "attr",
    "attrs",
    "enum",
)  # modules of classes that are no types


class derived(property):  # noqa: N801 - it is used as a decorator, like property itself
    """A property that is an attribute of the event."""


def is_typed(value: object) -> bool:
    """Is this an instance of a class that can be an event?"""
    return _field_names(type(value)) is not None


def is_event_class(cls: object) -> bool:
    """Can instances of this class be events?"""
    return isinstance(cls, type) and (_field_names(cls) is not None or is_typed_mapping(cls))


def lineage_of(cls: type) -> tuple[str, ...]:
    """The class's name and its ancestors' names, from the class up to the root."""
    return tuple(_name(base) for base in cls.__mro__ if base.__module__.partition(".")[0] not in _MACHINERY)


def event_fields(instance: object) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The lineage and the attributes of an instance, for `make_event`."""
    names = _field_names(type(instance))
    if names is None:
        raise EventError(
            f"a {type(instance).__name__} cannot be published",
            hint="publish a mapping, a dataclass, a msgspec Struct, a Pydantic model or an attrs object",
        )
    attributes = own_fields(instance, names)
    for name in derived_names(type(instance)):
        try:
            attributes[name] = getattr(instance, name)
        except Exception as error:
            raise EventError(
                f"the derived attribute {name!r} of a {type(instance).__name__} fails: {error}"
            ) from error
    return lineage_of(type(instance)), attributes


def known_types(cls: type) -> dict[str, type]:
    """The class and all its subclasses, by name; of two with one name the younger."""
    known: dict[str, type] = {}
    for one in _family(cls):
        known[_name(one)] = one
    return known


def build_instance(known: type[T] | Mapping[str, type[T]], event: Event) -> T:
    """The event as an instance of the most specific class that is known: a class and its subclasses,
    or a mapping of names to classes.
    """
    if isinstance(known, type) and is_typed_mapping(known):
        return _made(known, event.attributes, event)
    types = known_types(known) if isinstance(known, type) else known
    cls = next((types[name] for name in event.type if name in types), None)
    if cls is None:
        raise EventError(
            f"event {event.id} is a {' < '.join(event.type) or 'event without a type'}",
            hint=f"known here: {', '.join(sorted(types))}",
        )
    names = _field_names(cls)
    if names is None:
        raise EventError(f"{cls.__name__} is no dataclass, msgspec Struct, Pydantic model or attrs class")
    attributes = event.attributes
    wanted = names_in_events(cls, names)
    if takes_extra(cls):
        wanted = attributes.keys() - set(derived_names(cls))
    fields = {name: attributes[name] for name in wanted if name in attributes}
    return _made(cls, fields, event)


def _made(cls: type[T], fields: dict[str, Any], event: Event) -> T:
    try:
        result: T = read_as(cls, fields)
    except Exception as error:  # also of the class's own `__post_init__` or validators
        raise EventError(f"event {event.id} cannot be read as a {cls.__name__}: {error}") from error
    return result


def _name(cls: type) -> str:
    name = cls.__dict__.get("__event_type__", cls.__name__)
    if not isinstance(name, str) or not name:
        raise EventError(f"__event_type__ of {cls.__name__} is {name!r}", hint="give it a name")
    return name


def _field_names(cls: type) -> tuple[str, ...] | None:
    """The names of the fields, or None for a class that is no event type."""
    return None if issubclass(cls, Event) else field_names(cls)


def derived_names(cls: type) -> Iterator[str]:
    seen: set[str] = set()
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if name not in seen and isinstance(value, derived):
                yield name
            seen.add(name)


def _family(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = cls.__subclasses__()
    for subclass in subclasses:
        yield from _family(subclass)
