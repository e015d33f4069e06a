"""Durable subscriptions of MQTT sessions are in the file of sessions before the broker has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, port_of, run
from tests.gateway.conftest import broker

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import Reason
from tidings.gateway.mqtt.sessions_file import FILE, SessionsFile, read
from tidings.gateway.mqtt.shares import group_of
from tidings.runtime.bus import Bus


def content(filter: str, number: int) -> mq.SubscribePacket:
    """A SUBSCRIBE with a content filter."""
    wish = mq.SubscriptionRequest("t", 1)
    return mq.SubscribePacket(number, [wish], {"user": [("filter", filter)]})


def test_a_subscription_is_written_down_before_the_broker_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, opened = tmp_path / "store" / FILE, []
    subscribe = Bus.subscribe

    async def looked_at(bus: Bus, *wants: Any, **options: Any) -> Any:
        name = options.get("name") or options.get("group")
        if name is not None:
            [session] = read(file)
            kept = session.subscriptions.values()
            known = {each.name for each in kept} | {group_of(each) for each in session.subscriptions}
            known |= {each.replaces.name for each in kept if each.replaces is not None}
            opened.append((name in known, len([each for each in kept if each.replaces is not None])))
        return await subscribe(bus, *wants, **options)

    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            assert await peer.subscribe("a", 1) == 1
            assert await peer.subscribe("$share/g/a", 1) == 1
            for number, filter in enumerate(("n = 1", "n = 2"), 10):
                peer.send(content(filter, number))
                assert (await peer.next()).reasons == [1]
            assert await peer.subscribe("a/#/b", 1) == Reason.TOPIC_FILTER
        [session] = read(file)
        assert sorted(session.subscriptions) == ["$share/g/a", "a", "t"], "not the one that was refused"
        assert session.subscriptions["t"].replaces is None

    monkeypatch.setattr(Bus, "subscribe", looked_at)
    run(test)
    assert opened == [(True, 0), (True, 0), (True, 0), (True, 1)]


def test_a_subscription_that_was_being_replaced_when_the_broker_was_killed_is_ended(tmp_path: Path) -> None:
    """The file says that the second was to replace the first; the broker had both."""
    file = tmp_path / "store" / FILE
    written: list[bytes] = []

    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            for number, filter in enumerate(("n = 1", "n = 2"), 10):
                peer.send(content(filter, number))
                assert (await peer.next()).reasons == [1]
                written.append(file.read_bytes())
        assert b"replaces" in written[1]
        file.write_bytes(written[0])
        async with at(tmp_path) as port:  # the first is at the broker again, and the second still
            peer = Peer(port)
            await peer.kept("c")
            await peer.waiting()
        file.write_bytes(written[1])
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            peer = Peer(port_of(service))
            assert await peer.kept("c")
            await peer.waiting()  # its subscriptions are open now
            assert service.server.figures()["subscriptions"] == 1

    run(test)


def test_subscriptions_that_cannot_be_written_down_are_refused_and_the_broker_never_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            peer = Peer(port_of(service))
            await peer.kept("c")
            assert await peer.subscribe("a", 1) == 1

            async def fails(_file: SessionsFile, _shares: Any) -> bool:
                return False

            with monkeypatch.context() as patched:
                patched.setattr(SessionsFile, "is_written", fails)
                assert await peer.subscribe("b", 1) == Reason.QUOTA
                assert await peer.subscribe("a", 0) == Reason.QUOTA
            assert service.server.figures()["subscriptions"] == 1
            [kept] = read(tmp_path / "store" / FILE)[0].subscriptions.values()
            assert (kept.wish.filter, kept.wish.qos) == ("a", 1)

    run(test)
