"""Five broker processes under kill, stop, partition and rough links: nothing acknowledged is lost.

The short run is part of the default suite; the long one is soak (`TIDINGS_CHAOS_SECONDS`).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from tests.chaos._rig import Rig

SETTLE = 60.0  # seconds in which everything must arrive after the last fault


async def run(folder: Path, seed: int, seconds: float, at_once: int) -> Rig:
    rig = Rig(folder, seed)
    await rig.start()
    try:
        readies = [asyncio.Event() for _ in range(3)]
        listening = [
            asyncio.create_task(rig.listen(name, brokers, ready))
            for (name, brokers), ready in zip(
                {"all": ("b3",), "some": ("b0",), "few": ("b4", "b1")}.items(), readies, strict=True
            )
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 30)
        await rig.settle()
        publishing = [
            asyncio.create_task(rig.publish(f"p{number}", f"b{number}", at_once)) for number in range(5)
        ]
        while rig.acknowledged < 50:
            await asyncio.sleep(0)
        await rig.trouble(time.monotonic() + seconds)
        rig.quieten()
        await asyncio.wait_for(asyncio.gather(*publishing), SETTLE)
        await asyncio.wait_for(asyncio.gather(*listening), SETTLE)
    except TimeoutError:
        await rig.describe()
        raise
    finally:
        print(json.dumps(rig.figures()))
        await rig.close()
    return rig


def check(rig: Rig) -> None:
    for name, heard in rig.heard.items():
        assert len(heard) == len(set(heard)), f"{name} was told something twice"
    broken = {name: v["counterexample"] for name, v in rig.judge().items() if v["holds"] is False}
    assert not broken, broken
    kills = rig.fired["kill"]
    assert kills >= 2
    assert rig.hits >= 0.3 * kills, "too few kills hit what was not acknowledged"


@pytest.mark.timeout(170)
def test_nothing_acknowledged_is_lost_in_a_short_run(tmp_path: Path) -> None:
    check(asyncio.run(run(tmp_path, seed=1, seconds=8.0, at_once=4)))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_in_a_long_run(tmp_path: Path) -> None:
    seconds = float(os.environ.get("TIDINGS_CHAOS_SECONDS", "600"))
    check(
        asyncio.run(
            run(tmp_path, seed=int(os.environ.get("TIDINGS_CHAOS_SEED", "2")), seconds=seconds, at_once=16)
        )
    )
