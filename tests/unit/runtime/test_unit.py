"""Parts of a unit of processes: homes, the proof between processes, one page of metrics, the mark on the
store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.errors import RefusedError, SettingsError
from tidings.runtime.processes import MARK, check_unit, merged_metrics, refuse_store_of_unit, store_of
from tidings.runtime.settings import BrokerSettings, GroupTable
from tidings.runtime.unit import UnitAuthenticator, UnitCredentials, UnitMember, home_of
from tidings.security.interfaces import BROKER, AuthenticationRequest, AuthenticationResult, LoopbackOnly


def member(number: int, count: int = 3) -> UnitMember:
    return UnitMember(unit="u", number=number, count=count, folder="/x", secret=b"s", sockets=())


def test_a_home_depends_on_the_name_before_the_slash_alone() -> None:
    assert {home_of(f"workers/{n}", 7) for n in range(50)} == {home_of("workers", 7)}
    homes = [home_of(f"client-{n}", 4) for n in range(4000)]
    assert all(900 < homes.count(number) < 1100 for number in range(4))
    assert home_of("ann", 5) == 2, "homes are part of the store: the hash must not change"


def test_a_consumer_group_is_refused_away_from_its_home() -> None:
    home = home_of("workers", 3)
    member(home).check_group("workers")
    with pytest.raises(RefusedError, match="workers/1"):
        member((home + 1) % 3).check_group("workers")


def request(mechanism: str = "unit", *, is_loopback: bool = True) -> AuthenticationRequest:
    return AuthenticationRequest(BROKER, "u-2", mechanism, is_loopback=is_loopback)


def test_processes_of_a_unit_prove_that_they_know_its_secret_both_ways() -> None:
    accepting = UnitAuthenticator(b"secret", LoopbackOnly())
    joining = UnitCredentials(b"secret")
    exchange = accepting.begin(request())
    challenge = exchange.step(joining.first())
    assert isinstance(challenge, bytes)
    assert isinstance(exchange.step(joining.answer(challenge)), AuthenticationResult)

    stranger = UnitCredentials(b"guess")
    exchange = accepting.begin(request())
    challenge = exchange.step(stranger.first())
    assert isinstance(challenge, bytes)
    with pytest.raises(RefusedError, match="not one of this unit"):
        stranger.answer(challenge)  # the other end proves itself first
    with pytest.raises(RefusedError, match="no process of the unit"):
        exchange.step(b"x" * 32)
    with pytest.raises(RefusedError, match="begins with"):
        accepting.begin(request()).step(b"short")


def test_the_units_mechanism_counts_on_loopback_alone() -> None:
    class Refuses:
        def begin(self, requested: AuthenticationRequest) -> object:
            raise RefusedError("asked the users file")

    accepting = UnitAuthenticator(b"secret", Refuses())  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="users file"):
        accepting.begin(request(is_loopback=False))
    with pytest.raises(RefusedError, match="users file"):
        accepting.begin(request("certificate"))


PAGE = """# HELP tidings_events Events.
# TYPE tidings_events counter
tidings_events{broker="%s"} %d
# HELP process_cpu_seconds_total Seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.5
# HELP python_info Python.
# TYPE python_info gauge
python_info{version="3.11"} 1.0
"""


def test_metrics_of_all_processes_are_one_page() -> None:
    text = merged_metrics({"u-1": PAGE % ("u-1", 1), "u-2": PAGE % ("u-2", 2)})
    assert text.splitlines() == [
        "# HELP tidings_events Events.",
        "# TYPE tidings_events counter",
        'tidings_events{broker="u-1"} 1',
        'tidings_events{broker="u-2"} 2',
        "# HELP process_cpu_seconds_total Seconds.",
        "# TYPE process_cpu_seconds_total counter",
        'process_cpu_seconds_total{broker="u-1"} 1.5',
        'process_cpu_seconds_total{broker="u-2"} 1.5',
        "# HELP python_info Python.",
        "# TYPE python_info gauge",
        'python_info{broker="u-1",version="3.11"} 1.0',
        'python_info{broker="u-2",version="3.11"} 1.0',
    ]


def test_a_store_keeps_its_number_of_processes(tmp_path: Path) -> None:
    store = str(tmp_path / "data")
    check_unit(BrokerSettings(processes=3, store=store))
    check_unit(BrokerSettings(processes=3, store=store))
    with pytest.raises(SettingsError, match="that of 3 processes"):
        check_unit(BrokerSettings(processes=2, store=store))
    with pytest.raises(SettingsError, match="unit of processes"):
        refuse_store_of_unit(BrokerSettings(store=store))
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "CURRENT").write_text("")
    with pytest.raises(SettingsError, match="not that of a unit"):
        check_unit(BrokerSettings(processes=2, store=str(tmp_path / "single")))
    assert not (tmp_path / "single" / MARK).exists()
    assert store_of("nats://host/NAME", "u-1") == "nats://host/NAME-u-1"
    assert store_of("nats://host/NAME?replicas=1", "u-1") == "nats://host/NAME-u-1?replicas=1"
    assert store_of("", "u-1") == ""


def test_settings_that_processes_cannot_share_are_refused() -> None:
    for settings in (
        BrokerSettings(processes=2, group=GroupTable(name="g")),
        BrokerSettings(processes=2, heal_seconds=3.0),
        BrokerSettings(processes=2, datagrams=True),
        BrokerSettings(processes=2, system="intermediary"),
    ):
        with pytest.raises(SettingsError, match="does not go with processes"):
            check_unit(settings)
