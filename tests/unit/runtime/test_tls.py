"""TLS and the authority: version 1.3, names checked, keys kept private, brokers told from clients."""

from __future__ import annotations

import asyncio
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.cli import remote
from tidings.errors import SettingsError
from tidings.runtime import tls
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.service import Service
from tidings.runtime.settings import TlsSettings, read_settings
from tidings.security.certificates import principal_of
from tidings.security.credentials import CertificateCredentials


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "b1", hosts=("localhost", "127.0.0.1"), broker=True)
    issue(folder, "ann")
    return folder


def of_broker(certs: Path) -> TlsSettings:
    return TlsSettings(
        certificate=str(certs / "b1.pem"), key=str(certs / "b1.key"), authority=str(certs / "authority.pem")
    )


def of_client(certs: Path, name: str | None = None) -> ssl.SSLContext:
    own = {"certificate": str(certs / f"{name}.pem"), "key": str(certs / f"{name}.key")} if name else {}
    return tls.dialling(authority=str(certs / "authority.pem"), **own)


def shake(certs: Path, client: ssl.SSLContext, host: str = "127.0.0.1") -> dict[str, Any]:
    """What the broker sees of a client after a handshake, and the version that was agreed on."""

    async def run() -> dict[str, Any]:
        seen: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("ssl_object")
            seen.set_result({"certificate": peer.getpeercert(), "version": peer.version()})
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.listening(of_broker(certs)))
        port = server.sockets[0].getsockname()[1]
        async with server, asyncio.timeout(120):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client, server_hostname=host
            )
            try:
                await reader.read()  # in TLS 1.3 a client hears of a refusal when it first reads
            finally:
                writer.close()
            if not seen.done():
                raise ConnectionError("the broker refused")
        return seen.result()

    return asyncio.run(run())


def test_a_client_without_a_certificate_is_let_shake(certs: Path) -> None:
    assert shake(certs, of_client(certs)) == {"certificate": None, "version": "TLSv1.3"}


@pytest.mark.parametrize(("name", "is_broker"), [("ann", False), ("b1", True)])
def test_a_certificate_proves_a_name_and_whether_it_is_a_broker(
    name: str, is_broker: bool, certs: Path
) -> None:
    principal = principal_of(shake(certs, of_client(certs, name))["certificate"])
    assert (principal.name, principal.is_broker) == (name, is_broker)


def test_older_versions_are_refused(certs: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(certs / "authority.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(certs, old)


def test_a_broker_elsewhere_or_of_another_authority_is_not_trusted(certs: Path, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(certs, of_client(certs), host="other.example")
    make_authority(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(certs, of_client(tmp_path))


def test_a_certificate_of_another_authority_proves_nothing(certs: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "ann")
    strange = of_client(certs)
    strange.load_cert_chain(tmp_path / "ann.pem", tmp_path / "ann.key")
    with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError)):
        shake(certs, strange)


def test_a_clients_certificate_cannot_serve(certs: Path) -> None:
    """Its purposes do not include it, so a client cannot pose as a broker to others."""
    found = Path(certs / "ann.pem").read_bytes()
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    purposes = x509.load_pem_x509_certificate(found).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert ExtendedKeyUsageOID.SERVER_AUTH not in purposes.value


def test_keys_are_for_their_owner_alone(certs: Path) -> None:
    modes = {key.stem: stat.S_IMODE(key.stat().st_mode) for key in certs.glob("*.key")}
    assert modes == {"authority": 0o600, "b1": 0o600, "ann": 0o600}


@pytest.mark.parametrize("name", ["authority", "../x", "a\nb", "", "x" * 65, ".hidden"])
def test_names_that_are_no_file_are_refused(name: str, certs: Path) -> None:
    with pytest.raises(SettingsError):
        issue(certs, name)


def test_nothing_is_overwritten(certs: Path) -> None:
    with pytest.raises(SettingsError, match="an authority already"):
        make_authority(certs)
    with pytest.raises(SettingsError, match="is there already"):
        issue(certs, "ann")


def test_what_is_wrong_with_a_file_is_told_without_its_content(certs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    absent = TlsSettings(certificate=str(tmp_path / "absent.pem"), key=str(broken))
    mixed = TlsSettings(certificate=str(certs / "b1.pem"), key=str(certs / "ann.key"))
    for settings in (absent, mixed, TlsSettings(certificate=str(certs / "b1.pem"), key=str(broken))):
        with pytest.raises(SettingsError) as caught:
            tls.listening(settings)
        assert "c2VjcmV0" not in str(caught.value)
    with pytest.raises(SettingsError, match="no certificate of an authority"):
        tls.dialling(authority=str(broken))
    assert tls.listening(TlsSettings()) is None
    with pytest.raises(SettingsError, match="holds no authority"):
        issue(tmp_path, "x")


def test_connect_trusts_the_authority_of_the_environment(
    certs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the error of an unknown authority says: TIDINGS_AUTHORITY, also for `tidings.connect`."""

    async def story() -> None:
        (tmp_path / "users.toml").write_text('[[allow]]\nwho = "ann"\naction = ["publish"]\n')
        fields = {"name": "b1", "listen": "127.0.0.1:0", "security.users": str(tmp_path / "users.toml")}
        fields |= {"tls.certificate": str(certs / "b1.pem"), "tls.key": str(certs / "b1.key")}
        fields |= {"tls.authority": str(certs / "authority.pem")}
        by_certificate = {"credentials": CertificateCredentials(), "name": "ann", "timeout": 60}
        async with Service(read_settings(fields=fields)) as service, asyncio.timeout(120):
            with pytest.raises(tidings.TidingsError, match="certificate"):
                async with tidings.connect(service.server.address, **by_certificate):
                    pass
            for variable, file in (
                ("AUTHORITY", "authority.pem"),
                ("CERTIFICATE", "ann.pem"),
                ("KEY", "ann.key"),
            ):
                monkeypatch.setenv(f"TIDINGS_{variable}", str(certs / file))
            async with tidings.connect(service.server.address, **by_certificate) as bus:
                await bus.publish({"n": 1})
            shown = {"credentials": CertificateCredentials()}
            for more in ({}, shown):  # the name of the certificate, not `local`
                async with tidings.connect(service.server.address, timeout=60, **more) as bus:
                    assert bus.name == "ann"
                    await bus.publish({"n": 2})
            command = remote.bus(service.server.address)
            assert command.name == "ann"
            remote._made.clear()
            async with command:
                await command.publish({"n": 3})

    asyncio.run(story())
