"""Parts of JSON Schemas: references, formats; and formats that msgspec leaves out."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import STRICT, Flag
from functools import partial, reduce
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from operator import or_
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import msgspec
from msgspec import inspect as kinds

from tidings.model.body import LONGEST_NUMBER
from tidings.model.fields import CLOCK_TO_SECONDS

Schema = Mapping[str, Any]


def _reader(cls: Any) -> Callable[[str], Any]:
    """As classes read the text, so that a text that fits can be read."""
    return lambda text: msgspec.convert(text, cls)


def _duration(text: str) -> timedelta:
    if text != text.upper():  # which Pydantic does not read
        raise ValueError("small letters")
    return msgspec.convert(text, timedelta)


def _clock(text: str) -> time:
    return time.fromisoformat(text) if CLOCK_TO_SECONDS.fullmatch(text) else msgspec.convert(text, time)


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER + 1:
        raise ValueError("too long")
    return int(text)


def _uuid_of(version: int, text: str) -> None:
    if UUID(text).version != version:
        raise ValueError(f"no UUID of version {version}")


_HOST = re.compile(r"[\w.~%!$&'()*+,;=-]+")


def _url(text: str) -> None:
    """A URL with a host, as Pydantic reads it, or one of a scheme without hosts."""
    if any(sign.isspace() for sign in text):
        raise ValueError("white space")
    url = urlsplit(text)
    if not url.scheme or not (url.netloc or url.path):
        raise ValueError("no scheme, or nothing behind it")
    if url.scheme in _WITH_HOSTS:
        host, _ = url.hostname, url.port  # which checks brackets and the number
        if not host or not (":" in host or _HOST.fullmatch(host)):
            raise ValueError("no host")
        if ":" in host:
            IPv6Address(host)


_WITH_HOSTS = frozenset({"http", "https", "ws", "wss", "ftp"})

FORM_OF_KIND: dict[type, str] = {
    Decimal: "decimal", UUID: "uuid", date: "date", time: "time", timedelta: "duration", bytes: "base64",
    datetime: "date-time",
}  # fmt: skip
BYTES = "binary"  # the format of bytes that any text is read as
KIND_FORMS = frozenset({*FORM_OF_KIND.values(), BYTES})

FORMATS: dict[str, Callable[[str], Any]] = {
    "uuid": _reader(UUID), "date": _reader(date), "date-time": _reader(datetime), "time": _clock,
    "duration": _duration, "decimal": Decimal, BYTES: str, "base64": partial(base64.b64decode, validate=True),
    "integer": _integer, "uri": _url, "ipv4": IPv4Address, "ipv6": IPv6Address, "ipvanyaddress": ip_address,
    "ipv4network": IPv4Network, "ipv6network": IPv6Network, "ipvanynetwork": ip_network,
    "ipv4interface": IPv4Interface, "ipv6interface": IPv6Interface, "ipvanyinterface": ip_interface,
    **{f"uuid{version}": partial(_uuid_of, version) for version in range(1, 9)},
}  # fmt: skip


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference leads to, and what stands beside the reference."""
    for _ in range(32):  # a reference to itself ends
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        schema = {**found, **{name: stored for name, stored in schema.items() if name != "$ref"}}
    return schema if isinstance(schema, Mapping) else {}


def target_of(reference: str, root: Any) -> Any:
    """The schema that a reference inside a schema leads to; None when it leads to none."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    found = root
    for part in unquote(reference[2:]).split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if isinstance(found, Mapping | bool) else None


def is_same(value: Any, other: Any) -> bool:
    """Equal as JSON has it: TRUE is no 1, also inside lists and objects."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(is_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(is_same(each, other[key]) for key, each in value.items())
    return bool(value == other)


def is_multiple(value: Any, of: Any) -> bool:
    """Is a number a multiple of another? Of doubles as classes ask it."""
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        return math.fmod(value, of) == 0
    except (OverflowError, ValueError):  # an integer beyond every double; infinity
        return False


def form_of(schema: Schema) -> str | None:
    """The format that a schema demands of a text; None for any text."""
    found = schema.get("contentEncoding", schema.get("format"))
    return found if found in FORMATS else None


ZONES = {
    "aware": "(?:[zZ]|[+-][0-9]{2}:?[0-9]{2})$",
    "naive": "^(?:.*[T ])?[0-9:.]*$",
}  # patterns of texts of moments and times of day with a zone, and without one


def is_of_format(text: str, form: str) -> bool:
    try:
        FORMATS[form](text)
    except (ValueError, ArithmeticError, msgspec.ValidationError):
        return False
    return True


