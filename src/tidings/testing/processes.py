"""Real processes for tests: started with our interpreter, waited for by what they print, always ended."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 180.0  # seconds; a loaded machine takes its time to start Python


class Process:
    """`tidings WORDS`, with its lines as they come."""

    def __init__(self, *words: str, cwd: Any = None, **environment: str) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._lines: queue.Queue[str] = queue.Queue()
        self.said: list[str] = []  # on standard error
        self.process = subprocess.Popen(  # noqa: S603 - a test names the command
            [sys.executable, "-m", "tidings", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
            env={**given, "PYTHONPATH": path, "NO_COLOR": "1", **environment},
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.said.append), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: Any, put: Any) -> None:
        for line in stream:
            put(line.rstrip("\n"))

    def line(self) -> str:
        """The next line on standard output."""
        return self._lines.get(timeout=PATIENCE)

    def row(self) -> Any:
        return json.loads(self.line())

    def rest(self) -> list[str]:
        """The remaining output, after its end."""
        for thread in self._threads:
            thread.join(PATIENCE)
        return [self._lines.get_nowait() for _ in range(self._lines.qsize())]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Exit code of the process."""
        return self.process.wait(PATIENCE)

    def until_said(self, words: str) -> None:
        """Until it says so on standard error."""
        seen = threading.Event()
        while not any(words in line for line in list(self.said)):
            if self.process.poll() is not None:  # no assert: `python -O` would wait for ever
                raise AssertionError(self.said)
            seen.wait(0.01)


@contextmanager
def started(*words: str, **options: Any) -> Iterator[Process]:
    process = Process(*words, **options)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.signal(signal.SIGTERM)
            try:
                process.ended()
            finally:
                process.process.kill()
        for stream in (process.process.stdin, process.process.stdout, process.process.stderr):
            if stream is not None:
                stream.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
