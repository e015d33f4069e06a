"""TLS: version 1.3 only, mutual between brokers.

Rules
- A broker shows its certificate to every client. It asks every client for one and accepts none: a client
  without one has to authenticate by a password or a token. A broker that joins must show one.
- Names are checked: a client checks the broker's, by the host that it dialled.
- An error in a file is reported with its name, and never with its content.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from tidings.errors import SettingsError
from tidings.runtime.settings import TlsSettings


def listening(tls: TlsSettings) -> ssl.SSLContext | None:
    """For a broker's listener; None when it has no certificate."""
    if not tls.certificate:
        return None
    context = _new(ssl.PROTOCOL_TLS_SERVER)
    _load(context, tls.certificate, tls.key)
    if tls.authority:
        _trust(context, tls.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def dialling(*, authority: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """Context for a connecting end; without an authority the system's own are trusted."""
    context = _new(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        _trust(context, authority)
    else:
        context.load_default_certs()
    if certificate:
        _load(context, certificate, key or certificate)
    return context


def renew(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Use a renewed certificate, and what the authority's file holds now, in the next handshakes.
    Connections that are open stay. An authority that left the file is trusted until a restart."""
    _load(context, tls.certificate, tls.key)
    if tls.authority:
        _trust(context, tls.authority)


def _new(kind: int) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_COMPRESSION
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    for name in (certificate, key):
        _check_file(name)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"{certificate} and {key} are no certificate and its key: {_why(error)}",
            hint="both are PEM; the key has no password",
        ) from None


def _no_password() -> str:
    raise ValueError("the key has a password")


def _trust(context: ssl.SSLContext, authority: str) -> None:
    _check_file(authority)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise SettingsError(f"{authority} holds no certificate of an authority: {_why(error)}") from None


def _check_file(name: str) -> None:
    try:
        with Path(name).open("rb"):
            return
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from None


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
