"""Flows as data: a pipeline is a TOML file of sources, subscriptions, matches, sinks and schedules.

Rules
- Every key is known or an error, every value has its type or an error, and every error says where in
  the file it is. Names in `matches` and `sinks` must lead somewhere.
- Relative paths are relative to the file. `${name}` in a text is a parameter: its default stands in
  `[parameters]`, and a run may give another value.
- The kinds of sources and sinks are a registry (`flow_kinds.py`), so that more kinds can be added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tidings.errors import SettingsError
from tidings.security.reading import parse_toml

_PARAMETER: Final = re.compile(r"\$\{([^}]*)\}")
_HEADER: Final = re.compile(r"^\s*\[\s*([^\]]+?)\s*\]")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?(milliseconds?|seconds?|minutes?|hours?|days?)")


class MatchStep(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Events of a source against a table of subscriptions."""

    events: str
    subscriptions: str
    output: Literal["lists", "pairs"] = "pairs"
    keep: list[str] | None = None  # columns of the events in the answer; all
    casts: dict[str, str] = {}
    unmatched: bool = False  # with output "lists": also events without a match
    schedule: str | None = None


class Schedule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Trigger of a match: when it looks for new events."""

    every: str


class FlowPart(msgspec.Struct):
    """A source, a table of subscriptions or a sink: its kind and that kind's own settings."""

    kind: str
    settings: Any
    of: str = ""  # of a sink: the match that gives its rows


class Flow(msgspec.Struct, kw_only=True):
    name: str
    file: Path
    checkpoint: str
    sources: dict[str, FlowPart]
    subscriptions: dict[str, FlowPart]
    matches: dict[str, MatchStep]
    sinks: dict[str, FlowPart]
    schedules: dict[str, Schedule] = {}
    parameters: dict[str, str] = {}

    def sinks_of(self, match: str) -> dict[str, FlowPart]:
        return {name: sink for name, sink in self.sinks.items() if sink.of == match}

    def every(self, match: str) -> str | None:
        schedule = self.matches[match].schedule
        return None if schedule is None else self.schedules[schedule].every


TABLES: Final = ("sources", "subscriptions", "matches", "sinks", "schedules")
TOP: Final = ("name", "checkpoint", "parameters", *TABLES)


def read_flow(file: Path | str, parameters: Mapping[str, str] | None = None) -> Flow:
    """The flow of a file; every error in it is a `SettingsError` with its place."""
    file = Path(file)
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: not a text", hint="a flow is a TOML file in UTF-8") from None
    return _FlowReader(file, text, dict(parameters or {})).flow()


