"""Classes as event types: a dataclass, a msgspec Struct or a Pydantic model.

Rules
- A class's name is its type; its ancestors' names are the rest of the lineage. `__event_type__`
  in a class body gives another name. Bases that only carry machinery have no name.
- Fields are attributes; a field that is such an object itself is a nested one. Enums give their
  values, UUIDs their text.
- A property marked `@derived` (pure, no arguments) is a further attribute, computed at publish.
- Reading back makes an instance of the most specific class that is known here; attributes that it
  has no field for (derived ones, those of a younger version) are left in the event.
- Pydantic is never imported here: an object says itself that it is a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from tidings.errors import EventError
from tidings.model.event import Event

T = TypeVar("T")

_MACHINERY = (
    "builtins",
    "abc",
    "typing",
    "msgspec",
    "pydantic",
    "enum",
)  # modules of classes that are no types


class derived(property):  # noqa: N801 - it is used as a decorator, like property itself
    """A property that is an attribute of the event."""


def is_typed(value: object) -> bool:
    """Is this an instance of a class that can be an event?"""
    return _field_names(type(value)) is not None


def is_event_class(cls: object) -> bool:
    """Can instances of this class be events?"""
    return isinstance(cls, type) and _field_names(cls) is not None


def lineage_of(cls: type) -> tuple[str, ...]:
    """The class's name and its ancestors' names, from the class up to the root."""
    return tuple(_name(base) for base in cls.__mro__ if base.__module__.partition(".")[0] not in _MACHINERY)


def event_fields(instance: object) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The lineage and the attributes of an instance, for `make_event`."""
    names = _field_names(type(instance))
    if names is None:
        raise EventError(
            f"a {type(instance).__name__} cannot be published",
            hint="publish a mapping, a dataclass, a msgspec Struct or a Pydantic model",
        )
    attributes = {name: _plain(getattr(instance, name)) for name in names}
    for name in _derived_names(type(instance)):
        try:
            attributes[name] = _plain(getattr(instance, name))
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
    types = known_types(known) if isinstance(known, type) else known
    cls = next((types[name] for name in event.type if name in types), None)
    if cls is None:
        raise EventError(
            f"event {event.id} is a {' < '.join(event.type) or 'event without a type'}",
            hint=f"known here: {', '.join(sorted(types))}",
        )
    names = _field_names(cls)
    if names is None:
        raise EventError(f"{cls.__name__} is no dataclass, msgspec Struct or Pydantic model")
    fields = {name: event.attributes[name] for name in names if name in event.attributes}
    return _made(cls, fields, event)


def _made(cls: type[T], fields: dict[str, Any], event: Event) -> T:
    model_validate = getattr(cls, "model_validate", None) if _is_model(cls) else None
    try:
        result: T = msgspec.convert(fields, cls) if model_validate is None else model_validate(fields)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise EventError(f"event {event.id} cannot be read as a {cls.__name__}: {error}") from error
    return result


def _name(cls: type) -> str:
    name = cls.__dict__.get("__event_type__", cls.__name__)
    if not isinstance(name, str) or not name:
        raise EventError(f"__event_type__ of {cls.__name__} is {name!r}", hint="give it a name")
    return name


def _is_model(cls: type) -> bool:
    """A Pydantic model, told without importing Pydantic."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_fields")


def _field_names(cls: type) -> tuple[str, ...] | None:
    """The names of the fields, or None for a class that is no event type."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, msgspec.Struct) and not issubclass(cls, Event):
        return cls.__struct_fields__
    if _is_model(cls):
        return tuple(cls.model_fields)  # type: ignore[attr-defined]
    return None


def _derived_names(cls: type) -> Iterator[str]:
    seen: set[str] = set()
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if name not in seen and isinstance(value, derived):
                yield name
            seen.add(name)


def _plain(value: Any) -> Any:
    """A field's value as an attribute's value."""
    names = _field_names(type(value))
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return str(value) if isinstance(value, UUID) else value


def _family(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = cls.__subclasses__()
    for subclass in subclasses:
        yield from _family(subclass)
