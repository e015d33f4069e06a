"""The package as users get it: a light import, a whole wheel."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.tidy._sources import PACKAGE, ROOT, python_files

import tidings
from tidings import algebra, pipeline
from tidings.runtime.options import ConnectOptions

HEAVY = (
    "cryptography", "duckdb", "google", "hypothesis", "llvmlite", "matplotlib", "numba", "numpy", "pandas",
    "polars", "pyarrow", "pydantic", "pyspark", "re2", "rich", "rocksdict", "starlette", "typer", "uvloop",
)  # fmt: skip


def python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_tidings_brings_nothing_heavy() -> None:
    """The map: heavy things are imported where they are used, never at `import tidings`."""
    loaded = set(python("import sys, tidings; print(*sys.modules)").split())
    assert "tidings" in loaded
    assert not loaded.intersection(HEAVY)


def test_every_name_that_the_pages_mention_is_there() -> None:
    """`tidings.Name` and errors by name: in the pages as in the package, without a module to look for."""
    missing = {}
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name == "extending.md":
            continue  # it lists names by their modules, and tests/tidy/test_extensions.py imports each
        text = page.read_text()
        names = set(re.findall(r"\btidings\.([A-Z]\w*|[a-z]\w*(?=\())", text))
        names |= set(re.findall(r"`([A-Z]\w*Error)\b", text))
        names = {name for name in names if not hasattr(builtins, name) and not hasattr(tidings, name)}
        if names:
            missing[page.name] = names
    assert missing == {}
    assert "TooLargeError" in tidings.__all__


def test_lazy_names_and_options_are_shown_to_those_who_look_for_them() -> None:
    """Found by a user: Tab did not offer `match`, and the help of `open` named no option."""
    for module in (tidings, algebra, pipeline):
        assert set(module.__all__) <= set(dir(module))
    described = str(tidings.open.__doc__)
    assert not {name for name in ("path", *ConnectOptions.__annotations__) if f"`{name}`" not in described}


def test_help_brings_nothing_heavier_than_the_terminal() -> None:
    """`tidings --help` answers at once: it may load Typer and Rich, but no command's module."""
    code = "import sys, tidings.cli; code = tidings.cli.main(['--help']); print(*sys.modules); sys.exit(code)"
    loaded = set(python(code).split("\n")[-2].split())
    assert "typer" in loaded
    assert not loaded.intersection({*HEAVY} - {"typer", "rich", "pydantic"})
    assert not {name for name in loaded if name.startswith(("tidings.cli.demo", "tidings.runtime"))}


@pytest.mark.parametrize("folder", ["lab", "quality", "benchmarks"])
def test_the_wheels_of_the_other_packages_carry_the_licence(folder: str, tmp_path: Path) -> None:
    if not (ROOT / folder / "pyproject.toml").exists():
        pytest.skip("a source distribution of the product alone")
    code = f"import os; os.chdir({str(ROOT / folder)!r}); from hatchling.build import build_wheel as build"
    python(f"{code}; print(build({str(tmp_path)!r}))")
    (wheel,) = (zipfile.ZipFile(path) for path in tmp_path.glob("*.whl"))
    (name,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    assert wheel.read(name) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    python(f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))")
    (wheel,) = tmp_path.glob("tidings-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {path.relative_to(ROOT / "src").as_posix() for path in python_files("src")}
    pages = (PACKAGE / "console" / "static").rglob("*.*")
    assert {path.relative_to(ROOT / "src").as_posix() for path in pages} <= names
    assert ours <= names
    assert "tidings/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("entry_points.txt") for name in names)
    assert not {name for name in names if name.startswith(("tests/", "scripts/"))}
    assert (PACKAGE / "py.typed").exists()
