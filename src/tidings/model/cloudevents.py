"""Events to and from CloudEvents 1.0: structured (one JSON document) and binary (headers and body).

Rules
- `subject` carries the topic. Extensions and the members of a JSON `data` are attributes. A filter means
  the context attribute by a name that both have, and the member by `data.NAME`.
- A foreign event keeps its data as the payload, byte for byte (empty when it has none), and its
  `datacontenttype` as the content type. So it goes out again as it came in.
- An event of ours without a payload carries its attributes in `data`. Beside an opaque payload they
  travel in the one JSON extension `tidings`, together with what CloudEvents has no place for:
  lineage, lifetime, key, end, and the kinds that JSON or a header cannot tell (times, infinity, NaN).
- The conversion is lossless: an event is written the foreign way only if reading that gives it back. Headers
  of the event, the data of other protocols, are not written.
- A subject that is no valid topic stays an attribute `subject`; the extension `topic`, a name that
  belongs to our events, becomes `extension.topic`. Times are kept to the microsecond, in UTC.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from tidings.errors import EventError
from tidings.model.body import is_list_of_values
from tidings.model.decoding import UNREADABLE
from tidings.model.event import FOREVER, Event, check_number, make_event
from tidings.model.textual import as_kind_and_text, from_kind_and_text
from tidings.model.topic import check_topic

STRUCTURED_TYPE = "application/cloudevents+json"
OURS = "tidings"  # the extension that holds what CloudEvents has no place for
UNTYPED = "tidings.event"  # CloudEvents wants a type; an event of ours may have none
_ELSEWHERE = "extension"  # where the extension `topic` goes

_CONTEXT = frozenset(
    {"specversion", "id", "source", "type", "time", "subject", "dataschema", "datacontenttype"}
)
_EXTENSION = re.compile(r"[a-z0-9]+", re.ASCII)
_JSON_TYPE = re.compile(
    r"\s*[\w!#$&^.+-]+/(?:[\w!#$&^.+-]*\+)?json\s*(?:;.*)?", re.ASCII | re.IGNORECASE | re.DOTALL
)
_TEXT_TYPE = re.compile(
    r"\s*(?:text/[\w.+-]+|[\w.+-]+/(?:[\w.-]+\+)?xml)\s*(?:;\s*charset=\"?utf-8\"?)?\s*",
    re.ASCII | re.IGNORECASE,
)
_HEADER_SAFE = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
_INT32 = 2**31


def to_mapping(event: Event) -> dict[str, Any]:
    """The event as the members of a structured CloudEvent."""
    document = msgspec.json.decode(to_structured(event))
    assert isinstance(document, dict)
    return document


def to_structured(event: Event) -> bytes:
    """The event as one JSON document, of the media type `STRUCTURED_TYPE`."""
    document: bytes = _written(event, _STRUCTURED)
    return document


def to_binary(event: Event) -> tuple[dict[str, str], bytes]:
    """The event as headers and a body."""
    message: tuple[dict[str, str], bytes] = _written(event, _BINARY)
    return message


def from_mapping(document: Mapping[str, Any]) -> Event:
    """An event from the members of a structured CloudEvent."""
    try:
        return from_structured(msgspec.json.encode(document))
    except (TypeError, ValueError) as error:
        raise EventError(f"the CloudEvent is no JSON: {error}") from None


def from_structured(document: bytes | str) -> Event:
    """An event from a JSON document."""
    return _event(_read_document(document))


def from_binary(headers: Mapping[str, str], body: bytes) -> Event:
    """An event from headers (of any case) and a body."""
    return _event(_read_message((headers, body)))


class _CloudEventParts(NamedTuple):
    """Members common to both modes."""

    context: dict[str, Any]  # context attributes and extensions
    payload: bytes
    content_type: str | None


class _ContentMode(NamedTuple):
    write: Callable[[_CloudEventParts], Any]
    read: Callable[[Any], _CloudEventParts]
    textual: bool  # context attributes lose their kind: headers are text


# Writing


def _written(event: Event, mode: _ContentMode) -> Any:
    """The foreign way if that reads back, else ours."""
    if event.payload is None:
        return mode.write(_own_attributes(event))
    for extensions in _foreign_extensions(event):
        kinds = _lost_kinds(extensions) if mode.textual else {}
        context = _context(event, _meta(event) | ({"extensions": kinds} if kinds else {})) | extensions
        written = mode.write(_CloudEventParts(context, event.payload, event.content_type))
        if _reads_back(event, mode.read(written)):
            return written
    marked, kinds = _marked(event.shared_attributes)
    meta = _meta(event) | {"form": "payload", "attributes": marked} | ({"kinds": kinds} if kinds else {})
    return mode.write(_CloudEventParts(_context(event, meta), event.payload, event.content_type))


def _own_attributes(event: Event) -> _CloudEventParts:
    marked, kinds = _marked(event.shared_attributes)
    meta = _meta(event) | {"form": "attributes"} | ({"kinds": kinds} if kinds else {})
    if event.content_type is not None:
        meta["content_type"] = event.content_type
    return _CloudEventParts(_context(event, meta), msgspec.json.encode(marked), "application/json")


def _meta(event: Event) -> dict[str, Any]:
    """Parts of an event without a counterpart in CloudEvents."""
    meta: dict[str, Any] = {}
    if len(event.type) != 1 or not event.type[0]:
        meta["lineage"] = list(event.type)
    if event.lifetime:
        meta["lifetime"] = "forever" if event.lifetime == FOREVER else event.lifetime
    if event.key is not None:
        meta["key"] = event.key
    if event.expires is not None:
        meta["expires"] = "forever" if event.expires == FOREVER else event.expires
    return meta


def _context(event: Event, meta: dict[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {"specversion": "1.0", "id": event.id, "source": event.source}
    context["type"] = (event.type[0] if event.type else "") or UNTYPED
    if event.time is not None:
        context["time"] = event.time.isoformat().replace("+00:00", "Z")
    if event.topic is not None:
        context["subject"] = event.topic
    if meta:
        context[OURS] = msgspec.json.encode(meta).decode()
    return context


def _foreign_extensions(event: Event) -> Iterator[dict[str, Any]]:
    """Attributes that may have been extensions: those that are no members of the data, or hide one."""
    members = _members(event.payload or b"", event.content_type)
    shadowed = event.shared_attributes.get("data")
    hidden = set(shadowed) if isinstance(shadowed, dict) and shadowed.keys() <= members.keys() else set()
    for hiding in (hidden, set()) if hidden else (set(),):
        rest = {
            name: v for name, v in event.shared_attributes.items() if name not in members or name in hiding
        }
        if hiding:
            rest.pop("data", None)
        if isinstance(rest.get(_ELSEWHERE), dict):
            rest |= rest.pop(_ELSEWHERE)
        if all(_can_be_extension(name, value) for name, value in rest.items()):
            yield rest


def _can_be_extension(name: str, value: Any) -> bool:
    return bool(_EXTENSION.fullmatch(name)) and name not in _NEVER_EXTENSIONS and _is_simple(value)


_NEVER_EXTENSIONS = _CONTEXT - {"subject", "dataschema"} | {"data"}


def _is_simple(value: Any) -> bool:
    """A value of CloudEvents' own types, as JSON shows them."""
    return type(value) in (bool, str) or (type(value) is int and -_INT32 <= value < _INT32)


