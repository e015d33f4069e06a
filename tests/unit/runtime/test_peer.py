"""Peers on real sockets: they find one another, hear what is theirs and nothing else, through loss."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.unit.runtime._peer_rig import Outcome, outcome_of

from tidings.errors import SettingsError, UnreachableError
from tidings.protocol.membership.messages import PeerPing, PeerSubscribe
from tidings.runtime.bus import Bus
from tidings.runtime.peer import PeerBroker, peer
from tidings.testing.network import played, until

QUICK = {"tables": {"period": 0.1}, "gossip": {"named": True, "stagger": 0.05}}


@played
async def test_peers_find_one_another_and_an_event_goes_up() -> None:
    first = PeerBroker(seed=1, options=QUICK)
    async with Bus(first, "p0") as root:
        brokers, buses = [first], [root]
        for number in range(1, 9):
            broker = PeerBroker(join=[first.name], seed=number + 1, options=QUICK)
            brokers.append(broker)
            buses.append(await Bus(broker, f"p{number}").open())
        topics = ["/"] * 2 + ["a"] * 3 + ["a/b"] * 4
        listeners = [
            await bus.subscribe("TRUE" if topic == "/" else f"topic MATCHES '{topic}/#'")
            for bus, topic in zip(buses, topics, strict=True)
        ]
        await until(lambda: all(_is_settled(b, t) for b, t in zip(brokers, topics, strict=True)))
        await buses[8].publish({"x": 1}, topic="a/b")
        received = [await listener.get(timeout=120) for listener in listeners]
        assert [event.attributes["x"] for event in received] == [1] * 9
        await buses[2].publish({"x": 2}, topic="a")
        assert [(await listener.get(timeout=120)).attributes["x"] for listener in listeners[:5]] == [2] * 5
        assert sum(broker.figures()["parasites"] for broker in brokers) == 0
        assert brokers[8].figures()["delivered"] == 1
        for bus in buses[1:]:
            await bus.close()
        await until(lambda: not first.figures()["peers known"])  # they said goodbye


NOWHERE = (
    "127.0.0.1:²",
    "127.0.0.1:99999",
    "127.0.0.1:" + "1" * 5000,
    "127.0.0.1:0",
    "no.such.host.invalid:7200",
    ":7200",
    "",
)


@played
async def test_names_that_lead_nowhere_do_not_hurt_a_peer() -> None:
    """They come from strangers; a port out of bounds would close the socket, a host would be looked up."""
    one = PeerBroker(seed=1, options=QUICK)
    async with Bus(one, "one"), Bus(PeerBroker(seed=2, options=QUICK), "other") as other:
        assert one.datagrams is not None
        for name in NOWHERE:
            one.datagrams.send(name, PeerPing(1))
        assert one.datagrams.figures["datagrams not sent"] == len(NOWHERE)
        there = other._broker.name  # type: ignore[attr-defined]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for name in NOWHERE:
                stated = name.encode()[:255]
                frame = one.datagrams._codec.encode(PeerPing(1))
                stranger.sendto(bytes((len(stated),)) + stated + frame, ("127.0.0.1", one.datagrams.port))
        await until(lambda: one.datagrams.figures["datagrams dropped"] == len(NOWHERE))
        one.datagrams.send(there, PeerSubscribe(("a",), -1))
        hearing = other._broker.datagrams  # type: ignore[attr-defined]
        await until(lambda: hearing.figures["datagrams received"] == 1)
        assert hearing.figures["datagrams failed at"] == 0


@played
async def test_a_peer_is_named_by_a_number() -> None:
    async with peer(listen="localhost:0", name="one") as bus:
        assert bus._broker.name.startswith("127.0.0.1:")  # type: ignore[attr-defined]


def _is_settled(broker: PeerBroker, topic: str) -> bool:
    figures = broker.figures()
    others = {"/": 1, "a": 2, "a/b": 3}[topic]
    return figures["groups"].get(topic, 0) > others and all(figures["contacts above"].values())


@played
async def test_what_is_wrong_is_said() -> None:
    with pytest.raises(SettingsError, match="system of brokers"):
        PeerBroker(system="siena")
    async with peer(seed=1, name="one") as bus:
        taken = bus._broker.name  # type: ignore[attr-defined]
        with pytest.raises(UnreachableError, match="cannot listen"):
            await peer(listen=taken).open()
    with pytest.raises(UnreachableError, match="no address"):
        await peer(join=["no.such.host.invalid:7200"]).open()
    with pytest.raises(UnreachableError, match="no address"):
        await peer(advertise="no.such.host.invalid:7200").open()


@pytest.mark.parametrize("system", ["gossip-broadcast", "subscriber-groups", "hierarchical-gossip"])
def test_dam_8_rivals_run_on_sockets_too(system: str) -> None:
    asyncio.run(asyncio.wait_for(five_hear(system), 120))


async def five_hear(system: str) -> None:
    first = PeerBroker(seed=1, options=QUICK, system=system)
    async with Bus(first, "p0") as root:
        others = [PeerBroker(join=[first.name], seed=n, options=QUICK, system=system) for n in range(2, 6)]
        buses = [root, *[await Bus(broker, f"p{n}").open() for n, broker in enumerate(others)]]
        topics = ["/", "a", "a", "a/b", "a/b"]
        listeners = [
            await bus.subscribe("TRUE" if topic == "/" else f"topic MATCHES '{topic}/#'")
            for bus, topic in zip(buses, topics, strict=True)
        ]
        await until(lambda: all(broker.figures()["peers known"] == 4 for broker in (first, *others)))
        if system == "subscriber-groups":
            above = others[3].figures
            await until(lambda: all(above()["contacts above"].values()))
        await buses[4].publish({"x": 1}, topic="a/b")
        assert [(await listener.get(timeout=120)).attributes["x"] for listener in listeners] == [1] * 5
        assert sum(broker.figures()["parasites"] for broker in (first, *others)) == 0
        for bus in buses[1:]:
            await bus.close()


def judged(outcome: Outcome, least: float) -> None:
    print(outcome)
    assert outcome.ratio >= least
    assert outcome.twice == 0, "nobody hears an event twice"
    assert outcome.parasites == 0
    assert outcome.lost == pytest.approx(0.15, abs=0.05)


@played
async def test_some_peers_in_three_processes_through_a_network_that_loses() -> None:
    sizes = {
        "/": 3,
        "a": 5,
        "a/b": 8,
    }  # in groups of so few, one lost copy may be a peer that misses the event
    judged(await outcome_of(sizes, loss=0.15, period=0.25, events=6, patience=2.0), 0.95)


@pytest.mark.soak
def test_a_hundred_peers_in_three_processes_through_a_network_that_loses() -> None:
    outcome = asyncio.run(outcome_of({"/": 5, "a": 25, "a/b": 70}, loss=0.15, period=0.5, events=20))
    judged(outcome, 0.99)
    assert outcome.whole >= 18
