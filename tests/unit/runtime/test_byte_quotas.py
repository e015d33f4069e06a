"""Quotas on bytes: stored, held, queued and unacknowledged ones, over real sockets, by clients that keep to
no rule."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.test_attacks import KEY, Raw, raw

from tidings.language import parse_filter
from tidings.model.event import FOREVER, make_event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings

USERS = f"""
[users.q]
password = "{KEY}"
quota = {{ subscriptions = 3, stored_bytes = 2000, held_bytes = 5000 }}
[users.slow]
password = "{KEY}"
quota = {{ queued_bytes = 100_000 }}
[users.pub]
password = "{KEY}"
[users.few]
password = "{KEY}"
quota = {{ holds = 2 }}
[[allow]]
who = ["q", "pub", "few"]
action = ["publish", "subscribe"]
[[allow]]
who = "slow"
action = "subscribe"
"""
DURABLE = DeliveryOptions(durable=True, policy=Policy.DROP_OLDEST)
TRANSIENT = DeliveryOptions(replay=True, policy=Policy.DROP_OLDEST)
N = parse_filter("n >= 0")


def play(tmp_path: Path, story: Any) -> None:
    (tmp_path / "users.toml").write_text(USERS)
    fields = {"name": "b1", "listen": "127.0.0.1:0", "security.users": str(tmp_path / "users.toml")}

    async def run() -> None:
        async with (
            asyncio.timeout(60),
            Service(read_settings(fields=fields | {"store": str(tmp_path / "b1")})) as service,
        ):
            await story(service)

    asyncio.run(run())


def publish(client: Raw, call: int, source: str, **options: Any) -> None:
    attributes = {"n": call, **options.pop("attributes", {})}
    client.say(msg.Publish(call, make_event(attributes, source=source, id=f"x-{call}", **options), call))


def answered(client: Raw, call: int) -> Any:
    return next((one for one in client.received if getattr(one, "call", None) == call), None)


async def answer(client: Raw, call: int) -> Any:
    while (found := answered(client, call)) is None:
        client._more.clear()
        await client._more.wait()
    return found


def test_superseded_events_give_their_stored_bytes_back(tmp_path: Path) -> None:
    """Reproduction t05: each of 200 events of one key counted for ever."""

    async def story(service: Service) -> None:
        client = await raw(service, "q")
        for call in range(1, 200):
            publish(client, call, "q", key="kitchen", lifetime=FOREVER)
            assert isinstance(await answer(client, call), msg.Published)
        client.say(msg.ReadLog(900, N))
        assert len((await answer(client, 900)).entries) == 1

    play(tmp_path, story)


def test_stored_bytes_are_bounded_also_for_publishes_that_come_together(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service, "q")
        for call in range(1, 41):
            publish(client, call, "q", attributes={"text": "x" * 100}, lifetime=600)
        answers = [await answer(client, call) for call in range(1, 41)]
        kept = [one for one in answers if isinstance(one, msg.Published)]
        assert 5 < len(kept) < 20
        assert "stored bytes; its quota is 2000" in answers[-1].reason
        client.say(msg.ReadLog(900, N))
        assert len((await answer(client, 900)).entries) == len(kept)

    play(tmp_path, story)


def test_stored_bytes_count_after_a_restart_and_no_longer_than_they_live(tmp_path: Path) -> None:
    async def first(service: Service) -> None:
        client = await raw(service, "q")
        publish(client, 1, "q", attributes={"text": "x" * 1500}, lifetime=600)
        assert isinstance(await answer(client, 1), msg.Published)

    async def second(service: Service) -> None:
        client = await raw(service, "q")
        publish(client, 2, "q", attributes={"text": "x" * 1500}, lifetime=600)
        assert isinstance(await answer(client, 2), msg.Refused)
        publish(client, 3, "q", attributes={"text": "x" * 1500}, lifetime=0)
        assert not isinstance(await answer(client, 3), msg.Refused)  # what has no lifetime is not stored

    play(tmp_path, first)
    play(tmp_path, second)


def test_ending_a_hold_gives_back_no_quota_of_a_subscription(tmp_path: Path) -> None:
    """Reproduction t05: `EndHold` of "7" gave back the place of the durable subscription "hold:7"."""

    async def story(service: Service) -> None:
        client, opened = await raw(service, "q"), 0
        for number in range(10):
            client.say(msg.Subscribe(100 + number, number, f"hold:{number}", N, DURABLE))
            opened += isinstance(await answer(client, 100 + number), msg.Subscribed)
            client.say(msg.EndHold(200 + number, str(number)))
            await answer(client, 200 + number)
        assert opened == 3

    play(tmp_path, story)


def test_holds_are_counted_like_durable_subscriptions_and_their_bytes_are_bounded(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        client = await raw(service, "q")
        for number in range(4):
            client.say(msg.HoldLog(number + 1, f"h{number}", N, seconds=60.0, most_bytes=1 << 40))
        kinds = [type(await answer(client, number + 1)) for number in range(4)]
        assert kinds == [msg.LogHeld] * 3 + [msg.Refused]
        publisher = await raw(service, "pub")
        for call in range(1, 30):
            publish(publisher, call, "pub", attributes={"text": "x" * 500})
            await answer(publisher, call)
        while service.figures()["entries"]:  # a hold that keeps too much ends, whatever the client wrote
            await asyncio.sleep(0)
        client.say(msg.HoldLog(9, "h0", N, seconds=60.0))
        assert (await answer(client, 9)).is_new

    play(tmp_path, story)


def test_holds_have_a_quota_that_counts_over_a_restart_and_is_given_back(tmp_path: Path) -> None:
    """A thousand holds were common to all: one account could keep every other reader out."""

    async def hold(client: Raw, call: int, name: str) -> type:
        client.say(msg.HoldLog(call, name, N, seconds=60.0))
        return type(await answer(client, call))

    async def first(service: Service) -> None:
        client, other = await raw(service, "few"), await raw(service, "pub")
        assert [await hold(client, n, f"h{n}") for n in (1, 2, 3)] == [msg.LogHeld, msg.LogHeld, msg.Refused]
        assert "3 holds; its quota is 2" in answered(client, 3).reason
        assert await hold(other, 1, "h1") is msg.LogHeld

    async def second(service: Service) -> None:
        client = await raw(service, "few")
        assert await hold(client, 1, "h3") is msg.Refused
        client.say(msg.EndHold(2, "h1"))
        await answer(client, 2)
        assert [await hold(client, 3, "h3"), await hold(client, 4, "h2")] == [msg.LogHeld] * 2

    play(tmp_path, first)
    play(tmp_path, second)


@pytest.mark.parametrize("credit", [0, 100_000])
def test_queued_and_unacknowledged_bytes_are_bounded(tmp_path: Path, credit: int) -> None:
    """Reproductions t06 and t26: a queue without end, and credit without end, outside of every quota."""

    async def story(service: Service) -> None:
        slow, publisher = await raw(service, "slow"), await raw(service, "pub")
        options = DeliveryOptions(policy=Policy.DROP_OLDEST, queue=1_000_000)
        slow.say(msg.Subscribe(1, 1, "s", N, options, credit=credit))
        assert isinstance(await answer(slow, 1), msg.Subscribed)
        for call in range(1, 201):
            publish(publisher, call, "pub", attributes={"text": "x" * 5_000})
        await answer(publisher, 200)
        waiting = service.server.node.describe(10)[0]["waiting"]
        delivered = sum(
            len(one.events) if isinstance(one, msg.DeliverAll) else isinstance(one, msg.Deliver)
            for one in slow.received
        )
        assert waiting + delivered < 60, "about 100,000 bytes, and some more in flight"
        lost = (await slow.wait_for(msg.Lost))[-1].counts
        assert set(lost) == {"drop oldest"}

    play(tmp_path, story)


def test_unacknowledged_bytes_are_given_back_by_acknowledging_and_by_leaving(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        publisher = await raw(service, "pub")
        for _ in range(2):
            slow = await raw(service, "slow")
            options = DeliveryOptions(policy=Policy.DROP_OLDEST)
            slow.say(msg.Subscribe(1, 1, "s", N, options, credit=1000))
            await answer(slow, 1)
            base = 1000 * int(asyncio.get_running_loop().time() * 1000)
            for received, call in enumerate(range(base + 1, base + 41), 1):
                publish(publisher, call, "pub", attributes={"text": "x" * 10_000})
                await slow.wait_for(msg.Deliver, received)
                if call % 2:
                    tag = [one for one in slow.received if isinstance(one, msg.Deliver)][-1].tag
                    slow.say(msg.Ack(1, (tag - 1, tag)))
            assert not [one for one in slow.received if isinstance(one, msg.Lost)]
            slow.connection.end("done")
            while service.server.figures()["connections"] > 1:
                await asyncio.sleep(0)

    play(tmp_path, story)


def test_records_of_ended_subscriptions_are_bounded_for_each_owner(tmp_path: Path) -> None:
    """A loop of subscribe and unsubscribe kept 16 kB for each name and seven days, in no quota."""

    async def end(client: Raw, call: int, name: str) -> None:
        client.say(msg.Subscribe(call, call, name, N, TRANSIENT, credit=10))
        while not any(type(one) is msg.Deliver and one.ref == call for one in client.received):
            client._more.clear()
            await client._more.wait()
        client.say(msg.Ack(call, (1,)), msg.Unsubscribe(call + 1, call))
        await answer(client, call + 1)

    def remembered(service: Service) -> tuple[int, int]:
        figures = service.figures()
        return figures["remembered subscriptions"], figures["remembered subscriptions given up"]

    async def first(service: Service) -> None:
        client, other = await raw(service, "q"), await raw(service, "pub")
        publish(other, 1, "pub", lifetime=600)
        await answer(other, 1)
        await end(other, 10, "mine")
        for number in range(10):
            await end(client, 100 + 2 * number, f"n{number}")
        kept, given_up = remembered(service)
        assert kept + given_up == 11
        assert 2 <= kept - 1 <= 3  # of q: each counts for more than 512 bytes of the two thousand
        names = [id.name for id in service.server.node.slots["delivery"]._registry.memory._kept]  # type: ignore[attr-defined]
        assert names == ["mine", *(f"n{number}" for number in range(11 - kept, 10))]
        publish(client, 200, "q", lifetime=600)
        assert isinstance(await answer(client, 200), msg.Published)  # they stop no publish of their owner

    async def second(service: Service) -> None:
        before, _ = remembered(service)
        await end(await raw(service, "q"), 10, "last")
        assert remembered(service) == (before, 1)

    play(tmp_path, first)
    play(tmp_path, second)


def test_dead_letters_count_in_the_stored_bytes_of_their_owner(tmp_path: Path) -> None:
    """Boxes were bounded by count alone and outlived their subscriptions: 600 MiB with a quota of 5 MB."""

    async def story(service: Service) -> None:
        client = await raw(service, "q")
        for ref in range(1, 9):  # eight subscriptions, one after the other, that give back what they get
            options = DeliveryOptions(max_deliveries=1, policy=Policy.DROP_OLDEST)
            client.say(msg.Subscribe(100 + ref, ref, f"j{ref}", N, options, credit=1000))
            await client.wait_for(msg.Subscribed)
            client.received.clear()
            publish(client, ref, "q", attributes={"text": "x" * 400})
            [delivered] = await client.wait_for(msg.Deliver)
            client.say(msg.Nack(ref, (delivered.tag,)), msg.Unsubscribe(200 + ref, ref))
            await client.wait_for(msg.Unsubscribed)
            client.received.clear()
        figures = service.figures()
        assert 1 <= figures["dead letters"] <= 2  # each counts for about a thousand bytes of the two thousand
        assert figures["dead letters"] + figures["dead letters dropped"] == 8
        options = DeliveryOptions(dead_letters_of="j8", policy=Policy.DROP_OLDEST)
        client.say(msg.Subscribe(300, 50, "letters", parse_filter("TRUE"), options, credit=10))
        [letter] = await client.wait_for(
            msg.Deliver
        )  # the newest is there, though its subscription has ended
        assert letter.event.attributes["n"] == 8
        publish(client, 401, "q", attributes={"text": "x" * 1500}, lifetime=600)
        assert "stored bytes" in (await answer(client, 401)).reason  # they leave less room for events
        client.say(msg.Ack(50, (letter.tag,)), msg.Unsubscribe(301, 50))
        await client.wait_for(msg.Unsubscribed)

    play(tmp_path, story)


async def follow(client: Raw, call: int, name: str = "d") -> None:
    client.say(msg.Subscribe(call, call, name, N, DURABLE, credit=1000))
    assert isinstance(await answer(client, call), msg.Subscribed)


async def leave(client: Raw, call: int) -> None:
    """Detach from a durable subscription that was opened under this number."""
    client.say(msg.Unsubscribe(call + 1, call, end=False))
    await answer(client, call + 1)


async def delivered(client: Raw, last: int) -> list[int]:
    """What came, up to the event of this number."""

    def seen() -> list[int]:
        singles = [one.event for one in client.received if isinstance(one, msg.Deliver)]
        batches = [
            event for one in client.received if isinstance(one, msg.DeliverAll) for event in one.events
        ]
        return sorted(int(event.attributes["n"]) for event in (*singles, *batches))

    while last not in seen():
        client._more.clear()
        await client._more.wait()
    return seen()


def test_the_backlog_of_a_durable_subscription_counts_for_its_owner(tmp_path: Path) -> None:
    """Found from outside: 300 MB waited for a subscription whose owner may store 5 MB."""

    async def story(service: Service) -> None:
        owner, other, publisher = [await raw(service, name) for name in ("q", "pub", "pub")]
        for client in (owner, other):
            await follow(client, 1000)
            await leave(client, 1000)
        for call in range(1, 41):
            publish(publisher, call, "pub", attributes={"text": "x" * 500})
            assert isinstance(await answer(publisher, call), msg.Published)  # publishers are not hurt
        await follow(owner, 2000)
        mine = await delivered(owner, 40)
        assert mine == list(range(41 - len(mine), 41))
        assert 0 < len(mine) < 5  # the newest, as far as 2,000 bytes hold them
        while not (lost := [one.counts for one in owner.received if isinstance(one, msg.Lost)]):
            owner._more.clear()
            await owner._more.wait()
        assert lost[-1] == {"quota of stored bytes": 40 - len(mine)}
        figures = service.server.figures()  # of an operator
        assert figures["given up over quota"] == 40 - len(mine)
        await follow(other, 2000)
        assert await delivered(other, 40) == list(range(1, 41))  # another's subscription keeps them all

    play(tmp_path, story)


def test_superseded_and_acknowledged_events_leave_the_backlog(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        owner, publisher = await raw(service, "q"), await raw(service, "pub")
        await follow(owner, 1000)
        await leave(owner, 1000)
        publish(publisher, 1, "pub", attributes={"text": "x" * 500})
        for call in range(2, 41):
            publish(publisher, call, "pub", attributes={"text": "x" * 500}, key="kitchen")
            assert isinstance(await answer(publisher, call), msg.Published)
        await follow(owner, 2000)
        assert await delivered(owner, 40) == [1, 40]
        for call in range(41, 61):  # read and acknowledged one by one, they never are many
            publish(publisher, call, "pub", attributes={"text": "x" * 500})
            await delivered(owner, call)
            last = [one for one in owner.received if isinstance(one, msg.Deliver)][-1]
            owner.say(msg.Ack(2000, (last.tag,)))
        assert not any(
            "quota of stored bytes" in one.counts for one in owner.received if isinstance(one, msg.Lost)
        )

    play(tmp_path, story)


def test_the_backlog_counts_after_a_restart_and_only_what_is_owed_is_kept(tmp_path: Path) -> None:
    """What waits from an earlier life is pinned until it is read: it is counted, and the rest of the log let
    go."""

    async def first(service: Service) -> None:
        owner, publisher = await raw(service, "q"), await raw(service, "pub")
        owner.say(msg.Subscribe(1000, 1000, "d", parse_filter("mine = TRUE"), DURABLE, credit=0))
        assert isinstance(await answer(owner, 1000), msg.Subscribed)
        other = await raw(service, "pub")
        await follow(other, 1000)
        await leave(other, 1000)
        for call in range(1, 5):
            publish(publisher, call, "pub", attributes={"text": "x" * 400, "mine": call % 2 == 0})
            assert isinstance(await answer(publisher, call), msg.Published)

    async def second(service: Service) -> None:
        publisher = await raw(service, "pub")
        while service.server.figures()["backlog recounts"] < 1:
            await asyncio.sleep(0)
        for call in range(5, 13):
            publish(publisher, call, "pub", attributes={"text": "x" * 400, "mine": call % 2 == 0})
            assert isinstance(await answer(publisher, call), msg.Published)
        owner, other = await raw(service, "q"), await raw(service, "pub")
        owner.say(msg.Subscribe(1000, 1000, "d", parse_filter("mine = TRUE"), DURABLE, credit=1000))
        mine = await delivered(owner, 12)
        assert mine == list(range(14 - 2 * len(mine), 13, 2))
        assert 2 <= len(mine) < 6, "2,000 bytes hold the newest of all six"
        assert service.server.figures()["given up over quota"] == 6 - len(mine)
        await follow(other, 1000)
        assert await delivered(other, 12) == list(range(1, 13))

    play(tmp_path, first)
    play(tmp_path, second)
