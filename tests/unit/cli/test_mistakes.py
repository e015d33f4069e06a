"""What a new user gets wrong: every mistake is named, says what to do next, and comes before
anything else."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings.runtime.clock import RealClock
from tidings.security.tokens import sign
from tidings.testing.processes import started

Run = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("brokers")
SECRET = "0123456789abcdef0123456789abcdef"

# words, exit code, what is said. Nobody listens anywhere: each is told before anybody is dialled.
MISTAKES = {
    "serve": ("serve", 2, "did you mean `tidings broker`?"),
    "password-in-address": ("sub --broker tidings://ann:pw@h:1", 2, "…@h:1\n  hint: leave them out"),
    "password-in-word": ("sub tidings://ann:pw@h:1", 2, "…@h:1\n  hint: leave them out"),
    "pub-address": ("pub tidings://h:1 x=1", 2, "give the address by --broker tidings://h:1"),
    "pub-short-address": ("pub 127.0.0.1:7117 x=1", 2, "give the address by --broker 127.0.0.1:7117"),
    "pub-no-attribute": ("pub x", 2, "'x' is not NAME=VALUE"),
    "pub-nan-in-a-list": ("pub tags=[1,NaN]", 2, "attribute 'tags' is NaN, which is no number in JSON"),
    "pub-nan": ("pub price=NaN", 2, "attribute 'price' is NaN, which is no number in JSON"),
    "pub-mode": ("pub x=1 --mode durable", 2, "one of 'auto', 'best effort', 'kept'"),
    "pub-lifetime": ("pub x=1 --lifetime never", 2, "give seconds, or forever"),
    "sub-address": ("sub tidings://h:1", 2, "give the address by --broker tidings://h:1"),
    "sub-filter": ("sub x>1", 2, 'a filter is given by --where "x>1"'),
    "sub-filter-syntax": ("sub --where x>", 2, "the filter ends at line 1, column 3"),
    "sub-durable": ("sub --durable", 2, "give --as NAME"),
    "top-address": ("top h:1", 2, "give the address by --broker h:1"),
    "broker-address": ("sub --broker nonsense:x", 2, "write --broker tidings://host:port"),
    "broker-port": ("pub --broker 127.0.0.1 a=1", 2, "write --broker tidings://127.0.0.1:7117"),
    "scheme": ("trace x --broker http://h", 2, "no broker can be reached by http://"),
    "option": ("broker --lisen 127.0.0.1:0", 2, "No such option"),
    "listen": (
        "broker --users users.toml --name b --listen 127.0.0.1:99999",
        2,
        "with a port from 0 to 65535",
    ),
    "http": ("broker --users users.toml --name b --listen 127.0.0.1:0 --http 127.0.0.1:99999", 2, "http is"),
    "join": ("broker --users users.toml --name b --listen 127.0.0.1:0 --join a:b", 2, "no broker's address"),
    "no-toml": ("broker --config bad.toml", 2, "bad.toml is not TOML"),
    "unknown-key": ("broker --config key.toml", 2, "did you mean listen?"),
    "wrong-type": ("broker --config type.toml", 2, "drain_seconds"),
    "no-settings": ("settings --config absent.toml", 2, "absent.toml: No such file"),
    "no-directory": ("broker --users users.toml --name b --listen 127.0.0.1:0 --store file", 3, "store file"),
    "no-permission": (
        "broker --users users.toml --name b --listen 127.0.0.1:0 --store /proc/none/here",
        3,
        "give a directory that can be written",
    ),
    "cluster": ("cluster up 0", 2, "1 or more"),
    "users-absent": ("users check absent.toml", 2, "absent.toml cannot be read"),
    "certs-absent": ("certs broker nowhere b1", 2, "tidings certs new nowhere"),
    "revoke-absent": ("certs revoke nowhere ann", 2, "nowhere/ann.pem: No such file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_says_what_to_do(
    name: str, tidings: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [variable for variable in os.environ if variable.startswith("TIDINGS_")]:
        monkeypatch.delenv(variable)
    Path("users.toml").write_text("")
    Path("file").touch()
    Path("bad.toml").write_text('listen = "127.0.0.1:0')
    Path("key.toml").write_text('lisen = "127.0.0.1:0"')
    Path("type.toml").write_text('drain_seconds = "long"')
    words, code, stated = MISTAKES[name]
    ran = tidings(*words.split(" "))
    assert ran.code == code, ran.err
    assert stated in ran.err.replace("\n│ ", ""), ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("price = 5", "write price=5"),
        (" price=5", "write price=5"),
        ("who = Ann B", "write 'who=Ann B'"),
        (" = 5", "events in files are given by --file"),
    ],
)
def test_a_name_with_a_space_at_an_end_is_refused(word: str, meant: str, tidings: Run) -> None:
    ran = tidings("pub", word, "--broker", "127.0.0.1:1")
    assert ran.code == 2
    assert "has a space at an end" in ran.err
    assert meant in ran.err


@pytest.mark.parametrize(
    ("word", "meant"), [("True", "true"), ("FALSE", "false"), ("None", "null"), ("Null", "null")]
)
def test_a_word_of_json_that_is_misspelt_is_warned_of(word: str, meant: str, tidings: Run) -> None:
    ran = tidings("pub", f"flag={word}", "--broker", "127.0.0.1:1", "--timeout", "0.01")
    assert f"flag={word} is published as the text '{word}'; as JSON it is flag={meant}" in ran.err


@pytest.mark.parametrize("word", ["true", "null", '"True"', "Truely", "-Infinity", "[]x"])
def test_a_value_that_is_json_or_plain_text_is_not(word: str, tidings: Run) -> None:
    ran = tidings("pub", f"flag={word}", "--broker", "127.0.0.1:1", "--timeout", "0.01")
    assert ran.code == 3
    assert "published as the text" not in ran.err


def test_nobody_listens_there_says_how_to_start_one(tidings: Run) -> None:
    ran = tidings("pub", "x=1", "--broker", "127.0.0.1:1", "--timeout", "0.3")
    assert ran.code == 3
    assert "no broker listens there" in ran.err
    assert "tidings broker --dev" in ran.err.replace("\n", " ")


def test_who_waits_for_a_broker_is_told_so(tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.cli.remote.WORD_AFTER", 0.0)
    ran = tidings("sub", "--broker", "tidings://127.0.0.1:1", "--timeout", "0.3")
    assert ran.err.startswith("waiting for the broker at tidings://127.0.0.1:1")


# -- with a broker that runs ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tidings.security.scram import make_key

    folder = tmp_path_factory.mktemp("home")
    (folder / "users.toml").write_text(
        f'[users.ann]\npassword = "{make_key("pencil", iterations=4096)}"\n'
        '[[allow]]\nwho = "ann"\naction = ["publish", "subscribe"]\n'
        '[[issuers]]\nissuer = "i"\naudience = "a"\nkey_file = "secret.txt"\n'
    )
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[dict[str, Any]]:
    """b1, with users and a store."""
    words = ["broker", "--name", "b1", "--listen", "127.0.0.1:0", "--users", str(home / "users.toml")]
    words += ["--store", str(home / "data"), "--http", "127.0.0.1:0", "--json"]
    with started(*words) as process:
        yield process.row() | {"ran": process}


def token(seconds: float) -> str:
    ends = RealClock().now() + seconds
    return sign({"sub": "ann", "exp": ends, "iss": "i", "aud": "a"}, SECRET.encode(), "HS256")


PROOFS: dict[str, tuple[dict[str, str], str]] = {
    "nothing": ({}, "set TIDINGS_USER and TIDINGS_PASSWORD_FILE"),
    "wrong-password": (
        {"TIDINGS_USER": "ann", "TIDINGS_PASSWORD": "pen"},
        "the name or the password is wrong",
    ),
    "unknown-user": (
        {"TIDINGS_USER": "zed", "TIDINGS_PASSWORD": "pencil"},
        "the name or the password is wrong",
    ),
    "password-without-user": ({"TIDINGS_PASSWORD": "pencil"}, "set TIDINGS_USER"),
    "password-file": ({"TIDINGS_USER": "ann", "TIDINGS_PASSWORD_FILE": "absent"}, "absent: No such file"),
    "expired-token": ({"TIDINGS_TOKEN": "expired"}, "it has ended (get a new one)"),
    "no-token": ({"TIDINGS_TOKEN": "a.b.c"}, "the token is not valid here"),
    "other-name": (
        {"TIDINGS_USER": "ann", "TIDINGS_PASSWORD": "pencil", "TIDINGS_NAME": "bob"},
        "ann may not use the client's name 'bob'",
    ),
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof_that_does_not_hold_says_what_is_missing(
    name: str, broker: dict[str, Any], tidings: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, stated = PROOFS[name]
    for variable, value in given.items():
        monkeypatch.setenv(variable, token(-60) if value == "expired" else value)
    ran = tidings("pub", "x=1", "--broker", broker["address"])
    assert ran.code == 2
    assert stated in ran.err.replace("\n", " "), ran.err
    assert "pencil" not in ran.err


def test_tls_at_a_port_without_tls_is_doubted(broker: dict[str, Any], tidings: Run) -> None:
    address = broker["address"].replace("tidings://", "tidings+tls://")
    ran = tidings("pub", "x=1", "--broker", address, "--timeout", "8")
    assert ran.code == 3
    assert "does it speak TLS?" in ran.err.replace("\n", " ")


def test_a_broker_to_join_that_is_down_is_named_and_tried_again() -> None:
    with started(
        "broker", "--dev", "--name", "b1", "--listen", "127.0.0.1:0", "--join", "127.0.0.1:1"
    ) as process:
        process.until_said("cannot join tidings://127.0.0.1:1")
        assert any("no broker listens there" in line or "refused" in line for line in process.said)


def test_a_store_that_is_in_use_and_a_port_that_is_taken_are_named(
    broker: dict[str, Any], home: Path, tidings: Run
) -> None:
    own = ["broker", "--users", str(home / "users.toml"), "--name", "b2"]
    ran = tidings(*own, "--listen", "127.0.0.1:0", "--store", str(home / "data"))
    assert ran.code == 3
    assert "a store has one owner" in ran.err.replace("\n", " ")
    position = broker["address"].partition("://")[2]
    ran = tidings(*own, "--listen", position)
    assert ran.code == 3
    stated = ran.err.replace("\n", " ")
    assert f"cannot listen at {position}: Address already in use" in stated
    assert "choose another address (--listen" in stated
    http = json.loads(json.dumps(broker["http"])).removeprefix("http://")
    ran = tidings(*own, "--listen", "127.0.0.1:0", "--http", http)
    assert ran.code == 3
    assert "choose another address for http" in ran.err.replace("\n", " ")


def test_the_store_of_another_broker_is_refused(home: Path, tidings: Run, tmp_path: Path) -> None:
    own = ["broker", "--users", str(home / "users.toml"), "--listen", "127.0.0.1:0"]
    own += ["--store", str(tmp_path / "data")]
    with started(*own, "--name", "b1", "--json") as process:
        process.row()
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
    ran = tidings(*own, "--name", "b2")
    assert ran.code == 2
    assert "is that of broker b1, and this is b2" in ran.err.replace("\n", " ")
    with started(*own, "--name", "b1", "--json") as process:
        assert process.row()["broker"] == "b1", "it is as it was"


def test_sockets_are_free_after_a_refused_start(home: Path, tidings: Run) -> None:
    """A broker that cannot serve its metrics must not go on listening, or hold its store."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as free:
            position = f"127.0.0.1:{free.getsockname()[1]}"
        own = ["broker", "--users", str(home / "users.toml"), "--name", "b9", "--listen", position]
        assert tidings(*own, "--http", f"127.0.0.1:{port}").code == 3
    with socket.create_server(("127.0.0.1", int(position.rpartition(":")[2]))):
        pass
