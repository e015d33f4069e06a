"""The global schema, who holds what of it, and what they call it.

Rules
- Classes make a tree; a class is addressed by its path (`Enterprise/Holder`). Properties of one class
  differ in more than the case of their letters, since `name.accuracy` is written in small ones.
- An organisation holds classes. A class that it holds has a name and property names of its own;
  what is not renamed has the global name. Properties that it does not list it does not hold.
- The possible producers of a class are the organisations that hold it or a class below it: a
  subscription to a class hears of the classes below it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import RESERVED
from tidings_quality.model import CHANGE, STATE, is_within, lineage


class DataClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of the global schema: its properties by kind, and the sets of objects below it."""

    name: str
    properties: dict[str, str]  # name to kind: string, number, boolean, timestamp
    key: str  # the property that tells objects apart
    children: tuple[DataClass, ...] = ()


KINDS = ("string", "number", "boolean", "timestamp")


class ClassHolding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class that an organisation holds, in its own words."""

    data_class: str = msgspec.field(name="class")  # path in the global schema
    local: str = ""  # its own name for the class; empty: the last part of the path
    properties: dict[str, str] = {}  # local name to global name; empty: all, under their global names

    @property
    def local_name(self) -> str:
        return self.local or self.data_class.rpartition("/")[2]


class OrganisationSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One member of the cooperation."""

    name: str
    holds: tuple[ClassHolding, ...] = ()
    capability: int = 2  # to how many others it can send at a time: its fan-out in diffusion trees
    url: str = ""  # where its service answers


class Schema(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Classes and organisations: what every member of the cooperation knows."""

    classes: tuple[DataClass, ...]
    organisations: tuple[OrganisationSchema, ...] = ()

    @cached_property
    def by_path(self) -> dict[str, DataClass]:
        return dict(_paths("", self.classes))

    @cached_property
    def by_name(self) -> dict[str, OrganisationSchema]:
        return {one.name: one for one in self.organisations}

    def data_class(self, path: str) -> DataClass:
        found = self.by_path.get(path)
        if found is None:
            raise InputError(f"no class {path!r} in the schema", hint=f"there are {', '.join(self.by_path)}")
        return found

    def organisation(self, name: str) -> OrganisationSchema:
        found = self.by_name.get(name)
        if found is None:
            raise InputError(f"no organisation {name!r}", hint=f"there are {', '.join(self.by_name)}")
        return found

    def producers(self, data_class: str, sources: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Organisations that can tell of objects of a class (of those named, if any are), in order."""
        return tuple(
            one.name
            for one in self.organisations
            if (sources is None or one.name in sources)
            and any(is_within(holding.data_class, data_class) for holding in one.holds)
        )

    def holding(self, organisation: str, data_class: str) -> ClassHolding:
        """Holding of a class at an organisation."""
        for holding in self.organisation(organisation).holds:
            if holding.data_class == data_class:
                return holding
        raise InputError(f"{organisation} does not hold {data_class}")

    def local_names(self, organisation: str, data_class: str) -> dict[str, str]:
        """Local names of properties to global ones."""
        holding = self.holding(organisation, data_class)
        return dict(holding.properties) or {name: name for name in self.data_class(data_class).properties}

    def to_global(self, organisation: str, data_class: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """An object's local values under their global names; what has none is left out."""
        names = self.local_names(organisation, data_class)
        return {names[local]: value for local, value in values.items() if local in names}

    def to_local(self, organisation: str, data_class: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Global values under an organisation's own names; what it does not hold is left out."""
        names = {its: local for local, its in self.local_names(organisation, data_class).items()}
        return {names[name]: value for name, value in values.items() if name in names}

    def key_of(self, data_class: str, values: Mapping[str, Any]) -> str:
        """The key of an object with these (global) values."""
        property = self.data_class(data_class).key
        if values.get(property) is None:
            raise InputError(f"an object of {data_class} without its key {property!r}")
        return str(values[property])

    def check(self) -> Schema:
        """The schema itself, when it makes sense."""
        for path, found in self.by_path.items():
            _check_class(path, found)
        for organisation in self.organisations:
            _check_organisation(self, organisation)
        if len(self.by_name) != len(self.organisations):
            raise InputError("two organisations have the same name")
        return self


def _paths(above: str, classes: tuple[DataClass, ...]) -> Iterator[tuple[str, DataClass]]:
    for one in classes:
        path = above + one.name
        yield path, one
        yield from _paths(path + "/", one.children)


def _check_class(path: str, found: DataClass) -> None:
    if not all(lineage(path)[0].split("/")):
        raise InputError(f"{path!r} is no name of a class")
    if found.key not in found.properties:
        raise InputError(f"the key {found.key!r} of {path} is none of its properties")
    if len({name.lower() for name in found.properties}) != len(found.properties):
        raise InputError(f"two properties of {path} differ in case only")
    for name, kind in found.properties.items():
        if kind not in KINDS:
            raise InputError(f"{path}.{name} is of kind {kind!r}", hint=f"there are {', '.join(KINDS)}")
        if name in RESERVED or name in (CHANGE, STATE) or "." in name:
            raise InputError(f"a property of {path} cannot be called {name!r}")


def _check_organisation(schema: Schema, organisation: OrganisationSchema) -> None:
    if organisation.capability < 1:
        raise InputError(
            f"{organisation.name} has a capability of {organisation.capability}", hint="1 or more"
        )
    for holding in organisation.holds:
        known = schema.data_class(holding.data_class).properties
        for local, name in holding.properties.items():
            if name not in known:
                raise InputError(
                    f"{organisation.name} maps {local!r} to {holding.data_class}.{name}: unknown"
                )


def read_schema(text: str | bytes) -> Schema:
    """A schema from JSON, checked."""
    try:
        return msgspec.json.decode(text, type=Schema).check()
    except UNREADABLE as error:
        raise InputError(f"this is no schema: {error}") from error


def write_schema(schema: Schema) -> bytes:
    """A schema as JSON."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=2)
