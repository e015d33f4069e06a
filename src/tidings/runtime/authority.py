"""A certificate authority for development and small networks: a folder with PEM files.

    authority.pem  authority.key     the authority; keep the key away from brokers
    NAME.pem       NAME.key          what it made for a broker or a client

Keys are readable by their owner alone. A broker's certificate says that it is one
(`certificates.BROKER_UNIT`); a client's does not, so no client can pose as a broker.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.errors import MissingDependencyError, RefusedError, SettingsError, install_command
from tidings.security.certificates import BROKER_UNIT
from tidings.security.principal import checked_name

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from tidings.runtime.settings import BrokerSettings

AUTHORITY = "authority"
AUTHORITY_DAYS = 3650
DAYS = 825  # of a certificate
REVOKED = "revoked.txt"  # in the folder: serial numbers of certificates that were taken back
BACKDATED = timedelta(minutes=5)  # clocks differ


class IssuedCertificate(NamedTuple):
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path


def make_authority(folder: Path, *, name: str = "Tidings development authority") -> IssuedCertificate:
    """A new authority; one that is there is never overwritten."""
    made = _paths(folder, AUTHORITY)
    if made.certificate.exists() or made.key.exists():
        raise SettingsError(f"{folder} holds an authority already", hint="use it, or name another folder")
    _cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _begun(subject, subject, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    _write(made, _signed(builder, key), key)
    return made


def issue(folder: Path, name: str, *, hosts: tuple[str, ...] = (), broker: bool = False) -> IssuedCertificate:
    """A certificate for a broker or a client, signed by the authority of the folder."""
    _cryptography()
    made = _paths(folder, _checked(name))
    if made.certificate.exists():
        raise SettingsError(f"{made.certificate} is there already", hint="remove it first to renew it")
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, signing_key = _load(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if broker else [])]
    builder = (
        _begun(_name(name, BROKER_UNIT if broker else None), authority.subject, key, DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    )
    if broker:
        alternatives = [_alternative(host) for host in dict.fromkeys(hosts)]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = builder.add_extension(issuer_key, critical=False)
    _write(made, _signed(builder, signing_key), key)
    return made


def revoke(folder: Path, name: str) -> Path:
    """Write the serial number of a certificate of this folder into its list of those taken back."""
    _cryptography()
    from cryptography import x509

    made = _paths(folder, _checked(name))
    try:
        certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    except OSError as error:
        raise SettingsError(f"{made.certificate}: {error.strerror}", hint="name one of this folder") from None
    except ValueError:
        raise SettingsError(f"{made.certificate} is no certificate") from None
    listed = folder / REVOKED
    with listed.open("a", encoding="utf-8") as file:
        file.write(f"{certificate.serial_number:X}  # {name}, {datetime.now(UTC):%Y-%m-%d}\n")
    return listed


def with_revoked(
    read: Callable[[dict[str, Any]], BrokerSettings], fields: dict[str, Any], folder: Path | None
) -> BrokerSettings:
    """The settings of a broker that takes its certificates from this folder, with the folder's list of
    revoked ones unless they name another. The list may come after the broker's start, so each reading looks
    for it."""
    settings = read(fields)
    listed = None if folder is None else folder / REVOKED
    if listed is None or settings.tls.revoked or not listed.exists():
        return settings
    return read({**fields, "tls.revoked": str(listed)})


def _checked(name: str) -> str:
    try:
        checked_name(name, "a certificate's name")
    except RefusedError as error:
        raise SettingsError(error.message, hint=error.hint) from None
    if name == AUTHORITY or name.startswith(".") or "/" in name or "\\" in name or len(name) > 64:
        raise SettingsError(f"{name!r} cannot be the name of a certificate", hint="use letters, digits and -")
    return name


def _paths(folder: Path, name: str) -> IssuedCertificate:
    return IssuedCertificate(folder / f"{name}.pem", folder / f"{name}.key")


def _name(common: str, unit: str | None = None) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if unit is not None:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name(parts)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _load(folder: Path) -> tuple[Any, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    made = _paths(folder, AUTHORITY)
    if not made.certificate.exists() or not made.key.exists():
        raise SettingsError(
            f"{folder} holds no authority", hint=f"make one with `tidings certs new {folder}`"
        )
    try:
        certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
        key = load_pem_private_key(made.key.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise SettingsError(f"{folder} holds an authority that cannot be read") from None
    return certificate, key


def _write(made: IssuedCertificate, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    made.certificate.parent.mkdir(parents=True, exist_ok=True)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(made.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    made.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))


def _cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "certificates need the package cryptography", hint=install_command("tidings[server]")
        ) from None
