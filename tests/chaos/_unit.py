"""A unit of broker processes for a test: `tidings broker --processes N`, ended by its own id."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import tidings

SOURCE = Path(tidings.__file__).parents[1]


class Unit:
    def __init__(self, folder: Path, processes: int, *arguments: str) -> None:
        self._folder = folder
        self._arguments = (
            "--name",
            "u",
            "--store",
            str(folder / "store"),
            "--http",
            "127.0.0.1:0",
            *arguments,
        )
        self._processes = processes
        self.said: dict[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Unit:
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        with (self._folder / "unit.err").open("a") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tidings", "broker", "--listen", "127.0.0.1:0",
                "--processes", str(self._processes), "--json", *self._arguments,
                stdout=asyncio.subprocess.PIPE, stderr=errors, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 120)
        assert line, self.errors()
        self.said = json.loads(line)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.end()

    async def end(self) -> int:
        """SIGTERM: all processes drain. The exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._process.wait(), 60)

    def kill(self, number: int) -> None:
        os.kill(self.said["processes"][number]["process"], signal.SIGKILL)

    @property
    def address(self) -> str:
        return str(self.said["address"])

    def errors(self) -> str:
        return (self._folder / "unit.err").read_text()[-3000:]
