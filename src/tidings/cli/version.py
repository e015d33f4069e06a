"""`tidings version`: which Tidings, on which Python, with which optional packages."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

from tidings._version import __version__
from tidings.cli.output import print_json
from tidings.cli.usage import JSON_HELP, examples

PACKAGES = ("msgspec", "numpy", "rocksdict", "google-re2", "numba", "pyarrow", "pyspark")


def register(app: typer.Typer) -> None:
    app.command("version", epilog=examples("tidings version", "tidings version --json"))(version)


def version(as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False) -> None:
    """Print the versions of Tidings and its environment."""
    found = {name: _version_of(name) for name in PACKAGES}
    if as_json:
        print_json({"tidings": __version__, "python": platform.python_version(), "packages": found})
        return
    print(
        f"tidings {__version__} on Python {platform.python_version()} ({platform.system()} "
        f"{platform.machine()})"
    )
    for name, installed in found.items():
        print(f"  {name:<12} {installed or 'not installed'}")


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
