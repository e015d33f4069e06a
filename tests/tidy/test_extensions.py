"""The packages beside the product use the documented extension interface, and the product knows
none of them."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.tidy._sources import ROOT, name_of, python_files, tree_of

from tidings.extensions import GROUPS
from tidings.protocol.slots import Strategy

PAGE = ROOT / "docs" / "extending.md"
OTHERS = ("tidings_lab", "tidings_quality", "tidings_bench")
ROW = re.compile(r"^\| `(tidings[\w.]*)` \| (.+) \|$", re.MULTILINE)


def imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) of each import; the name of `import a.b` is empty."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def documented() -> dict[str, set[str]]:
    """The interface as the page lists it: names by module."""
    listed: dict[str, set[str]] = defaultdict(set)
    for module, names in ROW.findall(PAGE.read_text(encoding="utf-8").split("## The interface")[1]):
        listed[module] |= set(re.findall(r"`(\w+)`", names))
    return listed


def test_the_product_imports_none_of_the_other_packages() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for path in python_files("src/tidings")
        for line, module, _ in imported(path)
        if module.split(".")[0] in OTHERS
    ]
    assert not wrong, "\n".join(wrong)


def test_the_laboratory_and_the_application_use_the_documented_interface() -> None:
    listed = documented()
    wrong = [
        f"{name_of(path)}:{line} imports {module}.{name}"
        for path in python_files("lab/src", "quality/src")
        for line, module, name in imported(path)
        if module.split(".")[0] == "tidings" and module != "tidings" and name not in listed[module]
    ]
    assert not wrong, "list them in docs/extending.md, or do without:\n" + "\n".join(wrong)


def test_no_private_name_of_the_product_is_used() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {module}.{name}"
        for path in python_files("lab/src", "quality/src", "benchmarks/src")
        for line, module, name in imported(path)
        if module.split(".")[0] == "tidings"
        and any(part.startswith("_") for part in f"{module}.{name}".split("."))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_documented_name_exists() -> None:
    missing = []
    for module, names in documented().items():
        stored = import_module(module)
        missing += [
            f"{module}.{name}" for name in names if not hasattr(stored, name) and not _is_module(module, name)
        ]
    assert not missing, missing


def _is_module(module: str, name: str) -> bool:
    try:
        import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


CLASSES = (
    *("tidings.store.store:Store", "tidings.gateway.listeners:Gateway"),
    *("tidings.gateway.bridges.bridge:Giver", "tidings.gateway.bridges.bridge:Taker"),
    *("tidings.gateway.bridges.bridge:Incoming", "tidings.simulation.workloads:Content"),
    *("tidings.model.serialisers:Serialiser", "tidings.simulation.faults:OwnFault"),
    *("tidings.history.properties:Property", "tidings.systems.system:System"),
    *("tidings_lab.studies.study:Study", "tidings.protocol.slots:Strategy"),
    *(f"tidings.protocol.slots:{kind}" for kind in ("Assignment", "Routing", "Overlay", "Recovery")),
    "tidings.protocol.slots:Membership",
)


def members(kind: type) -> Iterator[str]:
    """Fields of a class, or its methods with those of its roles, as the page has them."""
    fields = getattr(kind, "__struct_fields__", getattr(kind, "_fields", ()))
    if fields:
        hints = inspect.get_annotations(kind)
        yield from (f"{name}: {getattr(hints[name], '__forward_arg__', hints[name])}" for name in fields)
        return
    bases = [each for each in kind.__mro__ if each.__module__.startswith("tidings")]
    seen: set[str] = set()
    for name, member in [each for base in bases for each in vars(base).items()]:
        if name.startswith("_") or name in seen or (kind is not Strategy and hasattr(Strategy, name)):
            continue
        seen.add(name)
        if isinstance(member, property):
            yield f"{name} (a property)"
        elif inspect.isfunction(member):
            given = inspect.signature(member)
            shown = str(given.replace(parameters=list(given.parameters.values())[1:]))
            shown = shown.replace("''", '""').replace("'", "")
            yield f"{'async ' if inspect.iscoroutinefunction(member) else ''}{name}{shown}"


def rows() -> list[str]:
    """The table of members as the page has to have it."""
    found = []
    for each in CLASSES:
        module, _, name = each.partition(":")
        cells = (f"`{member}`" for member in members(getattr(import_module(module), name)))
        found.append(f"| `{name}` | {', '.join(cells)} |".replace(" | None", " \\| None"))
    return found


def test_the_page_lists_the_methods_and_fields_of_every_class() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## Methods and fields")[1].split("\n## ")[0]
    assert [row for row in text.splitlines() if row.startswith("| `")] == rows()


def test_the_page_lists_every_group() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [group for group in GROUPS if f"| `{group}` |" not in text] == []