def _lost_kinds(extensions: dict[str, Any]) -> dict[str, str]:
    """Headers are text: what kind the others were."""
    return {name: type(value).__name__ for name, value in extensions.items() if type(value) is not str}


def _reads_back(event: Event, parts: _CloudEventParts) -> bool:
    try:
        read = _event(parts)
    except EventError:  # its data has more members than attributes may be, say
        return False
    return read == _without_headers(event) and _same(read.shared_attributes, event.shared_attributes)


def _without_headers(event: Event) -> Event:
    """The event as any CloudEvent shows it: data of other protocols stay in the broker."""
    return msgspec.structs.replace(event, headers={}) if event.headers else event


def _same(one: Any, other: Any) -> bool:
    """Equal and of the same types: True is not 1, and 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    return bool(one == other)


def _document(parts: _CloudEventParts) -> bytes:
    document = dict(parts.context)
    if parts.content_type is not None:
        document["datacontenttype"] = parts.content_type
    if parts.payload:
        document |= _data(parts.payload, parts.content_type)
    return msgspec.json.encode(document)


def _data(payload: bytes, content_type: str | None) -> dict[str, Any]:
    """JSON and text as they are where they can be, else base64."""
    if _is_json(content_type):
        # A lone null would read as no data, and white space around the value would be lost.
        if payload == payload.strip(b" \t\r\n") and _parsed(payload) not in (None, _UNREADABLE):
            return {"data": msgspec.Raw(payload)}
    elif content_type is not None and _TEXT_TYPE.fullmatch(content_type):
        text = _text(payload)
        if text is not None:
            return {"data": text}
    return {"data_base64": base64.b64encode(payload).decode()}


def _text(payload: bytes) -> str | None:
    """The payload as text; None when it is not the text that it claims to be."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _message(parts: _CloudEventParts) -> tuple[dict[str, str], bytes]:
    headers = {f"ce-{name}": quote(_header_text(v), safe=_HEADER_SAFE) for name, v in parts.context.items()}
    if parts.content_type is not None:
        headers["content-type"] = parts.content_type
    return headers, parts.payload


