"""Consumer groups and durable subscriptions belong to principals: another one reaches, changes and learns
nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime import test_service as whole
from tests.unit.runtime.test_service import connect, heard, play, running, settings

from tidings.errors import RefusedError
from tidings.runtime.service import Service
from tidings.security.credentials import TokenCredentials
from tidings.security.scram import make_key
from tidings.security.tokens import sign

SECRET = whole.SECRET
KEY = make_key("p", iterations=4096)
SHARE = """
[[allow]]
who = ["ann", "bob", "carl"]
action = "share"
groups = ["orders"]
"""
USERS = f"""
[users.good]
password = "{KEY}"
[users.ann]
password = "{KEY}"
[users.bob]
password = "{KEY}"
[users.carl]
password = "{KEY}"
[[allow]]
who = ["good", "ann", "carl"]
action = ["publish", "subscribe", "observe"]
[[allow]]
who = "bob"
action = "subscribe"
filter = "public = TRUE"
[[allow]]
who = "zed"
action = ["publish", "subscribe"]
[[issuers]]
issuer = "i"
audience = "a"
key_file = "secret.txt"
"""


def home_of(tmp_path: Path, rules: str = "") -> Path:
    (tmp_path / "users.toml").write_text(USERS + rules)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    return tmp_path


async def orders(service: Service, *numbers: int) -> None:
    async with connect(service, "good", "p") as good:
        for n in numbers:
            await good.publish({"kind": "order", "n": n})


def group(bus: Any, filter: str = "kind = 'order'", **options: Any) -> Any:
    return bus.subscribe(filter, group="orders", **{"durable": True, "name": "w", **options})


def test_another_principal_neither_joins_nor_drains_nor_ends_a_group(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(settings(home_of(tmp_path))) as service:
            async with (
                connect(service, "ann", "p") as ann,
                connect(service, "bob", "p") as bob,
                group(ann),
                group(bob, "public = TRUE AND z = 1") as same,
            ):
                assert not same.resumed, "under the same name it is a group of bob's own"
            await orders(service, 1, 2)
            async with connect(service, "bob", "p") as bob, group(bob, "public = TRUE") as same:
                await orders(service, 3)
                assert await heard(same, 0) == []
                await same.unsubscribe()
            async with connect(service, "ann", "p") as ann, group(ann) as own:
                assert own.resumed
                assert await heard(own, 3) == [1, 2, 3]

    play(story())


def test_the_answer_to_a_stranger_is_the_same_whether_a_group_exists_or_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            running(settings(home_of(tmp_path))) as service,
            connect(service, "ann", "p") as ann,
            connect(service, "bob", "p") as bob,
            ann.subscribe("kind = 'order'", group="there", durable=True, name="w"),
        ):
            answers = []
            for name in ("there", "not there"):
                more: dict[str, Any]
                for more in ({}, {"durable": True, "name": "w"}):
                    async with bob.subscribe("public = TRUE", group=name, **more) as own:
                        answers.append((own.resumed, own.id.name == name))
                        await own.unsubscribe()
                async with bob.subscribe(dead_letters_of=name) as dead:
                    answers.append((dead.resumed, True))
            assert set(answers) == {(False, True)}

    play(story())


def test_dead_letters_of_a_group_are_its_owner_s(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            running(settings(home_of(tmp_path))) as service,
            connect(service, "ann", "p") as ann,
            connect(service, "carl", "p") as carl,
            group(ann, max_deliveries=1) as own,
        ):
            await orders(service, 1)
            await own.get(timeout=120)
            await own.nack()
            async with ann.subscribe(dead_letters_of="orders") as dead:
                assert (await dead.get(timeout=120))["n"] == 1
                await dead.nack()
            async with carl.subscribe(dead_letters_of="orders") as dead:
                assert await heard(dead, 0) == []
            async with ann.subscribe(dead_letters_of="orders") as dead:
                assert (await dead.get(timeout=120))["n"] == 1

    play(story())


def test_a_rule_lets_principals_share_a_group(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(settings(home_of(tmp_path, SHARE))) as service:
            async with (
                connect(service, "ann", "p") as ann,
                connect(service, "carl", "p") as carl,
                group(ann) as one,
                group(carl) as two,
            ):
                assert two.resumed
                await orders(service, 1, 2)
                assert sorted([(await one.get(timeout=120))["n"], (await two.get(timeout=120))["n"]]) == [
                    1,
                    2,
                ]
            await orders(service, 3)
            async with connect(service, "bob", "p") as bob:
                for filter in ("public = TRUE", "kind = 'order'"):
                    with pytest.raises(RefusedError, match=r"more than you may receive|may not receive all"):
                        await group(bob, filter)
            async with connect(service, "carl", "p") as carl, group(carl) as two:
                assert await heard(two, 1) == [3]

    play(story())


def test_a_group_without_an_owner_from_an_older_store_waits_for_a_rule(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Earlier brokers scoped groups by tenant alone, as a rule for sharing does now."""

    async def story() -> None:
        async with running(settings(home_of(tmp_path, SHARE))) as service:
            async with connect(service, "ann", "p") as ann, group(ann):
                pass
            await orders(service, 1)
        async with running(settings(home_of(tmp_path))) as service:  # no rule: out of reach, nothing is lost
            assert "the stored consumer group 'orders' has no owner" in capfd.readouterr().err
            await orders(service, 2)
            async with connect(service, "ann", "p") as ann, group(ann) as own:
                assert not own.resumed
                await own.unsubscribe()
        async with (
            running(settings(home_of(tmp_path, SHARE))) as service,
            connect(service, "ann", "p") as ann,
            group(ann) as own,
        ):
            assert own.resumed
            assert await heard(own, 2) == [1, 2]

    play(story())


