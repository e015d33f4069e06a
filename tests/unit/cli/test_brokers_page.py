"""The commands of docs/brokers.md, run as they stand, but for free ports in the place of the usual ones."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests.tidy._sources import ROOT
from tests.unit.cli._processes import PATIENCE, Process, started

pytestmark = pytest.mark.xdist_group("brokers")
SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
SERVERS = ("tidings cluster up", "tidings broker")


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody uses now; below those that systems hand out."""
    for base in Random().sample(range(20_000, 32_000, 10), 200):
        with ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")


def commands() -> list[str]:
    text = (ROOT / "docs" / "brokers.md").read_text()
    return [line for block in SHELL.findall(text) for line in block.splitlines() if line]


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    base = free_ports(8)
    (tmp_path / "password.txt").write_text("pencil\n")
    (tmp_path / "users.toml").write_text('[[allow]]\nwho = "ann"\naction = "publish"\n')
    heard: dict[str, str] = {}
    with ExitStack() as stack:
        for command in commands():
            placed = re.sub(r"\b7[12]1[789]\b", lambda found: port(found[0], base), command)
            if command.startswith(SERVERS):
                words = [*shlex.split(placed)[1:], "--json"]
                if "cluster" in words:
                    words += ["--port", str(base)]
                server: Process = stack.enter_context(started(*words, cwd=tmp_path))
                assert server.row()
            else:
                heard[command] = run(placed, tmp_path)
    (event,) = [json.loads(said) for command, said in heard.items() if "--count 1 --json" in command]
    assert (event["StockName"], event["change"]) == ("IBM", -4.5)
    assert any(said.startswith('password = "SCRAM-SHA-256$') for said in heard.values())
    assert '"specversion"' in (tmp_path / "kept.jsonl").read_text()


def port(number: str, base: int) -> str:
    """7117, 7118, 7119 are the cluster's; 7217 and 7218 those of the two brokers."""
    return str(base + int(number) - 7117 if number.startswith("71") else base + 5 + int(number) - 7217)


def run(command: str, folder: Path) -> str:
    script = f'tidings() {{ "{sys.executable}" -m tidings "$@"; }}\n{command}'
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
