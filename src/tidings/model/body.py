"""The body of an event: values as programs have them, as they travel, and as filters see them.

Rules
- A body is any JSON-like mapping. Booleans, 64-bit integers, doubles, text, timestamps, bytes, None, lists
  and mappings travel as MessagePack has them. Decimals, UUIDs, dates, times of day, datetimes without a
  zone, wider integers and durations travel as MessagePack extensions, whose codes never change.
- An enumeration travels as its value, a tuple or a set as a list, a timestamp in UTC.
- A body is *rich* when it holds more than booleans, numbers, text, timestamps and mappings of these, or a
  field with a name of the envelope. A body that is not rich is the same in all three forms.
- Filters see a decimal and a wide integer as an exact number, a UUID and a time of day as text, a date and a
  datetime without a zone as a timestamp in UTC, and a list as a tuple. Bytes and durations exist, without a
  value.
- A field with a name of the envelope is `data.NAME` for a filter, unless the body has an object `data` with
  it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from sys import modules
from typing import Any
from uuid import UUID

from msgspec.msgpack import Ext

from tidings.errors import EventError
from tidings.model.fields import DATA, RESERVED, as_mapping, as_text, is_root_model
from tidings.model.textual import as_text_with_fold, clock_from, local_from
from tidings.model.value import INT_MAX, INT_MIN, checked_text, checked_time, is_null

MAX_ATTRIBUTES = 1024
MAX_NESTING = 64
MAX_ITEMS = 65_536  # elements of all lists of an event
LONGEST_NUMBER = 4096  # digits of a decimal or of a wide integer, its exponent's zeros included

HAS_LIST = "type.lists"  # where filters see that an event has a list; no attribute can have this name

DECIMAL, UNIQUE, DATE, CLOCK, LOCAL, INTEGER, DURATION = range(1, 8)  # codes of the extensions
_MICROSECOND = timedelta(microseconds=1)


class Opaque:
    """Value that exists for a filter and compares with nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OPAQUE"

    def __reduce__(self) -> str:
        return "OPAQUE"


OPAQUE = Opaque()

# From the values of programs to those that travel


class _Packing:
    """One body on its way: the names and elements so far, and whether it is rich."""

    __slots__ = ("items", "mappings", "rich", "seen")

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.mappings = 0
        self.items = 0
        self.rich = False

    def mapping(self, mapping: Mapping[Any, Any], prefix: str, depth: int) -> dict[str, Any]:
        if depth > MAX_NESTING:
            raise EventError(f"attributes nested {depth} deep; the most is {MAX_NESTING}")
        result: dict[str, Any] = {}
        for key, value in mapping.items():
            name = key if type(key) is str else _name(key)
            path = prefix + name
            checked_text(path, name)
            if type(value) not in _PACKERS:
                value = _plain(path, value)
            if type(value) is dict or isinstance(value, Mapping):
                self.mappings += 1
                check_number(self.mappings)
                result[name] = self.mapping(value, path + ".", depth + 1)
                continue
            if path in self.seen:
                raise _given_twice(path)
            self.seen.add(path)
            check_number(len(self.seen))
            result[name] = self.value(path, value, depth)
        if len(result) < len(mapping):  # keys that are the same text
            names = [_name(key) for key in mapping]
            raise _given_twice(prefix + next(name for name in names if names.count(name) > 1))
        return result

    def value(self, path: str, value: Any, depth: int) -> Any:
        """A plain value; of a list its elements."""
        if type(value) in _LISTS:
            return self.list(path, value, depth + 1)
        packed = _PACKERS[type(value)](path, value)
        self.rich = self.rich or type(packed) is Ext or type(packed) is bytes
        return packed

    def list(self, path: str, values: Any, depth: int) -> list[Any]:
        if depth > MAX_NESTING:
            raise EventError(f"attribute {path!r} is nested {depth} deep; the most is {MAX_NESTING}")
        self.rich = True
        self.items += len(values)
        if self.items > MAX_ITEMS:
            raise EventError(f"the lists of an event have {self.items} elements; the most is {MAX_ITEMS}")
        return [self.item(path, value, depth) for value in values]

    def item(self, path: str, value: Any, depth: int) -> Any:
        if type(value) not in _PACKERS:
            value = _plain(path, value)
        if not isinstance(value, Mapping):
            return self.value(path, value, depth)
        self.items += len(value)
        if self.items > MAX_ITEMS:
            raise EventError(f"the lists of an event have {self.items} elements; the most is {MAX_ITEMS}")
        inside = _Packing()
        inside.items = self.items
        packed = inside.mapping(value, path + ".", depth + 1)
        self.items = inside.items
        return packed


