"""Extensions: objects that other distributions offer through entry points.

A distribution names an object in its `pyproject.toml`, under a group of `GROUPS`:

    [project.entry-points."tidings.systems"]
    mine = "my_package.routing:SYSTEM"

Rules
- A group is loaded when a name from it is first needed; `import tidings` loads none.
- A name of the product wins over the same name of an extension. Two extensions with one name are an error that
  names both distributions.
- An extension that cannot be imported is reported as `ExtensionError` when its own name is asked for, and as a
  warning when the whole group is listed: the rest of the group works on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from tidings.errors import ExtensionError

GROUPS: Final = {
    "tidings.systems": "a System, or a sequence of them",
    "tidings.contracts": "a sequence of Contract",
    "tidings.properties": "a sequence of Property",
    "tidings.commands": "a Typer application, or a Command that imports one when it is called",
    "tidings.acts": "a coroutine function of (stage, folder, Spark session): an act of `tidings demo`",
    "tidings.studies": "a Study",
    "tidings.workloads": "a workload of the simulator",
    "tidings.faults": "a fault of the simulator",
    "tidings.stores": "a function from a folder and settings to an Engine",
    "tidings.gateways": "a function from a broker's service to a listener",
    "tidings.bridges": "a bridge to another bus",
    "tidings.console": "a page of the console",
}

# Commands and systems of our own distributions, for an error that names the missing one.
BROUGHT_BY: Final = {
    "study": "tidings-lab",
    "compare": "tidings-lab",
    "quality": "tidings-quality",
    "bench": "tidings-bench",
}


@cache
def offered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, nothing imported."""
    assert group in GROUPS, group
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = found.get(point.name)
        if other is not None and other.value != point.value:
            raise ExtensionError(
                f"{_distribution(other)} and {_distribution(point)} both offer {point.name!r} in {group}",
                hint="uninstall one of them",
            )
        found[point.name] = point
    return found


@cache
def load(group: str, name: str) -> Any:
    """The object that an extension offers under this name."""
    point = offered(group)[name]
    try:
        return point.load()
    except Exception as error:
        raise ExtensionError(
            f"{_distribution(point)} offers {name!r} in {group}, and {point.value} cannot be loaded: "
            f"{type(error).__name__}: {error}",
            hint=f"mend or uninstall {_distribution(point)}",
        ) from error


def load_all(group: str) -> Iterator[tuple[str, Any]]:
    """Every object of a group with its name; one that cannot be loaded is a warning."""
    for name in offered(group):
        try:
            yield name, load(group, name)
        except ExtensionError as error:
            warnings.warn(f"{error} ({error.hint})", RuntimeWarning, stacklevel=2)


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an installed package"
