"""The service manager is told: ready, alive, stopping; and the unit file is one that systemd takes."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.runtime.notify import Watchdog, notify

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "tidings.service"
MOST_EXPOSED = 2.0  # of 10, as `systemd-analyze security` counts; below 4 it says OK


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    subscription = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    subscription.bind(str(tmp_path / "notify"))
    subscription.settimeout(60)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    yield subscription
    subscription.close()


def test_nothing_is_sent_without_a_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    assert not notify("READY=1")


def test_a_name_without_a_file_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as subscription:
        subscription.bind("\0tidings-test-notify")
        monkeypatch.setenv("NOTIFY_SOCKET", "@tidings-test-notify")
        assert notify("READY=1")
        assert subscription.recv(100) == b"READY=1"


def test_a_watchdog_is_fed_while_the_loop_turns(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000")

    async def turn() -> None:
        watchdog = Watchdog()
        watchdog.start()
        for _ in range(3):
            assert await asyncio.to_thread(manager.recv, 100) == b"WATCHDOG=1"
        watchdog.stop()

    asyncio.run(turn())


def test_a_broker_says_that_it_is_ready_and_that_it_stops(manager: socket.socket) -> None:
    command = [sys.executable, "-m", "tidings.runtime.process", "--name", "b"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert manager.recv(100) == b"READY=1"
    broker.terminate()
    assert manager.recv(100) == b"STOPPING=1"
    broker.communicate(timeout=60)
    assert broker.returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.skipif(not UNIT.exists(), reason="a source distribution without deploy/")
def test_the_unit_file_is_valid_and_hardened(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/opt/tidings/bin/tidings", "/bin/true")
    (tmp_path / "tidings.service").write_text(text)
    verify = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "tidings.service")]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    stated = [line for line in done.stderr.splitlines() if "tidings.service" in line]
    assert (done.returncode, stated) == (0, [])
    security = ["systemd-analyze", "security", "--offline=true", str(tmp_path / "tidings.service")]
    done = subprocess.run(security, capture_output=True, text=True, check=False)
    exposed = float(done.stdout.rpartition("exposure level for tidings.service: ")[2].split()[0])
    assert exposed <= MOST_EXPOSED
