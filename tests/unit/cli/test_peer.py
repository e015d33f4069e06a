"""`tidings peer`: peers as processes that hear one another, and options that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidings.cli import main

ROOT = Path(__file__).parents[3]


class PeerProcess:
    def __init__(self, *words: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings", "peer", "--json", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip
        self.address = self.line()["peer"]

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def say(self, **event: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(event) + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode


def test_what_one_peer_reads_others_print() -> None:
    above = PeerProcess("--topic", "a", "--count", "1")
    below = PeerProcess("--topic", "a/b", "--join", above.address, "--publish", "-")
    try:
        below.say(x=1)  # waits until somebody of the group above is found
        assert below.line()["x"] == 1
        received = above.line()
        assert (received["x"], received["topic"]) == (1, "a/b")
        assert above.process.wait(timeout=60) == 0
    finally:
        below.end()
        above.end()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--reliability", "1.5"], "between 0 and 1"),
        (["--listen", "nowhere:x"], "no broker's address"),
        (["--join", "no.such.host.invalid:7200", "--topic", "a"], "no address is known"),
    ],
    ids=["reliability", "listen", "join"],
)
def test_wrong_options_are_refused(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peer", *words]) in (2, 3)
    assert complaint in capsys.readouterr().err
