"""Signed tokens (JSON Web Tokens): who it is, said by an issuer that the broker trusts.

Rules
- Only asymmetric signatures and HMAC with a key of 32 bytes or more; the algorithm comes from the
  key, never from the token. `none` does not exist here.
- A token must say who (`sub`), until when (`exp`), by whom (`iss`) and for whom (`aud`).
- `groups` in a token are taken only when the issuer is trusted to give them; `tenant` is always.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.errors import MissingDependencyError, RefusedError, SettingsError, TidingsError, install_command
from tidings.security.principal import Principal, ProofMethod, ProofValidity, checked_name, proved_name

REQUIRED = ["sub", "exp", "iss", "aud"]
LEEWAY = 30.0  # seconds by which an issuer's clock may be ahead
SHORTEST_SECRET = 32  # bytes
LONGEST_TOKEN = 8_192  # characters
REFUSED = "the token is not valid here"
MOST_GROUPS = 100
LAST_MOMENT = 1e15  # seconds


class Issuer(msgspec.Struct, frozen=True):
    """An issuer that is trusted, and the key that proves its signature."""

    name: str
    audience: str
    key: bytes  # a public key in PEM, or a shared secret
    gives_groups: bool = False

    def __repr__(self) -> str:
        return f"Issuer({self.name!r})"  # the key may be a secret


def algorithms_of(key: bytes) -> list[str]:
    """The algorithms that this key may verify."""
    if b"-----BEGIN" not in key:
        if len(key) < SHORTEST_SECRET:
            raise SettingsError(
                f"the secret of a token issuer has {len(key)} bytes", hint=f"use at least {SHORTEST_SECRET}"
            )
        return ["HS256"]
    if b"PRIVATE KEY" in key:
        raise SettingsError("a token issuer's private key is in the place of its public key")
    return [_algorithm(_public(key))]


def _public(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from cryptography.x509 import load_pem_x509_certificate
    except ImportError:
        raise _missing() from None
    try:
        if b"BEGIN CERTIFICATE" in key:
            return load_pem_x509_certificate(key).public_key()
        return load_pem_public_key(key)
    except ValueError:
        raise SettingsError("the key of a token issuer is no public key in PEM") from None


def _algorithm(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return "EdDSA"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return "ES256"
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048:
        return "RS256"
    raise SettingsError("the key of a token issuer is of no kind that is trusted here", hint="use Ed25519")


class Verifier:
    """Knows the issuers. `principal` answers for one token at one time."""

    def __init__(self, issuers: tuple[Issuer, ...]) -> None:
        self._issuers = {issuer.name: issuer for issuer in issuers}
        self._keys = {
            issuer.name: (_public(issuer.key) if b"-----BEGIN" in issuer.key else issuer.key, algorithms)
            for issuer in issuers
            if (algorithms := algorithms_of(issuer.key))
        }

    def principal(self, token: str, now: float) -> Principal:
        """The principal of the token; `RefusedError` only says that the token is not valid."""
        claims = self._claims(token)
        for name, least, most in (
            ("exp", now, None),  # sessions end at that moment too: no time is left to resume one
            ("nbf", None, now + LEEWAY),
            ("iat", None, now + LEEWAY),
        ):
            _check_time(claims, name, least, most)
        name = claims["sub"]
        if not isinstance(name, str):
            raise RefusedError(REFUSED)
        groups = claims.get("groups", []) if self._issuers[claims["iss"]].gives_groups else []
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups[:MOST_GROUPS]):
            raise RefusedError(REFUSED)
        tenant = claims.get("tenant", "")
        if not isinstance(tenant, str):
            raise RefusedError(REFUSED)
        if tenant:
            checked_name(tenant, "a tenant's name")
        given = tuple(groups[:MOST_GROUPS])
        proof = ProofValidity(float(claims["exp"]), claims["iss"], tenant, given)
        return Principal(proved_name(name), ProofMethod.TOKEN, tenant, given, proof=proof)

    def __bool__(self) -> bool:
        return bool(self._issuers)

    def issuer(self, name: str) -> Issuer | None:
        """The trusted issuer of this name."""
        return self._issuers.get(name)

    def _claims(self, token: str) -> dict[str, Any]:
        jwt = _jwt()
        if len(token) > LONGEST_TOKEN:
            raise RefusedError(REFUSED)
        try:
            unproved = jwt.decode(token, options={"verify_signature": False})
            name = unproved.get("iss")
            issuer = self._issuers.get(name) if isinstance(name, str) else None
            if issuer is None:
                raise RefusedError(REFUSED)
            key, algorithms = self._keys[issuer.name]
            options = {"require": REQUIRED, "verify_exp": False, "verify_nbf": False, "verify_iat": False}
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=issuer.audience,
                issuer=issuer.name,
                options=options,
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise RefusedError(REFUSED) from None
        return claims


def _check_time(claims: dict[str, Any], name: str, least: float | None, most: float | None) -> None:
    value = claims.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LAST_MOMENT:
        raise RefusedError(REFUSED)  # what is no number is not less than one either
    if least is not None and value < least:
        raise RefusedError(f"{REFUSED}: it has ended", hint="get a new one")
    if most is not None and value > most:
        raise RefusedError(f"{REFUSED}: it has not begun", hint="compare the clocks")


def sign(claims: dict[str, Any], key: bytes, algorithm: str) -> str:
    """A token, for tests and small installations that issue their own."""
    return str(_jwt().encode(claims, key, algorithm=algorithm))


def _jwt() -> Any:
    try:
        import jwt
    except ImportError:
        raise _missing() from None
    return jwt


def _missing() -> TidingsError:
    return MissingDependencyError(
        "tokens need the packages PyJWT and cryptography", hint=install_command("tidings[server]")
    )
