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
from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType, MethodType, UnionType
from typing import (
    Any,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

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
        raise refused(group, name, f"which cannot be loaded: {_described(error)}") from error
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
        raise refused(group, name, f"which is {_short(found)} and has to be {about.holds}")
    for each in found if about.many else (found,):
        if isinstance(each, kinds) and kinds and (wrong := wrong_field(each)):
            raise refused(group, name, f"whose {wrong}")
    return found


# Fields by which others find an object: text that can be printed.
NAMES: Final = ("name", "system", "content_type")


def wrong_field(value: Any) -> str:
    """The first field of a Struct or NamedTuple whose type is not the declared one; empty: none."""
    fields = getattr(value, "__struct_fields__", getattr(value, "_fields", ()))
    hints = get_type_hints(type(value)) if fields else {}
    for field in fields:
        found = getattr(value, field)
        if not _fits(found, hints[field]):
            return f"field {field} is {_short(found)} and has to be {_declared(hints[field])}"
        if field == "properties" and not found:
            return f"field {field} is empty: it would promise nothing"
        if field in NAMES and not (found.strip() and found.isprintable()):
            return f"field {field} is {_short(found)} and has to be a text that can be printed"
    return ""


def _fits(value: Any, hint: Any) -> bool:
    """Is a value of the declared type, as far as one can see without calling it?"""
    kind, inside = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in inside)
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type):
        return True  # Any, or a variable
    if not isinstance(value, (int, float) if kind is float else kind):
        return False
    if kind not in (tuple, list, frozenset, set) or not inside:
        return True
    elements: Any = value
    return all(_fits(each, inside[0]) for each in elements)


def _declared(hint: Any) -> str:
    kind = get_origin(hint) or hint
    if kind is Callable:
        return "a function"
    return str(hint) if kind is not hint else getattr(hint, "__name__", str(hint))


# Calls


@contextmanager
def blaming(group: str, name: str) -> Iterator[None]:
    """Errors of the code inside are errors of an extension; those that Tidings raises on purpose pass."""
    try:
        yield
    except (TidingsError, KeyboardInterrupt, GeneratorExit, CancelledError):
        raise
    except BaseException as error:  # a module may also call sys.exit()
        raise refused(group, name, f"which failed: {_described(error)}{_place(error)}") from error


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
        raise refused(
            group, name, f"which gave {_short(made)}, no {gives.__name__}: it lacks {', '.join(missing)}"
        )
    return made


# Whose error is it?


@cache
def _packages() -> dict[str, str]:
    """By the name of a module or of a package that holds modules: the distribution of an extension."""
    found: dict[str, str] = {}
    points = [point for group in GROUPS for each in _points(group).values() for point in each]
    for offering in {point.dist.name: point.dist for point in points if point.dist is not None}.values():
        for file in offering.files or ():
            if file.suffix == ".py" and ".." not in file.parts:
                parts = file.with_suffix("").parts
                found.setdefault(".".join(parts[:-1] if parts[-1] == "__init__" else parts), offering.name)
    for point in points:
        parts = tuple(point.module.split("."))
        for count in range(len(parts), 0, -1):
            found.setdefault(".".join(parts[:count]), "(unknown)" if point.dist is None else point.dist.name)
    return found


def package_of_module(name: object) -> str | None:
    """The distribution of an extension that a module belongs to; None: it is no extension's."""
    packages, rest = _packages(), str(name)
    while rest:
        if rest in packages:
            return packages[rest]
        rest = rest.rpartition(".")[0]
    return None


def error_of_extension(error: BaseException) -> ExtensionError | None:
    """The error of an extension behind one that Tidings did not raise on purpose; None: it is another's.

    The innermost line of an extension is to blame. Where Tidings could not even call it, because it lacks a
    method or takes other arguments, the object that was called is to blame."""
    if isinstance(error, TidingsError):
        return None
    said = _described(error)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = package_of_module(frame.f_globals.get("__name__", ""))
        if package is not None:
            return failed(package, f"{said} ({_line(frame.f_code.co_filename, line)})")
    called = _called(error)
    packages = sorted({str(package_of_module(each.__module__)) for each in called})
    if not packages:
        return None
    places = " or ".join(sorted({_defined(each, said) for each in called}))
    return failed(" or ".join(packages), f"{said} ({places})")


