"""Requests on every listener of a broker with principals: replies are for their requester alone, and a
request is no way to publish by the rights of a replier."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.gateway._peer import Peer, port_of, run
from tests.gateway.conftest import broker

import tidings
from tidings.errors import RefusedError
from tidings.gateway.listeners import Gateways
from tidings.gateway.mqtt import packets as mq
from tidings.model.event import make_event
from tidings.model.reply_header import ReplyHeader, with_header
from tidings.runtime.requests import PendingRequests
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, GatewaySettings, SecuritySettings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

KEY = make_key("p", iterations=4096)
NAMES = ("ann", "mallory", "replier", "audit", "root")
USERS = (
    "".join(f'[users.{name}]\npassword = "{KEY}"\n' for name in NAMES)
    + """
[[allow]]
who = ["ann", "mallory"]
action = "publish"
filter = "topic = 'rpc'"
[[allow]]
who = ["ann", "mallory"]
action = "subscribe"
filter = "topic = '_inbox/#'"
[[allow]]
who = "replier"
action = ["publish", "subscribe"]
[[allow]]
who = ["audit", "root"]
action = ["subscribe", "publish"]
[[allow]]
who = "root"
action = "admin"
"""
)


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[Service]:
    """A broker with these users."""
    (folder / "users.toml").write_text(USERS)
    security = SecuritySettings(users=str(folder / "users.toml"))
    gateway = GatewaySettings(mqtt="127.0.0.1:0")
    settings = BrokerSettings(name="b1", listen="127.0.0.1:0", security=security, gateway=gateway)
    async with Service(settings, gateways=Gateways) as service:
        yield service


def connect(service: Service, name: str) -> tidings.Bus:
    shown = PasswordCredentials(name, "p")
    return tidings.connect(service.server.address, name=name, credentials=shown)


async def mqtt_peer(service: Service, name: str) -> tuple[Peer, mq.ConnackPacket]:
    peer = Peer(port_of(service))
    await peer.open()
    given = {"request_response": 1}
    peer.send(mq.ConnectPacket(5, name, True, 60, None, name, b"p", properties=given))
    connack = await peer.next()
    assert connack.reason == 0
    return peer, connack


def test_a_reply_is_for_its_requester_alone(tmp_path: Path) -> None:
    """Attack 04: every requester has the right to subscribe to `_inbox/#`, and read all replies."""

    async def test() -> None:
        async with (
            guarded(tmp_path) as service,
            connect(service, "replier") as replier,
            connect(service, "ann") as ann,
            connect(service, "mallory") as mallory,
            connect(service, "audit") as audit,
            connect(service, "root") as root,
            mallory.subscribe(topic="_inbox/#") as spy,
            audit.subscribe() as wide,
            root.subscribe(topic="_inbox/#") as operator,
        ):
            peer, connack = await mqtt_peer(service, "mallory")
            assert connack.properties["response_information"] == "_inbox/mallory"
            await peer.subscribe("_inbox/#", 0)

            @replier.reply(topic="rpc")
            async def answer(event: tidings.Event) -> dict[str, str]:
                return {"to": event.source}

            async with replier.serving():
                assert (await ann.request({}, topic="rpc", timeout=60))["to"] == "ann"
                reply = await operator.get(timeout=60)
                assert (reply["to"], (reply.topic or "").rpartition("/")[0]) == ("ann", "_inbox/ann")
                assert (await mallory.request({}, topic="rpc", timeout=60))["to"] == "mallory"
                assert (await spy.get(timeout=60))["to"] == "mallory"  # and none before it
                assert b"mallory" in (await peer.message()).payload
            await root.publish({"n": 1}, topic="last")
            found = [await wide.get(timeout=60) for _ in range(3)]
            assert [event.topic for event in found] == ["rpc", "rpc", "last"]

    run(test)


def test_a_client_of_the_last_version_keeps_its_inbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address names no principal: only a subscription that names the address receives the reply."""
    made = PendingRequests.__init__

    def earlier(requests: PendingRequests, bus: tidings.Bus) -> None:
        made(requests, bus)
        requests._address = f"_inbox/{requests._token}"

    monkeypatch.setattr(PendingRequests, "__init__", earlier)

    async def test() -> None:
        async with (
            guarded(tmp_path) as service,
            connect(service, "replier") as replier,
            connect(service, "ann") as ann,
            connect(service, "mallory") as mallory,
            mallory.subscribe(topic="_inbox/#") as spy,
        ):

            @replier.reply(topic="rpc")
            async def answer(event: tidings.Event) -> dict[str, str]:
                return {"to": event.source}

            async with replier.serving():
                assert (await ann.request({}, topic="rpc", timeout=60))["to"] == "ann"
            await replier.publish({"n": 1}, topic="_inbox/mallory/1")
            assert (await spy.get(timeout=60))["n"] == 1

    run(test)