def test_one_name_in_two_tenants_is_two_owners(tmp_path: Path) -> None:
    def token(tenant: str) -> TokenCredentials:
        claims = {"sub": "zed", "iss": "i", "aud": "a", "exp": 2**40, "tenant": tenant}
        return TokenCredentials(lambda: sign(claims, SECRET, "HS256"))

    async def story() -> None:
        async with running(settings(home_of(tmp_path))) as service:
            async with connect(service, "zed", credentials=token("acme")) as acme:
                async with acme.subscribe("n > 0", name="mine", durable=True):
                    pass
                await acme.publish({"n": 1})
            async with (
                connect(service, "zed", credentials=token("evil")) as evil,
                evil.subscribe("n > 0", name="mine", durable=True) as other,
            ):
                assert not other.resumed
                assert other.id.own == "zed/mine"
                await other.unsubscribe()
            async with (
                connect(service, "zed", credentials=token("acme")) as acme,
                acme.subscribe("n > 0", name="mine", durable=True) as mine,
            ):
                assert await heard(mine, 1) == [1]

    play(story())


@pytest.mark.parametrize("mark", ["\x1e", "\x1f"])
def test_no_name_of_a_client_reaches_into_another_s_scope(tmp_path: Path, mark: str) -> None:
    async def story() -> None:
        async with running(settings(home_of(tmp_path))) as service, connect(service, "carl", "p") as carl:
            name = f"ann{mark}orders"
            for ask in (
                lambda: carl.subscribe("n > 0", group=name).open(),
                lambda: carl.subscribe("n > 0", name=name).open(),
                lambda: carl.subscribe(dead_letters_of=name).open(),
                lambda: carl.hold_log(name, "n > 0"),
                lambda: carl.end_hold(name),
                lambda: carl.stage(name, 1, 0, []),
                lambda: carl.committed(name),
                lambda: carl.commit_staged(name, 1, 0),
                lambda: carl.commit_parts(name, 1, []),
            ):
                with pytest.raises(RefusedError, match="control character"):
                    await ask()

    play(story())


KEYS = f"""
[users.vic]
password = "{KEY}"
[users.mal]
password = "{KEY}"
[users.max]
password = "{KEY}"
[[allow]]
who = "vic"
action = ["publish", "subscribe"]
[[allow]]
who = ["mal", "max"]
action = ["publish", "subscribe"]
filter = "topic = 'mal/#'"
"""


async def kept(service: Service) -> list[tuple[int, str | None]]:
    """The number and the key of each event of the log, as `vic` reads them."""
    async with connect(service, "vic", "p") as vic:
        page = await vic.read_log("TRUE", after=0, limit=100)
    return [(entry.event.attributes["n"], entry.event.key) for entry in page.entries]


