"""`tidings store` with running brokers: backup while publishing, restore after the loss of a disk."""

from __future__ import annotations

import asyncio
import errno
import shutil
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store._kit import append

import tidings
from tidings.errors import InputError, RefusedError, SettingsError, StoreFullError, StoreLockedError
from tidings.language import parse_filter
from tidings.runtime import backups
from tidings.runtime.processes import check_unit, refuse_store_of_unit
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.store.rocks import RocksStore


def settings(folder: Path, name: str, **more: Any) -> BrokerSettings:
    fields = {"name": name, "listen": "127.0.0.1:0", "security.anonymous": True, "store": str(folder / name)}
    return read_settings(fields={**fields, **{key.replace("__", "."): value for key, value in more.items()}})


def play(coroutine: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await coroutine

    asyncio.run(run())


async def publish(bus: tidings.Bus, first: int, count: int, **options: Any) -> list[int]:
    """Publish numbers; the offsets that they got."""
    receipts = [await bus.publish({"n": n}, mode="kept", **options) for n in range(first, first + count)]
    return [receipt.position.offset for receipt in receipts if receipt.position is not None]


async def numbers(listener: Any, count: int) -> list[int]:
    return [(await listener.get(timeout=60))["n"] for _ in range(count)]


def test_a_backup_while_publishing_verifies_and_holds_what_was_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            Service(settings(tmp_path, "b1")) as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            await publish(bus, 0, 20, lifetime=tidings.FOREVER)
            more = asyncio.create_task(publish(bus, 20, 200, lifetime=tidings.FOREVER))
            backup, copied = await asyncio.to_thread(backups.back_up, tmp_path / "b1", tmp_path / "backups")
            assert (backup.broker, backup.group) == ("b1", False)
            assert backup.entries >= 20
            assert copied > 0
            await more
            found = await asyncio.to_thread(backups.verify, tmp_path / "b1")
            assert found["entries"] == 220
            sizes = await asyncio.to_thread(backups.compact, tmp_path / "b1")
            assert sizes["after"] > 0
        assert backups.verify(tmp_path / "backups")["entries"] == backup.entries
        assert backups.verify(tmp_path / "b1")["entries"] == 220, "stopped: it is read where it lies"
        assert not list((tmp_path / "b1" / "checkpoints").glob("*"))

    play(story())


def test_a_running_broker_a_backup_and_a_restored_store_export_the_same(tmp_path: Path) -> None:
    """A checkpoint has no watermark, and an export writes nothing, so it needs none."""

    def exported(path: str, **part: Any) -> list[int]:
        selection = backups.Selection(**part)
        return [event["n"] for _, _, event in backups.exported(tmp_path / path, selection)]

    async def story() -> None:
        async with (
            Service(settings(tmp_path, "b1")) as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            offsets = await publish(bus, 0, 6, lifetime=tidings.FOREVER)
            every = list(range(6))
            assert await asyncio.to_thread(exported, "b1") == every
            found = await asyncio.to_thread(lambda: list(backups.exported(tmp_path / "b1")))
            assert [offset for offset, _, _ in found] == offsets
            await asyncio.to_thread(backups.back_up, tmp_path / "b1", tmp_path / "backups")
            assert exported("backups") == every
            backups.restore(tmp_path / "backups", tmp_path / "again")
            assert exported("again") == every
        assert exported("b1") == every
        assert exported("b1", filter=parse_filter("n > 3")) == [4, 5]
        assert exported("b1", first=offsets[1], last=offsets[3]) == [1, 2, 3]
        assert exported("b1", since=found[2][1], until=found[4][1]) == [2, 3]
        assert exported("b1", since=found[5][1] + 3600) == []
        with pytest.raises(InputError, match="is a store"):
            list(backups.exported(tmp_path / "b1", number=1))

    play(story())


def test_a_tree_broker_restored_after_rm_rf_gives_no_offset_twice(tmp_path: Path) -> None:
    """Events after the backup are lost at it; its durable subscribers, near and far, get each later one
    once."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            far = await stack.enter_async_context(Service(settings(tmp_path, "b2")))
            home = settings(tmp_path, "b1", join=[far.server.address])
            first = Service(home)
            await first.__aenter__()
            distant = await stack.enter_async_context(tidings.connect(far.server.address, name="distant"))
            listener = await stack.enter_async_context(distant.subscribe("n >= 0", name="all", durable=True))
            async with tidings.connect(first.server.address, name="p") as bus:
                async with bus.subscribe("n >= 0", name="near", durable=True) as near:
                    offsets = await publish(bus, 0, 10, lifetime=60)
                    await asyncio.to_thread(backups.back_up, tmp_path / "b1", tmp_path / "backups")
                    offsets += await publish(bus, 10, 10, lifetime=60)
                    assert await numbers(near, 20) == list(range(20))
                assert await numbers(listener, 20) == list(range(20))
            await first.__aexit__()
            shutil.rmtree(tmp_path / "b1")
            backup, gap, _ = backups.restore(tmp_path / "backups", tmp_path / "b1")
            assert backup.entries == 10
            assert gap > 0
            async with Service(home) as again, tidings.connect(again.server.address, name="p") as bus:
                new = await publish(bus, 100, 5, lifetime=60)
                assert min(new) > max(offsets)
                assert await numbers(listener, 5) == list(range(100, 105)), "none twice, none passed over"
                async with bus.subscribe("n >= 0", name="late") as late:
                    assert await numbers(late, 15) == [*range(10), *range(100, 105)]

    play(story())


def test_a_reader_passes_over_nothing_when_one_backup_is_restored_twice(tmp_path: Path) -> None:
    """Found by an attack from outside: both lives of the log gave the same offsets, and what the second one
    acknowledged was passed over by whoever had read the first."""

    async def story() -> None:
        home, positions = settings(tmp_path, "b1"), None
        taken = datetime.now(UTC)
        lives = [taken, taken + timedelta(hours=20), taken + timedelta(hours=19)]  # a clock that was set back
        for life, now in enumerate(lives):
            if life:
                shutil.rmtree(tmp_path / "b1")
                backups.restore(tmp_path / "backups", tmp_path / "b1", now=now)
            async with (
                Service(home) as service,
                tidings.connect(service.server.address, name="p") as bus,
            ):
                await publish(bus, life * 10, 5, lifetime=60)
                async with bus.subscribe("n >= 0", since=positions) as news:
                    assert await numbers(news, 5) == list(range(life * 10, life * 10 + 5))
                    await news.ack()
                    positions = news.positions
                page = await bus.read_log(after=2**62)
                with pytest.raises(RefusedError, match="is behind it: its store was put back"):
                    await bus.read_log(after=page.end + 1)
                if not life:
                    await asyncio.to_thread(backups.back_up, tmp_path / "b1", tmp_path / "backups")

    play(story())


def test_a_group_member_is_restored_without_its_promises(tmp_path: Path) -> None:
    """It has no vote until a view admits it, and the others hand it what its backup lacks."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            members = ["d1", "d2", "d3"]
            services: list[Service] = []
            for name in members:
                given = settings(
                    tmp_path, name, group__name="news", group__members=members,
                    join=[service.server.address for service in services[:1]],
                )  # fmt: skip
                services.append(Service(given))
                await services[-1].__aenter__()
            address = ",".join(one.server.address.partition("://")[2] for one in services[:2])
            bus = await stack.enter_async_context(
                tidings.connect(f"tidings://{address}", name="p", timeout=60)
            )
            for n in range(5):
                await bus.publish({"n": n}, mode="replicated", lifetime=600)
            await asyncio.to_thread(backups.back_up, tmp_path / "d3", tmp_path / "backups")
            await services[2].__aexit__()
            for n in range(5, 10):
                await bus.publish({"n": n}, mode="replicated", lifetime=600)
            shutil.rmtree(tmp_path / "d3")
            backup, gap, _ = backups.restore(tmp_path / "backups", tmp_path / "d3")
            assert (backup.group, backup.broker, gap) == (True, "d3", 0)
            async with Service(services[2].settings) as again:
                while not again.server.node.has_caught_up or again.figures().get("group committed") != 10:
                    await asyncio.sleep(0)
                await bus.publish({"n": 10}, mode="replicated", lifetime=600)
                async with (
                    tidings.connect(again.server.address, name="s", timeout=60) as other,
                    other.subscribe("n >= 0") as news,
                ):
                    assert await numbers(news, 11) == list(range(11))
            for service in services[:2]:
                await service.__aexit__()

    play(story())


def test_a_group_that_lost_the_majority_of_its_disks_is_founded_anew(tmp_path: Path) -> None:
    """The remaining member serves no publish; its events go into a new group, each once."""

    async def found(stack: AsyncExitStack) -> list[Service]:
        services: list[Service] = []
        for name in members:
            joins = [service.server.address for service in services[:1]]
            given = settings(tmp_path, name, group__name="news", group__members=members, join=joins)
            services.append(await stack.enter_async_context(Service(given)))
        return services

    async def story() -> None:
        async with AsyncExitStack() as stack:
            services = await found(stack)
            async with tidings.connect(services[0].server.address, name="p", timeout=60) as bus:
                for n in range(5):
                    await bus.publish({"n": n}, key=f"k{n}", mode="replicated", lifetime=600)
            while services[1].figures().get("group committed") != 5:
                await asyncio.sleep(0)
        for name in ("d1", "d3"):
            shutil.rmtree(tmp_path / name)
        (tmp_path / "d2").rename(tmp_path / "old")
        saved = [event for _, _, event in backups.exported(tmp_path / "old")]
        assert [(event["n"], event.key, event.lifetime) for event in saved] == [
            (n, f"k{n}", 600.0) for n in range(5)
        ]
        async with AsyncExitStack() as stack:
            services = await found(stack)
            async with tidings.connect(services[0].server.address, name="p", timeout=60) as bus:
                for event in [*saved, *saved]:  # a second remaining disk holds the same
                    await bus.publish(event, mode="replicated")
                await bus.publish({"n": 5}, mode="replicated", lifetime=600)
                async with bus.subscribe("n >= 0") as news:
                    assert await numbers(news, 6) == list(range(6)), "none twice"

    members = ["d1", "d2", "d3"]
    play(story())


def test_a_store_that_another_program_holds_is_named(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", reserve_bytes=0)
    with pytest.raises(StoreLockedError, match="which takes no requests"):
        backups.back_up(tmp_path / "s", tmp_path / "backups")
    store.close()
    with pytest.raises(InputError, match="holds no store"):
        backups.verify(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(InputError, match="lies in the store"):
        backups.back_up(tmp_path / "s", tmp_path / "s" / "backups")
    with pytest.raises(InputError, match="is no directory"):
        backups.compact(Path("nats://127.0.0.1/news"))


def test_a_unit_is_backed_up_and_restored_after_rm_rf(tmp_path: Path) -> None:
    """The folder that `--processes` has as its store; restored as a whole, or one process at a time."""
    unit = BrokerSettings(name="u", processes=2, store=str(tmp_path / "data"))
    check_unit(unit)
    for name in ("u-1", "u-2"):
        with closing(RocksStore(tmp_path / "data" / name, reserve_bytes=0)) as store:
            store.commit([append(1)])
    done = list(backups.back_up_all(tmp_path / "data", tmp_path / "backups"))
    assert [path.name for path, _, _ in done] == ["u-1", "u-2"]
    assert [backups.verify(each)["entries"] for each in backups.members(tmp_path / "backups")] == [1, 1]
    shutil.rmtree(tmp_path / "data")
    restored = backups.restore_all(tmp_path / "backups", tmp_path / "data")
    assert [(path.name, one.gap > 0) for path, one in restored] == [
        ("u-1", True), ("u-2", True),
    ]  # fmt: skip
    check_unit(unit)
    with pytest.raises(InputError, match="is not empty"):
        backups.restore_all(tmp_path / "backups", tmp_path / "data")
    shutil.rmtree(tmp_path / "data")

    backups.restore(tmp_path / "backups" / "u-2", tmp_path / "data" / "u-2")
    with pytest.raises(SettingsError, match="not that of a unit"):
        check_unit(unit)
    backups.restore(tmp_path / "backups" / "u-1", tmp_path / "data" / "u-1")
    with pytest.raises(SettingsError, match="that of 2 processes"):
        check_unit(BrokerSettings(name="u", processes=3, store=unit.store))
    with pytest.raises(SettingsError, match="unit of processes"):
        refuse_store_of_unit(BrokerSettings(name="u", store=unit.store))
    check_unit(unit)
    shutil.rmtree(tmp_path / "data" / "u-2")
    with pytest.raises(InputError, match="process 2 is not there"):
        backups.members(tmp_path / "data")


def test_a_restore_without_room_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(RocksStore(tmp_path / "data")) as store:
        store.commit([append(1)])
    backups.back_up(tmp_path / "data", tmp_path / "backups")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tidings.store.backup._copied", full)
    with pytest.raises(StoreFullError, match=f"{tmp_path} has no room for backup 1"):
        backups.restore(tmp_path / "backups", tmp_path / "again")
    assert not list(tmp_path.glob("again*"))
