"""`tidings version`: versions of Tidings, its formats, Python, distributions and optional packages."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

from tidings._version import __version__
from tidings.cli.output import print_json
from tidings.cli.usage import JSON_HELP, examples

DISTRIBUTIONS = ("tidings-lab", "tidings-quality", "tidings-bench")  # one version with the product
PACKAGES = ("msgspec", "numpy", "rocksdict", "google-re2", "numba", "pyarrow", "pyspark")


def register(app: typer.Typer) -> None:
    app.command("version", epilog=examples("tidings version", "tidings version --json"))(version)


def version(as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False) -> None:
    """Print the versions of Tidings and its environment.

    Two brokers work together when their wire formats differ by at most one; a broker opens a store whose
    format it names (docs/compatibility.md).
    """
    from tidings.history.schema import VERSION as HISTORY
    from tidings.protocol.messages import VERSION as WIRE
    from tidings.store.audit import FORMAT as STORE

    python = platform.python_version()
    formats = {"wire": WIRE, "store": STORE, "history": HISTORY}
    ours = {name: _version_of(name) for name in DISTRIBUTIONS}
    found = {name: _version_of(name) for name in PACKAGES}
    if as_json:
        line = {"tidings": __version__, "python": python, "formats": formats}
        print_json({**line, "distributions": ours, "packages": found})
        return
    print(f"tidings {__version__} on Python {python} ({platform.system()} {platform.machine()})")
    print("  formats: " + ", ".join(f"{name} {number}" for name, number in formats.items()))
    for name, installed in (ours | found).items():
        print(f"  {name:<15} {installed or 'not installed'}")


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
