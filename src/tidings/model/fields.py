"""Fields of objects that programs have: dataclasses, msgspec Structs, Pydantic models, attrs classes,
TypedDicts.

Pydantic and attrs are never imported here: an object says itself what it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, time, timedelta
from functools import lru_cache
from inspect import get_annotations, isabstract, signature
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
    """A TypedDict, of `typing_extensions` too: its instances are plain mappings, which carry no type."""
    return is_typeddict(cls) or (
        isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")
    )


def is_root_model(cls: type) -> bool:
    """A `RootModel` of Pydantic, which stands for the one value that it holds."""
    return is_model(cls) and bool(getattr(cls, "__pydantic_root_model__", False))


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
    return issubclass(plain, Mapping) or is_typed_mapping(plain) or field_names(plain) is not None


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
    fields = own_fields(value, names)
    if not issubclass(cls, msgspec.Struct):
        return fields
    named = zip(cls.__struct_encode_fields__, names, strict=True)
    fields = {key: fields[name] for key, name in named if name in fields}
    config = cls.__struct_config__
    return fields if config.tag is None else {str(config.tag_field): config.tag, **fields}


def own_fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of an object by their names in the class, with the extra ones of a Pydantic model; a field
    of a Struct that is `UNSET` is absent."""
    fields = {name: stored for name in names if (stored := getattr(value, name)) is not msgspec.UNSET}
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
    try:
        return _read_as(cls, fields)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        try:
            return _read_as(cls, _as_meant(fields))  # of plain JSON, which has no such values
        except (msgspec.ValidationError, ValueError, TypeError):
            raise error from None


