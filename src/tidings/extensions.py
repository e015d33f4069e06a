"""Extensions: objects that other distributions offer through entry points.

A distribution names an object in its `pyproject.toml`, under a group of `GROUPS`:

    [project.entry-points."tidings.systems"]
    mine = "my_package.routing:SYSTEM"

Rules
- A group is loaded when a name from it is first needed; `import tidings` loads none.
- A name of the product wins over the same name of an extension: callers hand over their `own` names.
- An extension that cannot be used (its import fails, it has the wrong type, two distributions offer its name)
  is an `ExtensionError` when its own name is asked for, and an `ExtensionWarning` when the group is listed:
  the rest of the group works on. Both name the distribution.
- An error in the code of an extension while it is called is an `ExtensionError` too (`blaming`).
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from tidings.errors import ExtensionError, TidingsError

T = TypeVar("T")
P = ParamSpec("P")


class ExtensionWarning(RuntimeWarning):
    """An installed extension that is passed over, because it cannot be used."""


class ExtensionGroup(NamedTuple):
    """A sort of extension."""

    noun: str  # for messages: `package X offers NOUN 'name'`
    holds: str  # the object, in words
    kinds: tuple[str, ...] = ()  # its classes, as module:name; none: anything that can be called
    many: bool = False  # a sequence of them is fine too; `load` gives a tuple


GROUPS: Final = {
    "tidings.systems": ExtensionGroup(
        "system", "a System, or a sequence of them", ("tidings.systems.system:System",), many=True
    ),
    "tidings.contracts": ExtensionGroup(
        "contracts", "a Contract, or a sequence of them", ("tidings.history.contracts:Contract",), many=True
    ),
    "tidings.properties": ExtensionGroup(
        "properties", "a Property, or a sequence of them", ("tidings.history.properties:Property",), many=True
    ),
    "tidings.commands": ExtensionGroup(
        "command",
        "a Typer application, or a Command that imports one when it is called",
        ("typer:Typer", "tidings.cli:Command"),
    ),
    "tidings.acts": ExtensionGroup("act", "a coroutine function of (stage, folder, Spark session)"),
    "tidings.studies": ExtensionGroup("study", "a Study", ("tidings_lab.studies.study:Study",)),
    "tidings.workloads": ExtensionGroup("workload", "a function that makes the Content of a workload"),
    "tidings.faults": ExtensionGroup("fault", "an OwnFault", ("tidings.simulation.faults:OwnFault",)),
    "tidings.stores": ExtensionGroup("store", "a function from an address to a Store"),
    "tidings.gateways": ExtensionGroup(
        "gateway", "a function of (service, prover, table of settings) to a Gateway"
    ),
    "tidings.bridges": ExtensionGroup("bridge", "a function of (route, name) to one side of a route"),
    "tidings.serialisers": ExtensionGroup(
        "serialiser", "a Serialiser", ("tidings.model.serialisers:Serialiser",)
    ),
    "tidings.console": ExtensionGroup(
        "console page", "a folder of static files", ("importlib.resources.abc:Traversable",)
    ),
}

# Commands and systems of our own distributions, for an error that names the missing one.
BROUGHT_BY: Final = {
    "study": "tidings-lab",
    "compare": "tidings-lab",
    "quality": "tidings-quality",
    "bench": "tidings-bench",
}


# Names


@cache
def _points(group: str) -> dict[str, list[EntryPoint]]:
    """By name, the entry points of a group: more than one where distributions clash. Imports no module."""
    assert group in GROUPS, group
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        same = found.setdefault(point.name, [])
        if point.value not in [other.value for other in same]:
            same.append(point)
    return found


def offered(group: str, own: Collection[str]) -> list[str]:
    """The names that extensions offer in a group, in order, without those that are the product's own."""
    return sorted(name for name in _points(group) if name not in own)


def package_of(group: str, name: str) -> str:
    """The distribution behind a name, for messages."""
    points = _points(group)[name]
    return " and ".join(
        sorted({point.dist.name if point.dist is not None else "(unknown)" for point in points})
    )


def _offered_twice(group: str, name: str, *packages: str) -> ExtensionError:
    noun, found = GROUPS[group].noun, sorted(set(packages))
    if len(found) == 1:
        return ExtensionError(
            f"package {found[0]} offers {noun} {name!r} twice", hint="remove one of the entries"
        )
    return ExtensionError(
        f"packages {' and '.join(found)} both offer {noun} {name!r}", hint="uninstall one of them"
    )


# Objects


@cache
def load(group: str, name: str) -> Any:
    """The object that an extension offers under this name. Raises `ExtensionError`."""
    points = _points(group)[name]
    if len(points) > 1:
        raise _offered_twice(group, name, *package_of(group, name).split(" and "))
    try:
        found = points[0].load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may also call sys.exit()
        raise _refused(group, name, f"which cannot be loaded: {_described(error)}") from error
    return _checked(group, name, found)


