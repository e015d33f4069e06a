"""`store`, `admin`, `users add` and `doctor`: what an operator types, with a broker process that runs."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings.testing.processes import started

Run = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("brokers")


@pytest.fixture
def home(tmp_path: Path, tidings: Run) -> Path:
    for name in ("ann", "root"):
        assert tidings("users", "add", str(tmp_path / "users.toml"), name, stdin="pencil\n").code == 0
    with (tmp_path / "users.toml").open("a") as file:
        file.write('[[allow]]\nwho = "ann"\naction = ["publish", "subscribe"]\n')
        file.write('[[allow]]\nwho = "root"\naction = ["admin", "observe"]\n')
    (tmp_path / "broker.toml").write_text(
        'name = "b1"\nlisten = "127.0.0.1:0"\nstore = "data"\n[security]\nusers = "users.toml"\n'
        'audit = "audit.jsonl"\n'
    )
    (tmp_path / "password").write_text("pencil\n")
    return tmp_path


def test_an_operator_backs_up_administers_and_restores(
    home: Path, tidings: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, backups = str(home / "data"), str(home / "backups")
    monkeypatch.setenv("TIDINGS_PASSWORD_FILE", str(home / "password"))

    def by(name: str, *words: str) -> Any:
        monkeypatch.setenv("TIDINGS_USER", name)
        return tidings(*words)

    with started("broker", "--config", str(home / "broker.toml"), "--json") as broker:
        monkeypatch.setenv("TIDINGS_BROKER", broker.row()["address"])
        for number in range(3):
            assert by("ann", "pub", f"n={number}", "--lifetime", "600").code == 0
        assert by("ann", "admin", "pins").code == 2, "it needs a right of its own"
        pins = by("root", "admin", "pins", "--json").rows[0]
        assert (pins["oldest"], pins["next"], pins["pins"][0]["kind"]) == (1, 4, "lifetime")
        assert by("root", "admin", "list", "sessions", "--json").rows[0]["rows"][0]["principal"] == "root"
        refused = by("root", "admin", "end", "subscription", "ann/no", "--yes")
        assert refused.code == 2
        assert "list them: tidings admin list subscriptions" in refused.err
        taken = tidings("store", "backup", store, backups, "--json").rows[0]
        assert (taken["broker"], taken["entries"], taken["next_offset"]) == ("b1", 3, 4)
        purged = by("root", "admin", "purge", "n = 1", "--yes", "--json").rows[0]
        assert (purged["matches"], purged["purged"]) == (1, 1)
        assert tidings("store", "verify", store).code == 0
        assert "now" in tidings("store", "compact", store).out
        doctor = by("root", "doctor", "--config", str(home / "broker.toml"), "--json").rows[0]
        assert {"settings", "users", "disk", "clock", "limits"} <= {
            each["check"] for each in doctor["findings"]
        }
        broker.signal(signal.SIGKILL)
    shutil.rmtree(store)
    restored = tidings("store", "restore", backups, store)
    assert restored.code == 0
    assert "3 events" in restored.out
    assert tidings("store", "restore", backups, store).code == 2, "it is not empty"
    assert tidings("store", "verify", backups, "--json").rows[0]["ok"]
    with started("broker", "--config", str(home / "broker.toml"), "--json") as broker:
        monkeypatch.setenv("TIDINGS_BROKER", broker.row()["address"])
        receipt = by("ann", "pub", "n=9", "--lifetime", "600", "--json").rows[0]
        assert receipt["position"]["offset"] > 1_000_000
        received = by("ann", "sub", "--count", "4", "--wait", "60", "--json").rows
        assert [row["n"] for row in received] == [0, 1, 2, 9]
        broker.signal(signal.SIGTERM)
        assert broker.ended() == 0
    audited = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    subjects = {(entry["action"], entry["outcome"], entry.get("subject", "")) for entry in audited}
    assert {
        ("store", "ok", "checkpoint"),
        ("admin", "ok", "purge n = 1"),
        ("admin", "refused", "pins"),
    } <= subjects
