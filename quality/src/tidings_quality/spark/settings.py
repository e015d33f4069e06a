"""Plan of a factory: a TOML file, or the same as values.

  organisation = "INPS"                a name of its own
  class = "Enterprise/Holder"          what the rows are objects of
  table = "holders"                    folder of Parquet; a later row of a key replaces an earlier one
  key = "id"                           column that names the object
  updated = "updated"                  timestamp: orders the versions of an object, and ages its values
  state = "quality"                    folder that remembers what was found
  [properties.Name]                    a property, with `column` (its own name by default), and what is
  measured [rules.NAME]                         of = [properties], check = "a Spark SQL condition"
  [dependencies.NAME]                  of = [properties], from = [columns], to = [columns]

Every key is known or an error; relative paths are relative to the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from tidings.errors import SettingsError
from tidings.security.reading import read_toml
from tidings_quality.spark.measures import ACCURACY, COMPLETENESS, CONSISTENCY, CURRENCY

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?(second|minute|hour|day|year)s?")
_MICROS: Final = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86_400 * 10**6,
                  "year": 365 * 86_400 * 10**6}  # fmt: skip
MISSING: Final = ("",)  # texts that stand for a missing value


class Reference(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Reference of right values: a table with the objects' keys."""

    table: str
    key: str
    column: str


class ColumnDomain(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The values that are possible: listed, or a column of a table."""

    values: tuple[str, ...] = ()
    table: str = ""
    column: str = ""


class MeasuredProperty(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    column: str = ""
    parts: tuple[str, ...] = ()  # columns that make up the property; its completeness is their share
    missing: tuple[str, ...] = MISSING
    inapplicable: str = ""  # Spark SQL: where this holds, no value is to be there
    reference: Reference | None = None
    domain: ColumnDomain | None = None
    volatility: str = ""  # after this time a value is worthless

    @property
    def volatility_micros(self) -> int:
        found = _DURATION.fullmatch(self.volatility)
        return round(float(found[1]) * _MICROS[found[2]]) if found else 0


class QualityRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    of: tuple[str, ...]
    check: str


class Dependency(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Rows that are equal in `from` should be equal in `to`."""

    of: tuple[str, ...]
    determining: tuple[str, ...] = msgspec.field(name="from")
    determined: tuple[str, ...] = msgspec.field(name="to")


class FactoryPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Plan of one factory."""

    organisation: str
    data_class: str = msgspec.field(name="class")
    key: str
    properties: dict[str, MeasuredProperty]
    table: str = ""
    state: str = ""
    updated: str = ""
    deleted: str = ""  # boolean column: the object is gone
    digits: int = 3  # of a quality that is kept and told; a smaller change is none
    adopts: bool = True  # better values that others propose are taken over
    announce_new: bool = False  # the first values of an object count as changes
    rules: dict[str, QualityRule] = {}
    dependencies: dict[str, Dependency] = {}

    def column(self, name: str) -> str:
        return self.properties[name].column or name

    def measured(self) -> list[tuple[str, str]]:
        """(property, dimension) of everything that is measured, in the order of the file."""
        found = []
        for name, each in self.properties.items():
            if each.reference is not None or each.domain is not None:
                found.append((name, ACCURACY))
            found.append((name, COMPLETENESS))
            if each.volatility:
                found.append((name, CURRENCY))
            of = [rule.of for rule in self.rules.values()] + [each.of for each in self.dependencies.values()]
            if any(name in properties for properties in of):
                found.append((name, CONSISTENCY))
        return found

    def digest(self) -> str:
        """Digest of all that decides the values: a state is only good for the plan that made it."""
        content = _moved(self, lambda path: Path(path).name, table="", state="")
        content = msgspec.structs.replace(content, adopts=True)
        return blake2b(msgspec.json.encode(content), digest_size=16).hexdigest()


def read_plan(file: Path | str) -> FactoryPlan:
    """The plan of a file; any error in it is a `SettingsError`."""
    file = Path(file)
    try:
        plan = msgspec.convert(read_toml(file), FactoryPlan)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{file}: {error}", hint="see quality/docs/quality.md") from None
    check_plan(plan, str(file))
    return _anchored(plan, file.parent)


def check_plan(plan: FactoryPlan, where: str = "the plan") -> None:
    """Names lead somewhere, and what is asked for can be measured."""
    for table in ("rules", "dependencies"):
        for name, rule in getattr(plan, table).items():
            for of in rule.of:
                if of not in plan.properties:
                    raise SettingsError(f"{where}: [{table}.{name}] is of {of!r}, which is no property")
    for name, each in plan.properties.items():
        if each.reference is not None and each.domain is not None:
            raise SettingsError(
                f"{where}: [properties.{name}] has a reference and a domain", hint="give one of them"
            )
        if each.volatility and not each.volatility_micros:
            raise SettingsError(
                f"{where}: [properties.{name}] {each.volatility!r} is no time", hint="as in '90 days'"
            )
        if each.volatility and not plan.updated:
            raise SettingsError(
                f"{where}: [properties.{name}] has a volatility",
                hint="name the timestamp's column: updated = ...",
            )
        if each.domain is not None and bool(each.domain.values) == bool(each.domain.table):
            raise SettingsError(f"{where}: [properties.{name}] its domain has either values or a table")


def _anchored(plan: FactoryPlan, folder: Path) -> FactoryPlan:
    def path(text: str) -> str:
        return text if not text or "://" in text else str((folder / text).resolve())

    return _moved(plan, path, table=path(plan.table), state=path(plan.state))


def _moved(plan: FactoryPlan, path: Callable[[str], str], *, table: str, state: str) -> FactoryPlan:
    """The plan with its tables in another folder."""

    def own(each: MeasuredProperty) -> MeasuredProperty:
        reference, domain = each.reference, each.domain
        if reference is not None:
            reference = msgspec.structs.replace(reference, table=path(reference.table))
        if domain is not None:
            domain = msgspec.structs.replace(domain, table=path(domain.table))
        return msgspec.structs.replace(each, reference=reference, domain=domain)

    properties = {name: own(each) for name, each in plan.properties.items()}
    return msgspec.structs.replace(plan, table=table, state=state, properties=properties)
