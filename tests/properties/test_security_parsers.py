"""Whatever stands in a users file, a settings file or a handshake: an error of ours, never a crash."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import RefusedError, SettingsError
from tidings.runtime.settings import read_settings
from tidings.security.audit import Audit
from tidings.security.authenticator import ByUsers
from tidings.security.interfaces import AuthenticationRequest, AuthenticationResult
from tidings.security.scram import make_key
from tidings.security.tokens import Issuer, Verifier
from tidings.security.users import Users, parse_users

SECRET = b"0123456789abcdef0123456789abcdef"
KEY = str(make_key("pencil", iterations=4096))

scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(
        ("ann", "subscribe", "publish", "anyone", "group:x", KEY, "a = 1", "", "\x00", "x" * 300)
    ),
    st.text(max_size=8),
)
names = st.sampled_from(
    ("users", "groups", "allow", "quota", "issuers", "ann", "password", "filter", "who", "action",
        "connections",
     "network", "listen", "join", "security", "peer_timeout_seconds", "key_file", "issuer", "audience",
     "disabled")
) | st.text(max_size=5)  # fmt: skip
trees: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(names, trees, max_size=4)


def written(value: Any) -> str:
    """As TOML, on one line; what TOML cannot say becomes something that it must refuse."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{written(str(name))} = {written(part)}" for name, part in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value)


def toml(table: dict[str, Any]) -> str:
    return "\n".join(f"{written(str(name))} = {written(value)}" for name, value in table.items())


@settings(deadline=None, max_examples=200)
@given(tables.map(toml) | st.text(max_size=60))
def test_a_users_file_is_read_or_refused(text: str) -> None:
    try:
        users = parse_users(text, read=lambda name: SECRET)
    except SettingsError:
        return
    assert isinstance(users, Users)


fitting = st.fixed_dictionaries(
    {"listen": st.just("127.0.0.1:0"), "security": st.just({"users": "u.toml"})},
    optional={"network": st.fixed_dictionaries({"peer_timeout_seconds": st.floats() | st.integers(-1, 99)})},
)


@settings(deadline=None, max_examples=120)
@given(tables | fitting)
def test_settings_are_read_or_refused(table: dict[str, Any]) -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "broker.toml"
        file.write_text(toml(table), encoding="utf-8", errors="replace")
        try:
            found = read_settings(file)
        except SettingsError:
            assert table != {"listen": "127.0.0.1:0", "security": {"users": "u.toml"}}
            return
    assert found.listen == table.get("listen", found.listen)
    assert not found.network.peer_timeout_seconds < 2 * found.network.keepalive_seconds


DOOR = ByUsers(
    lambda: Users(
        {}, {"ann": make_key("pencil", iterations=4096)}, parse_users("", read=lambda n: b"").permissions, {},
        parse_users("", read=lambda n: b"").default_quota, Verifier((Issuer("i", "a", SECRET),)),
    ),
    clock=lambda: 0.0, pepper=b"p" * 32, audit=Audit(lambda entry: None, lambda: 0.0),
)  # fmt: skip
mechanisms = st.sampled_from(("scram-sha-256", "token", "certificate", "anonymous", "")) | st.text(max_size=5)
steps = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        (b"n,,n=ann,r=abc", b"c=biws,r=abc,p=AAAA", b"a.b.c", b"e30.e30.", b"eyJhbGciOiJub25lIn0.e30.")
    ),
)


@settings(deadline=None, max_examples=200)
@given(
    mechanisms,
    st.sampled_from(("client", "broker", "")),
    st.text(max_size=8),
    st.none() | st.just({"subject": ((("commonName", "x\n"),),)}) | st.just({}),
    st.lists(steps, max_size=4),
)
def test_nobody_gets_in_by_saying_anything(
    mechanism: str, role: str, name: str, certificate: dict[str, Any] | None, said: list[bytes]
) -> None:
    """No random word proves anything: the conversation ends by a refusal, or goes on unproved."""
    requested = AuthenticationRequest(role, name, mechanism, certificate=certificate, is_loopback=True)
    try:
        conversation = DOOR.begin(requested)
        answers = [conversation.step(data) for data in said]
    except RefusedError:
        return
    assert not any(isinstance(answer, AuthenticationResult) for answer in answers)
