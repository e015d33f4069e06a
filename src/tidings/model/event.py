"""The event: what a publisher says.

Rules
- Identity is (source, id), given by the publisher, within its tenant; publishing it again has no effect.
- Attributes are any JSON-like body (`model.body`); `name.accuracy` addresses a nested one. In a filter, and
  in `event[...]`, the names `id source type time topic` mean the envelope; a body's own field of such a
  name is `data.NAME` there.
- `type` is a lineage: the type's own name first, then its ancestors up to the root.
- `headers` hold what another protocol says of its message (the QoS of MQTT, say), encoded by its gateway.
  Filters do not see them, and no attribute becomes one.
- `lifetime` says which *later* subscriptions may still receive the event: 0, seconds, or FOREVER.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape
from typing import Any

import msgspec

from tidings.errors import EventError
from tidings.model.body import (
    DATA,
    MAX_ATTRIBUTES,
    MAX_NESTING,
    PLAIN_KINDS,
    RESERVED,
    check_number,
    packed_body,
    seen_body,
    unpacked_body,
    unpacked_value,
)
from tidings.model.dead_letter_header import DeadLetterHeader, header_in
from tidings.model.topic import CONTROL, check_topic
from tidings.model.value import INT_MAX, INT_MIN, checked_time, is_null, is_unicode

FOREVER = math.inf
DEFAULT_LIFETIME = 0.0  # seconds; this very object is left out when an event is encoded
TENANT = "tenant"  # the attribute that a broker writes and checks where principals have tenants
TENANT_MARK = "\x1f"  # after the tenant, in names that a broker scopes by tenant
LINEAGE = "type.lineage"  # where `Event.view` keeps the lineage; no attribute can have this name
ENVELOPE = RESERVED | {LINEAGE}  # names of `Event.view` that are not of the body
UNNUMBERED = "(unnumbered)"  # this very object is the id of an event that its client has still to number
PLAIN_ATTRIBUTES = 64  # of an event of the common kind
PLAIN_SHAPES, SHAPE_NAMES = 1024, 16  # sets of names that are remembered, and the most names of one
PLAIN_NAMES = 4096  # of attributes that are remembered; more costs 100 bytes each

_TEXT = frozenset({str})
NEVER_NULL = frozenset({str, int, bool, datetime})  # kinds of values that filters see as they are


class _AttributeView:
    """The attributes of an event that filters see: flat names to values, NULLs left out. Made at the first
    access; afterwards the event's own dictionary answers, without a call."""

    def __get__(self, event: Event, _owner: type | None = None) -> Mapping[str, Any]:
        view: dict[str, Any]
        if event.rich:
            view = seen_body(event.shared_attributes)
        elif NEVER_NULL.issuperset(map(type, event.body.values())):
            view = {**event.body}
        else:
            view = {}
            for name, value in event.body.items():
                if type(value) is dict:
                    view.update(_flat(name + ".", value))
                elif value is not None and value == value:  # NaN differs from itself
                    view[name] = value
        view["id"] = event.id
        view["source"] = event.source
        if event.topic is not None:
            view["topic"] = event.topic
        if event.type:
            view["type"] = event.type[0]
            view[LINEAGE] = event.type
        if event.time is not None:
            view["time"] = event.time
        event.__dict__["view"] = view
        return view


class _SharedAttributes:
    """The attributes of an event as they were published, for readers that change nothing: all subscribers of
    one process hold one event. Of a rich body unpacked at the first look."""

    def __get__(self, event: Event, _owner: type | None = None) -> dict[str, Any]:
        attributes = unpacked_body(event.body) if event.rich else event.body
        event.__dict__["shared_attributes"] = attributes
        return attributes


class _EncodedSize:
    """Bytes of the encoded event, measured at the first look, as `_AttributeView`."""

    def __get__(self, event: Event, _owner: type | None = None) -> int:
        size = event.__dict__["size"] = len(msgspec.msgpack.encode(event))
        return size


class _Identity:
    """Source and id of the event, with its tenant before them, made at the first look, as
    `_AttributeView`."""

    def __get__(self, event: Event, _owner: type | None = None) -> tuple[str, str]:
        if TENANT in event.body:
            identity = identity_of(event.source, event.id, event.body[TENANT])
        else:
            identity = (event.source, event.id)
        event.__dict__["identity"] = identity
        return identity


def identity_of(source: str, id: str, tenant: Any) -> tuple[str, str]:
    """Identity of an event, from the attribute `tenant` that its broker wrote and checked."""
    return (f"{tenant}{TENANT_MARK}{source}" if tenant and type(tenant) is str else source, id)


