"""Fields of objects that programs have: dataclasses, msgspec Structs, Pydantic models, attrs classes,
TypedDicts.

Pydantic and attrs are never imported here: an object says itself what it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from inspect import signature
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

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
    """The required keys of a TypedDict that exist for a filter (no mappings, never None), as filters
    name them."""
    hints = get_type_hints(
        cls, include_extras=True
    )  # NotRequired behind a deferred annotation shows here alone
    names = sorted(
        name
        for name, hint in hints.items()
        if name in cls.__required_keys__ and get_origin(hint) is not NotRequired and not _may_be_absent(hint)
    )
    return [f"{DATA}.{name}" if name in RESERVED else name for name in names]


def _may_be_absent(hint: Any) -> bool:
    """Does the hint admit None, which is NULL, or a mapping, of which filters see the fields alone?"""
    plain = get_origin(hint) or hint
    if plain in (Annotated, Required):
        return _may_be_absent(get_args(hint)[0])
    if plain in (Union, UnionType):
        return any(map(_may_be_absent, get_args(hint)))
    if plain is Literal:
        return None in get_args(hint)
    if isinstance(plain, NewType):
        return _may_be_absent(plain.__supertype__)
    if not isinstance(plain, type) or plain in (Any, object, type(None)):
        return True  # a type variable and so on, too
    return issubclass(plain, Mapping) or is_typeddict(plain) or field_names(plain) is not None


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
    if not issubclass(cls, msgspec.Struct):
        return own_fields(value, names)
    named = zip(cls.__struct_encode_fields__, names, strict=True)
    fields = {key: getattr(value, name) for key, name in named}
    config = cls.__struct_config__
    return fields if config.tag is None else {str(config.tag_field): config.tag, **fields}


def own_fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of an object by their names in the class, with the extra ones of a Pydantic model."""
    fields = {name: getattr(value, name) for name in names}
    extra = getattr(value, "__pydantic_extra__", None) if is_model(type(value)) else None
    return {**fields, **extra} if extra else fields


def takes_extra(cls: type) -> bool:
    """Is this a Pydantic model with `extra="allow"`, which holds fields that it does not name?"""
    return is_model(cls) and cls.model_config.get("extra") == "allow"  # type: ignore[attr-defined]


def as_text(value: Any) -> str | None:
    """An address, a path or a URL as text; None for anything else."""
    return str(value) if type(value).__module__.partition(".")[0] in _AS_TEXT else None


def read_as(cls: type, fields: dict[str, Any]) -> Any:
    """An object of a class from its fields. Raises ValueError, TypeError or msgspec.ValidationError."""
    if is_model(cls):
        return _read_model(cls, fields)
    if issubclass(cls, msgspec.Struct):
        keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        fields = {keys.get(name, name): value for name, value in fields.items()}
    return msgspec.convert(fields, cls, str_keys=True, dec_hook=_read_text)


def _read_model(cls: Any, fields: dict[str, Any]) -> Any:
    """A Pydantic model. A strict one wants enumerations, tuples and sets as they are, which no body carries:
    it is read as strict JSON is, where their forms are known; with bytes, which JSON lacks, as lenient."""
    names = _by_both_names(cls)
    try:
        return cls.model_validate(fields, **names)
    except ValueError as error:
        if any(each["type"] not in _SHAPES for each in error.errors()):  # type: ignore[attr-defined]
            raise
    if _has_bytes(fields):
        return cls.model_validate(fields, strict=False, **names)
    return cls.model_validate_json(json.dumps(fields, default=_as_json), **names)


_SHAPES = frozenset(
    {"is_instance_of", "tuple_type", "set_type", "frozen_set_type"}
)  # errors of strict models


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_bytes, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bytes)


def _as_json(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{'-' if value < timedelta() else ''}PT{abs(value).total_seconds():.6f}S"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


@lru_cache(maxsize=1024)
def _by_both_names(cls: type) -> dict[str, bool]:
    """How a model is told to take its fields by name, as they travel, and by alias; Pydantic has it from
    2.11."""
    known = signature(cls.model_validate).parameters  # type: ignore[attr-defined]
    return {"by_name": True, "by_alias": True} if "by_name" in known else {}


def check_readable(cls: type) -> None:
    """Refuse a class that no event can be read as. Raises TypeError, which names the field's type."""
    if issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like:
        raise TypeError("a Struct with array_like=True has no names for its fields")
    if not is_model(cls):
        msgspec.msgpack.Decoder(cls, dec_hook=_read_text)


def _read_text(cls: type, value: Any) -> Any:
    return value if isinstance(value, cls) else cls(value)
