"""Credentials from files and the environment: for commands, and for jobs on a cluster.

Secrets come from files and the environment, never from arguments or options: those are seen by
everyone on the machine, and kept by shells, plans and logs.

    TIDINGS_USER            with TIDINGS_PASSWORD or TIDINGS_PASSWORD_FILE: a password (SCRAM-SHA-256)
    TIDINGS_TOKEN           or TIDINGS_TOKEN_FILE: a signed token
    TIDINGS_CERTIFICATE     with TIDINGS_KEY: a client's certificate, whose name is the client's
    TIDINGS_AUTHORITY       the trusted authority of the broker's certificate
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidings.errors import SettingsError
from tidings.runtime.dialling import parse_addresses
from tidings.security.certificates import name_in
from tidings.security.credentials import CertificateCredentials, PasswordCredentials, TokenCredentials
from tidings.security.interfaces import Credentials, NoCredentials


def credentials(given: Mapping[str, str]) -> Credentials:
    """Credentials that the environment gives; none when it names none."""
    user, password = given.get("TIDINGS_USER"), _secret(given, "TIDINGS_PASSWORD")
    token = _secret(given, "TIDINGS_TOKEN")
    if token is not None:
        return TokenCredentials(lambda: _secret(given, "TIDINGS_TOKEN") or "")
    if password is not None:
        if not user:
            raise SettingsError("there is a password and no user", hint="set TIDINGS_USER")
        return PasswordCredentials(user, password)
    if given.get("TIDINGS_CERTIFICATE"):
        return CertificateCredentials(certificate_name(given))
    return NoCredentials()


def certificate_name(given: Mapping[str, str]) -> str:
    """Name in the certificate of the environment; empty without one, or when TLS will say what is wrong."""
    try:
        return name_in(Path(given["TIDINGS_CERTIFICATE"]).read_text(encoding="ascii"))
    except (KeyError, OSError, UnicodeDecodeError):
        return ""


def tls_context(given: Mapping[str, str], broker: str) -> Any:
    """TLS context to dial with; None where no address asks for TLS."""
    if not any(address.tls for address in parse_addresses(broker)):
        return None
    from tidings.runtime.tls import dialling

    return dialling(
        authority=given.get("TIDINGS_AUTHORITY", ""),
        certificate=given.get("TIDINGS_CERTIFICATE", ""),
        key=given.get("TIDINGS_KEY", ""),
    )


def _secret(given: Mapping[str, str], variable: str) -> str | None:
    """The variable, or the first line of the file that its sister names."""
    if variable in given:
        return str(given[variable])
    file = given.get(variable + "_FILE")
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").partition("\n")[0]
    except OSError as error:
        raise SettingsError(f"{variable}_FILE: {file}: {error.strerror}") from None
