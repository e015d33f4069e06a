"""Datagrams between brokers: straight to whoever has an address, dropped and counted otherwise."""

from __future__ import annotations

import socket

from tidings.protocol.effects import Channel, Effect, Send
from tidings.protocol.inputs import Input, TimerFired
from tidings.protocol.messages import Message
from tidings.protocol.recovery.messages import AckProgress, LogAck
from tidings.runtime.server import Server
from tidings.testing.network import linked, played, serving, until


def say(server: Server, to: str) -> None:
    """As if the node had asked for it."""
    effect = Send(to, AckProgress((LogAck("x#1", 1, 1),)), Channel.DATAGRAM)
    node, server._driver._main = server._driver._main, Says(effect)  # type: ignore[assignment]
    server._driver._machines[server.name] = server._driver._main
    server._driver.hand(server.name, TimerFired())
    server._driver._main = server._driver._machines[server.name] = node


class Says:
    """A machine that answers any input with one effect."""

    def __init__(self, effect: Send) -> None:
        self._effect = effect

    def handle(self, input: Input, now: float) -> list[Effect]:
        return [self._effect]

    def next_deadline(self) -> float | None:
        return None

    def check(self) -> None: ...


@played
async def test_a_datagram_reaches_a_neighbour_and_one_whose_address_was_told() -> None:
    async with (
        serving("b1", datagrams=True) as one,
        serving("b2", datagrams=True, join=[one.address]) as two,
        serving("b3", datagrams=True) as far,
    ):
        await linked(one, two)
        assert one.datagrams is not None
        assert two.datagrams is not None
        assert far.datagrams is not None
        say(one, "b2")
        await until(lambda: two.datagrams.figures["datagrams received"] == 1)
        say(one, "b3")
        assert one.datagrams.figures["datagrams not sent"] == 1
        one.datagrams.tell({"b3": far.addresses[0][:2]})
        far.datagrams.tell({"b1": one.addresses[0][:2]})
        say(one, "b3")
        await until(lambda: far.datagrams.figures["datagrams received"] == 1)


@played
async def test_what_is_no_brokers_word_is_dropped() -> None:
    async with serving("b1", datagrams=True) as one:
        assert one.datagrams is not None
        where = one.addresses[0][:2]
        frame = one._codec.encode(AckProgress((LogAck("x#1", 1, 1),)))
        for bad in (b"", b"\xff", b"\x02b2" + frame, b"\x02b2" + frame[:-1], b"\x02\xff\xff" + frame):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(bad, where)
        await until(lambda: one.datagrams.figures["datagrams dropped"] == 5)
        assert one.figures()["faults"] == 0


@played
async def test_a_datagram_that_the_node_fails_at_stops_nobody() -> None:
    async with serving("b1", datagrams=True) as one, serving("b2", datagrams=True, join=[one.address]) as two:
        await linked(one, two)
        assert two.datagrams is not None
        hear, two.datagrams._receive = two.datagrams._receive, fail
        say(one, "b2")
        await until(lambda: two.datagrams.figures["datagrams failed at"] == 1)
        two.datagrams._receive = hear
        say(one, "b2")
        await until(lambda: two.datagrams.figures["datagrams received"] == 2)
        assert two.datagrams.figures["datagrams failed at"] == 1


def fail(sender: str, messages: list[Message]) -> None:
    raise ValueError("no sense at all")
