"""Random sessions of two clients, against our gateway and against mosquitto: every difference is allowed."""

from __future__ import annotations

import asyncio
import getpass
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.gateway._peer import Peer, at, run
from tests.gateway._sessions import EXPLAINED, differences, play

FEW, MANY = 12, 500


@contextmanager
def mosquitto(folder: Path) -> Iterator[int]:
    """A mosquitto that keeps every message; its port."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        pytest.skip("mosquitto is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {getpass.getuser()}\n"
    (folder / "mosquitto.conf").write_text(text + "max_queued_messages 0\n")
    with (folder / "mosquitto.log").open("wb") as stated:
        process = subprocess.Popen(
            [program, "-c", str(folder / "mosquitto.conf")], stdout=stated, stderr=stated
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


async def listening(port: int) -> None:
    """Wait until a broker answers there."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0)
            continue
        Peer.writers.append(writer)
        return


def compared(seeds: range, folder: Path) -> Counter[str]:
    """The classes of differences in the sessions of these seeds."""
    found: Counter[str] = Counter()

    async def test() -> None:
        async with at() as port:
            await listening(other)
            for seed in seeds:
                found.update(differences(seed, await play(port, seed), await play(other, seed)))

    with mosquitto(folder) as other:
        run(test, seconds=10.0 * len(seeds))
    return found


def test_some_random_sessions_differ_from_mosquitto_only_where_both_are_right(tmp_path: Path) -> None:
    assert set(compared(range(FEW), tmp_path)) <= set(EXPLAINED)


@pytest.mark.soak
def test_many_random_sessions_differ_from_mosquitto_only_where_both_are_right(tmp_path: Path) -> None:
    found = compared(range(MANY), tmp_path)
    print(dict(found))
    assert set(found) <= set(EXPLAINED)
