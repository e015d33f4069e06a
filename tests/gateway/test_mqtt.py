"""The MQTT gateway by clients that are not ours (aiomqtt and paho), in versions 3.1.1 and 5."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from aiomqtt import ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from tests.gateway import conftest as gateway
from tests.gateway.conftest import broker

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import publish_of
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.writing import write
from tidings.model.event import make_event
from tidings.runtime.local_clients import charge

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
both = pytest.mark.parametrize("version", [V311, V5], ids=["v311", "v5"])


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def at(folder: Path | None = None, **options: Any) -> AsyncIterator[tuple[int, Any]]:
    async with broker(folder, mqtt="127.0.0.1:0", **options) as service:
        assert service.gateways is not None
        yield int(service.gateways.addresses["mqtt"].rpartition(":")[2]), service


def client(port: int, name: str, version: ProtocolVersion = V5, **options: Any) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", port, identifier=name, protocol=version, timeout=120, **options)


async def heard(c: aiomqtt.Client, count: int) -> list[aiomqtt.Message]:
    found: list[aiomqtt.Message] = []
    async for message in c.messages:
        found.append(message)
        if len(found) == count:
            break
    return found


def user(packet: int, *pairs: tuple[str, str]) -> Properties:
    properties = Properties(packet)
    properties.UserProperty = list(pairs)
    return properties


@both
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_quality_of_service_brings_every_message_in_order(version: ProtocolVersion, qos: int) -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s", version) as s, client(port, "p", version) as p:
            await s.subscribe("a/+/c", qos=qos)
            for number in range(50):
                await p.publish("a/b/c", f"m{number}", qos=qos)
            await p.publish("a/b/d", "no", qos=qos)
            found = await heard(s, 50)
            assert [m.payload.decode() for m in found] == [f"m{number}" for number in range(50)]
            assert {m.qos for m in found} == {qos}

    run(test)


@both
def test_json_that_nests_too_deeply_is_a_payload_like_any_other(version: ProtocolVersion) -> None:
    async def test() -> None:
        payload = b'{"a": ' + b"[" * 5000
        async with at() as (port, _), client(port, "s", version) as s, client(port, "p", version) as p:
            await s.subscribe("a", qos=1)
            await p.publish("a", payload, qos=1)
            assert [m.payload for m in await heard(s, 1)] == [payload]

    run(test)


@both
def test_no_more_than_the_publisher_asked_for(version: ProtocolVersion) -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s", version) as s, client(port, "p", version) as p:
            await s.subscribe("a", qos=2)
            for qos in (0, 1, 2):
                await p.publish("a", str(qos), qos=qos)
            assert sorted((m.payload, m.qos) for m in await heard(s, 3)) == [(b"0", 0), (b"1", 1), (b"2", 2)]

    run(test)


def test_the_oldest_version() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s", ProtocolVersion.V31) as s, client(port, "p") as p:
            await s.subscribe("a", qos=1)
            await p.publish("a", "x", qos=1)
            assert [m.payload for m in await heard(s, 1)] == [b"x"]

    run(test)


def test_a_topic_is_a_number_where_the_client_has_room_for_it() -> None:
    def said(message: aiomqtt.Message) -> tuple[str, int | None]:
        return str(message.topic), getattr(message.properties, "TopicAlias", None)

    async def test() -> None:
        async with at() as (port, _), client(port, "p") as p, client(port, "plain") as plain:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(write(mq.ConnectPacket(5, "s", properties={"topic_alias_maximum": 1}), 5))
            writer.write(write(mq.SubscribePacket(1, [mq.SubscriptionRequest("#", 0)]), 5))
            read = PacketReader(2**20, version=5)
            found: list[Any] = []

            async def packets(count: int) -> list[Any]:
                while len(found) < count:
                    found.extend(read.feed(await reader.read(2**16)))
                return found[:count]

            await packets(2)
            await plain.subscribe("#")
            for name in ("a", "a", "b"):
                await p.publish(name, "x", qos=1)
            delivered = [(each.topic, each.properties.get("topic_alias")) for each in (await packets(5))[2:]]
            assert delivered == [("a", 1), ("", 1), ("b", None)]
            assert [said(each) for each in await heard(plain, 3)] == [("a", None), ("a", None), ("b", None)]
            writer.close()

    run(test)


def test_the_end_of_a_message_comes_nearer_while_it_waits() -> None:
    old = make_event(
        {}, source="/s", id="1", topic="a", expires=100, time=datetime.now(UTC) - timedelta(seconds=40)
    )
    assert publish_of(old, 1, retain=False, with_properties=True).properties["message_expiry"] == 60


@pytest.mark.parametrize(
    "said",
    [b"\x30\x03\x00\x01a", b"\x10\x10\x00\x04MQTT\x04\x03\x00\x3c\x00\x04name", b"\xff\xff\xff\xff\xff"],
    ids=["publish", "reserved flag", "noise"],
)
def test_what_is_no_connect_gets_no_answer(said: bytes) -> None:
    async def test() -> None:
        async with at() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert await reader.read() == b""
            writer.close()

    run(test)


def test_a_content_filter_and_user_properties() -> None:
    async def test() -> None:
        async with at() as (port, service), client(port, "s") as s, client(port, "p") as p:
            await s.subscribe("quotes/#", properties=user(PacketTypes.SUBSCRIBE, ("filter", "change < -3")))
            wrong = user(PacketTypes.SUBSCRIBE, ("filter", "change <"))
            assert [reason.value for reason in await s.subscribe("other/#", properties=wrong)] == [0x8F]
            async with (
                tidings.connect(service.server.address, name="ann") as bus,
                bus.subscribe("venue = 'XETR'") as news,
            ):
                where = user(PacketTypes.PUBLISH, ("venue", "XETR"))
                await p.publish("quotes/ibm", json.dumps({"change": 1}), qos=1)
                await p.publish("quotes/ibm", json.dumps({"change": -4}), qos=1, properties=where)
                first = (await heard(s, 1))[0]
                assert json.loads(first.payload) == {"change": -4}
                assert first.properties.UserProperty == [("venue", "XETR")]
                assert (await news.get(10)).attributes["change"] == -4
                await bus.publish({"change": -9}, topic="quotes/sap")
                again = (await heard(s, 1))[0]
                assert (str(again.topic), json.loads(again.payload)) == ("quotes/sap", {"change": -9})

    run(test)


@both
def test_a_retained_message_is_heard_by_newcomers_until_it_is_cleared(version: ProtocolVersion) -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "p", version) as p:
            for text in ("old", "new"):
                await p.publish("state/door", text, qos=1, retain=True)
            async with client(port, "s1", version) as s:
                await s.subscribe("state/#", qos=1)
                found = await heard(s, 1)
                assert [(m.payload, m.retain) for m in found] == [(b"new", True)]
                await p.publish("state/door", "live", qos=1, retain=True)
                assert [(m.payload, m.retain) for m in await heard(s, 1)] == [(b"live", False)]
            await p.publish("state/door", b"", qos=1, retain=True)
            async with client(port, "s2", version) as s:
                await s.subscribe("state/#", qos=1)
                await p.publish("state/window", "x", qos=1)
                assert [m.payload for m in await heard(s, 1)] == [b"x"]

    run(test)


def session(seconds: int) -> Properties:
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = seconds
    return properties


@both
@pytest.mark.parametrize("restarted", [False, True], ids=["stays", "restarts"])
def test_a_session_keeps_what_comes_while_its_client_is_away(
    tmp_path: Path, version: ProtocolVersion, restarted: bool
) -> None:
    lasting: dict[str, Any] = (
        {"clean_session": False} if version is V311 else {"clean_start": False, "properties": session(600)}
    )

    async def away(port: int) -> None:
        async with client(port, "p", version) as p:
            for number in range(5):
                await p.publish("t", str(number), qos=1)

    async def back(port: int) -> None:
        async with client(port, "s", version, **lasting) as s:
            assert [m.payload for m in await heard(s, 5)] == [b"0", b"1", b"2", b"3", b"4"]

    async def test() -> None:
        async with at(tmp_path) as (port, _):
            async with client(port, "s", version, **lasting) as s:
                await s.subscribe("t", qos=1)
            await away(port)
            if not restarted:
                await back(port)
        if restarted:
            async with at(tmp_path) as (port, _):
                await back(port)

    run(test)


def test_a_session_is_that_of_its_user_whatever_groups_the_user_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting = {"clean_start": False, "properties": session(600), "username": "market", "password": "m"}

    async def test() -> None:
        async with at(tmp_path, users=True) as (port, _), client(port, "c", **lasting) as c:
            await c.subscribe("t", qos=1)
        group = '[groups.more]\n[users.market]\ngroups = ["more"]'
        monkeypatch.setattr(gateway, "USERS", gateway.USERS.replace("[users.market]", group))
        async with at(tmp_path, users=True) as (port, _):
            async with client(port, "p", username="market", password="m") as p:
                await p.publish("t", "1", qos=1)
            async with client(port, "c", **lasting) as c:
                assert [m.payload for m in await heard(c, 1)] == [b"1"]
        listed = json.loads((tmp_path / "store" / "mqtt-sessions.json").read_text())
        assert [written["client_id"] for written in listed] == ["c"]

    run(test)


def test_sessions_of_one_client_that_an_earlier_version_wrote_apart_are_one(tmp_path: Path) -> None:
    lasting = {"clean_start": False, "properties": session(600)}

    async def test() -> None:
        async with at(tmp_path) as (port, _), client(port, "c", **lasting) as c:
            await c.subscribe("t", qos=1)
        file = tmp_path / "store" / "mqtt-sessions.json"
        (written,) = json.loads(file.read_text())
        older = {**written, "owner": {**written["owner"], "groups": ["a"]}, "expiry": 1, "left_at": 0.0}
        file.write_text(json.dumps([written, older]))
        async with at(tmp_path) as (port, _):
            async with client(port, "p") as p:
                await p.publish("t", "1", qos=1)
            async with client(port, "c", **lasting) as c:
                assert [m.payload for m in await heard(c, 1)] == [b"1"]
        (after,) = json.loads(file.read_text())
        assert after["expiry"] == 600

    run(test)


def test_a_will_is_said_when_a_client_is_cut_off_and_not_when_it_leaves() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s") as s:
            await s.subscribe("gone/+", qos=1)
            async with client(port, "polite", will=aiomqtt.Will("gone/polite", "x", 1)):
                pass
            rude = client(port, "rude", will=aiomqtt.Will("gone/rude", "y", 1))
            await rude.__aenter__()
            rude._client._sock_close()  # as when the network breaks
            assert [str(m.topic) for m in await heard(s, 1)] == ["gone/rude"]

    run(test)


def test_a_shared_subscription_gives_each_message_to_one() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "a") as a, client(port, "b") as b, client(port, "p") as p:
            seen: list[bytes] = []

            async def listen(c: aiomqtt.Client) -> None:
                await c.subscribe("$share/g/jobs/#", qos=1)
                ready.release()
                async for message in c.messages:
                    seen.append(message.payload)
                    came.set()

            ready, came = asyncio.Semaphore(0), asyncio.Event()
            tasks = [asyncio.create_task(listen(c)) for c in (a, b)]
            for _ in tasks:
                await ready.acquire()
            for number in range(40):
                await p.publish("jobs/x", str(number), qos=1)
            while len(seen) < 40:
                came.clear()
                await came.wait()
            for task in tasks:
                task.cancel()
            assert sorted(seen) == sorted(str(number).encode() for number in range(40))

    run(test)


def test_options_of_version_5() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s") as s:
            await s.subscribe("mine/#", options=SubscribeOptions(qos=1, noLocal=True))
            numbered = Properties(PacketTypes.SUBSCRIBE)
            numbered.SubscriptionIdentifier = 7
            await s.subscribe("yours/#", qos=1, properties=numbered)
            await s.publish("mine/x", "own", qos=1)
            about = Properties(PacketTypes.PUBLISH)
            about.ResponseTopic, about.CorrelationData, about.ContentType = (
                "answers",
                b"\x01\x02",
                "text/plain",
            )
            alias = Properties(PacketTypes.PUBLISH)
            alias.TopicAlias = 3
            await s.publish("yours/x", "first", qos=1, properties=alias)
            await s.publish("", "second", qos=1, properties=alias)
            await s.publish("yours/y", "third", qos=1, properties=about)
            found = await heard(s, 3)
            assert [m.payload for m in found] == [b"first", b"second", b"third"]
            assert [str(m.topic) for m in found] == ["yours/x", "yours/x", "yours/y"]
            last = found[-1].properties
            assert last.SubscriptionIdentifier == [7]
            assert (last.ResponseTopic, last.CorrelationData, last.ContentType) == (
                "answers", b"\x01\x02", "text/plain",
            )  # fmt: skip

    run(test)


def test_who_connects_under_the_same_id_takes_over() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "same") as first, client(port, "same") as second:
            await second.subscribe("t", qos=1)
            with pytest.raises(aiomqtt.MqttError):
                await heard(first, 1)
            await second.publish("t", "x", qos=1)
            assert [m.payload for m in await heard(second, 1)] == [b"x"]

    run(test)


@both
def test_rules_hold_over_mqtt_as_everywhere(tmp_path: Path, version: ProtocolVersion) -> None:
    async def test() -> None:
        async with at(tmp_path, users=True) as (port, _):
            for name, password in ((None, None), ("ann", "wrong"), ("nobody", "x")):
                with pytest.raises(aiomqtt.MqttError):
                    async with client(port, "c", version, username=name, password=password):
                        pass
            async with (
                client(port, "c", version, username="ann", password="a") as ann,
                client(port, "c", version, username="market", password="m") as market,  # another's client id
            ):
                await ann.subscribe("quotes/#", qos=1)
                for level in (9, 3):  # ann's mandatory filter hides the first
                    await market.publish("quotes/ibm", json.dumps({"level": level}), qos=1)
                assert [json.loads(m.payload) for m in await heard(ann, 1)] == [{"level": 3}]
                await market.publish("other/x", json.dumps({"level": 1}), qos=1)
                await market.publish("quotes/sap", json.dumps({"level": 1}), qos=1)
                assert [str(m.topic) for m in await heard(ann, 1)] == ["quotes/sap"]

    run(test)


def test_topics_with_empty_levels_and_dollars() -> None:
    async def test() -> None:
        async with at() as (port, _), client(port, "s") as s:
            await s.subscribe("#", qos=1)
            await s.subscribe("/finance/+", qos=1)
            await s.publish("$hidden/x", "no", qos=1)
            await s.publish("/finance/", "yes", qos=1)
            found = await heard(s, 2)  # by both subscriptions
            assert [(str(m.topic), m.payload) for m in found] == [("/finance/", b"yes")] * 2

    run(test)


BAD = [
    (b"GET / HTTP/1.1\r\n" + b"Accept: anything\r\n" * 8, b""),  # as long as its second byte says as a packet
    (bytes.fromhex("100c00044d5154540402003c0000"), b"\x20\x02\x00\x00"),
    (bytes.fromhex("100c00044d5154540902003c0000"), b"\x20\x02\x00\x01"),
    (bytes.fromhex("100c00044d5154540400003c0000"), b"\x20\x02\x00\x02"),
    (b"\xc0\x00", b""),
    (b"\x30\xff\xff\xff\xff\xff", b""),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_mqtt_is_answered_as_the_standard_says_and_left(number: int) -> None:
    stated, answer = BAD[number]

    async def test() -> None:
        async with at() as (port, service):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(stated)
            if number == 1:
                assert await reader.readexactly(4) == answer
                writer.write(b"\x30\x00")
                assert await reader.read() == b""
            else:
                found = await reader.read()
                assert found[: len(answer)] == answer or not answer
            writer.close()
            assert service.server.is_open

    run(test)


def test_a_browser_comes_by_websocket() -> None:
    async def test() -> None:
        async with broker(mqtt_websocket="127.0.0.1:0") as service:
            assert service.gateways is not None
            port = int(service.gateways.addresses["mqtt over websocket"].rpartition(":")[2])
            web = {"transport": "websockets", "websocket_path": "/mqtt"}
            async with client(port, "s", **web) as s, client(port, "p", **web) as p:
                await s.subscribe("t/#", qos=1)
                for number in range(20):
                    await p.publish("t/x", str(number), qos=1)
                assert [m.payload for m in await heard(s, 20)] == [str(n).encode() for n in range(20)]

    run(test)


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_the_commands_of_mosquitto(tmp_path: Path, version: str, qos: str) -> None:
    programs = {name: shutil.which(name) for name in ("mosquitto_sub", "mosquitto_pub")}
    if None in programs.values():
        pytest.skip("mosquitto-clients is not installed")
    sub, pub = (str(programs[name]) for name in ("mosquitto_sub", "mosquitto_pub"))

    async def test() -> None:
        async with at() as (port, service):
            to = ["-h", "127.0.0.1", "-p", str(port), "-V", version, "-q", qos]
            subscription = await asyncio.create_subprocess_exec(
                sub, *to, "-t", "news/#", "-C", "3", "-F", "%t %p", stdout=asyncio.subprocess.PIPE
            )
            while not service.server.figures()["subscriptions"]:
                await asyncio.sleep(0)
            for number in range(3):
                stated = await asyncio.create_subprocess_exec(pub, *to, "-t", "news/x", "-m", f"n{number}")
                assert await stated.wait() == 0
            received, _ = await subscription.communicate()
            assert received.decode().split("\n")[:3] == ["news/x n0", "news/x n1", "news/x n2"]

    run(test)


def test_bytes_that_come_by_mqtt_count_for_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def charged(bus: Any, count: int) -> float:
        pauses.append(charge(bus, count))
        return 0.0

    monkeypatch.setattr("tidings.gateway.mqtt.connection.charge", charged)

    async def test() -> None:
        async with (
            at(tmp_path, users=True) as (port, _),
            client(port, "c", username="slow", password="s") as slow,
        ):
            for _ in range(3):
                await slow.publish("t", "x" * 20_000, qos=1)

    run(test)
    assert max(pauses) > 0.5


def test_a_subscribe_that_is_sent_again_keeps_what_waits_for_an_mqtt_session(tmp_path: Path) -> None:
    """Clients send SUBSCRIBE again whenever they connect; their session has the subscription already."""

    async def test() -> None:
        count = 1_500  # more than the session takes from its subscription ahead of the client
        async with at(tmp_path) as (port, service):
            async with client(port, "device", V311, clean_session=False) as device:
                await device.subscribe("t", qos=1)
            async with tidings.connect(service.server.address, name="publisher") as bus:
                for n in range(count):
                    await bus.publish({"n": n}, topic="t")
            async with client(port, "device", V311, clean_session=False) as device:
                await device.subscribe("t", qos=1)
                async with asyncio.timeout(120):
                    received = [
                        json.loads(bytes((await anext(device.messages)).payload))["n"] for _ in range(count)
                    ]
        assert received == list(range(count))

    run(test)