def _called(error: BaseException) -> list[Any]:
    """Classes or functions of extensions that a call which failed may have been meant for: the one that the
    calling code had at hand, else all of the name that the error gives."""
    if not isinstance(error, TypeError | AttributeError):
        return []
    said = _described(error)
    if (meant := getattr(error, "obj", None)) is not None:
        kind = meant if isinstance(meant, type) else type(meant)
        return [kind] if package_of_module(kind.__module__) is not None else []
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        near = list(frame.f_locals.values())
        for values in (near, [each for value in near for each in _attributes(value)]):
            if found := [called for each in values if (called := _named(each, said)) is not None]:
                return found[:1]
    return [kind for kind in _kinds() if _is_named(kind, said)]


def _attributes(value: Any) -> list[Any]:
    named: Iterable[Any] = getattr(value, "__struct_fields__", ()) or getattr(value, "__slots__", ())
    found = [getattr(value, name, None) for name in named if isinstance(name, str)]
    return [*found, *value.__dict__.values()] if type(getattr(value, "__dict__", None)) is dict else found


def _named(value: Any, said: str) -> Any:
    """The class or function of an extension behind a value, if an error names it."""
    if isinstance(value, FunctionType | MethodType):
        fits = package_of_module(value.__module__) is not None and f"{value.__qualname__}()" in said
        return getattr(value, "__func__", value) if fits else None
    kinds = (value if isinstance(value, type) else type(value)).__mro__
    fitting = (each for each in kinds if _is_named(each, said))
    return next((each for each in fitting if package_of_module(each.__module__) is not None), None)


def _is_named(kind: type, said: str) -> bool:
    return f"{kind.__qualname__}." in said or f"'{kind.__name__}' object" in said


def _kinds() -> Iterator[type]:
    """The classes that modules of extensions define."""
    for name, module in list(sys.modules.items()):
        if package_of_module(name) is not None:
            own = [each for each in vars(module).values() if isinstance(each, type)]
            yield from (each for each in own if each.__module__ == name)


def _defined(called: Any, said: str) -> str:
    """Where a function, or the method of a class that an error names, is defined."""
    methods = vars(called).items() if isinstance(called, type) else ()
    named = (each for name, each in methods if f"{called.__qualname__}.{name}()" in said)
    code = getattr(next(named, called), "__code__", None)
    place = f"{called.__qualname__} of {called.__module__}"
    return place if code is None else f"{place}, {_line(code.co_filename, code.co_firstlineno)}"


def failed(package: str, why: str) -> ExtensionError:
    """The error of an extension of a package whose entry point is not known."""
    return ExtensionError(f"an extension of package {package} failed: {why}", hint=f"repair {package}")


def refused(group: str, name: str, why: str) -> ExtensionError:
    """The error of an entry point whose object, or a result of it, cannot be used."""
    package = package_of(group, name)
    return ExtensionError(
        f"package {package} offers {GROUPS[group].noun} {name!r}, {why}",
        hint=f"uninstall or repair {package}",
    )


def _described(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _place(error: BaseException) -> str:
    """The innermost line of an extension, or the function that could not be called; else the innermost line.
    The machinery of imports is passed over."""
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if "importlib" not in frame.f_code.co_filename
    ]
    for frame, line in reversed(frames):
        if package_of_module(frame.f_globals.get("__name__", "")) is not None:
            return f" ({_line(frame.f_code.co_filename, line)})"
    if called := _called(error):
        return f" ({_defined(called[0], _described(error))})"
    return f" ({_line(frames[-1][0].f_code.co_filename, frames[-1][1])})" if frames else ""


def _line(file: str, line: int) -> str:
    """A line, with the folder of its file."""
    return f"line {line} of {'/'.join(Path(file).parts[-2:])}"


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    if " at 0x" in text:
        return f"an object of the class {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
