"""SCRAM-SHA-256: proofs, stored keys, and what a stranger can learn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import RefusedError, SettingsError
from tidings.security.scram import ClientSide, ServerSide, make_key, matches, read_key

KEY = make_key("pencil", iterations=4096)
PEPPER = b"p" * 32


def talk(password: str, name: str = "user", key: object = KEY) -> ServerSide:
    server = ServerSide({"user": key}.get, PEPPER)  # type: ignore[arg-type]
    client = ClientSide(name, password)
    client.check(server.final(client.final(server.first(client.first()))))
    return server


def test_the_right_password_is_proved_both_ways() -> None:
    assert talk("pencil").name == "user"


def test_the_example_of_rfc_7677() -> None:
    """Section 3: user `user`, password `pencil`; the keys follow from salt and iterations alone."""
    import base64

    key = make_key("pencil", iterations=4096, salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert base64.b64encode(key.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(key.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@pytest.mark.parametrize(
    ("name", "password"), [("user", "pencil2"), ("nobody", "pencil"), ("user", "PENCIL")]
)
def test_a_wrong_name_and_a_wrong_password_are_refused_alike(name: str, password: str) -> None:
    with pytest.raises(RefusedError, match="the name or the password is wrong"):
        talk(password, name)


def test_an_unknown_name_cannot_be_told_from_a_known_one_by_its_salt() -> None:
    def challenge(name: str) -> list[str]:
        server = ServerSide({"user": KEY}.get, PEPPER)
        return server.first(ClientSide(name, "x").first()).split(",")[1:2]

    assert challenge("nobody") == challenge("nobody")  # a fresh salt each time would give it away
    assert challenge("nobody") != challenge("someone")


def test_a_server_without_the_key_cannot_pose_as_the_broker() -> None:
    thief = ServerSide({"user": make_key("other", iterations=4096)}.get, PEPPER)
    client = ClientSide("user", "pencil")
    client.final(thief.first(client.first()))
    with pytest.raises(RefusedError, match="did not prove"):
        client.check("v=" + "A" * 43 + "=")


def test_a_stored_key_is_written_and_read_back() -> None:
    assert read_key(str(KEY)) == KEY
    assert matches(KEY, "pencil")
    assert not matches(KEY, "pen")


def test_nothing_shows_a_key() -> None:
    assert "pencil" not in str(KEY)
    assert repr(KEY) == "StoredKey(...)"


@pytest.mark.parametrize(
    "text",
    [
        "pencil",
        "",
        "SCRAM-SHA-1$" + str(KEY).partition("$")[2],
        str(KEY).replace("4096", "1"),
        str(KEY).replace("4096", "99999999999"),
        str(KEY)[:-8],
        str(KEY) + "$",
    ],
    ids=["a password", "nothing", "another hash", "too few rounds", "too many", "cut short", "too long"],
)
def test_what_is_no_stored_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_key(text)
    assert text == "" or text not in str(caught.value)


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_a_stranger_says_is_refused_and_nothing_else(first: str, final: str) -> None:
    def whole() -> None:
        server = ServerSide({"user": KEY}.get, PEPPER)
        server.first(first)
        server.final(final)

    with pytest.raises(RefusedError):
        whole()


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=60))
def test_a_wrong_proof_after_a_right_beginning_is_refused(final: str) -> None:
    server = ServerSide({"user": KEY}.get, PEPPER)
    server.first(ClientSide("user", "pencil").first())
    with pytest.raises(RefusedError):
        server.final(final)
