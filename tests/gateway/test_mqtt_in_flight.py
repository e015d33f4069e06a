"""Messages in flight to a client of MQTT over a restart, a SUBSCRIBE that is sent again, and waiting."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, run

from tidings.gateway.mqtt import exchanges
from tidings.gateway.mqtt import packets as mq


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("sent", [1, 2])
def test_a_message_in_flight_keeps_its_qos_over_a_restart(sent: int, granted: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            await peer.subscribe("t", sent)
            await Peer.publishing(port, [b"x"], qos=2)
            first = await peer.message(acknowledge=False)
            assert first.qos == sent
            await peer.subscribe("t", granted, handling=2)
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            again = await peer.message()
            assert (again.qos, again.packet_id, again.dup) == (sent, first.packet_id, True)

    run(test)


def test_the_packet_id_of_qos_1_is_written_before_the_packet_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a sync that was under way: after a kill then, the resend had another one, and no DUP."""
    file = tmp_path / "store" / exchanges.FILE
    go_on, is_syncing, sync = threading.Event(), threading.Event(), os.fdatasync

    def slow(descriptor: int) -> None:
        is_syncing.set()
        go_on.wait(60)
        sync(descriptor)

    async def test() -> None:
        async with at(tmp_path) as port:
            once, often = Peer(port), Peer(port)
            await once.kept("once")
            await once.subscribe("t", 2)
            await often.kept("often")
            await often.subscribe("t", 1)
            monkeypatch.setattr("tidings.gateway.mqtt.exchanges.os.fdatasync", slow)
            publisher = Peer(port)
            await publisher.connect("p")
            publisher.send(mq.PublishPacket("t", b"x", 1, packet_id=1))
            await asyncio.to_thread(is_syncing.wait, 60)
            publisher.send(mq.PublishPacket("t", b"y", 1, packet_id=2))
            for _ in range(2):
                found = await often.message(acknowledge=False)
                lines: list[Any] = [json.loads(line) for line in file.read_bytes().splitlines()]
                assert ["out", found.packet_id, 1] in [[line[1], line[2], line[-1]] for line in lines]
            go_on.set()

    try:
        run(test)
    finally:
        go_on.set()
