"""A client that keeps to no rule, over a real socket: what it says of itself counts for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.model.event import make_event
from tidings.model.filter import EVERYTHING, Filter
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import Knowledge, LogKnowledge
from tidings.protocol.routing.duplicates import Forward
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.dialling import dial, parse_addresses
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key
from tidings.wire.codec import Codec

KEY = make_key("p", iterations=4096)
USERS = f"""
[users.ann]
password = "{KEY}"
quota = {{ subscriptions = 3 }}
[users.market]
password = "{KEY}"
[users.fast]
password = "{KEY}"
quota = {{ bytes_per_second = 20_000, burst_bytes = 20_000 }}
[users.acme]
password = "{KEY}"
tenant = "acme"
[users.evil]
password = "{KEY}"
tenant = "evil"
[[allow]]
who = "ann"
action = "subscribe"
filter = "level < 5"
[[allow]]
who = ["market", "acme", "evil", "fast"]
action = ["publish", "subscribe"]
"""
OPTIONS = DeliveryOptions(policy=Policy.DROP_OLDEST)
FORGED = Filter("level < 5", EVERYTHING.conjunctions)  # a text that is allowed, a meaning that is not


class Raw:
    """A connection that was let in, and says whatever it likes."""

    def __init__(self, connection: Connection, early: list[msg.Message]) -> None:
        self.connection = connection
        self.received: list[msg.Message] = list(early)
        self.is_over = asyncio.Event()
        self._more = asyncio.Event()
        connection.receive = self._receive
        connection.lost = lambda connection, reason: self.is_over.set()
        connection.release("early")

    def _receive(self, connection: Connection, messages: list[msg.Message]) -> None:
        self.received += connection.answered(messages)
        self._more.set()

    def say(self, *messages: msg.Message) -> None:
        for message in messages:
            self.connection.send(message)

    async def wait_for(self, kind: type, count: int = 1) -> list[Any]:
        while len(found := [one for one in self.received if isinstance(one, kind)]) < count:
            self._more.clear()
            await self._more.wait()
        return found


async def raw(service: Service, name: str = "ann") -> Raw:
    credentials = PasswordCredentials(name, "p")
    declared = (*HANDSHAKE, *BESIDE, Forward)
    dialled = await dial(
        parse_addresses(service.server.address)[0],
        lambda: OpenSession("client", name, "", credentials.mechanism, credentials.first()),
        Codec(declared),
        WriteCoalescer(),
        NetworkSettings(),
        credentials=credentials,
        lost=lambda connection, reason: None,
        most_bytes=1 << 20,
    )
    client = Raw(dialled.connection, dialled.early)
    client.say(msg.Hello(name, "1"))
    await client.wait_for(msg.Welcome)
    return client


def play(tmp_path: Path, story: Any) -> None:
    (tmp_path / "users.toml").write_text(USERS)
    fields = {"name": "b1", "listen": "127.0.0.1:0", "security.users": str(tmp_path / "users.toml")}

    async def run() -> None:
        async with (
            asyncio.timeout(120),
            Service(read_settings(fields=fields | {"store": str(tmp_path / "b1")})) as service,
        ):
            await story(service)

    asyncio.run(run())


def connect(service: Service, name: str) -> tidings.Bus:
    return tidings.connect(service.server.address, name=name, credentials=PasswordCredentials(name, "p"))


async def published(service: Service) -> None:
    async with connect(service, "market") as market:
        for n, level in enumerate((1, 9, 2)):
            await market.publish({"n": n, "level": level}, lifetime=60)


def test_a_forged_normal_form_and_a_number_used_twice_widen_nothing(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service)
        client.say(
            msg.Subscribe(1, 1, "a", FORGED, OPTIONS, credit=100),
            msg.Subscribe(2, 1, "b", EVERYTHING, OPTIONS, credit=100),
            msg.Subscribe(3, 2, "c", EVERYTHING, OPTIONS, credit=100),
        )
        await client.wait_for(msg.Subscribed, 2)
        (refused,) = await client.wait_for(msg.Refused)
        assert "names an open subscription already" in refused.reason
        assert service.secured.guard._accounts.of("ann", 0.0).subscriptions == 2
        await published(service)
        await client.wait_for(msg.Deliver, 4)
        levels = {one.event["level"] for one in client.received if isinstance(one, msg.Deliver)}
        assert levels == {1, 2}
        assert service.secured.guard.withheld == 0  # the subscriptions themselves were narrow
        client.connection.end("done")

    play(tmp_path, story)


def test_the_log_is_read_within_the_rules_alone(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await published(service)
        client = await raw(service)
        client.say(msg.ReadLog(1, FORGED), msg.ReadLog(2, EVERYTHING))
        pages = await client.wait_for(msg.LogRead, 2)
        assert [[entry.event["level"] for entry in page.entries] for page in pages] == [[1, 2], [1, 2]]
        client.connection.end("done")

    play(tmp_path, story)


def test_what_no_rule_allows_is_refused_on_every_way_in(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service)
        event = make_event({"level": 1}, source="ann", id="x")
        theirs = make_event({"level": 1}, source="market", id="x")
        client.say(
            msg.Publish(1, event, 1), msg.Publish(2, theirs, 2), msg.StageEvents(3, "q", 0, 0, (event,))
        )
        refusals = await client.wait_for(msg.Refused, 3)
        assert {refusal.call for refusal in refusals} == {1, 2, 3}
        assert service.server.figures()["entries"] == 0
        client.connection.end("done")

    play(tmp_path, story)


@pytest.mark.parametrize(
    "message",
    [
        msg.Hello("market", "1"),
        msg.Welcome("b1", "log"),
        Forward(Envelope(make_event({"level": 1}, source="market", id="1"), "b9")),
        msg.Deliver(1, 1, make_event(source="market", id="1")),
    ],
    ids=lambda message: type(message).__name__,
)
def test_who_says_what_no_client_says_is_left(message: msg.Message, tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service)
        client.say(message)
        await client.is_over.wait()
        assert service.server.figures()["entries"] == 0

    play(tmp_path, story)


def test_subscriptions_are_counted_however_they_come(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service)
        durable = DeliveryOptions(durable=True)
        for number in range(10):
            client.say(
                msg.Subscribe(2 * number, number, f"d{number}", EVERYTHING, durable),
                msg.Unsubscribe(2 * number + 1, number, end=False),
            )
        refused = await client.wait_for(msg.Refused, 7)
        assert "its quota is 3" in refused[-1].reason
        client.connection.end("done")
        other = await raw(service)
        other.say(
            msg.Subscribe(1, 1, "d0", EVERYTHING, durable),
            msg.Subscribe(
                2, 2, "d0", EVERYTHING, durable
            ),  # refused: it has a listener; and it stays counted
            msg.Subscribe(3, 3, "d9", EVERYTHING, durable),
            msg.Subscribe(4, 4, "g", EVERYTHING, DeliveryOptions(durable=True, group="g")),
        )
        assert {refusal.call for refusal in await other.wait_for(msg.Refused, 3)} == {2, 3, 4}
        other.connection.end("done")

    play(tmp_path, story)
    play(tmp_path, _still_counted)  # by another life of the broker, on the same disk


async def _still_counted(service: Service) -> None:
    client = await raw(service)
    client.say(msg.Subscribe(1, 1, "d9", EVERYTHING, DeliveryOptions(durable=True)))
    await client.wait_for(msg.Refused)
    client.say(msg.Subscribe(2, 2, "d0", EVERYTHING, DeliveryOptions(durable=True)))
    await client.wait_for(msg.Subscribed)
    client.say(msg.Unsubscribe(3, 2, end=True))
    await client.wait_for(msg.Unsubscribed)
    client.say(msg.Subscribe(4, 4, "d9", EVERYTHING, DeliveryOptions(durable=True)))
    await client.wait_for(msg.Subscribed, 2)
    client.connection.end("done")


def test_a_tenant_cannot_enter_the_group_of_another(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        async with connect(service, "acme") as acme:
            await (await acme.subscribe("n > 0", group="workers", durable=True)).close()
            async with connect(service, "evil") as evil:
                async with evil.subscribe("n > 0", group="workers", durable=True) as stolen:
                    await acme.publish({"n": 1})
                    with pytest.raises(TimeoutError):
                        await stolen.get(timeout=0.2)
                await evil.publish({"n": 7})
            async with acme.subscribe("n > 0", group="workers", durable=True) as mine:
                event = await mine.get(timeout=120)
                assert (event["n"], event["tenant"]) == (1, "acme")
                assert mine.id.name == "workers"
                with pytest.raises(TimeoutError):
                    await mine.get(timeout=0.2)

    play(tmp_path, story)


def test_batches_of_one_principal_are_nothing_to_another(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        one, other = await raw(service, "market"), await raw(service, "evil")
        event = make_event({"n": 1}, source="market", id="s1", lifetime=60)
        one.say(msg.StageEvents(1, "sink", 0, 0, (event,)))
        await one.wait_for(msg.Staged)
        other.say(msg.CommitStaged(1, "sink", 0, 1), msg.AskCommitted(2, "sink"))
        assert (await other.wait_for(msg.Committed))[-1].batch == -1
        one.say(msg.CommitStaged(2, "sink", 0, 1))
        (done,) = await one.wait_for(msg.Committed)
        assert (done.query, done.batch, done.is_new) == ("sink", 0, True)
        for client in (one, other):
            client.connection.end("done")

    play(tmp_path, story)


def test_who_sends_too_fast_waits_and_nobody_else_does(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        async with connect(service, "fast") as fast, connect(service, "market") as market:
            # let through, and paid for by waiting: 25 s at 20,000 bytes a second, far more than the others
            # need
            await fast.publish(payload=b"x" * 520_000)
            waiting = asyncio.create_task(fast.publish({"n": 1}))
            for n in range(20):
                await market.publish({"n": n})
            assert not waiting.done()
            waiting.cancel()

    play(tmp_path, story)


def test_replayed_broker_frames_open_no_door(tmp_path: Path) -> None:
    """Somebody recorded what a broker said to another, and says it again: without its certificate it is
    nobody, and nothing of it reaches the node."""

    async def story(service: Service) -> None:
        codec = Codec((*HANDSHAKE, *BESIDE, Forward, Knowledge))
        opening = codec.encode(OpenSession("broker", "b2", "tidings", "certificate"))
        recorded = opening + codec.encode(Knowledge((LogKnowledge("b2#1", 0, 9, 9),)))
        where = service.server.addresses[0]
        before = service.server.node.figures()
        for stream in (opening, recorded, opening + recorded, recorded * 3):
            reader, writer = await asyncio.open_connection(where.host, where.port)
            writer.write(stream)
            while await reader.read(4096):
                pass
            writer.close()
        assert service.server.links == []
        assert service.server.node.figures() == before
        assert service.server.figures()["handshakes refused"] >= 1

    play(tmp_path, story)