def load_all(group: str, own: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Every object of a group with its name; one that cannot be used is an `ExtensionWarning`."""
    for name in offered(group, own):
        try:
            yield name, load(group, name)
        except ExtensionError as error:
            pass_over(error)


def pass_over(*errors: ExtensionError) -> None:
    """Warn of extensions that are left out of a list."""
    for error in errors:
        warnings.warn(f"{error.message}; {error.hint}", ExtensionWarning, stacklevel=3)


class Collected(NamedTuple, Generic[T]):
    """The objects of a group by a name of their own, where an entry point may offer several."""

    objects: dict[str, T]  # the product's, then those of extensions
    entries: dict[str, str]  # by object of an extension, the name of its entry point
    errors: dict[str, ExtensionError]  # by name that may be asked for: the entry point's, or the object's


def collect(group: str, own: Mapping[str, T], key: Callable[[T], str]) -> Collected[T]:
    """The objects of a group by `key`; what cannot be used stands in `errors`."""
    objects, entries, errors = dict(own), dict[str, str](), dict[str, ExtensionError]()
    clashing: set[str] = set()
    for entry in offered(group, ()):
        try:
            stored = load(group, entry)
        except ExtensionError as error:
            errors[entry] = error
            continue
        for each in stored:
            name = key(each)
            if name in entries and entries[name] != entry:
                clashing.add(name)
                both = package_of(group, entries[name]), package_of(group, entry)
                errors[name] = _offered_twice(group, name, *both)
            elif name not in own:
                objects[name], entries[name] = each, entry
    for name in clashing:
        del objects[name], entries[name]
    return Collected(objects, entries, errors)


def _checked(group: str, name: str, found: Any) -> Any:
    about = GROUPS[group]
    kinds = tuple(
        getattr(import_module(kind.partition(":")[0]), kind.partition(":")[2]) for kind in about.kinds
    )
    if about.many:
        found = (found,) if isinstance(found, kinds) else found
        fits = isinstance(found, Sequence) and all(isinstance(each, kinds) for each in found)
        found = tuple(found) if fits else found
    else:
        fits = isinstance(found, kinds) if kinds else callable(found)
    if not fits:
        raise _refused(group, name, f"which is {_short(found)} and has to be {about.holds}")
    return found


# Calls


@contextmanager
def blaming(group: str, name: str) -> Iterator[None]:
    """Errors of the code inside are errors of an extension; those that Tidings raises on purpose pass."""
    try:
        yield
    except TidingsError:
        raise
    except Exception as error:
        raise _refused(group, name, f"which failed: {_described(error)}{_place(error)}") from error


def blamed(group: str, name: str, function: Callable[P, T]) -> Callable[P, T]:
    """The function of an extension; its errors name the distribution."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with blaming(group, name):
            return function(*args, **kwargs)

    return called


def call(group: str, name: str, *arguments: Any, gives: type) -> Any:
    """Load a function, call it, and check that its result has the members of the protocol `gives`."""
    function = load(group, name)
    with blaming(group, name):
        made = function(*arguments)
    members = [
        member for kind in gives.__mro__ if kind.__module__.startswith("tidings") for member in vars(kind)
    ]
    missing = sorted({each for each in members if each[0] != "_" and each not in dir(made)})
    if missing:
        raise _refused(
            group, name, f"which gave {_short(made)}, no {gives.__name__}: it lacks {', '.join(missing)}"
        )
    return made


def _packages() -> dict[str, str]:
    """By the first part of a module's name: the distribution whose extensions it holds."""
    found: dict[str, str] = {}
    for group in GROUPS:
        for points in _points(group).values():
            for point in points:
                package = point.dist.name if point.dist is not None else "(unknown)"
                found.setdefault(point.module.partition(".")[0], package)
    return found


def error_of_extension(error: BaseException) -> ExtensionError | None:
    """The error of an extension behind one that Tidings did not raise on purpose; None: it is another's.

    The innermost line of an extension is to blame. Where Tidings could not even call it, because it lacks a
    method or takes other arguments, the error names its class, and that is to blame."""
    if isinstance(error, TidingsError):
        return None
    said, packages = _described(error), _packages()
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = packages.get(str(frame.f_globals.get("__name__", "")).partition(".")[0])
        if package is not None:
            name = "/".join(Path(frame.f_code.co_filename).parts[-2:])
            return _failed(package, f"{said} (line {line} of {name})")
    if isinstance(error, TypeError | AttributeError):
        for kind in _kinds_of(packages):
            if f"{kind.__qualname__}." in said or f"'{kind.__name__}' object" in said:
                package = packages[kind.__module__.partition(".")[0]]
                return _failed(package, f"{said} ({kind.__qualname__} of {kind.__module__})")
    return None


def _kinds_of(packages: Collection[str]) -> Iterator[type]:
    """The classes that modules of extensions define."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            own = [each for each in vars(module).values() if isinstance(each, type)]
            yield from (each for each in own if each.__module__ == name)


def _failed(package: str, why: str) -> ExtensionError:
    return ExtensionError(f"an extension of package {package} failed: {why}", hint=f"repair {package}")


def _refused(group: str, name: str, why: str) -> ExtensionError:
    package = package_of(group, name)
    return ExtensionError(
        f"package {package} offers {GROUPS[group].noun} {name!r}, {why}",
        hint=f"uninstall or repair {package}",
    )


def _described(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _place(error: Exception) -> str:
    """The line that raised it, with the folder of its file; the machinery of imports is passed over."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "importlib" not in frame.filename:
            return f" (line {frame.lineno} of {'/'.join(Path(frame.filename).parts[-2:])})"
    return ""


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    if " at 0x" in text:
        return f"an object of the class {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
