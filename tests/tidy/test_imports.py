"""Imports go one way: the map's directions, as a table, over every import statement.

A statement inside a function or under TYPE_CHECKING counts too: a direction is a direction.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tidy._sources import PACKAGE, module_of, name_of, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

# A package may import itself and every package on a lower level.
LEVELS = {
    "errors": 0, "_version": 0, "extensions": 1,
    "model": 1,
    "language": 2, "algebra": 2, "history": 2,
    "matching": 3, "availability": 3, "security": 3, "archive": 3,
    "protocol": 4,
    "systems": 5,
    "wire": 6, "store": 6, "simulation": 6, "runtime": 6,
    "gateway": 7, "pipeline": 7,
    "console": 9, "cli": 10,
    "testing": 11, "__main__": 11,
}  # fmt: skip

# Steps between packages of one level, each with its reason.
BETWEEN_SIBLINGS = {
    ("history", "language"): "a check evaluates filters",
    ("runtime", "wire"): "drivers turn messages into bytes",
    ("runtime", "store"): "drivers do the disk's effects",
    ("simulation", "wire"): "drivers turn messages into bytes",
    ("simulation", "store"): "drivers do the disk's effects",
}

# Only these files (and folders) of pipeline/ know a driver.
PIPELINE_DOORS = {"simulation": "tidings.pipeline.sweeps", "runtime": "tidings.pipeline.broker"}

KINDS = ("assignment", "routing", "overlay", "recovery", "membership", "delivery")
FACE = ""  # `import tidings` itself: the public face, above the packages it shows
USES_THE_FACE = {
    "testing",
    "console",
    "cli",
    "__main__",
    "gateway",
    "pipeline",
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) for every import of ours; `from tidings.x import y` gives tidings.x.y too."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "tidings")


def package_of(module: str) -> str:
    """tidings.model.event -> model; tidings.connect -> the face."""
    parts = module.split(".")
    known = len(parts) > 1 and (parts[1] in LEVELS or (PACKAGE / parts[1]).is_dir())
    return parts[1] if known else FACE


def kind_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["tidings", "protocol"] and len(parts) > 2 and parts[2] in KINDS else None


def complaint(importer: str, imported: str) -> str | None:
    """Why this import goes the wrong way; None when it does not."""
    here, there = package_of(importer), package_of(imported)
    kind = kind_of(importer)
    if kind and (kind_of(imported) not in (None, kind) or imported.startswith("tidings.protocol.node")):
        return "kinds of the protocol do not know one another, nor the node that holds them"
    if here in (there, FACE):
        return None
    if there == FACE:
        return None if here in USES_THE_FACE else f"{here} must not use the public face"
    if LEVELS[there] < LEVELS[here]:
        gateway = PIPELINE_DOORS.get(there) if here == "pipeline" else None
        return f"only {gateway} may" if gateway and not f"{importer}.".startswith(f"{gateway}.") else None
    return None if (here, there) in BETWEEN_SIBLINGS else f"{there} is not below {here}"


def test_every_package_has_its_level() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(LEVELS), "a new package needs a level in LEVELS and a line in ARCHITECTURE.md"


def test_imports_go_one_way() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {imported}: {why}"
        for path in python_files("src/tidings")
        for line, imported in imports(path)
        if (why := complaint(module_of(path), imported))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_table_refuses_imports_that_go_up_or_across() -> None:
    for importer, imported in (
        ("tidings.model.event", "tidings.language"),
        ("tidings.algebra.covers", "tidings.language.parser"),
        ("tidings.matching.small", "tidings.protocol.node"),
        ("tidings.protocol.node", "tidings.store.rocks"),
        ("tidings.store.rocks", "tidings.runtime.bus"),
        ("tidings.pipeline.match", "tidings.simulation.run"),
        ("tidings.runtime.bus", "tidings.connect"),
        ("tidings.protocol.routing.covering", "tidings.protocol.overlay.healing"),
        ("tidings.protocol.routing.covering", "tidings.protocol.node"),
    ):
        assert complaint(importer, imported), (importer, imported)


def test_the_columnar_matcher_has_no_import_cycle() -> None:
    """Statements inside functions and under TYPE_CHECKING count too."""
    package = "tidings.matching.columnar"
    files = {module_of(path): path for path in python_files("src/tidings/matching/columnar")}
    graph = {
        module: {other for _, name in imports(path) for other in files if f"{name}.".startswith(f"{other}.")}
        - {module, package}
        for module, path in files.items()
    }
    left = dict(graph)
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert not left, sorted(left)
