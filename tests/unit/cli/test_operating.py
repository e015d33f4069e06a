"""`broker`, `settings`, `users` and `certs`: what an operator types, and what is refused."""

from __future__ import annotations

import json
import signal
import socket
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tidings.cli import build, command_names, remote
from tidings.testing.processes import started

Run = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("brokers")


@pytest.fixture
def home(tmp_path: Path, tidings: Run) -> Path:
    """Settings and users for one broker: ann with a password may do everything."""
    key = tidings("users", "key", stdin="pencil\n").out
    rules = '[[allow]]\nwho = "ann"\naction = ["publish", "subscribe", "observe"]\n'
    (tmp_path / "users.toml").write_text(f"[users.ann]\n{key}{rules}")
    (tmp_path / "broker.toml").write_text(
        'name = "b1"\nlisten = "127.0.0.1:0"\nstore = "data"\nhttp = "127.0.0.1:0"\n'
        '[security]\nusers = "users.toml"\naudit = "audit.jsonl"\n[log]\nformat = "json"\n'
    )
    (tmp_path / "password").write_text("pencil\n")
    return tmp_path


def test_a_broker_runs_reloads_and_drains(home: Path, tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with started("broker", "--config", str(home / "broker.toml"), "--json") as broker:
        ready = broker.row()
        monkeypatch.setenv("TIDINGS_USER", "ann")
        monkeypatch.setenv("TIDINGS_PASSWORD_FILE", str(home / "password"))
        monkeypatch.setenv("TIDINGS_BROKER", ready["address"])
        assert tidings("pub", "n=1", "--lifetime", "60").code == 0
        with urllib.request.urlopen(ready["http"] + "/healthz", timeout=120) as answer:
            assert json.load(answer)["ok"]
        users = (home / "users.toml").read_text()
        (home / "users.toml").write_text("[users.ann\n")
        broker.signal(signal.SIGHUP)
        broker.until_said("the old ones stay")
        assert tidings("pub", "n=2", "--lifetime", "60").code == 0
        (home / "users.toml").write_text(users.replace('"publish", ', ""))
        broker.signal(signal.SIGHUP)
        broker.until_said("reloaded")
        refused = tidings("pub", "n=3")
        assert refused.code == 2
        assert "ann may publish nothing" in refused.err or "may not publish" in refused.err
        received = tidings("sub", "--count", "2", "--wait", "20", "--json").rows
        assert [row["n"] for row in received] == [1, 2]
        broker.signal(signal.SIGTERM)
        assert broker.ended() == 0
    written = (home / "audit.jsonl").read_text() + "".join(broker.said)
    assert '"action":"publish","outcome":"refused"' in written
    assert "pencil" not in written
    assert stat.S_IMODE((home / "audit.jsonl").stat().st_mode) == 0o600
    assert all(json.loads(line)["broker"] == "b1" for line in broker.said)


def test_who_proves_nothing_is_refused(home: Path, tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with started("broker", "--config", str(home / "broker.toml"), "--json") as broker:
        monkeypatch.setenv("TIDINGS_BROKER", broker.row()["address"])
        assert "asks who you are" in tidings("pub", "n=1").err
        monkeypatch.setenv("TIDINGS_PASSWORD", "wrong")
        assert "set TIDINGS_USER" in tidings("pub", "n=1").err
        monkeypatch.setenv("TIDINGS_USER", "ann")
        ran = tidings("top", "--once")
        assert ran.code == 2
        assert "the name or the password is wrong" in ran.err
        monkeypatch.setenv("TIDINGS_TOKEN", "a.b.c")
        assert "the token is not valid here" in tidings("pub", "n=1").err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "there is no users file"),
        (("--listen", "0.0.0.0:0", "--users", "users.toml", "--name", "b"), 2, "there is no TLS"),
        (("--users", "absent.toml", "--name", "b"), 2, "absent.toml cannot be read: No such file"),
        (("--config", "absent.toml"), 2, "absent.toml: No such file"),
        (("--users", "users.toml", "--listen", "127.0.0.1:0"), 2, "needs a name"),
        (("--users", "users.toml", "--listen", "nonsense", "--name", "b"), 2, "nonsense"),
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(
    words: tuple[str, ...], code: int, said: str, home: Path, tidings: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    ran = tidings("broker", *words)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_port_that_is_taken_is_named(home: Path, tidings: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = tidings("broker", "--users", str(home / "users.toml"), "--listen", f"127.0.0.1:{port}")
    assert ran.code == 3
    assert "in use" in ran.err


def test_settings_are_printed_with_their_meaning(
    tidings: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = tidings("settings", "--json").rows
    by_name = {row["name"]: row for row in found["settings"]}
    assert by_name["network.peer_timeout_seconds"]["default"] == 15.0
    assert by_name["network.peer_timeout_seconds"]["variable"] == "TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS"
    assert "gone" in by_name["network.peer_timeout_seconds"]["meaning"]
    monkeypatch.setenv("TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS", "30")
    shown = tidings("settings", "--config", str(home / "broker.toml")).out
    assert "peer_timeout_seconds = 30.0   (default: 15.0)" in shown
    assert 'name = "b1"' in shown
    monkeypatch.setenv("TIDINGS_NETWORK_PEER_TIMEOUT_SECOND", "30")
    assert "did you mean TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS?" in tidings("settings").err


def test_users_are_made_checked_and_asked_about(home: Path, tidings: Run) -> None:
    file = str(home / "users.toml")
    assert "1 users, 1 with a password, 3 rules" in tidings("users", "check", file).out
    assert tidings("users", "may", file, "ann", "subscribe", "a = 1").out == "yes: a = 1\n"
    no = tidings("users", "may", file, "bob", "publish", "--json")
    assert (no.code, no.rows[0]["allowed"]) == (1, None)
    assert tidings("users", "may", file, "bob", "fly").code == 2
    assert tidings("users", "key", stdin="").code == 2
    (home / "users.toml").write_text("[users.ann]\npasword = 'hunter2'")
    ran = tidings("users", "check", file)
    assert ran.code == 2
    assert "did you mean password?" in ran.err
    assert "hunter2" not in ran.err


def test_a_network_with_certificates_from_the_command_line(home: Path, tidings: Run) -> None:
    certs = home / "certs"
    assert tidings("certs", "new", str(certs)).code == 0
    assert tidings("certs", "broker", str(certs), "b1", "--json").rows[0]["key"] == str(certs / "b1.key")
    assert "keep it to yourself" in tidings("certs", "client", str(certs), "ann").out
    assert tidings("certs", "new", str(certs)).code == 2
    tls = (
        f'[tls]\ncertificate = "{certs}/b1.pem"\nkey = "{certs}/b1.key"\nauthority = '
        f'"{certs}/authority.pem"\n'
    )
    (home / "broker.toml").write_text((home / "broker.toml").read_text() + tls)
    environment = {
        "TIDINGS_CERTIFICATE": f"{certs}/ann.pem",
        "TIDINGS_KEY": f"{certs}/ann.key",
        "TIDINGS_AUTHORITY": f"{certs}/authority.pem",
        "TIDINGS_USER": "ann",
    }
    with started("broker", "--config", str(home / "broker.toml"), "--json") as broker:
        address = broker.row()["address"]
        assert address.startswith("tidings+tls://")
        with started("pub", "n=1", "--lifetime", "60", "--broker", address, **environment) as publisher:
            assert publisher.ended() == 0, publisher.said


def test_no_command_takes_a_secret_as_an_argument() -> None:
    def options(command: Any) -> list[str]:
        inner = getattr(command, "commands", {})
        own = [name for param in command.params for name in param.opts]
        return own + [name for sub in inner.values() for name in options(sub)]

    names = options(typer.main.get_command(build(command_names())))
    assert "--users" in names
    assert not [
        name for name in names if any(word in name for word in ("password", "token", "secret", "key-"))
    ]


def test_rights_are_shown_within_the_tenant(tmp_path: Path, tidings: Run) -> None:
    key = tidings("users", "key", stdin="pencil\n").out
    rule = '[[allow]]\nwho = "eve"\naction = "subscribe"\n'
    (tmp_path / "users.toml").write_text(f'[users.eve]\n{key}tenant = "acme"\n{rule}')
    file = str(tmp_path / "users.toml")
    assert tidings("users", "may", file, "eve", "subscribe").out == "yes: tenant = 'acme'\n"
    assert "tenant = 'acme'" in tidings("users", "may", file, "eve", "subscribe", "n = 1").out
    assert tidings("users", "may", file, "eve", "subscribe", "tenant = 'b'").code == 1


def test_a_file_for_development_can_be_checked(tmp_path: Path, tidings: Run) -> None:
    (tmp_path / "dev.toml").write_text('listen = "127.0.0.1:0"\n[gateway]\nmqtt = "127.0.0.1:0"\n')
    file = str(tmp_path / "dev.toml")
    assert "there is no users file" in tidings("settings", "--config", file).err
    assert tidings("settings", "--config", file, "--dev").code == 0
    found = tidings("doctor", "--config", file, "--dev").out
    assert "127.0.0.1:0 (gateway.mqtt)" in found
    assert "settings: broker" in found


def test_a_timeout_is_for_each_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("tidings.connect", lambda address, **options: given.update(options))
    monkeypatch.setattr(remote, "_made", [])
    remote.bus("tidings://127.0.0.1:7117", timeout=3.0)
    assert (given["timeout"], given["call_timeout"]) == (3.0, 3.0)
    remote.bus("tidings://127.0.0.1:7117")
    assert (given["timeout"], given["call_timeout"]) == (10.0, 30.0)


@pytest.mark.parametrize(
    ("words", "kept"), [(("users", "add"), "[[allow]]"), (("top",), "[figures of each]")]
)
def test_help_keeps_words_in_brackets(words: tuple[str, ...], kept: str, tidings: Run) -> None:
    assert kept in " ".join(tidings(*words, "--help").out.split())


def test_a_user_is_disabled_and_enabled(home: Path, tidings: Run) -> None:
    file = str(home / "users.toml")
    before = (home / "users.toml").read_text()
    assert tidings("users", "disable", file, "ann").code == 0
    assert "disabled = true" in (home / "users.toml").read_text()
    assert tidings("users", "enable", file, "ann").code == 0
    assert (home / "users.toml").read_text() == before
