"""A group as an operator runs it: settings, three services on sockets, `replicated`, readiness,
and refusals."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidings
from tidings.errors import RefusedError, SettingsError
from tidings.protocol.membership.agreed import TABLE, AgreedViews, member_of
from tidings.runtime.server import Server
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings

OPEN = {"security.anonymous": True, "listen": "127.0.0.1:0"}


def settings(**fields: Any) -> BrokerSettings:
    return read_settings(
        fields={**OPEN, **{name.replace("__", "."): value for name, value in fields.items()}}
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"group__members": ["d1"]}, "no group"),
        ({"group__name": "news"}, "no members to begin with"),
        ({"group__name": "news", "group__members": ["d1"], "system": "socbr"}, "system of its own"),
        ({"group__name": "news", "group__members": ["d1"], "heal_seconds": 5.0}, "system of its own"),
        ({"group__name": "g", "group__members": ["d1"], "group__suspect_seconds": 0.5}, "suspect_seconds"),
    ],
    ids=["no name", "no members", "another system", "healing", "impatient"],
)
def test_settings_of_a_group_that_contradict_themselves(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        settings(**said)


def test_a_broker_in_no_group_refuses_replicated() -> None:
    async def run() -> None:
        server = Server("b")
        await server.start()
        async with tidings.connect(server.address, name="p") as bus:
            with pytest.raises(RefusedError, match="--group"):
                await bus.publish({"x": 1}, mode="replicated")
            await bus.publish({"x": 2})
        await server.close()

    asyncio.run(run())


def test_three_services_have_one_log(tmp_path: Path) -> None:
    asyncio.run(_three(tmp_path))


async def _three(folder: Path) -> None:
    async with AsyncExitStack() as stack:
        services: list[Service] = []
        for name in ("d1", "d2", "d3"):
            given = settings(
                name=name, store=str(folder / name), group__name="news", group__members=["d1", "d2", "d3"],
                join=[service.server.address for service in services[:1]],
            )  # fmt: skip
            services.append(await stack.enter_async_context(Service(given)))
        assert services[2]._readyz().status == 503, "the group is about to form"
        addresses = ",".join(service.server.address.partition("://")[2] for service in services)
        bus = await stack.enter_async_context(tidings.connect(f"tidings://{addresses}", name="p", timeout=60))
        other = await stack.enter_async_context(
            tidings.connect(services[2].server.address, name="s", timeout=60)
        )
        async with other.subscribe("EXISTS x", name="all", durable=True) as news:
            receipt = await bus.publish({"x": 1}, mode="replicated")
            assert receipt.position is not None
            assert (receipt.position.log, receipt.position.offset) == ("news", 1)
            event = await news.get(timeout=120)
            assert event.attributes["x"] == 1
            assert event.position == receipt.position, "one log, whichever member"
        rows = [row for service in services for row in service.administration.sessions()]
        assert sum(row.get("published", 0) for row in rows if row["client"] == "p") == 1
        figures = services[1].figures()
        assert (figures["members"], figures["group committed"]) == (3, 1)
        assert sorted(services[2].server.links) == ["d1", "d2"], "it was told of d1 alone, and heard of d2"
        assert services[2]._readyz().status == 200


def test_a_member_refuses_the_store_of_another_member(tmp_path: Path) -> None:
    """Found from outside: a copy of d2's disk voted as d1's, and what d1 had acknowledged was lost."""
    asyncio.run(_on_the_store_of_another(tmp_path))


async def _on_the_store_of_another(folder: Path) -> None:
    def of(name: str) -> BrokerSettings:
        members = ["d1", "d2", "d3"]
        return settings(name=name, store=str(folder / "s"), group__name="news", group__members=members)

    async with Service(of("d2")) as service:
        while not _says_owner(service):
            await asyncio.sleep(0)
    with pytest.raises(RefusedError, match="is that of broker d2, and this is d1"):
        await Service(of("d1")).__aenter__()
    async with Service(of("d2")):
        pass


def _says_owner(service: Service) -> bool:
    membership = service.server.node.slots["membership"]
    assert isinstance(membership, AgreedViews)
    return bool(membership.life)  # the row with its name is on the disk


def test_a_store_without_an_owner_is_adopted() -> None:
    """The last version wrote no name into the store of a group."""
    table = {TABLE: {"self": msgspec.msgpack.encode(["disk", 3])}}
    assert member_of(table) == ""
    assert member_of({TABLE: {"self": msgspec.msgpack.encode(["disk", 3, "d1"])}}) == "d1"
    assert member_of({}) == ""
