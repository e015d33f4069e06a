"""A broker process with a console, for tests of its pages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SETTINGS = """
name = "b1"
listen = "127.0.0.1:0"
store = "store"
[console]
listen = "127.0.0.1:0"
refresh_seconds = 0.5
[security]
users = "users.toml"
"""


@contextmanager
def broker(folder: Path, users: str, more: str = "") -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A broker in this folder with these users, and the line that it says when it is ready; `more` is added
    to its settings of security."""
    (folder / "users.toml").write_text(users)
    (folder / "broker.toml").write_text(SETTINGS + more)
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings", "broker", "--config", str(folder / "broker.toml"), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
