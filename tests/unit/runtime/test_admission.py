"""Admission of connections: a silent or slow client makes room for the next one and never keeps it out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tidings
from tidings.runtime.admission import LOCAL, Admission, AdmissionSettings, address_of
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.http import MOST, OperatorHttp, OperatorPage
from tidings.testing.network import RawClient, played, serving, until


class Guests:
    """Connections that note when they have to go."""

    def __init__(self, **settings: Any) -> None:
        self.gone: list[str] = []
        self.admission = Admission(AdmissionSettings(**settings), descriptors=10_000)

    def enter(self, name: str, address: str = "10.0.0.1") -> Any:
        return self.admission.enter((address, 1), lambda reason: self.gone.append(name))


def test_the_oldest_that_waits_goes_when_one_address_has_too_many_waiting() -> None:
    local_clients = Guests(waiting_per_address=2)
    first = local_clients.enter("first")
    local_clients.enter("second")
    local_clients.enter("elsewhere", "10.0.0.2")
    local_clients.enter("third")
    assert local_clients.gone == ["first"]
    assert first.is_over
    first.leave()  # its connection ends later; it is counted once
    assert (len(local_clients.admission), local_clients.admission.waiting) == (3, 3)


def test_the_address_with_the_most_that_wait_makes_room() -> None:
    local_clients = Guests(waiting=4)
    local_clients.enter("quiet", "10.0.0.2")
    for number in range(3):
        local_clients.enter(f"flood {number}")
    local_clients.enter("new", "10.0.0.3")
    assert local_clients.gone == ["flood 0"]


def test_what_is_served_is_never_sent_away_and_a_full_house_refuses() -> None:
    local_clients = Guests(connections=4)
    served = []
    for number in range(3):
        served.append(local_clients.enter(f"served {number}", f"10.0.1.{number}"))
        served[-1].serve()
    local_clients.enter("waits", "10.0.2.1")
    assert local_clients.enter("new", "10.0.2.2") is not None
    assert local_clients.gone == ["waits"]
    local_clients.gone.clear()
    assert local_clients.enter("newer", "10.0.2.3") is not None
    assert local_clients.gone == ["new"]
    served[0].wait()  # answered, and idle
    local_clients.enter("last", "10.0.2.9").serve()
    assert local_clients.gone[1:] in (["newer"], ["served 0"])
    local_clients.enter("at last", "10.0.2.9").serve()
    assert sorted(local_clients.gone[1:]) == ["newer", "served 0"]
    assert local_clients.enter("nobody", "10.0.2.10") is None
    assert local_clients.admission.figures["connections refused"] == 1


def test_one_address_cannot_have_all_connections() -> None:
    local_clients = Guests(connections=8, share_per_address=0.5)
    for number in range(4):
        local_clients.enter(str(number)).serve()
    assert local_clients.enter("one more") is None
    assert local_clients.enter("another", "10.0.0.2") is not None


def test_a_reserve_of_descriptors_is_left() -> None:
    admission = Admission(AdmissionSettings(reserved_descriptors=128), descriptors=1024)
    assert admission.most == 1024 - 128


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("10.1.2.3", 5), "10.1.2.3"),
        (("2001:db8::1", 5, 0, 0), "2001:db8::/64"),
        (("2001:db8::ffff:1", 5, 0, 0), "2001:db8::/64"),
        (("::ffff:10.1.2.3", 5, 0, 0), "10.1.2.3"),
        (("::1", 5, 0, 0), "::1"),
        ("", LOCAL),
        (None, LOCAL),
    ],
)
def test_addresses_are_counted_by_who_has_them(peer: Any, address: str) -> None:
    assert address_of(peer) == address


@played
async def test_silent_connections_keep_no_newcomer_out_of_a_broker() -> None:
    settings = NetworkSettings(handshakes=64, handshakes_per_address=8, handshake_seconds=60)
    async with serving(network=settings) as server:
        silent = [await RawClient.to(server) for _ in range(30)]
        await until(lambda: server.figures()["handshakes evicted"] >= 22)
        assert server.figures()["handshakes"] <= 8
        async with tidings.connect(server.address, name="good") as bus:
            await bus.publish({"n": 1})
        for raw in silent:
            raw.close()
        await until(lambda: len(server.admission) == 0)


@played
async def test_silent_connections_keep_no_one_from_the_health_page() -> None:
    http = OperatorHttp({"/healthz": lambda: OperatorPage(b"{}")})
    await http.start("127.0.0.1", 0)
    host, _, port = http.address.removeprefix("http://").rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(MOST + 10)]
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    for _, other in [*silent, (reader, writer)]:
        other.close()
    await http.close()