def _header_text(value: Any) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


# Reading


def _read_document(document: bytes | str) -> _CloudEventParts:
    try:
        raw = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        context = {name: msgspec.json.decode(value) for name, value in raw.items() if name != "data"}
    except UNREADABLE as error:
        raise EventError(f"the CloudEvent is no JSON object: {error}") from None
    context = {name: value for name, value in context.items() if value is not None}
    content_type = context.pop("datacontenttype", None)
    if not isinstance(content_type, str | None):
        raise EventError("datacontenttype is no string")
    encoded = context.pop("data_base64", None)
    data = raw.get("data")
    if encoded is not None and data is not None:
        raise EventError("the CloudEvent has both data and data_base64", hint="give one of them")
    if encoded is not None:
        return _CloudEventParts(context, _unbase64(encoded), content_type)
    payload = b"" if data is None or bytes(data) == b"null" else bytes(data)
    if payload.startswith(b'"') and not _is_json(content_type):
        payload = msgspec.json.decode(payload, type=str).encode()
    return _CloudEventParts(context, payload, content_type)


def _unbase64(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise EventError("data_base64 is not base64 text") from None


def _read_message(message: tuple[Mapping[str, str], bytes]) -> _CloudEventParts:
    headers, body = message
    context: dict[str, Any] = {}
    content_type = None
    for name, value in headers.items():
        folded = name.lower()
        if folded == "content-type":
            content_type = value
        elif folded.startswith("ce-"):
            context[folded.removeprefix("ce-")] = _unquoted(folded, value)
    return _CloudEventParts(context, bytes(body), content_type)


def _unquoted(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise EventError(f"header {name} holds percent signs that are no UTF-8") from None


_STRUCTURED = _ContentMode(_document, _read_document, textual=False)
_BINARY = _ContentMode(_message, _read_message, textual=True)


def _event(parts: _CloudEventParts) -> Event:
    context = dict(parts.context)
    if context.pop("specversion", None) != "1.0":
        raise EventError(
            "this is no CloudEvent of version 1.0", hint="its member `specversion` must be '1.0'"
        )
    id, source, type = (_required(context.pop(name, None), name) for name in ("id", "source", "type"))
    time = context.pop("time", None)
    meta = _read_meta(context)
    topic = _topic(context)
    own = "form" in meta
    return make_event(
        _own(meta, parts.payload) if own else _foreign(context, meta, parts),
        source=source,
        id=id,
        topic=topic,
        type=tuple(meta.get("lineage", (type,))),
        time=None if time is None else _moment(time),
        payload=None if meta.get("form") == "attributes" else parts.payload,
        content_type=meta.get("content_type") if meta.get("form") == "attributes" else parts.content_type,
        lifetime=_seconds(meta.get("lifetime", 0.0)),
        key=meta.get("key"),
        expires=_seconds(meta["expires"]) if "expires" in meta else None,
    )


def _required(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise EventError(
            f"the CloudEvent has no {name}", hint="id, source, type and specversion are required"
        )
    return value


def _moment(text: Any) -> datetime:
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise EventError(
            f"the CloudEvent's time is {text!r}", hint="write it as RFC 3339: 2026-01-31T12:00:00Z"
        )
    return moment


class _CloudEventMeta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The extension `tidings`."""

    form: Literal["attributes", "payload"] | None = None  # None: a foreign event
    attributes: dict[str, Any] | None = None
    kinds: (
        dict[
            str,
            Literal[
                "time",
                "inf",
                "-inf",
                "nan",
                "decimal",
                "uuid",
                "date",
                "clock",
                "local",
                "integer",
                "duration",
                "bytes",
            ],
        ]
        | None
    ) = None
    extensions: dict[str, Literal["int", "bool"]] | None = None
    lineage: tuple[str, ...] | None = None
    lifetime: float | Literal["forever"] | None = None
    key: str | None = None
    expires: float | Literal["forever"] | None = None
    content_type: str | None = None


def _read_meta(context: dict[str, Any]) -> dict[str, Any]:
    """Content of our extension; an extension of that name that we did not write stays one."""
    written = context.get(OURS)
    if not isinstance(written, str):
        return {}
    try:
        known = msgspec.json.decode(written, type=_CloudEventMeta)
    except UNREADABLE:
        return {}
    del context[OURS]
    return {name: value for name, value in msgspec.structs.asdict(known).items() if value is not None}


def _seconds(value: float | str) -> float:
    return FOREVER if value == "forever" else float(value)


def _topic(context: dict[str, Any]) -> str | None:
    """The subject, when it can be a topic; what cannot stays in the context."""
    subject = context.get("subject")
    try:
        topic = check_topic(subject) if isinstance(subject, str) else None
    except EventError:
        return None
    context.pop("subject", None)
    return topic


def _foreign(extensions: dict[str, Any], meta: dict[str, Any], parts: _CloudEventParts) -> dict[str, Any]:
    """Members and extensions in one mapping; members with the name of an extension go under `data`."""
    kinds = meta.get("extensions", {})
    check_number(len(extensions))
    extensions = {name: _extension(name, value, kinds.get(name)) for name, value in extensions.items()}
    members = _members(parts.payload, parts.content_type, [0])
    if "topic" in extensions:
        if _ELSEWHERE in extensions:
            raise EventError(f"the extensions topic and {_ELSEWHERE} cannot stand beside one another")
        extensions[_ELSEWHERE] = {"topic": extensions.pop("topic")}
    attributes = {name: value for name, value in members.items() if name not in extensions}
    shadowed = {name: value for name, value in members.items() if name in extensions}
    if shadowed:
        if "data" in attributes:
            shadowed["data"] = attributes.pop("data")
        attributes["data"] = shadowed
    return attributes | extensions


def _extension(name: str, value: Any, kind: str | None) -> Any:
    if not _EXTENSION.fullmatch(name) or name == "data":
        raise EventError(
            f"{name!r} cannot be the name of an extension", hint="a-z and 0-9 only, and not `data`"
        )
    if isinstance(value, (dict, list)):
        raise EventError(f"extension {name!r} is no plain value", hint="lists and objects belong in the data")
    if kind == "bool":
        return value == "true"
    if kind == "int" and not re.fullmatch(r"-?[0-9]{1,10}", value):
        raise EventError(f"extension {name!r} is said to be an integer, and is {value!r}")
    return value if kind is None else int(value)


_UNREADABLE = object()


def _parsed(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except UNREADABLE:
        return _UNREADABLE


def _is_json(content_type: str | None) -> bool:
    return content_type is None or _JSON_TYPE.fullmatch(content_type) is not None


def _members(payload: bytes, content_type: str | None, counts: list[int] | None = None) -> dict[str, Any]:
    """The members of a JSON object that can be attributes.

    With `counts` it stops at the limit of attributes.
    """
    data = _parsed(payload) if payload and _is_json(content_type) else None
    return _values(data, counts) if isinstance(data, dict) else {}


def _values(members: Mapping[str, Any], counts: list[int] | None) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, dict):
            kept[name] = _values(value, counts)
        elif _is_attribute(value):
            kept[name] = value
        else:
            continue
        if counts is not None:
            counts[0] += 1
            check_number(counts[0] // 2)  # as many mappings as attributes
    return kept


def _is_attribute(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str) or is_list_of_values(value)


# Kinds that JSON cannot tell


def _marked(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The attributes as JSON, and by dotted name what was more than JSON shows."""
    kinds: dict[str, str] = {}
    return _mark(attributes, "", kinds), kinds


def _mark(attributes: Mapping[str, Any], prefix: str, kinds: dict[str, str]) -> dict[str, Any]:
    return {name: _marked_value(value, prefix + name, kinds) for name, value in attributes.items()}


def _marked_value(value: Any, path: str, kinds: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return _mark(value, path + ".", kinds)
    if isinstance(value, list):
        return [_marked_value(item, f"{path}.{position}", kinds) for position, item in enumerate(value)]
    known = as_kind_and_text(value)
    if known is not None:
        kinds[path] = known[0]
        return known[1]
    if isinstance(value, datetime):
        kinds[path] = "time"
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        kinds[path] = str(value)
        return None
    return value


def _own(meta: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """The attributes of an event that we wrote."""
    tree = _parsed(payload) if meta["form"] == "attributes" else meta.get("attributes", {})
    if not isinstance(tree, dict):
        raise EventError("the attributes of an event of ours are no JSON object")
    return dict(_unmark(tree, "", meta.get("kinds", {})))


def _unmark(tree: Mapping[str, Any], prefix: str, kinds: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    return ((name, _unmarked_value(value, prefix + name, kinds)) for name, value in tree.items())


def _unmarked_value(value: Any, path: str, kinds: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return dict(_unmark(value, path + ".", kinds))
    if isinstance(value, list):
        return [_unmarked_value(item, f"{path}.{position}", kinds) for position, item in enumerate(value)]
    kind = kinds.get(path)
    if kind is None:
        return value
    if kind == "time":
        return _moment(value)
    if kind in ("inf", "-inf", "nan"):
        return float(kind)
    try:
        return from_kind_and_text(kind, value)
    except ValueError as error:
        raise EventError(f"the attribute {path!r} of the CloudEvent cannot be read: {error}") from None