def test_no_replier_publishes_for_a_requester_where_that_has_no_right(tmp_path: Path) -> None:
    """Attack 05: a Response Topic, or the address of a request, that its publisher may not use."""

    async def test() -> None:
        async with (
            guarded(tmp_path) as service,
            connect(service, "replier") as replier,
            connect(service, "mallory") as mallory,
            replier.subscribe(topic="payroll") as payroll,
        ):

            @replier.reply(topic="rpc")
            async def answer(event: tidings.Event) -> dict[str, str]:
                return {"paid": event.source}

            async with replier.serving():
                peer, _ = await mqtt_peer(service, "mallory")
                peer.send(
                    mq.PublishPacket("rpc", b"{}", 1, packet_id=1, properties={"response_topic": "payroll"})
                )
                puback = await peer.next()
                assert (type(puback), puback.reason) == (mq.AckPacket, mq.Reason.NOT_AUTHORISED)
                aimed = make_event({}, source="mallory", id="a", topic="rpc")
                with pytest.raises(RefusedError, match="may neither subscribe nor publish to 'payroll'"):
                    await mallory.publish(with_header(aimed, ReplyHeader("payroll", b"1")))
                assert (await mallory.request({}, topic="rpc", timeout=60))["paid"] == "mallory"
            await replier.publish({"n": 1}, topic="payroll")
            assert (await payroll.get(timeout=60))["n"] == 1

    run(test)


def test_the_header_of_a_message_is_no_second_address_of_a_reply(tmp_path: Path) -> None:
    """Headers and attributes as 0.1 wrote them name no Response Topic any more: no guard looked at them."""
    header = {"mqtt": msgspec.msgpack.encode({"qos": 0, "response_topic": "payroll", "correlation": b"1"})}

    async def test() -> None:
        async with (
            guarded(tmp_path) as service,
            connect(service, "mallory") as mallory,
        ):
            peer, _ = await mqtt_peer(service, "replier")
            await peer.subscribe("rpc", 0)
            await mallory.publish(make_event({}, source="mallory", id="a", topic="rpc", headers=header))
            assert "response_topic" not in (await peer.message()).properties

    run(test)


def test_many_large_headers_leave_no_memory_behind() -> None:
    """Attack 09: the gateway remembered 1,024 decoded headers, of any size."""
    user = [["", str(number)] for number in range(20_000)]

    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            peer = Peer(port_of(service))
            await peer.connect("q")
            await peer.subscribe("#", 0)
            kept = []
            for number in range(3):
                packed = msgspec.msgpack.encode({"user": user, "qos": 0, "content_type": str(number)})
                large = make_event({}, source="p", id=f"a{number}", topic="m", headers={"mqtt": packed})
                await bus.publish(large)
                kept.append(len((await peer.message()).properties["user"]))
            assert kept == [1024] * 3  # as many as a packet may have
            too_large = {"mqtt": msgspec.msgpack.encode({"user": user * 5})}
            with pytest.raises(RefusedError, match="header_bytes"):
                await bus.publish(make_event({}, source="p", id="b", topic="m", headers=too_large))
            many = {str(number): b"" for number in range(65)}
            with pytest.raises(RefusedError, match="headers"):
                await bus.publish(make_event({}, source="p", id="c", topic="m", headers=many))

    run(test)
