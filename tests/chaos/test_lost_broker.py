"""The broker in the middle is lost for good: its three neighbours link with one another, and nothing that any
other broker acknowledged is lost or told twice. Real processes, real sockets, publishing all the time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.chaos._proxy import lasts
from tests.chaos._rig import Rig

PATIENCE = 60.0
HEAL = 1.5
LOST = "b2"  # between b1, b3 and b4


async def healed(rig: Rig) -> None:
    """Wait until the four that are left are a tree."""
    links = 0
    while links != 6:
        links = 0
        for name in rig.brokers:
            if name != LOST:
                async with rig.connect("judge", name) as bus:
                    links += len((await bus.inquire("figures"))["links"])


async def run(folder: Path) -> Rig:
    rig = Rig(folder, 1, ("--heal-seconds", str(HEAL)))
    await rig.start()
    try:
        readies = [asyncio.Event() for _ in range(3)]
        wanting = {"all": ("b3",), "some": ("b0",), "few": ("b4",)}
        listening = [
            asyncio.create_task(rig.listen(name, brokers, ready))
            for (name, brokers), ready in zip(wanting.items(), readies, strict=True)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 30)
        await rig.settle()
        publishing = [
            asyncio.create_task(rig.publish(f"p{number}", f"b{number}", 2)) for number in (0, 1, 3, 4)
        ]
        while rig.acknowledged < 50:
            await asyncio.sleep(0)
        await rig.brokers[LOST].kill()
        before = rig.acknowledged
        await asyncio.wait_for(healed(rig), PATIENCE)
        assert rig.acknowledged > before  # the others went on meanwhile
        await lasts(1.0)
        rig.quieten()
        await rig.arrive(publishing, PATIENCE)
        await rig.arrive(listening, PATIENCE)
    finally:
        print(json.dumps(rig.figures()), flush=True)
        rig.brokers.pop(LOST)
        await rig.close()
    return rig


@pytest.mark.timeout(170)
def test_the_network_heals_when_its_middle_is_lost_for_good(tmp_path: Path) -> None:
    rig = asyncio.run(run(tmp_path))
    for name, heard in rig.heard.items():
        assert len(heard) == len(set(heard)), f"{name} was told something twice"
    broken = {name: v["counterexample"] for name, v in rig.judge().items() if v["holds"] is False}
    assert not broken, broken
