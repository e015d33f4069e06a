"""Settings: later words win, slips are named, contradictions are refused, nothing is undocumented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidings.errors import SettingsError
from tidings.runtime.settings import (
    RENAMED,
    BrokerSettings,
    changed,
    described,
    is_loopback,
    peers_of,
    read_settings,
)

USERS = '[security]\nusers = "users.toml"\n'


def read(
    tmp_path: Path, text: str = "", environment: dict[str, str] | None = None, **fields: Any
) -> BrokerSettings:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    return read_settings(file, environment=environment, fields=fields)


def test_later_words_win(tmp_path: Path) -> None:
    text = (
        USERS + 'audit = "audit.jsonl"\n[network]\npeer_timeout_seconds = 30\nhandshakes = 7\n[log]\nlevel '
        '= "debug"\n'
    )
    environment = {
        "TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS": "40",
        "TIDINGS_GATEWAY_WEBHOOKS": "a, b",
        "PATH": "/bin",
    }
    settings = read(tmp_path, text, environment, listen="127.0.0.1:9")
    assert (settings.network.peer_timeout_seconds, settings.network.handshakes) == (40.0, 7)
    assert settings.gateway.webhooks == ("a", "b")
    assert settings.listen == "127.0.0.1:9"
    assert settings.log.level == "debug"
    assert settings.security.users == str(tmp_path / "users.toml")  # relative to the file
    assert settings.delivery.names_log
    assert not settings.delivery.allow_block  # the composition's own, whatever the file says of delivery


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('listne = "x"', "has no 'listne' (did you mean listen?)"),
        ("[netwrok]", "did you mean network?"),
        (
            "[network]\npeer_timeout_second = 1",
            "[network] has no 'peer_timeout_second' (did you mean peer_timeout_seconds?)",
        ),
        ('[network]\npeer_timeout_seconds = "soon"', "peer_timeout_seconds: expected `float`, got `str`"),
        ('join = "a:1"', "join: expected `array`, got `str`"),
        ("network = 5", "network is no table"),
        ("listen = ", "not TOML"),
        ("[delivery]\nallow_block = true", "has no 'allow_block'"),
        ("[security]\nanonymous = true", "has no 'anonymous'"),
        (
            USERS + "[network]\npeer_timeout_seconds = 9\nkeepalive_seconds = 5",
            "less than two of keepalive_seconds",
        ),
        ("drain_seconds = 60\n" + USERS, "drain_seconds is 60 (0 to 10)"),
        (USERS + "[network]\nhandshakes = -1", "network.handshakes is -1"),
        (USERS + '[log]\nlevel = "loud"', "one of debug, info"),
        ("", "there is no users file"),
        (USERS + '[tls]\ncertificate = "x"', "tls.certificate is given and tls.key is not"),
        (USERS + '[tls]\nkey = "x"', "tls.key is given and tls.certificate is not"),
        ('listen = "0.0.0.0:7117"\n' + USERS, "there is no TLS"),
        ('schemas = "nowhere.json"\n' + USERS, "schemas: there is no file"),
        (USERS + "[options]\ncolour = 1", "options.colour: tidings has no such option"),
        (USERS + "[delivery]\ndedup_seconds = nan", "delivery.dedup_seconds is nan"),
        ("processes = 0\n" + USERS, "processes is 0 (1 or more"),
        ('listen = "127.0.0.1"\n' + USERS, "listen is '127.0.0.1' (write host:port"),
        (USERS + '[gateway]\nmqtt = "1883"', "gateway.mqtt is '1883' (write host:port"),
        (USERS + "[network]\nmax_frame_bytes = 1", "network.max_frame_bytes is 1 (16384 or more"),
        (USERS + "[trace]\nevents = true", "trace.events: expected `int`, got `bool`"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("TIDINGS_LISTNE", "did you mean TIDINGS_LISTEN?"),
        ("TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS", "TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS is no float"),
        ("TIDINGS_SECURITY_ANONYMOUS", "no 'TIDINGS_SECURITY_ANONYMOUS'"),
    ],
)
def test_the_environment_is_checked_too(variable: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, USERS, {variable: "hunter2"})
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    environment = {
        "TIDINGS_TRACEBACK": "1",
        "TIDINGS_SERVICE_HOST": "10.0.0.1",
        "TIDINGS_PORT_7117_TCP_ADDR": "x",
    }
    environment |= {"TIDINGS_PASSWORD": "x", "TIDINGS_PORT": "tcp://10.0.0.1:7117"}
    assert read(tmp_path, USERS, environment) == read(tmp_path, USERS, {})
    assert read(tmp_path, USERS, {**environment, "TIDINGS_LISTEN": "127.0.0.1:9"}).listen == "127.0.0.1:9"


def test_anybody_is_let_in_on_loopback_alone() -> None:
    read_settings(fields={"security.anonymous": True, "listen": "127.0.0.1:0"})
    with pytest.raises(SettingsError, match="is open to others"):
        read_settings(fields={"security.anonymous": True, "listen": "0.0.0.0:0", "security.plain": True})


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_which_hosts_are_this_machine_alone(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_every_setting_is_documented() -> None:
    rows = list(described(BrokerSettings()))
    assert len(rows) > 30
    assert not [row.name for row in rows if not row.note]
    assert not [row.name for row in rows if "password" in row.name or "secret" in row.name]


def test_what_changed_is_named(tmp_path: Path) -> None:
    old = read(tmp_path, USERS)
    assert changed(old, read(tmp_path, USERS + "[network]\nhandshakes = 7\n")) == ["network.handshakes"]


def test_a_broker_may_be_of_another_system_that_brokers_can_be_of() -> None:
    fields = {"security.anonymous": True, "system": "epidemic", "peers": ["b2=127.0.0.1:7001"]}
    settings = read_settings(fields={**fields, "gossip.fan_out": 2})
    assert settings.options == {"gossip": {"fan_out": 2}}
    assert peers_of(settings) == {"b2": "127.0.0.1:7001"}
    with pytest.raises(SettingsError, match="elvin runs in simulations alone"):
        read_settings(fields={**fields, "system": "elvin"})
    with pytest.raises(SettingsError, match="no system is called 'rumour'"):
        read_settings(fields={**fields, "system": "rumour"})
    with pytest.raises(SettingsError, match="peers has 'b2'"):
        read_settings(fields={**fields, "peers": ["b2"]})
    with pytest.raises(SettingsError, match="has no 'TIDINGS_GOSSIP_STYLE'"):
        read_settings(environment={"TIDINGS_GOSSIP_STYLE": "push"}, fields=fields)


def test_datagrams_leave_this_machine_only_when_somebody_answers_for_the_network() -> None:
    fields = {
        "listen": "0.0.0.0:7117", "security.users": "users.toml", "tls.certificate": "c", "tls.key": "k",
    }  # fmt: skip
    assert read_settings(fields=fields).system == "tidings"
    for more in ({"datagrams": True}, {"system": "epidemic"}):
        with pytest.raises(SettingsError, match="neither encrypted nor signed"):
            read_settings(fields={**fields, **more})
        read_settings(fields={**fields, **more, "security.plain": True})


def test_old_names_are_read_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for (table, old), new in RENAMED.items():
        caplog.clear()
        read_by_file = read(tmp_path, USERS + f"[{table}]\n{old} = 20_077\n")
        assert getattr(getattr(read_by_file, table), new) == 20_077
        assert f"{table}.{old} is {table}.{new} now" in caplog.text
        variable, renamed = f"TIDINGS_{table}_{old}".upper(), f"TIDINGS_{table}_{new}".upper()
        by_environment = read(tmp_path, USERS, {variable: "20078"})
        assert getattr(getattr(by_environment, table), new) == 20_078
        assert f"{variable} is {renamed} now" in caplog.text
