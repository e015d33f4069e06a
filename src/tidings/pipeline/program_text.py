"""Digest of the program text that a point of a sweep may run: another text is another program.

Rules
- Counted by their text: the product, the package of the point's own function, and every distribution that
  offers an extension with all modules that its files name: a study of one package runs systems of another.
- Modules that these import are counted too, over any number of steps: by their text where no installed
  distribution lists them (a checkout, an editable installation, a file on the path), else by their
  distribution's list of files (with version and hashes), and so are those that it requires.
- Imports are read from the sources; no module is imported for it. An import by a computed name is found only
  inside a distribution that offers an extension.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.machinery import BYTECODE_SUFFIXES, all_suffixes
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from importlib.metadata import packages_distributions as distributions_by_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidings.extensions import GROUPS

OWN: Final = "tidings"
SUFFIXES: Final = tuple(suffix for suffix in all_suffixes() if suffix not in BYTECODE_SUFFIXES)
_REQUIRED = re.compile(r"[\w.-]+")


@cache
def program(package: str = OWN) -> str:
    """A hash of everything that a point of a function in this package may run."""
    offering = {
        point.dist.name: point.dist
        for group in GROUPS
        for point in entry_points(group=group)
        if point.dist is not None
    }
    modules = {point.module.partition(".")[0] for group in GROUPS for point in entry_points(group=group)}
    modules |= {OWN, package}.union(*map(_modules_of, offering.values()))
    digest = blake2b(digest_size=16)
    libraries: set[str] = set()
    for name, sources in sorted(_closure(modules, libraries).items()):
        for path, relative in sources:
            digest.update(f"{name}/{relative}".encode() + b"\0" + blake2b(path.read_bytes()).digest())
    for library in sorted(_with_requirements(libraries)):
        digest.update(f"{library}\0{_listed(library)}".encode())
    return digest.hexdigest()


def _closure(modules: Iterable[str], libraries: set[str]) -> dict[str, list[tuple[Path, str]]]:
    """Sources by top-level module, of these and of those that they import; installed distributions that
    others import are added to `libraries` by name."""
    found: dict[str, list[tuple[Path, str]]] = {}
    installed = distributions_by_module()
    waiting = sorted(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        sources = found[name] = list(_sources(name))
        if name == OWN:
            with suppress(PackageNotFoundError):  # it runs from a folder, without an installation
                libraries.update(_requirements(OWN))
            continue
        for imported in sorted({top for path, _ in sources for top in _imports(path)}):
            if imported in sys.stdlib_module_names or imported in found:
                continue
            if imported in installed and imported not in modules:
                libraries.update(installed[imported])
            else:
                waiting.append(imported)
    return found


def _sources(module: str) -> Iterator[tuple[Path, str]]:
    """Files of a package, or the one of a module, with their place in it; none of one that is not there."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin), Path(spec.origin).name
        return
    for root in map(Path, spec.submodule_search_locations):
        files = [path for path in root.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file()]
        yield from ((path, path.relative_to(root).as_posix()) for path in sorted(files))


def _imports(path: Path) -> Iterator[str]:
    """Top-level names of the modules that a source file imports, anywhere in it."""
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # it cannot be imported either
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _modules_of(offering: Distribution) -> set[str]:
    """Top-level modules among the files that a distribution lists."""
    tops = [file.parts[0] for file in offering.files or () if file.name.endswith(SUFFIXES)]
    return {top.partition(".")[0] for top in tops} - {"..", ""}


def _with_requirements(names: Iterable[str]) -> set[str]:
    """These distributions and all that they require, as far as they are installed."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name == OWN or name.startswith(f"{OWN}-"):
            continue
        try:
            waiting += _requirements(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        found.add(name)
    return found


def _requirements(name: str) -> list[str]:
    """Distributions that one requires, those of its extras included."""
    return [match[0] for text in distribution(name).requires or () if (match := _REQUIRED.match(text))]


def _listed(name: str) -> str:
    """Version of a distribution and its list of files with their hashes."""
    found = distribution(name)
    return f"{found.version}\0{found.read_text('RECORD') or ''}"