class Event(
    msgspec.Struct, frozen=True, dict=True, weakref=True, omit_defaults=True, rename={"body": "attributes"}
):
    """An immutable event. Use `make_event` to build one from what a user hands over."""

    source: str
    id: str
    body: dict[str, Any] = {}  # the attributes as they travel; `attributes` has them as they were published
    topic: str | None = None
    type: tuple[str, ...] = ()
    time: datetime | None = None
    payload: bytes | None = None
    content_type: str | None = None
    lifetime: float = DEFAULT_LIFETIME  # seconds; FOREVER is infinity
    key: str | None = None  # supersedes older events of the same key
    expires: float | None = None  # seconds after acceptance until it ends for all subscribers
    rich: bool = False  # does the body hold more than flat values? See `model.body`
    headers: dict[str, bytes] = {}  # data of other protocols, by protocol: gateways alone read and write them

    @property
    def position(self) -> Any:
        """Its `Position` in the log of the broker that handed it over; None when no log holds it.

        Store it with your own effects, and hand it back as `since=` to receive each event once even
        across a crash of your process. It is no part of the event: equal events may differ in it.
        """
        return self.__dict__.get("_position")

    def placed_at(self, position: Any) -> Event:
        """The same event with its position in the log."""
        self.__dict__["_position"] = position
        return self

    @property
    def dead_letter(self) -> DeadLetterHeader | None:
        """Of a dead letter: its `reason`, its `attempts`, and when it `died`. None: it is none."""
        return header_in(self.headers) if self.headers else None

    def __repr__(self) -> str:
        if not self.rich:
            return super().__repr__()
        values = {name: getattr(self, name) for name in self.__struct_fields__} | {"body": self.attributes}
        return f"Event({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @property
    def attributes(self) -> dict[str, Any]:
        """The whole body as it was published: a copy of the caller's own, at every call."""
        body = self.body
        if self.rich or dict in set(map(type, body.values())):
            return unpacked_body(body)
        return body.copy()

    shared_attributes = _SharedAttributes()
    view = _AttributeView()
    size = _EncodedSize()
    identity = _Identity()  # sources of two tenants may have one name

    def get(self, name: str, default: Any = None) -> Any:
        """The value under a name, as `event[name]`; `default` when there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        """Is there a value under this name, so that `event[name]` gives it?"""
        if not isinstance(name, str):
            return False
        try:
            self[name]
        except KeyError:
            return False
        return True

    __iter__ = None  # an event is no sequence: its names are those of `attributes`

    def _repr_html_(self) -> str:
        """The event as a table, in a notebook."""
        envelope = (("source", self.source), ("id", self.id), ("topic", self.topic), *self.view.items())
        rows = ((name, value) for name, value in envelope if value is not None)
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
        return f"<table>{''.join(cells)}</table>"

    def __getitem__(self, name: str) -> Any:
        """The value that was published under a name: a scalar, a list, a nested mapping, None.

        A list or a mapping is a copy of the caller's own. A dotted name leads into nested mappings.
        `id source type time topic` are the envelope's; the body's own fields of these names are `data.id`
        and so on. An absent name is a KeyError.
        """
        if name in RESERVED:
            return self.view[name]
        stored = self.body
        found = stored[name] if name in stored else _inside(stored, name)
        if found is _ABSENT:
            first, _, rest = name.partition(".")
            if first == DATA and rest.partition(".")[0] in RESERVED:
                found = _inside(stored, rest)
            if found is _ABSENT:
                raise KeyError(name)
        return found if type(found) in PLAIN_KINDS else unpacked_value(found)


_ABSENT: Any = object()


def _inside(stored: Any, name: str) -> Any:
    """The value under a dotted name, nested at any of its dots; `_ABSENT` when there is none."""
    if type(stored) is not dict:
        return _ABSENT
    if name in stored:
        return stored[name]
    position = name.find(".")
    while position >= 0:
        found = _inside(stored.get(name[:position]), name[position + 1 :])
        if found is not _ABSENT:
            return found
        position = name.find(".", position + 1)
    return _ABSENT


def event_size(event: Event) -> int:
    """The bytes that an event takes, encoded; measured once for each event."""
    return event.size


def _flat(prefix: str, mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if type(value) is dict:
            yield from _flat(f"{prefix}{name}.", value)
        elif not is_null(value):
            yield prefix + name, value


def make_event(
    attributes: Mapping[str, Any] | None = None,
    *,
    source: str,
    id: str,
    topic: str | None = None,
    type: str | tuple[str, ...] | None = None,
    time: datetime | None = None,
    payload: bytes | None = None,
    content_type: str | None = None,
    lifetime: float = DEFAULT_LIFETIME,
    key: str | None = None,
    expires: float | None = None,
    headers: Mapping[str, bytes] | None = None,
) -> Event:
    """A checked event: every error is raised here, before a publish."""
    if not source or not id:
        raise EventError("an event needs a source and an id that are not empty")
    if time is not None and (not isinstance(time, datetime) or time.tzinfo is None):
        raise _no_time(time)
    if content_type is not None:
        check_content_type(content_type)
    lineage = () if type is None else (type,) if isinstance(type, str) else tuple(type)
    body, rich = ({}, False) if attributes is None else body_of(attributes)
    return Event(
        source=source,
        id=id,
        body=body,
        topic=None if topic is None else check_topic(topic),
        type=lineage,
        time=None if time is None else checked_time(time),
        payload=payload,
        content_type=content_type,
        lifetime=lifetime if lifetime is DEFAULT_LIFETIME else _checked_seconds("lifetime", lifetime),
        key=key,
        expires=None if expires is None else _checked_seconds("expires", expires),
        rich=rich,
        headers={} if headers is None else dict(headers),
    )


def body_of(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The checked body of an event with these attributes, and whether it is rich. Raises `EventError`."""
    if has_plain_attributes(attributes, ascii=True):
        return dict(attributes), False
    return packed_body(attributes)


