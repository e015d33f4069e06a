"""From tables of TOML to frozen structs, with errors that name the place.

Rules
- An unknown key is an error that names the nearest known one.
- A value of the wrong type is an error that names key, type wanted and what was found, but never
  repeats the value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidings.errors import SettingsError

T = TypeVar("T")


def parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also a number of more digits than Python reads
        raise SettingsError(f"{where} is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{where} is nested too deeply") from None


def read_toml(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(file.read_text(encoding="utf-8"), str(file))
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not text in UTF-8") from None


def checked(kind: type[T], given: Any, where: str) -> T:
    """The struct that a table stands for."""
    table = checked_table(given, where)
    names = kind.__struct_fields__  # type: ignore[attr-defined]
    refuse_unknown(table, names, where)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {_without_value(str(error))}") from None


def checked_table(given: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where} is no table", hint="a table of TOML begins with [name]")
    return given


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """The first unknown key is an error."""
    known = list(known)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
            raise SettingsError(f"{where} has no {name!r}", hint=hint)


def _without_value(problem: str) -> str:
    """msgspec says `Expected int, got str - at $.x`; for enums it repeats the value, which we drop."""
    reason, _, path = problem.partition(" - at `$")
    what = "an unknown choice" if reason.startswith("Invalid") else reason[:1].lower() + reason[1:]
    return f"{path.rstrip('`').lstrip('.') or 'it'}: {what}"