def packed_body(mapping: Mapping[Any, Any]) -> tuple[dict[str, Any], bool]:
    """A private, checked copy of a mapping in the form that travels, and whether it is rich."""
    packing = _Packing()
    body = packing.mapping(mapping, "", 1)
    return body, packing.rich or any(name.partition(".")[0] in RESERVED for name in body)


def is_rich(body: Mapping[str, Any]) -> bool:
    """Does a body in the form that travels hold more than flat values? For one whose mark may be lost."""
    for name, value in body.items():
        if type(value) in _MORE or name in RESERVED or ("." in name and name.partition(".")[0] in RESERVED):
            return True
        if type(value) is dict and _holds_more(value):
            return True
    return False


def _holds_more(body: Mapping[str, Any]) -> bool:
    return any(
        type(value) in _MORE or (type(value) is dict and _holds_more(value)) for value in body.values()
    )


_MORE = frozenset({list, bytes, Ext})


def _given_twice(path: str) -> EventError:
    return EventError(
        f"attribute {path!r} is given twice: nested and with a dot in its name, or by two keys of one text",
        hint="rename one of the two",
    )


def is_list_of_values(value: Any) -> bool:
    """Is this a list that an event can hold, within the limits? For data that may have others."""
    try:
        return type(value) is list and bool(_Packing().list("", value, 1) or True)
    except (EventError, RecursionError):
        return False


def check_number(number: int) -> None:
    """Refuse attributes above the limit, before more are read. Raises `EventError`."""
    if number > MAX_ATTRIBUTES:
        raise EventError(f"an event of {number} attributes or more; the most is {MAX_ATTRIBUTES}")


def _name(key: Any) -> str:
    """A key of a mapping as a name: JSON has text alone."""
    if isinstance(key, Enum):
        return _name(key.value)
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int | UUID | date) and not isinstance(key, bool):
        return str(key)
    raise EventError(f"attribute name {key!r} is no text", hint="give a str, int, UUID, date or Enum")


def _text(path: str, value: str) -> str:
    return checked_text(path, value)


def _integer(path: str, value: int) -> Any:
    if INT_MIN <= value <= INT_MAX:
        return value
    if value.bit_length() > 3 * LONGEST_NUMBER:
        raise EventError(f"attribute {path!r} is an integer of more than {LONGEST_NUMBER} digits")
    return Ext(INTEGER, str(value).encode())


def _decimal(path: str, value: Decimal) -> Ext:
    if value.is_snan():
        raise EventError(f"attribute {path!r} is a signalling NaN", hint="give None or Decimal('NaN')")
    if value.is_finite() and _length(value) > LONGEST_NUMBER:
        raise EventError(f"attribute {path!r} is a decimal of more than {LONGEST_NUMBER} digits")
    return Ext(DECIMAL, str(value).encode())


def _moment(_path: str, value: datetime) -> Any:
    return Ext(LOCAL, as_text_with_fold(value).encode()) if value.tzinfo is None else checked_time(value)


def _clock(path: str, value: time) -> Ext:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise EventError(
            f"attribute {path!r} is a time of day in {value.tzinfo}, whose offset depends on the day",
            hint="give a datetime, or the time without a zone and the zone's name in a field of its own",
        )
    return Ext(CLOCK, as_text_with_fold(value).encode())


def _extension(_path: str, value: Ext) -> Ext:
    """An extension that came over the wire; one that this version knows must be readable."""
    if type(unpacked_value(value)) is Ext and value.code in _READERS:
        raise EventError(f"an attribute holds an extension of code {value.code} that cannot be read")
    return value


def _same(_path: str, value: Any) -> Any:
    return value


