"""Five broker processes under kill, stop, partition and rough links: nothing acknowledged is lost.

The short run is part of the default suite. The long one is soak: it goes on until a million publishes are
acknowledged (`TIDINGS_CHAOS_ACKNOWLEDGED`), and at least `TIDINGS_CHAOS_SECONDS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from conftest import Figures
from tests.chaos._rig import Rig

PATIENCE = 180.0  # seconds after the last fault without anything new: then something was lost, or hangs


async def run(
    folder: Path, seed: int, *, at_once: int, seconds: float = 0.0, acknowledged: int = 0, faults: int = 0
) -> Rig:
    rig = Rig(folder, seed)
    await rig.start()
    try:
        readies = [asyncio.Event() for _ in range(3)]
        subscription = [
            asyncio.create_task(rig.listen(name, brokers, ready))
            for (name, brokers), ready in zip(
                {"all": ("b3",), "some": ("b0",), "few": ("b4", "b1")}.items(), readies, strict=True
            )
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 120)
        await rig.settle()
        publishing = [
            asyncio.create_task(rig.publish(f"p{number}", f"b{number}", at_once)) for number in range(5)
        ]
        while rig.acknowledged < 50:
            await asyncio.sleep(0)
        await rig.trouble(time.monotonic() + seconds, acknowledged, faults)
        rig.quieten()
        await rig.arrive(publishing, PATIENCE)
        await rig.arrive(subscription, PATIENCE)
    except TimeoutError:
        await rig.describe()
        raise
    finally:
        print(json.dumps(rig.figures()), flush=True)
        await rig.close()
    return rig


def check(rig: Rig) -> None:
    assert not rig.doubled, f"received twice: {rig.doubled[:10]}"
    broken = {name: v["counterexample"] for name, v in rig.judge().items() if v["holds"] is False}
    assert not broken, broken
    kills = rig.fired["kill"]
    assert kills >= 2
    assert rig.hits >= 0.3 * kills, "too few kills hit what was not acknowledged"


def test_nothing_acknowledged_is_lost_in_a_short_run(tmp_path: Path) -> None:
    check(asyncio.run(run(tmp_path, seed=1, at_once=4, faults=7)))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_in_a_long_run(tmp_path: Path, figures: Figures) -> None:
    seconds = float(os.environ.get("TIDINGS_CHAOS_SECONDS", "60"))
    acknowledged = int(os.environ.get("TIDINGS_CHAOS_ACKNOWLEDGED", "1000000"))
    seed = int(os.environ.get("TIDINGS_CHAOS_SEED", "2"))
    rig = asyncio.run(run(tmp_path, seed=seed, seconds=seconds, at_once=32, acknowledged=acknowledged))
    check(rig)
    figures(
        acknowledged=rig.acknowledged,
        faults=sum(rig.fired.values()),
        kills=rig.fired["kill"],
        lost=0,
        doubled=0,
    )
    assert rig.acknowledged >= acknowledged
