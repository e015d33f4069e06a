"""Lists of certificates that were taken back: by hand, and of the authority; wrong ones count for nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import SettingsError
from tidings.runtime.authority import issue, make_authority, revoke
from tidings.security.revocation import NONE_REVOKED, Revoked, parse_revoked


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "ann")
    issue(folder, "bob")
    return folder


def serial_of(certs: Path, name: str) -> int:
    from cryptography import x509

    return x509.load_pem_x509_certificate((certs / f"{name}.pem").read_bytes()).serial_number


def crl(certs: Path, *names: str) -> bytes:
    """As an authority makes one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    authority = x509.load_pem_x509_certificate((certs / "authority.pem").read_bytes())
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(now).next_update(now + timedelta(days=1))
    for name in names:
        entry = x509.RevokedCertificateBuilder().serial_number(serial_of(certs, name)).revocation_date(now)
        builder = builder.add_revoked_certificate(entry.build())
    key = load_pem_private_key((certs / "authority.key").read_bytes(), password=None)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]


def shown(serial: int) -> dict[str, str]:
    return {"serialNumber": f"{serial:X}"}


def test_a_list_by_hand() -> None:
    found = parse_revoked(b"# taken back\n3F  # ann\n\n 00:aB:1c \n", b"", "list")
    assert found.serials == {0x3F, 0xAB1C}
    assert found.holds(shown(0x3F))
    assert found.holds({"serialNumber": "00AB1C"})
    assert not found.holds(shown(0x40))


def test_a_certificate_without_a_serial_number_is_not_trusted_where_some_are_revoked() -> None:
    assert Revoked(frozenset({1})).holds({"subject": ()})
    assert not NONE_REVOKED.holds({"subject": ()})
    assert not Revoked(frozenset({1})).holds(None), "no certificate at all is another matter"


def test_the_list_of_the_authority(certs: Path) -> None:
    authority = (certs / "authority.pem").read_bytes()
    found = parse_revoked(crl(certs, "ann"), authority, "crl.pem")
    assert found.holds(shown(serial_of(certs, "ann")))
    assert not found.holds(shown(serial_of(certs, "bob")))


def test_a_list_that_somebody_else_signed_is_refused(certs: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    other = (tmp_path / "authority.pem").read_bytes()
    with pytest.raises(SettingsError, match="not signed by the authority"):
        parse_revoked(crl(certs, "ann"), other, "crl.pem")


def test_what_revoke_writes_is_read(certs: Path) -> None:
    revoke(certs, "ann")
    listed = revoke(certs, "bob")
    found = parse_revoked(listed.read_bytes(), b"", str(listed))
    assert found.serials == {serial_of(certs, "ann"), serial_of(certs, "bob")}
    with pytest.raises(SettingsError, match=r"nobody\.pem"):
        revoke(certs, "nobody")


@pytest.mark.parametrize(
    "data", [b"zz", b"12 34", b"\xff\xfe", b"-----BEGIN X509 CRL-----\nnonsense\n-----END X509 CRL-----"]
)
def test_nonsense_is_refused_with_its_place(data: bytes, certs: Path) -> None:
    with pytest.raises(SettingsError, match="list"):
        parse_revoked(data, (certs / "authority.pem").read_bytes(), "list")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200) | st.text("0aF:# \n-+_x", max_size=40).map(str.encode))
def test_whatever_is_in_the_file_it_is_a_list_or_an_error(data: bytes) -> None:
    try:
        found = parse_revoked(data, b"", "list")
    except SettingsError:
        return
    texts = [line.partition("#")[0].strip() for line in data.decode().splitlines()]
    assert found.serials == {int(text.replace(":", ""), 16) for text in texts if text.strip(": ")}


@given(st.sets(st.integers(0, 2**160)))
def test_every_serial_number_of_a_list_is_found(serials: set[int]) -> None:
    lines = [f"{serial:x} # left\n" if serial % 2 else f" {serial:X}\n\n" for serial in serials]
    assert parse_revoked("".join(lines).encode(), b"", "list").serials == serials
