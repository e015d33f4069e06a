"""Tokens: only what a trusted issuer signed, for us, and now."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tidings.errors import RefusedError, SettingsError
from tidings.security.tokens import LONGEST_TOKEN, Issuer, Verifier, algorithms_of, sign

NOW = 1_000_000.0
ISSUER, AUDIENCE = "https://login.example", "tidings"
SIGNING = ed25519.Ed25519PrivateKey.generate()


def private(key: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


VERIFIER = Verifier((Issuer(ISSUER, AUDIENCE, public(SIGNING), gives_groups=True),))
CLAIMS = {"sub": "ann", "exp": NOW + 60, "iss": ISSUER, "aud": AUDIENCE}


def token(**changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return sign(claims, private(SIGNING), "EdDSA")


def test_a_signed_token_says_who_it_is() -> None:
    principal = VERIFIER.principal(token(groups=["traders"], tenant="acme"), NOW)
    assert (principal.name, principal.groups, principal.tenant) == ("ann", ("traders",), "acme")


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 31},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"nbf": NOW + 31},
        {"iat": NOW + 3600},
        {"iss": "https://other.example"},
        {"iss": None},
        {"sub": "anonymous"},
        {"sub": "anyone"},
        {"sub": "group:traders"},
        {"aud": "others"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"groups": "traders"},
        {"groups": [1]},
        {"tenant": 5},
        {"tenant": "a\x1fb"},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": 10**400},
    ],
    ids=str,
)
def test_a_token_that_lacks_something_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        VERIFIER.principal(token(**changes), NOW)


def test_a_token_without_end_is_refused_before_it_is_read() -> None:
    assert VERIFIER.principal(token(note="x" * 1000), NOW).name == "ann"
    with pytest.raises(RefusedError):
        VERIFIER.principal(token(note="x" * LONGEST_TOKEN), NOW)


def test_an_issuer_s_clock_may_be_a_little_ahead_but_the_end_is_the_end() -> None:
    assert VERIFIER.principal(token(iat=NOW + 29, nbf=NOW + 29), NOW).name == "ann"
    proof = VERIFIER.principal(token(exp=NOW + 1, groups=["g"], tenant="t"), NOW).proof
    assert (proof.until, proof.issuer, proof.tenant, proof.groups) == (NOW + 1, ISSUER, "t", ("g",))
    with pytest.raises(RefusedError, match="it has ended"):
        VERIFIER.principal(token(exp=NOW - 1), NOW)


def test_groups_count_only_from_an_issuer_that_may_give_them() -> None:
    strict = Verifier((Issuer(ISSUER, AUDIENCE, public(SIGNING)),))
    assert strict.principal(token(groups=["admins"]), NOW).groups == ()


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part(header)}.{part(CLAIMS)}.{signature}"


def test_other_signatures_are_refused() -> None:
    import hashlib
    import hmac

    other = sign(CLAIMS, private(ed25519.Ed25519PrivateKey.generate()), "EdDSA")
    head = unsigned({"alg": "HS256", "typ": "JWT"})[:-1]  # the public key taken for a shared secret
    mark = hmac.new(public(SIGNING), head.encode(), hashlib.sha256).digest()
    confused = f"{head}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"
    real = token()
    forged = (
        other,
        unsigned({"alg": "none"}),
        confused,
        real[:-4] + "AAAA",
        "",
        "a.b.c",
        "x" * 9_000,
        real + ".x",
    )
    for word in forged:
        with pytest.raises(RefusedError):
            VERIFIER.principal(word, NOW)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (rsa.generate_private_key(65537, 2048), "RS256"),
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (SIGNING, "EdDSA"),
    ],
    ids=["rsa", "ec", "ed25519"],
)
def test_the_key_gives_the_algorithm(key: Any, algorithm: str) -> None:
    assert algorithms_of(public(key)) == [algorithm]
    verifier = Verifier((Issuer(ISSUER, AUDIENCE, public(key)),))
    assert verifier.principal(sign(CLAIMS, private(key), algorithm), NOW).name == "ann"


def test_a_shared_secret_must_be_long() -> None:
    secret = b"s" * 32
    assert Verifier((Issuer(ISSUER, AUDIENCE, secret),)).principal(sign(CLAIMS, secret, "HS256"), NOW)
    with pytest.raises(SettingsError, match="31 bytes"):
        algorithms_of(b"s" * 31)


@pytest.mark.parametrize(
    "key",
    [
        private(SIGNING),
        public(ec.generate_private_key(ec.SECP521R1())),
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
    ],
    ids=["private", "other curve", "broken"],
)
def test_a_key_that_will_not_do_is_refused(key: bytes) -> None:
    with pytest.raises(SettingsError) as caught:
        algorithms_of(key)
    assert key.decode().split("\n")[1] not in str(caught.value)


def test_an_issuer_does_not_show_its_key() -> None:
    assert "sss" not in repr(Issuer(ISSUER, AUDIENCE, b"s" * 32))