_PACKERS: dict[type, Callable[[str, Any], Any]] = {
    str: _text, int: _integer, float: _same, bool: _same, type(None): _same, bytes: _same, datetime: _moment,
    Decimal: _decimal, UUID: lambda _path, value: Ext(UNIQUE, value.bytes),
    date: lambda _path, value: Ext(DATE, value.isoformat().encode()),
    time: _clock,
    timedelta: lambda _path, value: Ext(DURATION, str(value // _MICROSECOND).encode()),
    bytearray: lambda _path, value: bytes(value), memoryview: lambda _path, value: bytes(value),
    Ext: _extension,
}  # fmt: skip
_LISTS = frozenset({list, tuple})
_SUBCLASSES: tuple[Any, ...] = (bool, int, float, str, bytes, Decimal)


def _is_gap(value: Any) -> bool:
    """An absent moment or value of pandas, which is not imported for this."""
    pandas = modules.get("pandas")
    return pandas is not None and (value is getattr(pandas, "NaT", None) or value is pandas.NA)


def _plain(path: str, value: Any) -> Any:
    """A value of another type (an enumeration, a dataclass, a NumPy number) as the plain one that it
    stands for."""
    if type(value) in _LISTS or isinstance(value, Mapping):
        return value
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)  # the same in every process
    if isinstance(value, Enum):
        return value.value if type(value.value) in _PACKERS else _plain(path, value.value)
    fields = as_mapping(value)
    if fields is not None and is_root_model(type(value)):
        root = fields["root"]
        return root if type(root) in _PACKERS else _plain(path, root)
    if fields is not None:
        return fields
    if isinstance(value, list | tuple | deque):
        return list(value)
    for plain in _SUBCLASSES:
        if isinstance(value, plain):
            return plain(value)
    if _is_gap(value):
        return None
    if isinstance(value, datetime):
        return datetime.fromisoformat(value.isoformat())
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, time):
        return time.fromisoformat(value.isoformat())
    if isinstance(value, timedelta):
        return timedelta(value.days, value.seconds, value.microseconds)
    if isinstance(value, UUID):
        return UUID(bytes=value.bytes)
    return _from_other(path, value)


def _from_other(path: str, value: Any) -> Any:
    shape = getattr(value, "shape", None)
    simple = getattr(value, "item" if shape == () else "tolist", None)
    if shape is not None and callable(simple):  # NumPy
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        found = _in_microseconds(path, value) if kind in ("M", "m") else simple()
        if type(found) in _PACKERS or type(found) in _LISTS:
            return found
    if callable(getattr(value, "get_secret_value", None)):  # Pydantic: its text is a row of asterisks
        raise EventError(
            f"attribute {path!r} is a {type(value).__name__}, which hides its value",
            hint="publish its get_secret_value() if the event may carry the secret, or leave the field out",
        )
    text = as_text(value)
    if text is not None:
        return text
    raise EventError(
        f"attribute {path!r} is a {type(value).__name__}",
        hint="attributes are JSON-like: bool, int, float, str, bytes, None, Decimal, UUID, dates and times, "
        "lists and mappings of these; put anything else in payload=",
    )


def _in_microseconds(path: str, value: Any) -> Any:
    """A moment or a duration of NumPy, or an array of these: of nanoseconds NumPy itself gives an integer,
    and beyond Python's calendar too."""
    numpy = modules["numpy"]
    unit, _ = numpy.datetime_data(value.dtype)
    gap = bool(numpy.isnat(value).all())
    if value.dtype.kind == "m" and unit in ("Y", "M") and not gap:
        period = "years" if unit == "Y" else "months"
        raise EventError(
            f"attribute {path!r} is a duration of {period}, which have no length",
            hint="give days, or the number in a field of its own",
        )
    made = value.astype(f"{value.dtype.kind}8[us]")
    found = made.tolist()
    is_finer = unit in ("ns", "ps", "fs", "as")
    is_same = is_finer or bool(((made.astype(value.dtype) == value) | numpy.isnat(value)).all())
    if not is_same or any(type(each) is int for each in made.ravel().tolist()):
        raise EventError(
            f"attribute {path!r} is {value}, beyond the moments and durations of Python",
            hint="give a moment of the years 1 to 9999, or the number",
        )
    return found


# From the values that travel to those of programs


