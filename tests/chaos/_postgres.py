"""A PostgreSQL cluster for tests: in a directory of its own, on a free loopback port, ended by its process
id.

PostgreSQL refuses to run as root, so a test that does runs it as the user `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0


def programs() -> Path | None:
    """The directory of `initdb` and `postgres`; None when PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    if named is not None:
        found.append(Path(named))
    return found[-1].parent if found else None


@contextmanager
def postgres() -> Iterator[str]:
    """A running cluster; its address for SQLAlchemy."""
    where = programs()
    assert where is not None
    user = "nobody" if os.geteuid() == 0 else None
    # Below the system's own folder for such files: that of pytest is closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="tidings-postgres-"))
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    try:
        made = [where / "initdb", "-D", data, "-A", "trust", "-U", "tidings", "--no-sync", "--no-locale"]
        made += ["-E", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, user=user, cwd=folder, timeout=PATIENCE)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        server = subprocess.Popen(
            [where / "postgres", "-D", data, *(word for each in settings for word in ("-c", each))],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, user=user, cwd=folder,
        )  # fmt: skip
        assert server.stderr is not None
        try:
            while "ready to accept connections" not in (line := server.stderr.readline()):
                assert line, "PostgreSQL ended before it was ready"
            yield f"postgresql+psycopg://tidings@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.stderr.read()
            server.wait(PATIENCE)
            server.stderr.close()
    finally:
        shutil.rmtree(folder)
