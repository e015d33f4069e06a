"""A single broker process for a test, ended by its own id."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import tidings

SOURCE = Path(tidings.__file__).parents[1]


class BrokerProcess:
    def __init__(self, folder: Path, *, port: int = 0, files: int | None = None) -> None:
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        self._errors = folder / "broker.err"
        command = [sys.executable, "-m", "tidings.runtime.process", "--name", "b1"]
        command += ["--listen", f"127.0.0.1:{port}", "--store", str(folder / "b1")]

        def limit() -> None:
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with self._errors.open("a") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYTHONPATH": path}, preexec_fn=limit,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._errors.read_text()
        self.address: str = json.loads(line)["address"]
        self.port = int(self.address.rpartition(":")[2])

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self, seconds: float = 30) -> int:
        code = self.process.wait(seconds)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def errors(self) -> str:
        return self._errors.read_text()
