"""The users file: what it says, and errors that name the place and no secret."""

from __future__ import annotations

import pytest

from tidings.errors import RefusedError, SettingsError
from tidings.model.event import make_event
from tidings.security.principal import Principal, ProofMethod
from tidings.security.rules import Action
from tidings.security.scram import make_key
from tidings.security.users import Users, parse_users

KEY = str(make_key("pencil", iterations=4096))
FILE = f"""
[quota]
connections = 7

[users.ann]
password = "{KEY}"
groups = ["traders"]
names = ["desk-*"]
filter = "region = 'eu'"
quota = {{ subscriptions = 3 }}

[users.bob]
tenant = "acme"

[users.old]
disabled = true

[groups.traders]
filter = "secret IS NULL"

[[allow]]
who = ["group:traders", "bob"]
action = ["publish", "subscribe"]
filter = "topic = 'quotes/#'"

[[issuers]]
issuer = "https://login.example"
audience = "tidings"
key_file = "secret.txt"
"""
SECRET = b"0123456789abcdef0123456789abcdef"


def read(text: str) -> Users:
    def file(name: str) -> bytes:
        if name != "secret.txt":
            raise FileNotFoundError(2, "No such file or directory")
        return SECRET

    return parse_users(text, read=file, where="users.toml")


def test_a_whole_file() -> None:
    users = read(FILE)
    ann = users.complete(Principal("ann", ProofMethod.SCRAM))
    assert (ann.groups, ann.names) == (("traders",), ("desk-*",))
    assert users.complete(Principal("bob", ProofMethod.TOKEN)).tenant == "acme"
    assert users.complete(Principal("stranger", ProofMethod.CERTIFICATE)).groups == ()
    assert (users.quotas["ann"].subscriptions, users.quotas["ann"].connections) == (3, 7)
    assert set(users.keys) == {"ann"}
    right = users.permissions.right(ann, Action.SUBSCRIBE)
    seen = make_event({"region": "eu"}, source="s", id="1", topic="quotes/ibm")
    hidden = make_event({"region": "eu", "secret": 1}, source="s", id="1", topic="quotes/ibm")
    assert right.allows(seen)
    assert not right.allows(hidden)
    assert not users.permissions.right(ann, Action.OBSERVE).allows(seen)


def test_who_is_disabled_or_of_another_tenant_stays_out() -> None:
    users = read(FILE)
    with pytest.raises(RefusedError, match="disabled"):
        users.complete(Principal("old", ProofMethod.CERTIFICATE))
    with pytest.raises(RefusedError, match="another tenant"):
        users.complete(Principal("bob", ProofMethod.TOKEN, tenant="evil"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[users.ann]", "[usres.ann]", "did you mean users?"),
        ("groups =", "grups =", "[users.ann] has no 'grups' (did you mean groups?)"),
        pytest.param(KEY, "pencil", "tidings users key", id="a password"),
        ("connections = 7", "conections = 7", "did you mean connections?"),
        ("connections = 7", "connections = -7", "connections is no whole number"),
        ("connections = 7", 'connections = "7"', "connections is no whole number"),
        ("connections = 7", "bytes_per_second = 0", "disabled = true"),
        ("region = 'eu'", "region = ", "[users.ann]: filter:"),
        ("topic = 'quotes/#'", "topic =", "rule 1 of [[allow]]: filter:"),
        ('"publish", "subscribe"', '"publsh"', "rule 1 of [[allow]]: action"),
        ("group:traders", "group:tradres", "did you mean traders?"),
        ("secret.txt", "absent.txt", "issuer 1 of [[issuers]]: key_file absent.txt: No such file"),
        ("[users.bob]", "[users.anyone]", "'anyone' is a word of the rules"),
        ("[users.bob]", '[users."a*"]', "wildcard"),
        ("disabled = true", 'disabled = "yes"', "[users.old]: disabled: expected `bool`, got `str`"),
        ("[[allow]]", "[allow]", "allow is no list of tables"),
        ("[users.ann]", "[users.ann", "not TOML"),
        ("connections = 7", "connections = " + "[" * 5_000, "nested too deeply"),
        ("[users.old]\ndisabled = true", "[users]\nold = 5", "[users"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, said: str) -> None:
    assert old in FILE
    with pytest.raises(SettingsError) as caught:
        read(FILE.replace(old, new, 1))
    assert said in str(caught.value)
    assert "users.toml" in str(caught.value)


def test_a_plain_password_in_the_file_is_not_repeated() -> None:
    for wrong in ('password = "hunter2hunter2"', "password = 2222", 'passwrd = "hunter2hunter2"'):
        with pytest.raises(SettingsError) as caught:
            read(f"[users.ann]\n{wrong}")
        assert "hunter2" not in str(caught.value)
        assert "2222" not in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        parse_users(
            '[[issuers]]\nissuer="x"\naudience="y"\nkey_file="k"',
            read=lambda name: b"short secret",
            where="u",
        )
    assert "short secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        ("shared", "shared", True), ("desk-*", "desk-7", True), ("desk-*", "de*", True), ("bob", "x", True),
        ("desk-*", "chair-*", False), ("*", "shared", False),
    ],
)  # fmt: skip
def test_no_client_name_belongs_to_two_tenants(one: str, other: str, is_refused: bool) -> None:
    """Found from outside: a subscription belongs to a name, so a user of another tenant took it over."""
    text = f'[users.ann]\ntenant = "t1"\nnames = ["{one}"]\n[users.bob]\ntenant = "t2"\nnames = ["{other}"]\n'
    if is_refused:
        with pytest.raises(SettingsError, match="of another tenant"):
            read(text)
    else:
        assert read(text).users["ann"].names == (one,)
    assert read(text.replace("t2", "t1")).users["bob"].names == (other,)  # one tenant may share names
