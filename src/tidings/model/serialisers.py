"""Serialisers: payloads of a content type to bodies and back, through one small registry.

Rules
- MessagePack and JSON are there. Avro and Protobuf need a schema: `register(avro(...))` or
  `register(protobuf(...))`, with packages that are imported when they are used (`pip install
  'tidings[formats]'`).
- `publish(body, content_type=...)` without a payload writes the body as that content type beside the
  attributes, so that a consumer in another language reads the payload while filters see the attributes.
- `publish(payload=..., content_type=...)` without attributes reads them from the payload, where the content
  type is registered and the payload holds an object. A payload of a registered schema that cannot be read
  is refused.
- Avro and Protobuf hold what their schema says: a value that would be read as another one (a number that is
  rounded, a moment without its microseconds, a text that is read as a number or a date) is refused at
  publish, and so is a field that would be read by another name.
- A content type is compared without regard to case, spaces and its `charset`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tidings.errors import EventError, MissingDependencyError, install_command
from tidings.model.body import packed_body, unpacked_body
from tidings.model.decoding import UNREADABLE
from tidings.model.textual import json_ready

MSGPACK = "application/msgpack"
JSON = "application/json"
AVRO = "application/avro"
PROTOBUF = "application/protobuf"


class Serialiser(NamedTuple):
    """A content type with its two functions. `decode` raises ValueError for bytes that it cannot read."""

    content_type: str
    encode: Callable[[Mapping[str, Any]], bytes]
    decode: Callable[[bytes], Any]
    strict: bool = True  # is a payload that cannot be read refused at publish?


def _unpacked(data: bytes) -> Any:
    try:
        read = msgspec.msgpack.decode(data)
    except UNREADABLE as error:
        raise ValueError(str(error)) from error
    return unpacked_body(read) if type(read) is dict else read


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE as error:
        raise ValueError(str(error)) from error


_BUILT_IN = (
    Serialiser(MSGPACK, lambda body: msgspec.msgpack.encode(packed_body(body)[0]), _unpacked, strict=False),
    Serialiser(
        JSON, lambda body: msgspec.json.encode(json_ready(dict(body)), enc_hook=str), _json, strict=False
    ),
)


def _folded(content_type: str) -> str:
    parts = [part.strip().lower() for part in content_type.split(";")]
    return ";".join([parts[0], *sorted(part for part in parts[1:] if not part.startswith("charset="))])


class Serialisers:
    """Registry of serialisers by content type."""

    look_for_more: Callable[[], None] | None = None  # registers what installed packages offer

    def __init__(self) -> None:
        self._known: dict[str, Serialiser] = {}
        for serialiser in _BUILT_IN:
            self.register(serialiser)

    def register(self, serialiser: Serialiser) -> Serialiser:
        """Add a serialiser; a later one of the same content type takes its place."""
        self._known[_folded(serialiser.content_type)] = serialiser
        return serialiser

    def unregister(self, content_type: str) -> None:
        """Forget the serialiser of a content type."""
        self._known.pop(_folded(content_type), None)

    def has(self, content_type: str) -> bool:
        """Is a serialiser registered for this content type?"""
        return _folded(content_type) in self._known

    def find(self, content_type: str | None) -> Serialiser | None:
        """The serialiser of a content type; None when there is none."""
        if content_type is None:
            return None
        found = self._known.get(_folded(content_type))
        if found is None and self.look_for_more is not None:
            self.look_for_more()
            found = self._known.get(_folded(content_type))
        return found

    def encode(self, body: Mapping[str, Any], content_type: str = MSGPACK) -> bytes:
        """A body as bytes of a content type. Raises `EventError` when it does not fit."""
        serialiser = self._wanted(content_type)
        try:
            return serialiser.encode(unpacked_body(packed_body(body)[0]))
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise EventError(f"the body cannot be written as {content_type}: {error}") from error

    def decode(self, payload: bytes, content_type: str = MSGPACK) -> Any:
        """The value that a payload holds. Raises `EventError` when it cannot be read."""
        try:
            return self._wanted(content_type).decode(payload)
        except ValueError as error:
            raise EventError(f"the payload cannot be read as {content_type}: {error}") from error

    def attributes_of(self, payload: bytes, content_type: str) -> dict[str, Any] | None:
        """The attributes that a payload gives; None when it gives none."""
        serialiser = self.find(content_type)
        if serialiser is None:
            return None
        try:
            read = serialiser.decode(payload)
        except ValueError as error:
            if serialiser.strict:
                raise EventError(f"the payload cannot be read as {content_type}: {error}") from error
            return None
        return read if type(read) is dict else None

    def _wanted(self, content_type: str) -> Serialiser:
        found = self.find(content_type)
        if found is None:
            raise EventError(
                f"no serialiser is registered for {content_type!r}",
                hint=f"register one; there are {', '.join(sorted(self._known))}",
            )
        return found


SERIALISERS = Serialisers()
register = SERIALISERS.register
encode = SERIALISERS.encode
decode = SERIALISERS.decode


def avro(schema: Mapping[str, Any], content_type: str | None = None) -> Serialiser:
    """Serialiser of Avro records of one schema: `application/avro; schema=NAME` by default."""
    try:
        import fastavro
        from fastavro.validation import ValidationError, validate
    except ImportError:
        raise MissingDependencyError(
            "Avro needs the package fastavro", hint=install_command("tidings[formats]")
        ) from None

    parsed = fastavro.parse_schema(dict(schema))

    def write(body: Mapping[str, Any]) -> bytes:
        file = BytesIO()
        fastavro.schemaless_writer(file, parsed, dict(body), strict_allow_default=True)
        found = read(file.getvalue())
        _check_same("", body, found, lacks=False)
        try:
            validate(found, parsed)  # an integer of 64 bits where other readers take 32
        except ValidationError as error:
            raise ValueError(str(error)) from error
        return file.getvalue()

    def read(data: bytes) -> Any:
        try:
            return fastavro.schemaless_reader(BytesIO(data), parsed, None)
        except (EOFError, IndexError, KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
            raise ValueError(f"no record of {schema.get('name')}: {error}") from error

    return Serialiser(content_type or f"{AVRO}; schema={schema.get('name', 'record')}", write, read)


def protobuf(message: type[Any], content_type: str | None = None) -> Serialiser:
    """Serialiser of one Protobuf message class: `application/protobuf; message=NAME` by default."""
    try:
        from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingDependencyError(
            "Protobuf needs the package protobuf", hint=install_command("tidings[formats]")
        ) from None

    def write(body: Mapping[str, Any]) -> bytes:
        ready = _json_form(dict(body), message.DESCRIPTOR)
        try:
            made: bytes = ParseDict(ready, message()).SerializeToString(deterministic=True)
        except ParseError as error:
            raise ValueError(str(error)) from error
        _check_same("", body, read(made), lacks=True)
        return made

    def read(data: bytes) -> Any:
        try:
            found = message.FromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        written = MessageToDict(
            found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return _with_numbers(written, message.DESCRIPTOR)

    return Serialiser(content_type or f"{PROTOBUF}; message={message.DESCRIPTOR.full_name}", write, read)


def _check_same(path: str, given: Any, found: Any, *, lacks: bool) -> None:
    """Refuse a value that is read as another one than was written. Numbers are the same when they are equal,
    and text is read for a value that the format lacks (`lacks`: of Protobuf, where None is a field that is
    not set). A format may have more fields, and Avro fewer. Raises ValueError."""
    if given is None and lacks:
        return
    if isinstance(given, Mapping) and type(found) is dict:
        for name, item in given.items():
            inside = f"{path}.{name}" if path else name
            if name in found:
                _check_same(inside, item, found[name], lacks=lacks)
            elif lacks and item is not None:  # another name of a field that is set
                other = next((each for each in found if _plain(each) == _plain(name)), "another field")
                raise ValueError(f"{inside} would be read as {other}: publish it by that name")
    elif type(given) is list and type(found) is list and len(given) == len(found):
        for item, kept in zip(given, found, strict=True):
            _check_same(path, item, kept, lacks=lacks)
    elif not _is_read_as(given, found, lacks):
        raise ValueError(f"{path} is {given!r}, and would be read as {found!r}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _is_read_as(given: Any, found: Any, lacks: bool) -> bool:
    if type(given) in _NUMBERS and type(found) in _NUMBERS:
        return bool(given == found or (given != given and found != found))
    if lacks and type(found) is str and type(given) in _WITHOUT_JSON:
        return bool(found == (given.isoformat() if type(given) is datetime else json_ready(given)))
    return type(given) is type(found) and bool(given == found)


_NUMBERS = frozenset({int, float, Decimal})
_WITHOUT_JSON = frozenset({bytes, date, datetime, time, timedelta, Decimal, UUID})


def _json_form(value: Any, descriptor: Any) -> Any:
    """A value for a field of a message as the JSON form of Protobuf has it."""
    name = None if descriptor is None else descriptor.full_name
    if type(value) is list:
        return [_json_form(item, descriptor) for item in value]
    if type(value) is timedelta and name == _DURATION:
        return f"{value // timedelta(microseconds=1) / Decimal(1_000_000):f}s"
    if type(value) is datetime and value.tzinfo is not None:
        return value.isoformat()
    if type(value) is not dict:
        return json_ready(value)
    if descriptor is not None and descriptor.GetOptions().map_entry:
        inside = descriptor.fields_by_name["value"].message_type
        return {key: _json_form(item, inside) for key, item in value.items()}
    fields = (
        {} if descriptor is None else {**descriptor.fields_by_camelcase_name, **descriptor.fields_by_name}
    )
    return {
        key: _json_form(item, fields[key].message_type if key in fields else None)
        for key, item in value.items()
    }


_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"


def _with_numbers(written: Any, descriptor: Any) -> Any:
    """A message in the JSON form of Protobuf, with the values for which that has text: integers of 64 bits,
    doubles that JSON lacks, bytes, moments and durations (to the microsecond)."""
    if descriptor.full_name == _TIMESTAMP:
        return datetime.fromisoformat(written)
    if descriptor.full_name == _DURATION:
        return timedelta(microseconds=int(Decimal(written.removesuffix("s")) * 1_000_000))
    if descriptor.full_name in _WRAPPERS:  # written as its value
        return _number(written, descriptor.fields_by_name["value"])
    if type(written) is not dict or descriptor.full_name.startswith("google.protobuf."):
        return written
    fields = descriptor.fields_by_name
    return {name: _field(value, fields[name]) if name in fields else value for name, value in written.items()}


def _field(value: Any, field: Any) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inside = kind.fields_by_name["value"]
        return {key: _number(item, inside) for key, item in value.items()}
    if type(value) is list:
        return [_number(item, field) for item in value]
    return _number(value, field)


def _number(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _with_numbers(value, field.message_type)
    if type(value) is not str:
        return value
    if field.type == field.TYPE_BYTES:
        return base64.b64decode(value)
    if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return int(value)
    return float(value) if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT) else value


_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value" for kind in ("Int64", "UInt64", "Double", "Float", "Bytes")
)