def test_an_event_supersedes_only_what_its_publisher_may_publish(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "users.toml").write_text(KEYS)
        async with running(settings(tmp_path)) as service:
            async with connect(service, "vic", "p") as vic, connect(service, "mal", "p") as mal:
                await vic.publish({"n": 1}, topic="vic/x", key="K", lifetime=600)
                await vic.publish({"n": 2}, topic="vic/ret", key="mqtt:vic/ret", lifetime=600)
                for lifetime in (0, 600):
                    await mal.publish({"n": 3}, topic="mal/x", key="K", lifetime=lifetime)
                with pytest.raises(RefusedError, match="retained message of another topic"):
                    await mal.publish({"n": 4}, topic="mal/x", key="mqtt:vic/ret")
                for forged in ("vic\x1eK", "mal\x1eK"):
                    with pytest.raises(RefusedError, match="control character"):
                        await mal.publish({"n": 5}, topic="mal/x", key=forged)
            assert await kept(service) == [(1, "K"), (2, "mqtt:vic/ret"), (3, "K")]
            async with connect(service, "mal", "p") as mal, connect(service, "vic", "p") as vic:
                await mal.publish({"n": 6}, topic="mal/x", key="K", lifetime=600)  # its own
                await vic.publish({"n": 7}, topic="vic/x", key="K", lifetime=600)
                async with vic.subscribe("n = 8") as live:
                    await mal.publish({"n": 8}, topic="mal/x", key="live")
                    assert (await live.get(timeout=60)).key == "live"  # without the scope
            assert await kept(service) == [(2, "mqtt:vic/ret"), (6, "K"), (7, "K")]

    play(story())


def test_a_retained_message_is_replaced_by_all_that_may_publish_to_its_topic(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "users.toml").write_text(KEYS)
        async with running(settings(tmp_path)) as service:
            for n, name in enumerate(("vic", "mal", "max")):
                async with connect(service, name, "p") as bus:
                    await bus.publish({"n": n}, topic="mal/r", key="mqtt:mal/r", lifetime=600)
            assert await kept(service) == [(2, "mqtt:mal/r")]

    play(story())


def test_a_rule_shares_superseding_keys(tmp_path: Path) -> None:
    async def story() -> None:
        rule = """
[[allow]]
who = ["mal", "max"]
action = "share"
keys = ["room-*"]
"""
        (tmp_path / "users.toml").write_text(KEYS + rule)
        async with running(settings(tmp_path)) as service:
            for n, name in enumerate(("mal", "max")):
                async with connect(service, name, "p") as bus:
                    await bus.publish({"n": n}, topic="mal/r", key="room-1", lifetime=600)
                    await bus.publish({"n": n + 10}, topic="mal/r", key="own", lifetime=600)
            assert await kept(service) == [(10, "own"), (1, "room-1"), (11, "own")]

    play(story())


def test_an_id_that_one_tenant_published_under_is_free_in_another(tmp_path: Path) -> None:
    """A principal of another tenant with the same name published first: the event was
    acknowledged and lost."""

    async def publish(service: Service, tenant: str) -> int:
        claims = {"iss": "i", "aud": "a", "sub": "zed", "exp": time.time() + 600, "tenant": tenant}
        credentials = TokenCredentials(lambda: sign(claims, SECRET, "HS256"))
        async with connect(service, "zed", credentials=credentials) as zed:
            receipt = await zed.publish({"of": tenant}, id="order-1", lifetime=600)
            page = await zed.read_log("TRUE", after=0, limit=10)
        assert [entry.event.attributes["of"] for entry in page.entries] == [tenant]
        assert receipt.position is not None
        return receipt.position.offset

    async def first() -> None:
        async with running(settings(tmp_path)) as service:
            assert [await publish(service, tenant) for tenant in ("a", "b", "a")] == [1, 2, 1]

    async def second() -> None:
        async with running(settings(tmp_path)) as service:
            assert [await publish(service, tenant) for tenant in ("b", "c", "a")] == [2, 3, 1]

    home_of(tmp_path)
    play(first())
    play(second())