class _FlowReader:
    def __init__(self, file: Path, text: str, given: dict[str, str]) -> None:
        self._file, self._text, self._given = file, text, given

    def flow(self) -> Flow:
        whole = parse_toml(self._text, str(self._file))
        self._known(whole, TOP, ())
        parameters = self._parameters(whole.pop("parameters", {}))
        whole = self._filled(whole, parameters, ())
        for name in ("name", "checkpoint"):
            if not isinstance(whole.get(name), str):
                raise self._wrong(
                    (), name, f"{name!r} is missing" if name not in whole else f"{name!r} is no text"
                )
        tables = {name: self._table(whole, name) for name in TABLES}
        flow = Flow(
            name=whole["name"],
            file=self._file,
            checkpoint=self._path(whole["checkpoint"]),
            sources=self._parts(tables["sources"], "sources"),
            subscriptions=self._parts(tables["subscriptions"], "subscriptions"),
            matches=self._all(tables["matches"], "matches", MatchStep),
            sinks=self._parts(tables["sinks"], "sinks"),
            schedules=self._all(tables["schedules"], "schedules", Schedule),
            parameters=parameters,
        )
        self._joined(flow)
        return flow

    # Its parts

    def _parameters(self, defaults: Any) -> dict[str, str]:
        if not isinstance(defaults, dict) or not all(isinstance(value, str) for value in defaults.values()):
            raise self._wrong(("parameters",), None, "every parameter is a text")
        for name in self._given:
            if name not in defaults:
                raise SettingsError(
                    f"{self._file}: the flow has no parameter {name!r}", hint=_near(name, defaults) or None
                )
        return {**defaults, **self._given}

    def _filled(self, value: Any, parameters: Mapping[str, str], path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(each, parameters, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, parameters, path) for each in value]
        if not isinstance(value, str):
            return value
        for name in _PARAMETER.findall(value):
            if name not in parameters:
                raise self._wrong(
                    path[:-1], path[-1], f"no parameter is called {name!r}", _near(name, parameters)
                )
        return _PARAMETER.sub(lambda found: parameters[found[1]], value)

    def _table(self, whole: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
        found = whole.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise self._wrong((name,), None, f"[{name}.NAME] is a table with a name of its own")
        if not found and name != "schedules":
            raise SettingsError(f"{self._file}: the flow has no [{name}.NAME]", hint="see docs/flows.md")
        for each in found:
            if not _NAME.fullmatch(each):
                raise self._wrong((name, each), None, "a name is made of letters, digits, - and _")
        return found

    def _parts(self, table: dict[str, dict[str, Any]], name: str) -> dict[str, FlowPart]:
        from tidings.pipeline.flow_kinds import KINDS

        kinds = KINDS[name]
        parts: dict[str, FlowPart] = {}
        for own, values in table.items():
            path = (name, own)
            kind = values.pop("kind", None)
            if kind not in kinds:
                problem = "'kind' is missing" if kind is None else f"no kind of {name} is called {kind!r}"
                near = _near(str(kind), kinds) if kind is not None else ""
                raise self._wrong(path, "kind", problem, near or f"there are: {', '.join(kinds)}")
            of = values.pop("of", "") if name == "sinks" else ""
            settings = self._one(values, path, kinds[kind].settings)
            for key in kinds[kind].paths:
                setattr(settings, key, self._path(getattr(settings, key)))
            parts[own] = FlowPart(kind, settings, of)
        return parts

    def _all(self, table: dict[str, dict[str, Any]], name: str, shape: type[Any]) -> dict[str, Any]:
        return {own: self._one(values, (name, own), shape) for own, values in table.items()}

    def _one(self, values: dict[str, Any], path: tuple[str, ...], shape: type[Any]) -> Any:
        self._known(values, shape.__struct_fields__, path)
        try:
            return msgspec.convert(values, shape)
        except msgspec.ValidationError as error:
            problem, _, location = str(error).partition(" - at `$.")
            key = re.split(r"[.\[`]", location)[0]
            if not key:  # a missing key is an error of the whole table
                raise self._wrong(path, None, _plain(problem)) from None
            raise self._wrong(path, key, f"{key!r}: {_plain(problem)}") from None

    def _joined(self, flow: Flow) -> None:
        """Every name leads somewhere, and every match has a sink."""
        for name, match in flow.matches.items():
            for key, known in (("events", flow.sources), ("subscriptions", flow.subscriptions)):
                self._leads("matches", name, key, getattr(match, key), known)
            if match.schedule is not None:
                self._leads("matches", name, "schedule", match.schedule, flow.schedules)
            if not flow.sinks_of(name):
                raise self._wrong(
                    ("matches", name), None, "no sink takes its rows", "add a [sinks.NAME] of it"
                )
        for name, sink in flow.sinks.items():
            self._leads("sinks", name, "of", sink.of, flow.matches)
        for name, schedule in flow.schedules.items():
            if not _DURATION.fullmatch(schedule.every):
                raise self._wrong(
                    ("schedules", name), "every", f"{schedule.every!r} is no time", "as in '10 seconds'"
                )
        for one, other, path in _twice(flow):
            raise self._wrong(("sinks", other), "path", f"{path} is also the output of the sink {one!r}")

    def _leads(self, table: str, name: str, key: str, value: str, known: Mapping[str, Any]) -> None:
        if value not in known:
            where = {"events": "sources", "of": "matches", "schedule": "schedules"}.get(key, key)
            problem = f"{key!r} is missing" if not value else f"{key!r}: there is no [{where}.{value}]"
            raise self._wrong((table, name), key, problem, _near(value, known))

    def _known(self, values: Mapping[str, Any], fields: Iterable[str], path: tuple[str, ...]) -> None:
        known = list(fields)
        for key in values:
            if key not in known:
                hint = _near(key, known) or f"known are: {', '.join(known)}"
                raise self._wrong(path, key, f"unknown key {key!r}", hint)

    def _path(self, path: str) -> str:
        return path if "://" in path else str((self._file.parent / path).resolve())

    def _wrong(self, path: tuple[str, ...], key: str | None, problem: str, hint: str = "") -> SettingsError:
        line = place_in(self._text, path, key)
        table = f"[{'.'.join(path)}] " if path else ""
        return SettingsError(f"{self._file}:{line}: {table}{problem}", hint=hint or None)


def place_in(text: str, path: tuple[str, ...], key: str | None) -> int:
    """The line of a key in a table, or of the table itself, or the first line."""
    wanted, here, table_line = ".".join(path), "", 1
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            here = ".".join(part.strip().strip("\"'") for part in header[1].split("."))
            if here == wanted:
                table_line = number
            if key is not None and here == f"{wanted}.{key}".lstrip("."):
                return number
        elif (
            here == wanted and key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line)
        ):
            return number
    return table_line


def _plain(problem: str) -> str:
    """msgspec's words without its code marks."""
    return problem.replace("Object missing required field", "there is no").replace("`", "'")


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _twice(flow: Flow) -> Iterator[tuple[str, str, str]]:
    seen: dict[str, str] = {}
    for name, sink in flow.sinks.items():
        path = getattr(sink.settings, "path", None)
        if path is not None and path in seen:
            yield seen[path], name, path
        seen[path or name] = name
