"""The inquiry `admin`: by a right of its own, audited; it acts on what others own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidings
from tidings.errors import ClosedError, InputError, RefusedError
from tidings.runtime.administration import BrokerAdministration
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

KEY = make_key("secret", iterations=4096)
NAMES = ("ann", "market", "root", "spy", "eye")
USERS = (
    "".join(f'[users.{name}]\npassword = "{KEY}"\n' for name in NAMES)
    + """
[[allow]]
who = ["ann", "market"]
action = ["publish", "subscribe"]
[[allow]]
who = "root"
action = "admin"
[[allow]]
who = "spy"
action = ["observe", "publish", "subscribe", "release"]
[[allow]]
who = "eye"
action = "subscribe"
[[allow]]
who = "eye"
action = "observe"
filter = "price > 0"
"""
)


def play(coroutine: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await coroutine

    asyncio.run(run())


@pytest.fixture
def service(tmp_path: Path) -> Service:
    (tmp_path / "users.toml").write_text(USERS)
    stated = {
        "name": "b1", "listen": "127.0.0.1:0", "security.users": str(tmp_path / "users.toml"),
        "security.audit": str(tmp_path / "audit.jsonl"), "store": str(tmp_path / "store"),
    }  # fmt: skip
    return Service(read_settings(fields=stated))


def connect(service: Service, name: str) -> tidings.Bus:
    return tidings.connect(
        service.server.address, name=name, credentials=PasswordCredentials(name, "secret"), timeout=30
    )


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


def entries(tmp_path: Path) -> list[tuple[str, str, str, str]]:
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    return [
        (e["principal"], e["action"], e["outcome"], e.get("subject", ""))
        for e in lines
        if e["action"] == "admin"
    ]


def test_only_the_right_to_administer_counts_and_all_is_audited(service: Service, tmp_path: Path) -> None:
    async def story() -> None:
        async with service, connect(service, "spy") as spy, connect(service, "root") as root:
            for about in ({"do": "list", "kind": "session"}, {"do": "purge", "filter": "TRUE"}):
                with pytest.raises(RefusedError, match="may not administer"):
                    await spy.inquire("admin", **about)
            found = await root.inquire("admin", do="list", kind="session")
            assert {row["principal"] for row in found["rows"]} == {"spy", "root"}
            assert all(row["since"] > 0 and row["peer"] == "127.0.0.1" for row in found["rows"])
            for wrong in (
                {"do": "list", "kind": "x"},
                {"do": "x"},
                {"do": "end", "kind": "hold", "name": "no"},
            ):
                with pytest.raises(InputError):
                    await root.inquire("admin", **wrong)
            await root.inquire("admin", do="list", kind="session")  # a page repeats it
            await root.inquire("admin", do="pins")
        assert entries(tmp_path) == [
            ("spy", "admin", "refused", "list session"),
            ("spy", "admin", "refused", "purge TRUE"),
            ("root", "admin", "ok", "list session"),
            ("root", "admin", "refused", "list x"),
            ("root", "admin", "refused", "end hold no"),
            ("root", "admin", "ok", "pins"),
        ]

    play(story())


def test_a_durable_subscription_of_another_is_found_as_the_pin_and_ended(service: Service) -> None:
    async def story() -> None:
        async with service, connect(service, "market") as market, connect(service, "root") as root:
            async with connect(service, "ann") as ann, ann.subscribe("n > 0", name="old", durable=True):
                pass
            for n in range(1, 6):
                await market.publish({"n": n})
            found = await root.inquire("admin", do="pins")
            assert (found["oldest"], found["next"], found["entries"]) == (1, 6, 5)
            assert found["pins"] == [{"kind": "subscription", "name": "ann/old", "offset": 1}]
            assert found["store"]["bytes"] > 0
            inspected = await root.inquire("admin", do="inspect", kind="subscription", name="ann/old")
            assert inspected["subscription"]["filter"] == "n > 0"
            assert inspected["pins"][0]["offset"] == 1
            await root.inquire("admin", do="end", kind="subscription", name="ann/old")
            await until(lambda: service.figures()["entries"] == 0)
            assert (await root.inquire("admin", do="pins"))["pins"] == []
            with pytest.raises(InputError, match="has no subscription 'ann/old'"):
                await root.inquire("admin", do="end", kind="subscription", name="ann/old")

    play(story())


def test_a_session_counts_the_events_that_were_published_one_by_one_and_together(service: Service) -> None:
    """Only those that came to the broker with others of one input were counted."""

    async def story() -> None:
        async with service, connect(service, "market") as market, connect(service, "root") as root:
            for n in range(3):
                await market.publish({"n": n})
            await market.publish_many([{"n": n} for n in range(20)])
            rows = (await root.inquire("admin", do="list", kind="session"))["rows"]
            assert {row["principal"]: row["published"] for row in rows} == {"market": 23, "root": 0}
            assert service.figures()["published"] == 23

    play(story())


def test_pins_name_the_broker_that_has_not_acknowledged(service: Service) -> None:
    """`reader: a replay, or a broker that has not acknowledged it` named neither."""
    server = service.server
    unnamed = {"kind": "reader", "name": "a replay, or a broker that has not acknowledged it", "offset": 7}
    replay = {"kind": "replay", "name": "ann/late", "offset": 7}

    async def story() -> None:
        async with service:
            for pins, keepers, named in (
                ([unnamed], ["b2", "b3"], [("broker", "b2"), ("broker", "b3")]),
                ([unnamed, replay], [], [("replay", "ann/late")]),
                ([unnamed], [], [("reader", unnamed["name"])]),
            ):
                node = SimpleNamespace(
                    inspect=lambda what, pins=pins: {"pins": pins}, log_keepers=lambda offset, k=keepers: k
                )
                found = BrokerAdministration(SimpleNamespace(node=node, resources=server.resources), None)  # type: ignore[arg-type]
                assert [(pin["kind"], pin["name"]) for pin in found._pinned()["pins"]] == named

    play(story())


def test_an_ended_listener_is_told_and_a_session_can_be_ended(service: Service) -> None:
    async def story() -> None:
        async with service, connect(service, "ann") as ann, connect(service, "root") as root:
            news = await ann.subscribe("n > 0", name="news", group="workers", durable=True)
            groups = await root.inquire("admin", do="list", kind="group")
            assert [row["subscription"] for row in groups["rows"]] == ["*/ann:workers"]
            await root.inquire("admin", do="end", kind="group", name="ann:workers")
            with pytest.raises(ClosedError, match="an operator ended it"):
                await news.get(timeout=60)
            (row,) = [
                row
                for row in (await root.inquire("admin", do="list", kind="session"))["rows"]
                if row["principal"] == "ann"
            ]
            before = service.figures()["connections"]
            assert before == 2
            await root.inquire("admin", do="end", kind="session", name=str(row["session"]))
            rows = (await root.inquire("admin", do="list", kind="session"))["rows"]
            assert row["session"] not in [each["session"] for each in rows]

    play(story())


def test_dead_letters_are_redelivered_and_discarded(service: Service) -> None:
    async def story() -> None:
        async with (
            service,
            connect(service, "ann") as ann,
            connect(service, "root") as root,
            ann.subscribe("n > 0", name="jobs", durable=True, max_deliveries=1) as jobs,
        ):
            for n in (1, 2, 3):
                await ann.publish({"n": n})
            for _ in range(3):
                await jobs.get(timeout=60)
                await jobs.nack()
            await until(lambda: service.figures()["dead letters"] == 3)
            boxes = await root.inquire("admin", do="letters")
            assert [(box["id"], box["letters"]) for box in boxes["rows"]] == [("ann/jobs", 3)]
            found = await root.inquire("admin", do="letters", name="ann/jobs")
            assert [letter["event"]["attributes"]["n"] for letter in found["rows"]] == [1, 2, 3]
            first = found["rows"][0]["number"]
            done = await root.inquire("admin", do="discard", name="ann/jobs", numbers=[first, 10**9])
            assert done["discarded"] == 1
            done = await root.inquire("admin", do="redeliver", name="ann/jobs")
            assert done["redelivered"] == 2
            assert [(await jobs.get(timeout=60))["n"] for _ in range(2)] == [2, 3]
            await jobs.ack()
            await until(lambda: service.figures()["dead letters"] == 0)

    play(story())


def test_a_redelivery_outlives_the_broker(service: Service) -> None:
    """Found by an attack from outside: after a restart the letters lay in their box again."""

    async def story() -> None:
        async with service, connect(service, "ann") as ann, connect(service, "root") as root:
            async with ann.subscribe("n > 0", name="jobs", durable=True, max_deliveries=1) as jobs:
                await ann.publish({"n": 1})
                await jobs.get(timeout=60)
                await jobs.nack()
                await until(lambda: service.figures()["dead letters"] == 1)
            done = await root.inquire("admin", do="redeliver", name="ann/jobs")
            assert done["redelivered"] == 1
        async with Service(service.settings) as again, connect(again, "ann") as ann:
            async with ann.subscribe("n > 0", name="jobs", durable=True, max_deliveries=1) as jobs:
                assert (await jobs.get(timeout=60))["n"] == 1
            await until(lambda: again.figures()["dead letters"] == 0)

    play(story())


def test_a_purge_forgets_by_filter_whoever_needs_it(service: Service) -> None:
    async def story() -> None:
        async with service, connect(service, "ann") as ann, connect(service, "root") as root:
            async with ann.subscribe("n > 0", name="all", durable=True):
                pass
            for n in range(1, 11):
                await ann.publish({"n": n}, lifetime=tidings.FOREVER)
            dry = await root.inquire("admin", do="purge", filter="n > 3", upto=8, dry=True)
            assert (dry["matches"], dry["purged"]) == (5, 0)
            done = await root.inquire("admin", do="purge", filter="n > 3", upto=8)
            assert (done["matches"], done["purged"]) == (5, 5)
            await until(lambda: service.figures()["entries"] == 5)
            async with ann.subscribe("n > 0", name="all", durable=True) as rest:
                assert [(await rest.get(timeout=60))["n"] for _ in range(5)] == [1, 2, 3, 9, 10]
            async with ann.subscribe("n > 0") as late:
                assert [(await late.get(timeout=60))["n"] for _ in range(5)] == [1, 2, 3, 9, 10]

    play(story())


def test_holds_are_listed_and_ended(service: Service) -> None:
    async def story() -> None:
        async with service, connect(service, "ann") as ann, connect(service, "root") as root:
            await ann.hold_log("reader", "n > 1", seconds=600)
            await ann.publish({"n": 1})
            await ann.publish({"n": 2})
            (row,) = (await root.inquire("admin", do="list", kind="hold"))["rows"]
            assert (row["name"], row["entries"], row["filter"]) == ("ann:reader", 1, "n > 1")
            assert (await root.inquire("admin", do="pins"))["pins"][0]["kind"] == "hold"
            await root.inquire("admin", do="end", kind="hold", name="ann:reader")
            await until(lambda: service.figures()["entries"] == 0)

    play(story())


def test_each_of_many_acts_is_audited(service: Service, tmp_path: Path) -> None:
    """Refusals that come in masses are counted; what an operator did is written, one by one."""

    async def story() -> None:
        async with service, connect(service, "root") as root:
            for number in range(50):
                await root.inquire("admin", do="purge", filter=f"n = {number}")
        assert [subject for _, _, _, subject in entries(tmp_path)] == [f"purge n = {n}" for n in range(50)]

    play(story())


def test_a_name_that_two_subscriptions_have_ends_neither(service: Service) -> None:
    """`desk/x` of ann, and `x` of ann/desk."""

    async def story() -> None:
        async with service, connect(service, "root") as root, connect(service, "ann") as ann:
            desk = tidings.connect(
                service.server.address, name="ann/desk", credentials=PasswordCredentials("ann", "secret")
            )
            async with desk, ann.subscribe("n >= 0", name="desk/x", durable=True) as kept:
                ended = desk.subscribe("n >= 0", name="x", durable=True)
                await ended.__aenter__()
                with pytest.raises(InputError, match="2 subscriptions are shown as 'ann/desk/x'") as error:
                    await root.inquire("admin", do="end", kind="subscription", name="ann/desk/x")
                assert "say which: ann//desk/x or ann/desk//x" in str(error.value)
                await root.inquire("admin", do="end", kind="subscription", name="ann/desk//x")
                with pytest.raises(ClosedError):
                    await ended.get(timeout=60)
                await ann.publish({"n": 1})
                assert (await kept.get(timeout=60))["n"] == 1

    play(story())


def test_the_subscription_of_a_webhook_ends_with_its_webhook_alone(service: Service) -> None:
    class Webhooks:
        def administered(self) -> list[dict[str, Any]]:
            return [{"id": "W1"}]

        async def end(self, id: str) -> bool:
            return True

    async def story() -> None:
        async with service, connect(service, "root") as root:
            assert service.administration is not None
            hook = tidings.connect(
                service.server.address,
                name="ann/webhook/W1",
                credentials=PasswordCredentials("ann", "secret"),
            )
            async with hook, hook.subscribe("n >= 0", name="webhook", durable=True):
                about = {"do": "end", "kind": "subscription", "name": "ann/webhook/W1/webhook"}
                service.administration.webhooks = Webhooks()
                with pytest.raises(InputError, match="is the subscription of webhook W1"):
                    await root.inquire("admin", **about)
                service.administration.webhooks = None
                await root.inquire("admin", **about)

    play(story())


def test_the_search_of_subscriptions_looks_through_all_and_shows_what_may_be_seen(service: Service) -> None:
    async def story() -> None:
        async with (
            service,
            connect(service, "ann") as ann,
            connect(service, "spy") as spy,
            connect(service, "eye") as eye,
        ):
            await eye.subscribe("price > 3", name="own")
            for number in range(5):
                await ann.subscribe(f"price > {number}", name=f"s{number}")
            await ann.subscribe("volume = 7", name="other")

            async def found(**about: Any) -> list[str]:
                return sorted(row["subscription"] for row in await spy.inquire("subscriptions", **about))

            assert len(await found(limit=1)) == 1
            assert await found(limit=1, search="OTHER") == ["ann/other"]
            assert await found(limit=9, search="price > 3") == ["ann/s3", "eye/own"]
            own = await eye.inquire("subscriptions", limit=9, search="price > 3")
            assert [row["subscription"] for row in own] == ["eye/own"]
            assert await found(limit=9, search="nowhere") == []
            assert len(await found(limit=9, search="b1")) == 7
            with pytest.raises(RefusedError, match="a search is a text"):
                await found(search=5)
            with pytest.raises(RefusedError):
                await ann.inquire("subscriptions", search="other")

    play(story())
