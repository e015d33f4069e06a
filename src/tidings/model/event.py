"""The event: what a publisher says.

Rules
- Identity is (source, id), given by the publisher, within its tenant; publishing it again has no effect.
- Attributes may be nested; `name.accuracy` addresses a nested one. `id source type time topic`
  belong to the event itself and cannot be attributes.
- `type` is a lineage: the type's own name first, then its ancestors up to the root.
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
from tidings.model.topic import check_topic
from tidings.model.value import INT_MAX, INT_MIN, Value, checked_time, checked_value, is_null

FOREVER = math.inf
DEFAULT_LIFETIME = 0.0  # seconds; this very object is left out when an event is encoded
RESERVED = frozenset({"id", "source", "type", "time", "topic"})
TENANT = "tenant"  # the attribute that a broker writes and checks where principals have tenants
TENANT_MARK = "\x1f"  # after the tenant, in names that a broker scopes by tenant
LINEAGE = "type.lineage"  # where `Event.view` keeps the lineage; no attribute can have this name
MAX_ATTRIBUTES = 1024
PLAIN_ATTRIBUTES = 64  # of an event of the common kind
MAX_NESTING = 16
CONTROL = frozenset(map(chr, (*range(0x20), 0x7F)))


class _AttributeView:
    """The attributes of an event that filters see: flat names to values, NULLs left out. Made at the first
    access; afterwards the event's own dictionary answers, without a call."""

    def __get__(self, event: Event, _owner: type | None = None) -> Mapping[str, Any]:
        view: dict[str, Any] = {}
        for name, value in event.attributes.items():
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


class _EncodedSize:
    """Bytes of the encoded event, measured at the first look, as `_AttributeView`."""

    def __get__(self, event: Event, _owner: type | None = None) -> int:
        size = event.__dict__["size"] = len(msgspec.msgpack.encode(event))
        return size


class _Identity:
    """Source and id of the event, with its tenant before them, made at the first look, as
    `_AttributeView`."""

    def __get__(self, event: Event, _owner: type | None = None) -> tuple[str, str]:
        if TENANT in event.attributes:
            identity = identity_of(event.source, event.id, event.attributes[TENANT])
        else:
            identity = (event.source, event.id)
        event.__dict__["identity"] = identity
        return identity


def identity_of(source: str, id: str, tenant: Any) -> tuple[str, str]:
    """Identity of an event, from the attribute `tenant` that its broker wrote and checked."""
    return (f"{tenant}{TENANT_MARK}{source}" if tenant and type(tenant) is str else source, id)


class Event(msgspec.Struct, frozen=True, dict=True, weakref=True, omit_defaults=True):
    """An immutable event. Use `make_event` to build one from what a user hands over."""

    source: str
    id: str
    attributes: dict[str, Any] = {}
    topic: str | None = None
    type: tuple[str, ...] = ()
    time: datetime | None = None
    payload: bytes | None = None
    content_type: str | None = None
    lifetime: float = DEFAULT_LIFETIME  # seconds; FOREVER is infinity
    key: str | None = None  # supersedes older events of the same key
    expires: float | None = None  # seconds after acceptance until it ends for all subscribers

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

    view = _AttributeView()
    size = _EncodedSize()
    identity = _Identity()  # sources of two tenants may have one name

    def get(self, name: str) -> Value | None:
        """The value of an attribute by its dotted name; None when absent."""
        value: Value | None = self.view.get(name)
        return value

    def _repr_html_(self) -> str:
        """The event as a table, in a notebook."""
        envelope = (("source", self.source), ("id", self.id), ("topic", self.topic), *self.view.items())
        rows = ((name, value) for name, value in envelope if value is not None)
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
        return f"<table>{''.join(cells)}</table>"

    def __getitem__(self, name: str) -> Value:
        value: Value = self.view[name]
        return value


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
) -> Event:
    """A checked event: every error is raised here, before a publish."""
    if not source or not id:
        raise EventError("an event needs a source and an id that are not empty")
    if time is not None and time.tzinfo is None:
        raise EventError("the event's time has no time zone", hint="use datetime.now(UTC)")
    if content_type is not None and not CONTROL.isdisjoint(content_type):
        raise EventError("the content type holds a control character", hint="write type/subtype")
    lineage = () if type is None else (type,) if isinstance(type, str) else tuple(type)
    if attributes is None or has_plain_attributes(attributes, ascii=True):
        checked = {} if attributes is None else dict(attributes)
    else:
        checked = checked_attributes(attributes)
    return Event(
        source=source,
        id=id,
        attributes=checked,
        topic=None if topic is None else check_topic(topic),
        type=lineage,
        time=None if time is None else checked_time(time),
        payload=payload,
        content_type=content_type,
        lifetime=lifetime if lifetime is DEFAULT_LIFETIME else _checked_seconds("lifetime", lifetime),
        key=key,
        expires=None if expires is None else _checked_seconds("expires", expires),
    )