def _as_meant(value: Any) -> Any:
    """The value as other programs mean it that write JSON: numbers for the texts that stand for doubles that
    are not finite and for integers beyond 64 bits, integers for doubles such as 5.0, and times of day whose
    offset has seconds, which ISO 8601 lacks."""
    if isinstance(value, dict):
        return {name: _as_meant(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_meant(item) for item in value]
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not str:
        return value
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if CLOCK_TO_SECONDS.fullmatch(value):
        return time.fromisoformat(value)
    return int(value) if _WIDE.fullmatch(value) else value


_CLOCK = r"([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]{1,6})?"
CLOCK_TO_SECONDS = re.compile(rf"{_CLOCK}[+-]{_CLOCK}")
_WIDE = re.compile(r"-?[1-9][0-9]{18,4095}")


def _read_as(cls: type, fields: dict[str, Any]) -> Any:
    if is_model(cls):
        return _read_model(cls, fields["root"] if is_root_model(cls) and "root" in fields else fields)
    if issubclass(cls, msgspec.Struct):
        keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        fields = {keys.get(name, name): value for name, value in fields.items()}
    return msgspec.convert(fields, with_types(cls), str_keys=True, dec_hook=_read_text)


def _read_model(cls: Any, fields: Any) -> Any:
    """A Pydantic model, by the names of its fields and by their aliases."""
    first, *more = _ways_to_name(cls)
    try:
        return _validated(cls, fields, first)
    except ValueError as error:
        for names in more:
            try:
                return _validated(cls, fields, names)
            except ValueError:
                continue
        raise error


def _validated(cls: Any, fields: Any, names: dict[str, bool]) -> Any:
    """A model. A strict one refuses what no body carries, and JSON no more (enumerations, tuples, keys that
    are numbers, of JSON dates and bytes too): it is read as a lenient one, if Pydantic takes the body as
    strict JSON. Errors about bytes, which JSON lacks, say nothing there."""
    try:
        return cls.model_validate(fields, **names)
    except ValueError as error:
        if not _is_strict(error):
            raise
    try:
        cls.model_validate_json(json.dumps(fields, default=_as_json), **names)
    except ValueError as error:
        if any(not each["type"].startswith("bytes_") for each in error.errors()):  # type: ignore[attr-defined]
            raise
    return cls.model_validate(fields, strict=False, **names)


def _is_strict(error: Any) -> bool:
    """Are all errors about values that JSON has too? No text is wrong for being one."""
    return all(type(each["input"]) in _OF_JSON and each["type"] != "string_type" for each in error.errors())


_OF_JSON = frozenset({str, int, float, bool, list, dict})


def _as_json(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{'-' if value < timedelta() else ''}PT{abs(value).total_seconds():.6f}S"
    if type(value) is time and value.tzinfo is not None:  # an offset with seconds is none of ISO 8601
        value = value.replace(tzinfo=UTC)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


@lru_cache(maxsize=1024)
def _ways_to_name(cls: Any) -> list[dict[str, bool]]:
    """How a model is told to take its fields, by name as they travel, and by alias: both at once, or one
    after the other where an alias is the name of another field. Pydantic has it from 2.11."""
    if "by_name" not in signature(cls.model_validate).parameters:
        return [{}]
    if not _is_crossed(cls.__pydantic_core_schema__):
        return [{"by_name": True, "by_alias": True}]
    return [{"by_name": True, "by_alias": False}, {"by_name": False, "by_alias": True}]


def _is_crossed(schema: Any) -> bool:
    """Has a class in Pydantic's description of a model an alias that is the name of another field?"""
    if isinstance(schema, list | tuple):
        return any(map(_is_crossed, schema))
    if not isinstance(schema, Mapping):
        return False
    fields = schema.get("fields")
    if isinstance(fields, Mapping):
        named = list(fields.items())
    else:  # of a dataclass, beside their mere names
        named = [(each["name"], each) for each in fields or () if isinstance(each, Mapping)]
    aliases = [(name, each["validation_alias"]) for name, each in named if "validation_alias" in each]
    names = {name for name, _ in named}
    return any(_heads(alias) & (names - {name}) for name, alias in aliases) or any(
        _is_crossed(part) for key, part in schema.items() if key != "metadata"
    )


def _heads(alias: Any) -> set[str]:
    """The names that an alias of Pydantic begins with: a text, a path, or several of these."""
    if isinstance(alias, str):
        return {alias}
    return set().union(*map(_heads, alias if isinstance(alias[0], list) else alias[:1]))


@lru_cache(maxsize=1024)
def names_in_events(cls: Any, names: tuple[str, ...]) -> Iterable[str]:
    """The names under which an event has the fields of a class: of a Pydantic model its aliases too."""
    if not is_model(cls):
        return names
    aliases = [field.validation_alias for field in cls.model_fields.values() if field.validation_alias]
    plain = [alias if isinstance(alias, str) else alias.convert_to_aliases() for alias in aliases]
    return {*names, *(name for alias in plain for name in _heads(alias))}


@lru_cache(maxsize=1024)
def with_types(cls: type) -> type:
    """The class, whose attrs classes say `Any` where a field has no type, since msgspec wants one."""
    _add_types(cls, set())
    return cls


def _add_types(hint: Any, seen: set[int]) -> None:
    if id(hint) in seen:
        return
    seen.add(id(hint))
    for part in get_args(hint):
        _add_types(part, seen)
    plain = get_origin(hint) or hint
    if not isinstance(plain, type) or is_model(plain):
        return
    if field_names(plain) is None and not is_typed_mapping(plain):
        return
    typed = {name for base in plain.__mro__ for name in get_annotations(base)}
    for attribute in getattr(plain, "__attrs_attrs__", ()):
        if attribute.name not in typed:
            plain.__annotations__ = {**get_annotations(plain), attribute.name: Any}
    try:
        hints = get_type_hints(plain)
    except (NameError, TypeError):  # msgspec names the field
        return
    for part in hints.values():
        _add_types(part, seen)


def check_readable(cls: type) -> None:
    """Refuse a class that no event can be read as. Raises TypeError, which names the field's type."""
    if issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like:
        raise TypeError("a Struct with array_like=True has no names for its fields")
    if not is_model(cls):
        msgspec.msgpack.Decoder(with_types(cls), dec_hook=_read_text)
        _check_types(msgspec.inspect.type_info(cls), set())


_PYTHONS = frozenset({"collections", "collections.abc", "array", "types", "typing"})


def _check_types(info: Any, seen: set[int]) -> None:
    """Refuse a type that no value of a body is turned into: an abstract one, or a container of Python's that
    is made of something else."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        cls = info.cls
        if cls not in _CONTAINERS and (isabstract(cls) or cls.__module__ in _PYTHONS):
            raise TypeError(f"no body has a {cls.__module__}.{cls.__name__}")
    for name in info.__struct_fields__:
        stored = getattr(info, name)
        for part in stored if isinstance(stored, tuple) else (stored,):
            if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
                _check_types(part, seen)


def _read_text(cls: Any, value: Any) -> Any:
    """A value of a type that msgspec does not know, from the one that stands for it in a body."""
    plain = get_origin(cls) or cls
    make = _CONTAINERS.get(plain)
    if make is not None:
        return make(get_args(cls), value)
    if isinstance(plain, type) and is_model(plain):  # inside a dataclass, a Struct or an attrs class
        return _read_model(plain, value)
    return value if isinstance(value, plain) else plain(value)


def _items(hints: tuple[Any, ...], value: Any) -> list[Any]:
    item = hints[0] if hints else Any
    return msgspec.convert(value, list[item], str_keys=True, dec_hook=_read_text)  # type: ignore[valid-type]


def _members(hints: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    key, item = hints or (Any, Any)
    wanted: Any = dict[key, item]  # type: ignore[valid-type]
    result: dict[Any, Any] = msgspec.convert(value, wanted, str_keys=True, dec_hook=_read_text)
    return result


def _default(hints: tuple[Any, ...]) -> Any:
    """The factory of a defaultdict, as far as its hint says."""
    made = (get_origin(hints[1]) or hints[1]) if hints else None
    return made if made in (int, float, str, bool, list, dict, set) else None


_CONTAINERS: dict[Any, Callable[[tuple[Any, ...], Any], Any]] = {
    deque: lambda hints, value: deque(_items(hints, value)),
    Iterable: _items,
    defaultdict: lambda hints, value: defaultdict(_default(hints), _members(hints, value)),
    OrderedDict: lambda hints, value: OrderedDict(_members(hints, value)),
    Counter: lambda hints, value: Counter(_members((*hints, int) if hints else (), value)),
}  # of Python's that msgspec does not read
