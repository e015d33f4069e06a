"""`tidings doctor`: each finding says what to do; nothing is opened or changed."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509

from tidings.runtime import checkup
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.settings import (
    BrokerSettings,
    GatewaySettings,
    RetentionSettings,
    SecuritySettings,
    TlsSettings,
)
from tidings.store.rocks import RocksStore

NOW = datetime(2026, 11, 18, 1, tzinfo=UTC)


def states(findings: Any) -> dict[str, str]:
    return {finding.check: finding.state for finding in findings}


def test_the_machine_is_looked_at() -> None:
    found = list(checkup.look_at_machine())
    assert {"versions", "limits", "clock"} <= {finding.check for finding in found}
    assert all(finding.do for finding in found if finding.state == checkup.PROBLEM)


@pytest.mark.parametrize(("days", "state"), [(40, checkup.OK), (20, checkup.WARNING), (-1, checkup.PROBLEM)])
def test_certificates_that_end_soon_are_named(tmp_path: Path, days: int, state: str) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "b1", hosts=("127.0.0.1",), broker=True)
    given = TlsSettings(
        certificate=str(tmp_path / "b1.pem"),
        key=str(tmp_path / "b1.key"),
        authority=str(tmp_path / "authority.pem"),
    )
    end = x509.load_pem_x509_certificate((tmp_path / "b1.pem").read_bytes()).not_valid_after_utc
    own, _ = checkup.certificates(BrokerSettings(tls=given), end - timedelta(days=days))
    assert own.state == state
    (tmp_path / "b1.key").write_text("x")
    (broken,) = checkup._tried("certificates", lambda: checkup.certificates(BrokerSettings(tls=given)))
    assert (broken.state, "are no certificate and its key" in broken.finding) == (checkup.PROBLEM, True)


def test_a_certificate_of_another_broker_or_of_another_authority_is_a_problem(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_authority(tmp_path / name)
        for broker in ("b1", "b2"):
            issue(tmp_path / name, broker, hosts=("127.0.0.1",), broker=True)

    def problems(broker: str, authority: str) -> list[str]:
        folder = tmp_path / "one"
        given = TlsSettings(
            certificate=str(folder / f"{broker}.pem"),
            key=str(folder / f"{broker}.key"),
            authority=str(tmp_path / authority / "authority.pem"),
        )
        found = checkup.certificates(BrokerSettings(name="b1", tls=given))
        return [each.finding for each in found if each.state == checkup.PROBLEM]

    assert problems("b1", "one") == []
    (other,) = problems("b2", "one")
    assert "is the certificate of b2, and this broker is b1" in other
    (foreign,) = problems("b1", "two")
    assert "was not issued by" in foreign


def test_files_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    def found(audit: Path) -> dict[str, str]:
        security = SecuritySettings(anonymous=True, audit=str(audit))
        return states(checkup._files(BrokerSettings(security=security)))

    assert found(tmp_path / "audit.jsonl") == {"files": checkup.OK}
    assert not (tmp_path / "audit.jsonl").exists()
    assert found(tmp_path / "nowhere" / "audit.jsonl") == {"files": checkup.PROBLEM}
    assert found(tmp_path) == {"files": checkup.PROBLEM}
    nowhere = BrokerSettings(store="/proc/nowhere/data")
    (finding,) = checkup.disk(nowhere)
    assert (finding.state, "is no disk" in finding.finding) == (checkup.PROBLEM, True)


def test_the_disk_and_the_users_file(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text('[users.ann]\ngroups = []\n[[allow]]\nwho = "ann"\naction = "admin"\n')
    users.chmod(0o644)
    security = SecuritySettings(users=str(users))
    settings = BrokerSettings(store=str(tmp_path / "new"), security=security, listen="127.0.0.1:1")
    assert states(checkup.look_at_settings(settings))["users"] == checkup.WARNING, "others can read it"
    users.chmod(0o600)
    assert states(checkup.look_at_settings(settings))["users"] == checkup.OK
    assert not (tmp_path / "new").exists()
    full = msgspec.structs.replace(settings, retention=RetentionSettings(warn_free_bytes=1 << 60))
    assert states(checkup.disk(full)) == {"disk": checkup.PROBLEM}
    users.write_text("[users.ann]\npasword = 1\n")
    assert states(checkup.look_at_settings(settings))["users"] == checkup.PROBLEM


def test_neighbours_that_cannot_be_reached_are_named() -> None:
    with socket.socket() as listener, socket.socket() as closed:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        closed.bind(("127.0.0.1", 0))
        positions = [f"127.0.0.1:{each.getsockname()[1]}" for each in (listener, closed)]
        found = asyncio.run(checkup.look_at_neighbours(BrokerSettings(join=tuple(positions))))
    assert [finding.state for finding in found] == [checkup.OK, checkup.PROBLEM]
    assert "cannot be reached" in found[1].finding


def test_brokers_with_other_clocks_and_versions_are_named() -> None:
    answers = [
        {"broker": "b1", "version": "0.2.0", "time": NOW.isoformat()},
        {
            "broker": "b2",
            "version": "0.3.0",
            "time": (NOW + timedelta(seconds=7)).isoformat(),
            "disk full": 1,
        },
        {"broker": "b3", "problem": "no answer"},
    ]
    found = list(checkup.look_at_brokers(answers, NOW))
    assert [(each.check, each.state) for each in found if each.state != checkup.OK] == [
        ("brokers", "problem"), ("clock", "warning"), ("brokers", "problem"), ("versions", "warning"),
    ]  # fmt: skip


def test_every_address_is_tried(tmp_path: Path) -> None:
    """An address that this machine does not have is a problem, whichever listener has it."""
    settings = BrokerSettings(
        listen="127.0.0.1:0", http="192.0.2.1:9117", gateway=GatewaySettings(mqtt="127.0.0.1:0")
    )
    found = {finding.finding.partition(":")[0]: finding.state for finding in checkup._ports(settings)}
    assert found == {"127.0.0.1": checkup.OK, "192.0.2.1": checkup.PROBLEM}


def test_a_store_that_others_may_read_is_named(tmp_path: Path) -> None:
    settings = BrokerSettings(store=str(tmp_path / "data"), retention=RetentionSettings(warn_free_bytes=0))
    with closing(RocksStore(tmp_path / "data")):
        pass
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert states(checkup.disk(settings)) == {"disk": checkup.OK}
    (tmp_path / "data").chmod(0o755)
    first = next(checkup.disk(settings))
    assert (first.state, "chmod 700" in first.do) == (checkup.WARNING, True)