def check_content_type(content_type: str) -> str:
    if not CONTROL.isdisjoint(content_type):
        raise EventError("the content type holds a control character", hint="write type/subtype")
    return content_type


def _no_time(given: Any) -> EventError:
    if isinstance(given, datetime):
        return EventError("the event's time has no time zone", hint="use datetime.now(UTC)")
    return EventError(
        f"the event's time is {given!r}, not a datetime",
        hint="give a datetime with a zone: datetime.now(UTC), or datetime.fromtimestamp(seconds, UTC)",
    )


def row_event(attributes: Mapping[str, Any], **envelope: Any) -> Event:
    """An event of a row of a table, unchecked but for its attributes: `envelope` as `Event` takes it."""
    if has_plain_attributes(attributes):
        return Event(body=dict(attributes), **envelope)
    body, rich = packed_body(attributes)
    return Event(body=body, rich=rich, **envelope)


def checked_event(event: Event, **changes: Any) -> Event:
    """A checked copy of an event from another source, with `changes` (of `make_event`'s options)."""
    options: dict[str, Any] = {
        "source": event.source, "id": event.id, "topic": event.topic, "type": event.type,
        "time": event.time, "payload": event.payload, "content_type": event.content_type,
        "lifetime": event.lifetime, "key": event.key, "expires": event.expires, "headers": event.headers,
    }  # fmt: skip
    return make_event(event.body, **{**options, **changes})


def has_plain_attributes(attributes: Mapping[str, Any], *, ascii: bool = False) -> bool:
    """Are all names and values of the common kinds, where only a text can be wrong, and with `ascii` no text
    either. Never a wrong yes."""
    if not _TEXT.issuperset(map(type, attributes)):  # names that are equal to these may be of other classes
        return False
    if tuple(attributes) not in _plain_shapes and not _has_plain_names(attributes):
        return False
    for value in attributes.values():
        kind = type(value)
        if kind is str:
            if ascii and not value.isascii():
                return False
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:
                return False
        elif kind is not float and kind is not bool:
            return False
    return True


_plain_shapes: dict[tuple[str, ...], None] = {}  # names of events, together, each looked at once
_plain_names: dict[str, None] = {}  # the same one by one


def _has_plain_names(attributes: Mapping[str, Any]) -> bool:
    if len(attributes) > PLAIN_ATTRIBUTES:
        return False
    if not all(name in _plain_names or _is_plain_name(name) for name in attributes):
        return False
    if len(_plain_shapes) < PLAIN_SHAPES and len(attributes) <= SHAPE_NAMES:
        _plain_shapes[tuple(attributes)] = None
    return True


def _is_plain_name(name: str) -> bool:
    if not name or name in RESERVED or "." in name or not is_unicode(name):
        return False
    if len(_plain_names) < PLAIN_NAMES and len(name) <= PLAIN_ATTRIBUTES:
        _plain_names[name] = None
    return True


def _checked_seconds(what: str, seconds: float) -> float:
    try:
        seconds = float(seconds)
    except (TypeError, ValueError):
        raise EventError(f"{what} is {seconds!r}", hint="give seconds, 0, or tidings.FOREVER") from None
    if math.isnan(seconds) or seconds < 0:
        raise EventError(f"{what} is {seconds!r}", hint="give seconds, 0, or tidings.FOREVER")
    return seconds


__all__ = [
    "DATA", "DEFAULT_LIFETIME", "ENVELOPE", "FOREVER", "LINEAGE", "MAX_ATTRIBUTES", "MAX_NESTING",
    "NEVER_NULL", "RESERVED", "TENANT", "TENANT_MARK", "UNNUMBERED", "Event", "body_of",
    "check_content_type", "check_number", "checked_event",
    "event_size", "has_plain_attributes", "identity_of", "make_event", "row_event",
]  # fmt: skip
