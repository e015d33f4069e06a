"""`tidings quality`: organisations as processes, one of them killed on the way; and what is refused."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tidings.testing.processes import Process, started
from tidings_quality.client import OrganisationClient
from tidings_quality.model import QualityChange
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.schema import write_schema

NAMES = ("INPS", "CoC")
WATCHED = "ON Enterprise/Holder WHERE name.accuracy <= medium"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The settings of two organisations."""
    (tmp_path / "schema.json").write_bytes(write_schema(running_example()))
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
    ports = {name: one.getsockname()[1] for name, one in zip(NAMES, sockets, strict=True)}
    for name, other in (NAMES, NAMES[::-1]):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\nschema = "schema.json"\nlisten = "127.0.0.1:{ports[name]}"\nstate = '
            f'"{name}.db"\n'
            f'[peers.{other}]\nurl = "http://127.0.0.1:{ports[other]}"\ntoken = "agreed"\n'
        )
    for one in sockets:
        one.close()
    return tmp_path


def change(key: str, value: float = 0.3) -> QualityChange:
    return QualityChange(
        HOLDER, "CoC", key, "Name", "accuracy", value, "1", {"Name": "M. Mecella"}, before=0.9
    )


def served(stack: ExitStack, folder: Path, name: str) -> tuple[Process, str]:
    process = stack.enter_context(started("quality", "serve", str(folder / f"{name}.toml"), "--json"))
    row = process.row()
    assert row["organisation"] == name
    return process, row["address"]


def test_a_subscriber_hears_each_change_once_though_its_organisation_is_killed(folder: Path) -> None:
    with ExitStack() as stack:
        inps, at_inps = served(stack, folder, "INPS")
        coc, at_coc = served(stack, folder, "CoC")
        factory = stack.enter_context(OrganisationClient(at_coc))
        words = ("quality", "watch", WATCHED, "--at", at_inps, "--as", "w", "--json", "--count", "3")
        watcher = stack.enter_context(started(*words))
        watcher.until_said("watching")
        assert factory.publish([change("a"), change("b", 0.95)]) == 2
        assert watcher.row()["object"] == "a"
        inps.signal(signal.SIGKILL)
        inps.ended()
        assert factory.publish([change("c"), change("a")]) == 1
        watcher.until_said("tried again")
        inps, _ = served(stack, folder, "INPS")
        factory.publish([change("d")])
        assert sorted(watcher.row()["object"] for _ in range(2)) == ["c", "d"]
        assert watcher.ended() == 0
        assert factory.tables()["figures"]["sending"] == 0
        with OrganisationClient(at_inps) as user:
            assert user.notifications("watch.w") == []
        for process in (inps, coc):
            process.signal(signal.SIGTERM)
            assert process.ended() == 0


def test_watching_says_what_is_wrong(tidings: Callable[..., object]) -> None:
    ran = tidings("quality", "watch", "ON Enterprise WHERE name.accuracy <", "--at", "http://127.0.0.1:9")
    assert ran.code == 2  # type: ignore[attr-defined]
    assert "^" in ran.err  # type: ignore[attr-defined]
    ran = tidings("quality", "watch", WATCHED, "--at", "http://127.0.0.1:9")
    assert ran.code == 3  # type: ignore[attr-defined]
    assert "tidings quality serve" in ran.err  # type: ignore[attr-defined]


def test_serving_says_what_is_wrong_with_the_settings(tidings: Callable[..., object], tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    for text, problem in (
        ("name = 1", "schema"),
        ('name = "X"\nschema = "schema.json"', "no organisation 'X'"),
        ('name = "CoC"\nschema = "schema.json"\nport = 3', "port"),
        ('name = "CoC"\nschema = "schema.json"\n[peers.INPS]\nurl = "here"', "http"),
        ('name = "CoC"\nschema = "schema.json"\nlisten = "0.0.0.0:1"', "no TLS"),
        ('name = "CoC"\nschema = "schema.json"\n[peers.INPS]\nurl = "http://inps.example"', "unencrypted"),
    ):
        (tmp_path / "schema.json").write_bytes(write_schema(running_example()))
        file.write_text(text)
        ran = tidings("quality", "serve", str(file))
        assert ran.code == 2  # type: ignore[attr-defined]
        assert problem in ran.err  # type: ignore[attr-defined]
