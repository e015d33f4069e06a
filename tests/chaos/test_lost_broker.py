"""The broker in the middle is lost for good, or it and one of its neighbours: those who are left link with
one another, and nothing that any of them acknowledged is lost or told twice. Real processes, real sockets,
publishing all the time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.chaos._proxy import lasts
from tests.chaos._rig import Rig

PATIENCE = 180.0
HEAL = 1.5
LOST = "b2"  # between b1, b3 and b4; b0 hangs on b1


async def healed(rig: Rig, lost: tuple[str, ...]) -> None:
    """Wait until those that are left are a tree."""
    links, left = 0, len(rig.brokers) - len(lost)
    while links != 2 * (left - 1):
        links = 0
        for name in rig.brokers:
            if name not in lost:
                async with rig.connect("judge", name) as bus:
                    links += len((await bus.inquire("figures"))["links"])


async def run(folder: Path, lost: tuple[str, ...]) -> Rig:
    rig = Rig(folder, 1, ("--heal-seconds", str(HEAL)))
    await rig.start()
    try:
        readies = [asyncio.Event() for _ in range(3)]
        wanting = {"all": ("b3",), "some": ("b0",), "few": ("b4",)}
        subscription = [
            asyncio.create_task(rig.listen(name, brokers, ready))
            for (name, brokers), ready in zip(wanting.items(), readies, strict=True)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 120)
        await rig.settle()
        publishing = [
            asyncio.create_task(rig.publish(f"p{name[1:]}", name, 2))
            for name in rig.brokers
            if name not in lost
        ]
        while rig.acknowledged < 50:
            await asyncio.sleep(0)
        await asyncio.gather(*(rig.brokers[name].kill() for name in lost))
        before = rig.acknowledged
        await asyncio.wait_for(healed(rig, lost), PATIENCE)
        assert rig.acknowledged > before  # the others went on meanwhile
        await lasts(1.0)
        rig.quieten()
        await rig.arrive(publishing, PATIENCE)
        await rig.arrive(subscription, PATIENCE)
    finally:
        print(json.dumps(rig.figures()), flush=True)
        for name in lost:
            rig.brokers.pop(name)
        await rig.close()
    return rig


def test_the_network_heals_when_its_middle_is_lost_for_good(tmp_path: Path) -> None:
    judge(asyncio.run(run(tmp_path, (LOST,))))


@pytest.mark.soak
def test_the_network_heals_when_two_adjacent_brokers_are_lost_for_good(tmp_path: Path) -> None:
    judge(asyncio.run(run(tmp_path, ("b1", LOST))))


def judge(rig: Rig) -> None:
    assert not rig.doubled, f"received twice: {rig.doubled[:10]}"
    broken = {name: v["counterexample"] for name, v in rig.judge().items() if v["holds"] is False}
    assert not broken, broken
