"""Networks of the last release and this one: mixed, upgraded and downgraded one broker at a time, under load.

The policy is docs/compatibility.md. Short runs are part of the default suite; the long ones are soak
(`TIDINGS_UPGRADE_ROUNDS` changes of all brokers; with `TIDINGS_UPGRADE_SEED` they can be divided).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from conftest import Figures
from tests.upgrade._release import PRESENT, Release, build, why_not
from tests.upgrade._rig import Rig

import tidings

pytestmark = [pytest.mark.xdist_group("upgrade"), pytest.mark.skipif(bool(why_not()), reason=why_not())]

LINE = {"b0": [], "b1": ["b0"], "b2": ["b1"]}
FEW = 30  # events of each publisher between two changes
STARTS = 8  # of a member of the last release, until it takes a client


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(tmp_path_factory.mktemp("release"))


async def end(rig: Rig, publishers: tuple[str, ...]) -> None:
    for name in publishers:
        await rig.stop(name)
    await rig.arrive()
    rig.judge()
    print(json.dumps(rig.figures()))


async def clients(rig: Rig, last: Release, first: str, final: str) -> tuple[str, ...]:
    """Clients of both versions at both ends."""
    await rig.subscriber("old-at-end", last, final)
    await rig.subscriber("new-at-start", PRESENT, first)
    await rig.subscriber("new-at-end", PRESENT, final)
    await rig.publisher("old-publisher", last, first)
    await rig.publisher("new-publisher", PRESENT, final)
    return ("old-publisher", "new-publisher")


async def change(rig: Rig, releases: list[Release], events: int, number: int = signal.SIGTERM) -> None:
    """Change all brokers to each version in turn, one at a time; the last version reaches one broker alone
    when there are several: a network that stays mixed."""
    for release in releases:
        for name in list(rig.brokers)[: 1 if release is releases[-1] is not releases[0] else None]:
            await rig.flow(events)
            await rig.replace(name, release, number)
    await rig.flow(events)


async def roll_tree(folder: Path, last: Release, steps: list[Release], events: int, number: int) -> Rig:
    async with Rig(folder) as rig:
        await rig.tree(LINE, dict.fromkeys(LINE, last))
        publishers = await clients(rig, last, "b0", "b2")
        await change(rig, steps, events, number)
        await end(rig, publishers)
    return rig


async def roll_group(folder: Path, last: Release, steps: list[Release], events: int, number: int) -> Rig:
    async with Rig(folder) as rig:
        names = ["d1", "d2", "d3"]
        await rig.group(names, last)
        await rig.subscriber("old", last, "d3", "d1", "d2")
        await rig.subscriber("new", PRESENT, "d1", "d2", "d3")
        await rig.publisher("old-publisher", last, "d1", "d2", "d3")
        await rig.publisher("new-publisher", PRESENT, "d2", "d3", "d1")
        await change(rig, steps, events, number)
        await end(rig, ("old-publisher", "new-publisher"))
    return rig


def test_a_tree_is_upgraded_and_downgraded_one_broker_at_a_time(last: Release, tmp_path: Path) -> None:
    asyncio.run(roll_tree(tmp_path, last, [PRESENT, last], FEW, signal.SIGTERM))


def test_a_group_is_upgraded_one_member_at_a_time(last: Release, tmp_path: Path) -> None:
    asyncio.run(roll_group(tmp_path, last, [PRESENT], FEW, signal.SIGTERM))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("roll", [roll_tree, roll_group])
def test_versions_change_many_times_by_kill_and_by_drain(
    roll: object, last: Release, tmp_path: Path, figures: Figures
) -> None:
    assert callable(roll)
    rounds = int(os.environ.get("TIDINGS_UPGRADE_ROUNDS", "20"))
    rng = Random(int(os.environ.get("TIDINGS_UPGRADE_SEED", rounds)))
    kept = 0
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        steps = [PRESENT, last, PRESENT]
        sign = rng.choice([signal.SIGTERM, signal.SIGKILL])
        rig = asyncio.run(roll(folder, last, steps, rng.randrange(10, 300), sign))
        kept += sum(map(len, rig.kept.values()))
    figures(acknowledged=kept, changes=rounds * 7, lost=0, doubled=0)


RICH = {"tags": ["red"], "price": Decimal("12.10"), "day": date(2026, 3, 1), "lines": [{"sku": None}]}


async def mix(folder: Path, last: Release) -> None:
    """A broker of the last release between two of this one: bodies that it cannot read are not sent to it."""
    async with Rig(folder) as rig, contextlib.AsyncExitStack() as stack:
        await rig.tree(LINE, {"b0": PRESENT, "b1": last, "b2": PRESENT})
        await rig.subscriber("old", last, "b0")

        async def client(broker: str) -> tidings.Bus:
            address = f"tidings://127.0.0.1:{rig.brokers[broker].port}"
            bus = tidings.connect(address, name=f"c-{broker}", timeout=60)
            return await stack.enter_async_context(bus)

        first, middle, end = [await client(name) for name in ("b0", "b1", "b2")]
        near = await first.subscribe("who = 'mix'")
        far = await end.subscribe("who = 'mix' AND ('red' IN tags OR number > 1)")
        every = await end.subscribe("who = 'mix'")
        with pytest.raises(tidings.RefusedError, match="earlier version"):
            await middle.subscribe("'red' IN tags")
        with pytest.raises(tidings.RefusedError, match="earlier version"):
            await middle.publish({"tags": ["red"]})
        for number, more in enumerate(({}, RICH, {}, {})):
            await first.publish({"who": "mix", "number": number, **more}, mode="kept")
        received = [await near.get() for _ in range(4)]
        assert [event["number"] for event in received] == [0, 1, 2, 3]
        assert {name: received[1][name] for name in RICH} == RICH
        assert [(await every.get())["number"] for _ in range(3)] == [
            0,
            2,
            3,
        ]  # 1 is a dead letter of the link
        assert [(await far.get())["number"] for _ in range(2)] == [2, 3]
        await middle.publish({"who": "mix", "number": 4})
        assert (await near.get())["number"] == (await far.get())["number"] == 4
        rig.kept["mix"] = {0, 1, 2, 3, 4}
        await (
            rig.arrive()
        )  # the client of the last release receives all, the rich one in values that it knows
        assert [number for _, number in rig.received["old"]] == [0, 1, 2, 3, 4]


def test_a_body_that_the_last_release_cannot_read_is_not_sent_broken(last: Release, tmp_path: Path) -> None:
    asyncio.run(mix(tmp_path, last))


async def go_back(folder: Path, last: Release) -> None:
    """A member of a group goes back to the last release while a rich event is in the log, and returns."""
    async with Rig(folder) as rig, contextlib.AsyncExitStack() as stack:
        await rig.group(["d1", "d2", "d3"], PRESENT)

        async def client(name: str, *brokers: str, patience: float = 60) -> tidings.Bus:
            addresses = ",".join(f"127.0.0.1:{rig.brokers[broker].port}" for broker in brokers)
            bus = tidings.connect(f"tidings://{addresses}", name=name, timeout=patience)
            return await stack.enter_async_context(bus)

        async def at_old_member() -> tidings.Bus:
            """0.1.0 now and then takes no client after it has come back, whatever the log holds."""
            for _ in range(STARTS):
                with contextlib.suppress(tidings.UnreachableError):
                    return await client("old", "d3", patience=10)
                await rig.replace("d3", last)
            raise AssertionError(f"the member of the last release took no client in {STARTS} starts")

        bus = await client("c", "d1", "d2")
        await rig.brokers["d3"].end()
        await bus.publish({"number": 0, **RICH}, mode="kept", lifetime=600)
        await rig.brokers["d3"].start(last)
        old = await (await at_old_member()).subscribe("number >= 0", replay=True)
        assert (await old.get())["tags"] == ["red"]  # it has a copy now, without the mark of rich bodies
        with pytest.raises(tidings.RefusedError, match="earlier version"):
            await bus.publish({"number": 1, **RICH})
        await bus.publish({"number": 2}, mode="kept", lifetime=600)
        await rig.replace("d3", PRESENT)
        new = await (await client("new", "d3")).subscribe("'red' IN tags", replay=True)
        received = await new.get()
        assert {name: received[name] for name in RICH} == RICH


@pytest.mark.soak
def test_a_member_that_goes_back_and_returns_keeps_rich_events(last: Release, tmp_path: Path) -> None:
    asyncio.run(go_back(tmp_path, last))
