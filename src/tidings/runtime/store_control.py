"""Control socket of a store: `tidings store` reaches the broker that holds a store's lock through its
directory.

The broker listens at `control` in the store's directory, a Unix socket for the owner of the directory alone:
access to the directory is access to all that the store holds, so no other right is asked for. Each line is a
JSON object.

| request | reply |
|---|---|
| `{"do": "checkpoint"}` | `{"folder"}`: a consistent copy of hard links, removed when the connection ends |
| `{"do": "compact"}` | `{"before", "after"}`: bytes of the store |

Rules
- The broker makes checkpoints; copying, hashing and auditing them is the work of the process that asked.
- A request that fails is answered by `{"error", "hint"}`. Every request is audited.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tidings.errors import StoreError, StoreLockedError, TidingsError
from tidings.store.rocks import RocksStore

NAME = "control"
LINE_SIZE = 4_096  # bytes of a request
AT_ONCE = 4  # connections


class StoreControl:
    """The broker's end. `note` writes to the audit."""

    def __init__(self, store: RocksStore, note: Callable[[str, str, str], None]) -> None:
        self._store, self._note = store, note
        self._path = store.path / NAME
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()  # of a process that has died: the lock of the store is ours
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _reached(self._path) as name:
            before = os.umask(0o177)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LINE_SIZE)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        folders: list[Path] = []
        try:
            # The other end goes, or sends no lines, or the broker stops: the copy is no longer needed.
            with suppress(ConnectionError, ValueError, asyncio.CancelledError):
                while self._open <= AT_ONCE and (line := await reader.readline()):
                    writer.write(json.dumps(await self._answer(line, folders)).encode() + b"\n")
                    await writer.drain()
        finally:
            self._open -= 1
            writer.close()
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

    async def _answer(self, line: bytes, folders: list[Path]) -> dict[str, Any]:
        do = ""
        try:
            do = str(json.loads(line)["do"])
            answer = await self._done(do, folders)
        except (ValueError, KeyError, TypeError):
            return {"error": "a request is a JSON object with `do`", "hint": ""}
        except TidingsError as error:
            self._note(do, "refused", error.message)
            return {"error": error.message, "hint": error.hint}
        self._note(do, "ok", "")
        return answer

    async def _done(self, do: str, folders: list[Path]) -> dict[str, Any]:
        store = self._store
        if do == "checkpoint":
            folder = await asyncio.to_thread(store.checkpoint, secrets.token_hex(8))
            folders.append(folder)
            return {"folder": folder.name}
        if do == "compact":
            before = store.sizes()["bytes"]
            await asyncio.to_thread(store.compact)
            return {"before": before, "after": store.sizes()["bytes"]}
        raise StoreError(f"this broker's store does no {do[:40]!r}", hint="the broker is of another version")


class ControlConnection:
    """The other end: a command that asks the broker on this machine that holds a store. Blocks."""

    def __init__(self, store: Path, timeout: float = 600.0) -> None:
        self._store = store
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            with _reached(store / NAME) as name:
                self._socket.connect(name)
        except OSError as error:
            self._socket.close()
            raise StoreLockedError(
                f"store {store} is open in another process, which takes no requests: "
                f"{error.strerror or error}",
                hint="it is a bus in a program, or a broker of an earlier version: stop it first",
            ) from None
        self._lines = self._socket.makefile("rb")

    def ask(self, do: str) -> dict[str, Any]:
        try:
            self._socket.sendall(json.dumps({"do": do}).encode() + b"\n")
            line = self._lines.readline()
        except OSError as error:
            line = b""
            reason = str(error)
        else:
            reason = "it ended the connection"
        if not line:
            raise StoreError(f"the broker of store {self._store} did not answer: {reason}", hint="try again")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StoreError(answer["error"], hint=answer["hint"])
        return answer

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


@contextmanager
def _reached(path: Path) -> Iterator[str]:
    """A name for a socket that is short enough: the system allows about 100 bytes, and paths are longer."""
    if len(os.fsencode(path)) < 100 or not Path("/proc/self/fd").is_dir():
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
