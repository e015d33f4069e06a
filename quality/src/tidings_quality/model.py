"""The D2Q model: data objects of classes in a hierarchy, and four numbers for each of their properties.

Rules
- A class is named by its path in the global schema, `Enterprise/Holder`. As an event's type that path
  comes first and its ancestors follow, so that `type IS A 'Enterprise'` hears of holders too.
- A property has four dimensions. A value of one is a number from 0 (worst) to 1 (best).
- A level is a band of values: low < medium < high. `low` is below 0.5, `medium` from 0.5 and below
  0.8, `high` from 0.8. Comparing with a level compares levels: `<= medium` is "below 0.8". As a number a
  level is the middle of its band.
- A change is one object, one property, one dimension. As an event it carries the object's property
  values under their own names, the new value under `property.dimension` in small letters
  (`name.accuracy`), the facts of the change under `change.` and, when known, the object's other
  values under `state.`.
- The event's source is the organisation, and its id is made of what changed and the `version` of the
  evaluation: a change that is told again after a restart is the same event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import msgspec

from tidings.errors import EventError, InputError
from tidings.model.event import Event, make_event


class Dimension(StrEnum):
    """Dimension of a property's quality."""

    ACCURACY = "accuracy"  # near to the true value
    COMPLETENESS = "completeness"  # there at all
    CURRENCY = "currency"  # young enough for how fast it changes
    CONSISTENCY = "consistency"  # in agreement with the rest of its object


class Level(StrEnum):
    """Named bands of values, from the worst to the best."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def floor(self) -> float:
        """The least value of the band."""
        return _FLOORS[self]

    @property
    def ceiling(self) -> float | None:
        """The first value above the band; None for the highest."""
        above = [level for level in Level if level.floor > self.floor]
        return above[0].floor if above else None

    @property
    def middle(self) -> float:
        """The value that stands for the level."""
        return round((self.floor + (1.0 if self.ceiling is None else self.ceiling)) / 2, 12)


_FLOORS = {Level.LOW: 0.0, Level.MEDIUM: 0.5, Level.HIGH: 0.8}

CHANGE = "change"  # attributes with the facts of a change: object, property, dimension, value, level, before
STATE = "state"  # attributes with all values of the object as they stand, where the producer knows them

# The Spark table of qualities: one row for each object, property and dimension.
QUALITY_COLUMNS: tuple[tuple[str, str], ...] = (
    ("class", "string"),  # path in the global schema
    ("source", "string"),  # the organisation
    ("object", "string"),  # the object's key
    ("property", "string"),  # its name in the global schema
    ("dimension", "string"),
    ("value", "double"),
    ("version", "string"),  # of the evaluation that found the value
    ("time", "timestamp"),  # when it was found
)
QUALITY_TABLE = ", ".join(f"`{name}` {kind}" for name, kind in QUALITY_COLUMNS)


def level_of(value: float) -> Level:
    """The band that a value lies in."""
    return next(level for level in reversed(Level) if value >= level.floor)


def quality_value(value: float | str) -> float:
    """A number from 0 to 1, from a number or the name of a level."""
    if isinstance(value, str):
        if value.lower() not in list(Level):
            raise InputError(f"{value!r} is no level of quality", hint="low, medium, high, or 0 to 1")
        return Level(value.lower()).middle
    if isinstance(value, bool) or not 0 <= value <= 1:
        raise InputError(f"a quality of {value!r}", hint="give a number from 0 (worst) to 1 (best)")
    return float(value)


def dimension_of(name: str) -> Dimension:
    """A dimension by its name in any case."""
    if name.lower() not in list(Dimension):
        raise InputError(f"{name!r} is no dimension of quality", hint=", ".join(Dimension))
    return Dimension(name.lower())


def quality_attribute(property: str, dimension: str) -> str:
    """The attribute that holds the value of a property's dimension: `name.accuracy`."""
    return f"{property.lower()}.{dimension_of(dimension)}"


def lineage(data_class: str) -> tuple[str, ...]:
    """The path of a class and those of its ancestors: the type of an event."""
    parts = data_class.split("/")
    return tuple("/".join(parts[:length]) for length in range(len(parts), 0, -1))


def is_within(data_class: str, ancestor: str) -> bool:
    """Is it this class or one below it?"""
    return data_class == ancestor or data_class.startswith(ancestor + "/")


class DataObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a class, with the quality of its properties and the objects below it."""

    data_class: str = msgspec.field(name="class")
    key: str
    values: dict[str, Any] = {}
    quality: dict[str, dict[str, float]] = {}  # property, then dimension
    children: tuple[DataObject, ...] = ()

    def qualities(self) -> Iterator[tuple[str, Dimension, float]]:
        """Values of the object itself (not its children's), in the order of properties and dimensions."""
        for property, found in self.quality.items():
            for dimension in Dimension:
                if dimension in found:
                    yield property, dimension, quality_value(found[dimension])

    def walk(self) -> Iterator[DataObject]:
        """The object and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


class QualityChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of one dimension of one property of one object is another one now."""

    data_class: str = msgspec.field(name="class")
    source: str  # the organisation whose object it is
    object: str  # its key
    property: str
    dimension: str
    value: float
    version: str  # of the evaluation: the same change told again has the same one
    values: dict[str, Any] = {}  # the object's properties
    before: float | None = None  # None: it was not known
    state: dict[str, float] = {}  # `name.accuracy` and so on, all of the object's; empty: not known
    time: datetime | None = None

    def attribute(self) -> str:
        return quality_attribute(self.property, self.dimension)

    def subject(self) -> str:
        """What changed: equal for all versions. The event's superseding key."""
        parts = (self.data_class, self.object, self.attribute())
        return ":".join(quote(part, safe="/ .") for part in parts)

    def as_event(self, *, lifetime: float = 0.0) -> Event:
        """The change as an event of its organisation."""
        value = quality_value(self.value)
        facts = {
            "object": self.object, "property": self.property, "dimension": str(dimension_of(self.dimension)),
            "value": value, "level": str(level_of(value)), "before": self.before, "version": self.version,
        }  # fmt: skip
        attributes = {**checked_properties(self.values), self.attribute(): value, CHANGE: facts}
        if self.state:
            attributes[STATE] = dict(self.state)
        return make_event(
            attributes, source=self.source, id=f"{self.subject()}:{quote(self.version)}",
            type=lineage(self.data_class), time=self.time, lifetime=lifetime, key=self.subject(),
        )  # fmt: skip


def checked_properties(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in values:
        if name in (CHANGE, STATE):
            raise InputError(f"a property cannot be called {name!r}: events of changes use that name")
    return values


def change_of(event: Event) -> QualityChange:
    """The change that an event tells of. Raises `EventError`."""
    try:
        return _change_of(event, event.attributes[CHANGE])
    except (LookupError, TypeError, ValueError, InputError) as error:
        raise EventError(
            f"event {event.id} of {event.source} tells of no change of quality: {error}"
        ) from None


def _change_of(event: Event, facts: Mapping[str, Any]) -> QualityChange:
    property, dimension = str(facts["property"]), dimension_of(str(facts["dimension"]))
    attribute = quality_attribute(property, dimension)
    if event.attributes[attribute] != facts["value"]:
        raise InputError(f"it says {attribute} twice, differently")
    values = {name: v for name, v in event.attributes.items() if name not in (CHANGE, STATE, attribute)}
    return QualityChange(
        event.type[0], event.source, str(facts["object"]), property, str(dimension),
        quality_value(facts["value"]), str(facts["version"]), values, facts.get("before"),
        dict(event.attributes.get(STATE, {})), event.time,
    )  # fmt: skip
