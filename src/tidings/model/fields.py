"""Fields of objects that programs have: dataclasses, msgspec Structs, Pydantic models, attrs classes,
TypedDicts.

Pydantic and attrs are never imported here: an object says itself what it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

RESERVED = frozenset({"id", "source", "type", "time", "topic"})  # names of the envelope
DATA = "data"  # `data.id` is the body's own `id`
_AS_TEXT = ("ipaddress", "pathlib", "pydantic", "pydantic_core")  # modules of values that are written as text


def is_model(cls: type) -> bool:
    """A Pydantic model, told without importing Pydantic."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_fields")


def is_typed_mapping(cls: object) -> bool:
    """A TypedDict: its instances are plain mappings, which carry no type."""
    return is_typeddict(cls)


def required_values(cls: Any) -> list[str]:
    """The required keys of a TypedDict whose values are no mappings, as filters name them."""
    hints = get_type_hints(
        cls, include_extras=True
    )  # NotRequired behind a deferred annotation shows here alone
    names = sorted(
        name
        for name, hint in hints.items()
        if name in cls.__required_keys__ and get_origin(hint) is not NotRequired and not _is_mapping(hint)
    )
    return [f"{DATA}.{name}" if name in RESERVED else name for name in names]


def _is_mapping(hint: Any) -> bool:
    plain = get_origin(hint) or hint
    if plain in (Annotated, Required):
        return _is_mapping(get_args(hint)[0])
    return isinstance(plain, type) and (issubclass(plain, Mapping) or is_typeddict(plain))


def field_names(cls: type) -> tuple[str, ...] | None:
    """The names of the fields, or None for a class whose objects have none."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if is_model(cls):
        return tuple(cls.model_fields)  # type: ignore[attr-defined]
    attributes = getattr(cls, "__attrs_attrs__", None)
    return None if attributes is None else tuple(attribute.name for attribute in attributes)


def as_mapping(value: Any) -> dict[str, Any] | None:
    """The fields of an object inside a body by name, as reading it back wants them; None: it has none."""
    cls = type(value)
    names = field_names(cls)
    if names is None:
        return None
    keys = cls.__struct_encode_fields__ if issubclass(cls, msgspec.Struct) else names
    return {key: getattr(value, name) for key, name in zip(keys, names, strict=True)}


def as_text(value: Any) -> str | None:
    """An address, a path or a URL as text; None for anything else."""
    return str(value) if type(value).__module__.partition(".")[0] in _AS_TEXT else None


def read_as(cls: type, fields: dict[str, Any]) -> Any:
    """An object of a class from its fields. Raises ValueError, TypeError or msgspec.ValidationError."""
    if is_model(cls):
        validate: Callable[[Any], Any] = cls.model_validate  # type: ignore[attr-defined]
        return validate(fields)
    if issubclass(cls, msgspec.Struct):
        keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        fields = {keys.get(name, name): value for name, value in fields.items()}
    return msgspec.convert(fields, cls, str_keys=True, dec_hook=_read_text)


def _read_text(cls: type, value: Any) -> Any:
    return value if isinstance(value, cls) else cls(value)