def checked_event(event: Event, **changes: Any) -> Event:
    """A checked copy of an event from another source, with `changes` (of `make_event`'s options)."""
    options: dict[str, Any] = {
        "source": event.source, "id": event.id, "topic": event.topic, "type": event.type,
        "time": event.time, "payload": event.payload, "content_type": event.content_type,
        "lifetime": event.lifetime, "key": event.key, "expires": event.expires,
    }  # fmt: skip
    return make_event(event.attributes, **{**options, **changes})


def has_plain_attributes(attributes: Mapping[str, Any], *, ascii: bool = False) -> bool:
    """Are all names and values of the common kinds, where only a text can be wrong, and with `ascii` no text
    either. Never a wrong yes."""
    if len(attributes) > PLAIN_ATTRIBUTES:
        return False
    for name, value in attributes.items():
        kind = type(value)
        if type(name) is not str or not name or name in RESERVED or "." in name:
            return False
        if kind is str:
            if ascii and not value.isascii():
                return False
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:
                return False
        elif kind is not float and kind is not bool:
            return False
    return True


def checked_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A private, checked copy of the attributes."""
    if has_plain_attributes(attributes, ascii=True):
        return dict(attributes)
    for name in RESERVED.intersection(attributes):
        raise EventError(
            f"{name!r} is not an attribute: it belongs to the event itself",
            hint=f"give it as publish(..., {name}=...) or rename it",
        )
    seen: set[str] = set()
    return _checked(attributes, "", seen, 1, [0])


def check_number(number: int) -> None:
    """Refuse attributes above the limit, before more are read. Raises `EventError`."""
    if number > MAX_ATTRIBUTES:
        raise EventError(f"an event of {number} attributes or more; the most is {MAX_ATTRIBUTES}")


def _checked(
    mapping: Mapping[str, Any], prefix: str, seen: set[str], depth: int, nested: list[int]
) -> dict[str, Any]:
    """`seen` are the names so far, `nested` counts the mappings: each has the limit of attributes."""
    if depth > MAX_NESTING:
        raise EventError(f"attributes nested {depth} deep; the most is {MAX_NESTING}")
    result: dict[str, Any] = {}
    for name, value in mapping.items():
        if type(name) is not str or not name:
            raise EventError(f"attribute name {name!r} is not a non-empty string")
        path = prefix + name
        if type(value) is dict or isinstance(value, Mapping):
            nested[0] += 1
            check_number(nested[0])
            result[name] = _checked(value, path + ".", seen, depth + 1, nested)
            continue
        if path in seen:
            raise EventError(f"attribute {path!r} is given twice: nested, and with a dot in its name")
        if path.partition(".")[0] in RESERVED:
            raise EventError(f"attribute {path!r} begins with a name that belongs to the event itself")
        seen.add(path)
        check_number(len(seen))
        result[name] = checked_value(path, value)
    return result


def _checked_seconds(what: str, seconds: float) -> float:
    try:
        seconds = float(seconds)
    except (TypeError, ValueError):
        raise EventError(f"{what} is {seconds!r}", hint="give seconds, 0, or tidings.FOREVER") from None
    if math.isnan(seconds) or seconds < 0:
        raise EventError(f"{what} is {seconds!r}", hint="give seconds, 0, or tidings.FOREVER")
    return seconds
