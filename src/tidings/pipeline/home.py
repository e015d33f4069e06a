"""A home for Spark with a Python that starts quickly.

Spark puts its own `python/lib/pyspark.zip` before everything else on the path of its Python processes. A zip
keeps no compiled code, so each of them (and a stream through Python sources and sinks starts half a dozen)
compiles all of it anew: a second of processor time, where Spark waits ten seconds at most. With `SPARK_HOME`
at a folder of links that has everything but that zip, they import the installed package, which is compiled
already.

Only for a local session with the installed package, and never when `SPARK_HOME` is set.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path


def quick_home(is_ours: object) -> str | None:
    """The folder of links, made once for each user and installation; None: leave things as they are."""
    spec = find_spec("pyspark")
    if "SPARK_HOME" in os.environ or spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    if not (package / "jars").is_dir() or not callable(is_ours):
        return None
    home = Path(tempfile.gettempdir()) / f"tidings-spark-{os.getuid()}"
    if not is_ours(home):
        home = Path(tempfile.mkdtemp(prefix="tidings-spark-"))
    for entry in package.iterdir():
        if entry.name not in ("python", "__pycache__"):
            _link(home / entry.name, entry)
    return str(home)


def _link(path: Path, target: Path) -> None:
    """Point a link there, also when another process does so at the same time."""
    if path.is_symlink() and path.readlink() == target:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(path)
