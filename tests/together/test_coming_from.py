"""The page *Coming from …*: both programs of each pair run, and print the same.

The peer's server is started here, on loopback; a peer whose server is not installed is left out and says
so. No server of Kafka can be had: of that pair the peer's program is compiled and the other one run.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "coming_from"
PAGE = ROOT / "docs" / "coming-from.md"
PATIENCE = 180.0
EXPECTED = {
    "nats": {"fell: IBM", "price: 130.5"},
    "mqtt": {"rooms/1/temperature 31"},
    "kafka": {"billed 1", "billed 2"},
    "celery": {"sent to ada at attempt 2"},
    "faststream": {"order 7: 30.00"},
}


def program(name: str, *words: str) -> set[str]:
    """The lines that a program prints; it must end well."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py"), *words], capture_output=True, text=True,
        timeout=PATIENCE, check=False,
        env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def found(server: str) -> str | None:
    return shutil.which(server, path="/usr/local/bin:/usr/bin:/usr/sbin:/usr/local/sbin")


@contextmanager
def running(*command: str, port: int) -> Iterator[None]:
    """A server of a peer, from when it accepts connections."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, f"{command[0]} ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def needs(server: str) -> str:
    where = found(server)
    if where is None:
        pytest.skip(f"{server} is not installed")
    return where


@pytest.mark.parametrize("name", list(EXPECTED))
def test_the_program_with_tidings(name: str, broker: str) -> None:
    assert program(f"{name}_tidings", broker) == EXPECTED[name]


@pytest.mark.parametrize("name", ["nats", "faststream"])
def test_the_program_of_nats_and_faststream(name: str, port: int) -> None:
    with running(needs("nats-server"), "-a", "127.0.0.1", "-p", str(port), port=port):
        assert program(f"{name}_peer", f"nats://127.0.0.1:{port}") == EXPECTED[name]


def test_the_program_of_mqtt(port: int, tmp_path: Path) -> None:
    settings = tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with running(needs("mosquitto"), "-c", str(settings), port=port):
        assert program("mqtt_peer", "127.0.0.1", str(port)) == EXPECTED["mqtt"]


def test_the_program_of_celery(port: int, tmp_path: Path) -> None:
    words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
    with running(needs("redis-server"), *words, port=port):
        assert program("celery_peer", f"redis://127.0.0.1:{port}/0") == EXPECTED["celery"]


def test_the_program_of_kafka_is_python() -> None:
    compile((PROGRAMS / "kafka_peer.py").read_text(), "kafka_peer.py", "exec")


def test_the_page_shows_these_programs() -> None:
    blocks = re.findall(r"```py title=\"(\w+)\.py\"\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert sorted(name for name, _ in blocks) == sorted(path.stem for path in PROGRAMS.glob("*.py"))
    for name, text in blocks:
        source = (PROGRAMS / f"{name}.py").read_text().partition('"""\n\n')[2]
        assert text == source, f"{name}: run python scripts/docs.py or copy the program into the page"