PLAIN_KINDS = frozenset({str, int, float, bool, type(None)})  # they travel as they are, and never change


def unpacked_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body that travelled as the values that were published; nothing in it is shared with the body."""
    return {
        name: value if type(value) in PLAIN_KINDS else unpacked_value(value) for name, value in body.items()
    }


def unpacked_value(value: Any) -> Any:
    """A value that travelled as the one that was published; a list or a mapping is a new one."""
    kind = type(value)
    if kind is dict:
        return unpacked_body(value)
    if kind is list:
        return [item if type(item) in PLAIN_KINDS else unpacked_value(item) for item in value]
    if kind is not Ext:
        return value
    read = _READERS.get(value.code)
    if read is None:
        return value  # of a younger version
    try:
        return read(bytes(value.data))
    except (ValueError, UnicodeDecodeError, InvalidOperation, OverflowError):
        return value


def _long_integer(data: bytes) -> int:
    if len(data) > LONGEST_NUMBER + 1:
        raise ValueError("too long")
    return int(data)


def _exact_decimal(data: bytes) -> Decimal:
    if len(data) > 2 * LONGEST_NUMBER:
        raise ValueError("too long")
    value = Decimal(data.decode("ascii"))
    if value.is_snan() or (value.is_finite() and _length(value) > LONGEST_NUMBER):
        raise ValueError("no number that events hold")
    return value


def _length(number: Decimal) -> int:
    """Digits of a decimal, the zeros of its exponent included."""
    digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
    return max(digits, digits + exponent, -exponent)


_READERS: dict[int, Callable[[bytes], Any]] = {
    DECIMAL: _exact_decimal,
    UNIQUE: lambda data: UUID(bytes=data),
    DATE: lambda data: date.fromisoformat(data.decode("ascii")),
    CLOCK: lambda data: clock_from(data.decode("ascii")),
    LOCAL: lambda data: local_from(data.decode("ascii")),
    INTEGER: _long_integer,
    DURATION: lambda data: timedelta(microseconds=int(data[:32])),
}

# From the values that travel to those that filters see


def seen_body(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Flat names to the values that filters see, NULLs left out: of a rich body, unpacked."""
    view: dict[str, Any] = {}
    inner: set[str] = set()  # paths of the body's own object `data`, NULLs too: they keep their meaning
    for name, value in attributes.items():
        if name.partition(".")[0] not in RESERVED:
            view.update(_flat(name, value))
        if name.partition(".")[0] == DATA:
            inner.update(_paths(name, value))
    for name, value in attributes.items():
        if name.partition(".")[0] in RESERVED:
            own = _flat(f"{DATA}.{name}", value)
            view.update((path, shown) for path, shown in own if path not in inner)
    if any(type(value) is tuple for value in view.values()):
        view[HAS_LIST] = True
    return view


def _paths(path: str, value: Any) -> Iterator[str]:
    yield path
    if type(value) is dict:
        for name, item in value.items():
            yield from _paths(f"{path}.{name}", item)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) is dict:
        for name, item in value.items():
            yield from _flat(f"{path}.{name}", item)
        return
    shown = seen_value(value)
    if shown is not None:
        yield path, shown


def seen_value(value: Any) -> Any:
    """A value as filters see it; None for NULL. A list is a tuple, an object in it a flat mapping."""
    kind = type(value)
    if kind in _ALIKE:
        return None if is_null(value) else value
    if kind is list or kind is tuple:
        return tuple(map(seen_value, value))
    if kind is dict:
        return {path: shown for name, item in value.items() for path, shown in _flat(name, item)}
    if kind is Decimal:
        return None if value.is_nan() else value
    if kind is datetime:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    if kind is date:
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if kind is UUID:
        return str(value)
    return value.isoformat() if kind is time else OPAQUE


_ALIKE = frozenset({bool, int, float, str, type(None)})

__all__ = [
    "DATA", "HAS_LIST", "MAX_ATTRIBUTES", "MAX_ITEMS", "MAX_NESTING", "OPAQUE", "PLAIN_KINDS", "RESERVED",
    "check_number", "is_list_of_values", "is_rich", "packed_body", "seen_body", "seen_value", "unpacked_body",
    "unpacked_value",
]  # fmt: skip
