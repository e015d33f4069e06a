"""Links between brokers on real sockets: one for each pair, none that closes a cycle, back after a break."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.cli.remote import walk
from tidings.runtime.checkup import look_at_brokers
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.testing import collect
from tidings.testing.network import linked, played, serving, settled, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.1)


def numbers(events: list[tidings.Event]) -> list[Any]:
    return [event["n"] for event in events]


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@played
async def test_two_brokers_that_dial_one_another_have_one_link() -> None:
    ports = [free_port(), free_port()]
    async with (
        serving("b1", listen=f"127.0.0.1:{ports[0]}", join=[f"127.0.0.1:{ports[1]}"], network=QUICK) as one,
        serving("b2", listen=f"127.0.0.1:{ports[1]}", join=[f"127.0.0.1:{ports[0]}"], network=QUICK) as two,
    ):
        await linked(one, two)
        async with (
            tidings.connect(one.address, name="p") as p,
            tidings.connect(two.address, name="s") as s,
            s.subscribe("n > 0") as news,
        ):
            await settled(two, one)
            for n in range(1, 20):
                await p.publish({"n": n})
            assert numbers(await collect(news, 19)) == list(range(1, 20))
        assert (one.links, two.links) == (["b2"], ["b1"])


def test_a_neighbour_that_is_gone_is_shown_until_it_is_back(tmp_path: Path) -> None:
    asyncio.run(_shown_until_it_is_back(tmp_path))


async def _shown_until_it_is_back(tmp_path: Path) -> None:
    """A broker remembers the neighbours that joined it; one that is silent is no broker less."""

    def settings(name: str, **more: Any) -> BrokerSettings:
        fields = {"name": name, "listen": "127.0.0.1:0", "security.anonymous": True, **more}
        return read_settings(fields=fields)

    async with Service(settings("b1", store=str(tmp_path / "b1"))) as one:
        address = one.server.address
        joins = {"join": [address], "listen": f"127.0.0.1:{free_port()}", "store": str(tmp_path / "b2")}
        async with Service(settings("b2", **joins)) as two:
            await linked(one.server, two.server)
            assert one.figures()["unlinked"] == {}
            assert [each["broker"] for each in await walk(address, "figures", timeout=60)] == ["b1", "b2"]
        await until(lambda: one.server.links == [])
        found = await walk(address, "figures", timeout=60)
        assert [each["broker"] for each in found] == ["b1", "b2"]
        assert "problem" in found[1]
        assert json.loads(one._readyz().body)["unlinked"].keys() == {"b2"}
        assert any("no link to b2" in each.finding for each in look_at_brokers(found, datetime.now(UTC)))
        async with Service(settings("b2", **joins)) as two:
            await linked(one.server, two.server)
            assert one.figures()["unlinked"] == {}
    async with Service(settings("b1", store=str(tmp_path / "b1"))) as one:
        assert one.figures()["unlinked"].keys() == {"b2"}, "also after a restart"
        found = await walk(one.server.address, "figures", timeout=60)
        assert "no link to b2" in found[1]["problem"]


@played
async def test_a_broker_that_would_close_a_cycle_is_told_why() -> None:
    async with (
        serving("b1") as one,
        serving("b2", join=[one.address], network=QUICK) as two,
        serving("b3", join=[two.address], network=QUICK) as three,
    ):
        await linked(one, two, three)
        await until(lambda: one.figures()["logs"] == 2)
        async with serving("b4", join=[one.address, three.address], network=QUICK) as four:
            await until(lambda: any("no cycle" in problem for problem in four.figures()["problems"].values()))
            await until(lambda: len(four.links) == 1)


@played
async def test_a_second_broker_of_the_same_name_is_refused() -> None:
    async with serving("b1") as one, serving("b1", join=[one.address], network=QUICK) as other:
        await until(lambda: any("own name" in problem for problem in other.figures()["problems"].values()))
        assert other.links == []


@played
async def test_another_composition_is_refused() -> None:
    async with (
        serving("b1") as one,
        serving("b2", join=[one.address], network=QUICK, system="siena") as other,
    ):
        await until(lambda: any("runs 'tidings'" in p for p in other.figures()["problems"].values()))


@pytest.mark.parametrize("breaks", [1, 5])
def test_a_link_that_breaks_comes_back_and_nothing_is_lost(tmp_path: Path, breaks: int) -> None:
    async def play() -> None:
        async with (
            serving("b1", path=tmp_path / "b1") as one,
            serving("b2", path=tmp_path / "b2", join=[one.address], network=QUICK) as two,
        ):
            await linked(one, two)
            async with (
                tidings.connect(one.address, name="p") as p,
                tidings.connect(two.address, name="s") as s,
                s.subscribe("n >= 0", name="mine", durable=True) as news,
            ):
                await settled(two, one)
                for n in range(breaks):
                    tasks = [asyncio.create_task(p.publish({"n": 30 * n + k})) for k in range(30)]
                    await asyncio.sleep(0)
                    one._neighbours.leave("b2", "a wire broke")
                    await asyncio.gather(*tasks)
                assert numbers(await collect(news, 30 * breaks, timeout=120)) == list(range(30 * breaks))

    asyncio.run(play())


def test_a_neighbour_is_remembered_by_a_broker_that_restarts_while_it_is_away(tmp_path: Path) -> None:
    async def play() -> None:
        one = Server("b1", path=tmp_path / "b1")
        await one.start()
        address, port = one.address, one.addresses[0].port
        two = Server("b2", path=tmp_path / "b2", join=[address], network=QUICK)
        await two.start()
        await linked(one, two)
        async with tidings.connect(two.address, name="s") as s:
            await s.subscribe("n > 0", name="mine", durable=True)
            await settled(two, one)
        await two.close()
        await one.close()
        async with serving("b1", path=tmp_path / "b1", listen=f"127.0.0.1:{port}") as one_again:
            assert one_again.figures()["neighbours"] == 1
            async with tidings.connect(address, name="p") as p:
                await p.publish({"n": 1})
            async with (
                serving("b2", path=tmp_path / "b2", join=[address], network=QUICK) as two_again,
                tidings.connect(two_again.address, name="s") as s,
                s.subscribe("n > 0", name="mine", durable=True) as news,
            ):
                assert numbers(await collect(news, 1, timeout=120)) == [1]

    asyncio.run(play())


@played
async def test_a_neighbour_that_is_parted_is_gone() -> None:
    async with serving("b1") as one, serving("b2", join=[one.address], network=QUICK) as two:
        await linked(one, two)
        two._neighbours._tasks[0].cancel()  # it will not dial again
        one.part("b2")
        await until(lambda: not one.links and not two.links)
        assert one.figures()["neighbours"] == 0
