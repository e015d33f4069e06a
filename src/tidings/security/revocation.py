"""Certificates that were taken back: a list of serial numbers, or a revocation list of the authority.

    # revoked.txt, as `tidings certs revoke` writes it: a serial number in hexadecimal on each line
    3F2A90C17B  # ann, 2026-05-01

A file in PEM (`BEGIN X509 CRL`) has to be signed by the authority that is trusted. Either is read whole
or not at all. The serial numbers of one authority are unique, and brokers trust one authority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidings.errors import MissingDependencyError, SettingsError, install_command

PEM = b"-----BEGIN X509 CRL-----"


class Revoked(msgspec.Struct, frozen=True):
    serials: frozenset[int] = frozenset()

    def holds(self, certificate: Mapping[str, Any] | None) -> bool:
        """Was this certificate, as `ssl` gives it, taken back?"""
        if not self.serials or not certificate:
            return False
        return self.holds_serial(certificate.get("serialNumber") or "")

    def holds_serial(self, serial: str) -> bool:
        """The same of a serial number in hexadecimal; an unreadable one is not trusted."""
        return bool(self.serials) and (not serial or int(serial, 16) in self.serials)


NONE_REVOKED = Revoked()


def parse_revoked(data: bytes, authority: bytes, where: str) -> Revoked:
    """Raises `SettingsError`. `authority` is its certificate in PEM; it has signed a revocation list."""
    if PEM in data:
        return Revoked(_from_authority(data, authority, where))
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise SettingsError(f"{where} is neither text nor PEM") from None
    return Revoked(frozenset(_serials(lines, where)))


def _serials(lines: list[str], where: str) -> list[int]:
    serials = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip().replace(":", "")
        if not text:
            continue
        try:
            serials.append(int(text, 16))
        except ValueError:
            raise SettingsError(
                f"{where}, line {number}: {text[:40]!r} is no serial number in hexadecimal",
                hint="`tidings certs revoke` writes such lines",
            ) from None
    return serials


def _from_authority(data: bytes, authority: bytes, where: str) -> frozenset[int]:
    try:
        from cryptography import x509
    except ImportError:
        raise MissingDependencyError(
            "a revocation list in PEM needs the package cryptography", hint=install_command("tidings[server]")
        ) from None
    try:
        found = x509.load_pem_x509_crl(data)
        signer = x509.load_pem_x509_certificate(authority)
    except ValueError as error:
        raise SettingsError(f"{where} cannot be read as a revocation list: {error}") from None
    if not found.is_signature_valid(signer.public_key()):  # type: ignore[arg-type]
        raise SettingsError(
            f"{where} is not signed by the authority that is trusted", hint="ask the authority for its list"
        )
    return frozenset(each.serial_number for each in found)