_MISSING: dict[type, str] = {
    kinds.DateTimeType: "date-time", kinds.TimeType: "time", kinds.TimeDeltaType: "duration",
}  # fmt: skip
_KEYS: dict[type, str] = {
    **_MISSING, kinds.DateType: "date", kinds.UUIDType: "uuid", kinds.DecimalType: "decimal",
    kinds.IntType: "integer",
}  # fmt: skip


def add_formats(schema: Any, cls: Any) -> Any:
    """Write the formats that msgspec leaves out into its schema of a class: moments, times of day, durations,
    and keys of mappings."""
    _Formats(schema).add(schema, kinds.type_info(cls))
    return schema


class _Formats:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._seen: set[tuple[int, int]] = set()

    def add(self, schema: Any, info: Any) -> None:
        while isinstance(schema, dict) and str(schema.get("$ref", "")).startswith("#/$defs/"):
            schema = self._root["$defs"].get(schema["$ref"].removeprefix("#/$defs/"))
        key = (id(schema), id(info))
        if not isinstance(schema, dict) or key in self._seen:
            return
        self._seen.add(key)
        if isinstance(info, kinds.UnionType):
            for part in schema.get("anyOf", ()):
                for each in info.types:
                    if self._is_of(part, each):
                        self.add(part, each)
            return
        if isinstance(info, kinds.Metadata):
            self.add(schema, info.type)
            return
        if isinstance(info, kinds.EnumType) and issubclass(info.cls, Flag):
            schema.pop("enum", None)
            schema |= flag_schema(info.cls)
        form = _MISSING.get(type(info))
        if form is not None:
            schema.setdefault("format", form)
        zone = getattr(info, "tz", None)
        if zone is not None:
            schema.setdefault("pattern", ZONES["aware" if zone else "naive"])
        for field in getattr(info, "fields", ()):
            self.add(schema.get("properties", {}).get(field.encode_name), field.type)
        self.add(schema.get("items"), getattr(info, "item_type", None))
        parts, types = schema.get("prefixItems", ()), getattr(info, "item_types", ())
        for part, each in zip(parts, types, strict=False):
            self.add(part, each)
        if isinstance(info, kinds.DictType):
            self.add(schema.get("additionalProperties"), info.value_type)
            names = {**schema.get("propertyNames", {}), **_key_schema(info.key_type)}
            if names:
                schema["propertyNames"] = names

    def _is_of(self, part: Any, info: Any) -> bool:
        """Is this part of a union the schema of this type? A union has one type of text, of list, of object
        without a tag; classes are named by their references."""
        cls = getattr(info, "cls", None)
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return cls is not None and name.endswith(cls.__name__)
        kind = part.get("type")
        if isinstance(info, kinds.DictType):
            return bool(kind == "object")
        if hasattr(info, "item_type") or hasattr(info, "item_types"):
            return bool(kind == "array")
        return bool(kind == "string") and type(info) in _MISSING


_MOST_BITS = 16  # of flags with gaps, whose combinations a schema lists


def flag_schema(cls: type[Flag]) -> dict[str, Any]:
    """The numbers that a class of flags reads: every one, or all combinations of its bits."""
    if getattr(cls, "_boundary_", STRICT) is not STRICT:
        return {"type": "integer"}
    most = reduce(or_, (member.value for member in cls.__members__.values()), 0)
    if most & (most + 1) == 0 or most.bit_length() > _MOST_BITS:
        return {"type": "integer", "minimum": 0, "maximum": most}
    return {"type": "integer", "enum": [number for number in range(most + 1) if number & ~most == 0]}


def _key_schema(info: Any) -> dict[str, Any]:
    """What msgspec leaves out of the schema of keys: their format, bounds and values."""
    if isinstance(info, kinds.Metadata):
        return _key_schema(info.type)
    if isinstance(info, kinds.EnumType):
        if issubclass(info.cls, Flag):
            return {**flag_schema(info.cls), "format": "integer"}
        return {"enum": [str(member.value) for member in info.cls]}
    if isinstance(info, kinds.LiteralType):
        return {"enum": [str(value) for value in info.values]}
    found: dict[str, Any] = {"format": _KEYS[type(info)]} if type(info) in _KEYS else {}
    for field, word in _BOUNDS.items():
        stated = getattr(info, field, None)
        if stated is not None:
            found[word] = stated
    return found


_BOUNDS = {
    "ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf", "min_length": "minLength", "max_length": "maxLength", "pattern": "pattern",
}  # fmt: skip
