"""Certificates that are taken back while brokers run, and quotas that a restart does not forgive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.runtime import test_service as whole
from tests.unit.runtime.test_service import connect, play, running, settings

from tidings.errors import RefusedError, SettingsError
from tidings.language import parse_filter
from tidings.runtime import tls
from tidings.runtime.authority import revoke, with_revoked
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.security.credentials import CertificateCredentials
from tidings.security.scram import make_key

certs, home = whole.certs, whole.home


def own_certs(certs: Path, home: Path) -> Path:
    """A folder that a test may change."""
    folder = home / "certs"
    folder.mkdir()
    for file in certs.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "revoked.txt").write_text("# nobody yet\n")
    return folder


def showing(folder: Path, name: str) -> dict[str, object]:
    context = tls.dialling(
        authority=str(folder / "authority.pem"),
        certificate=str(folder / f"{name}.pem"),
        key=str(folder / f"{name}.key"),
    )
    return {"credentials": CertificateCredentials(), "tls": context}


def test_a_certificate_that_is_revoked_is_cut_off_at_a_reload_and_not_let_in_again(
    certs: Path, home: Path
) -> None:
    async def story() -> None:
        folder = own_certs(certs, home)
        more = {"tls.revoked": str(folder / "revoked.txt")}
        async with running(settings(home, folder, **more)) as service:
            root = connect(service, "root", **showing(folder, "root"))
            ann = connect(service, "ann", whole.PASSWORD, tls=showing(folder, "root")["tls"])
            async with root, ann:
                ended: list[str] = []
                root.watch(ended.append)
                revoke(folder, "root")
                assert root.state == "up", "nothing changes before the reload"
                assert service.reload()
                while "refused" not in ended:
                    await asyncio.sleep(0)
                assert ann.state == "up", "a password is not a certificate"
                with pytest.raises(RefusedError, match="was revoked"):
                    await connect(service, "root", **showing(folder, "root"))

    play(story())


def test_the_folder_of_certificates_brings_its_list_of_revoked_ones(certs: Path, home: Path) -> None:
    """`--certs DIR` did not read DIR/revoked.txt: a revoked client published on after SIGHUP."""

    async def story() -> None:
        folder = own_certs(certs, home)
        (folder / "revoked.txt").unlink()

        def read() -> BrokerSettings:
            return with_revoked(lambda fields: settings(home, folder, **fields), {}, folder)

        assert read().tls.revoked == "", "no list is there yet"
        async with (
            Service(read(), again=read) as service,
            connect(service, "root", **showing(folder, "root")) as root,
        ):
            ended: list[str] = []
            root.watch(ended.append)
            revoke(folder, "root")
            assert service.reload()
            assert service.settings.tls.revoked == str(folder / "revoked.txt")
            while "refused" not in ended:
                await asyncio.sleep(0)
        other = home / "other.txt"
        other.write_text("")
        named = {"tls.revoked": str(other)}
        stated = with_revoked(lambda fields: settings(home, folder, **fields), named, folder)
        assert stated.tls.revoked == str(other), "a list that is named goes before"

    play(story())


def test_a_broker_whose_certificate_is_revoked_loses_its_links_and_joins_no_more(
    certs: Path, home: Path
) -> None:
    async def story() -> None:
        folder = own_certs(certs, home)
        more = {"tls.revoked": str(folder / "revoked.txt")}
        async with running(settings(home, folder, **more)) as one:
            joining = settings(home, folder, name="b2", join=[one.server.address], **more)
            async with running(joining) as two:
                while not (one.server.links and two.server.links):
                    await asyncio.sleep(0)
                revoke(folder, "b2")
                assert one.reload()
                while one.server.links or "was revoked" not in str(two.server.figures()["problems"]):
                    await asyncio.sleep(0)
        revoked = (folder / "revoked.txt").read_text()
        (folder / "revoked.txt").write_text("")
        revoke(folder, "b1")  # the one that is dialled
        async with running(settings(home, folder)) as one:
            joining = settings(home, folder, name="b2", join=[one.server.address], **more)
            async with running(joining) as two:
                while "its certificate was revoked" not in str(two.server.figures()["problems"]):
                    await asyncio.sleep(0)
                assert two.server.links == []
        assert revoked

    play(story())


def test_a_list_that_cannot_be_read_stops_the_start_and_leaves_a_running_broker_as_it_was(
    certs: Path, home: Path
) -> None:
    async def story() -> None:
        folder = own_certs(certs, home)
        more = {"tls.revoked": str(folder / "revoked.txt")}
        async with running(settings(home, folder, **more)) as service:
            revoke(folder, "root")
            assert service.reload()
            (folder / "revoked.txt").write_text("no number\n")
            assert not service.reload()
            with pytest.raises(RefusedError, match="was revoked"):
                await connect(service, "root", **showing(folder, "root"))
        with pytest.raises(SettingsError, match=r"line 1: 'no number' is no serial number"):
            running(settings(home, folder, **more))

    play(story())


def test_a_list_without_an_authority_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no tls\.authority"):
        read_settings(fields={"tls.revoked": "list", "security.users": "u"})


USERS = f"""
[users.market]
password = "{make_key("m", iterations=4096)}"
quota = {{ stored_bytes = 2000, subscriptions = 2 }}
[[allow]]
who = "market"
action = ["publish", "subscribe"]
"""


def test_stored_bytes_count_for_their_principal_after_a_restart_too(home: Path) -> None:
    async def story() -> None:
        (home / "users.toml").write_text(USERS)
        async with running(settings(home)) as service, connect(service, "market", "m") as market:
            for _ in range(2):
                await market.publish({"n": 1}, payload=b"x" * 700, lifetime=600)
            await market.publish({"n": 1}, lifetime=0.01, source="market/other")
        async with running(settings(home)) as service, connect(service, "market", "m") as market:
            account = service.secured.guard._accounts.of("market", service._clock.now())
            assert 1400 < account.stored < 2000
            with pytest.raises(RefusedError, match="stored bytes; its quota is 2000"):
                await market.publish({"n": 1}, payload=b"x" * 700, lifetime=600)

    play(story())


def test_durable_subscriptions_that_ended_by_themselves_do_not_fill_the_quota(home: Path) -> None:
    """A guest's time is over, or its home was told of its end: nobody said so at the gate."""

    async def story() -> None:
        (home / "users.toml").write_text(USERS)
        async with running(settings(home)) as service, connect(service, "market", "m") as market:
            guard = service.secured.guard
            for name in ("a", "b"):
                guard.found("market", name, parse_filter("x > 0"))
            async with market.subscribe("x > 0", name="mine", durable=True):
                assert guard._accounts.of("market", 0.0).subscriptions <= 2

    play(story())
