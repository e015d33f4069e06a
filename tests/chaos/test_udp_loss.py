"""Recovery over real UDP, of which a tenth is lost: five broker processes deliver as the simulation does."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Figures
from tests.chaos._udp import Network, simulated_delivery

LOSS = 0.1
CALM = 30.0  # seconds without anything new: then no more comes, even on a busy machine
# Events a second for long. Brokers of one small machine that are given all they can take have seconds of
# datagrams in their buffers, so that what is asked for has left the caches; the simulation knows no such
# buffers.
CARRIED = 400
# A cache that holds the cycle of push, which takes more than two seconds of events; see lab/docs/recovery.md.
SIZED = {"epidemic-push": {"cache": 8000, "fan_out": 2, "forward": 1.0}}


async def over_udp(
    folder: Path, system: str, events: int, at_once: int, most: float, enough: float, **gossip: Any
) -> Network:
    network = Network(folder, system, loss=LOSS, **gossip)
    await network.start()
    try:
        await network.run(events, at_once, calm=CALM, most=most, enough=enough)
        figures = await network.figures("b2")
    finally:
        await network.close()
    lost = network.udp.count["lost"] / (network.udp.count["lost"] + network.udp.count["passed"])
    fields = {
        name: figures.get(name)
        for name in ("events lost", "events recovered", "recovered twice", "gossip sent", "peers ignored")
    }
    print(
        json.dumps(
            {
                "system": system,
                "delivery": network.delivery(events),
                "rate": network.rate,
                "loss": lost,
                **fields,
            }
        )
    )
    assert network.udp.count["strange"] == 0
    assert 0.8 * LOSS < lost < 1.2 * LOSS
    for broker, received in network.received.items():
        assert len(received) == len(set(received)), f"{broker} was told something twice"
    return network


def judge(folder: Path, system: str, events: int, at_once: int, most: float = 0.0, **gossip: Any) -> None:
    """All that comes, compared with the simulation."""
    network = asyncio.run(over_udp(folder, system, events, at_once, most, enough=2.0, **gossip))
    if system == "tidings":
        assert network.delivery(events) == 1.0
        return
    simulated = simulated_delivery(system, min(events, 3000), LOSS, network.rate, **gossip)
    assert abs(network.delivery(events) - simulated) <= 0.02, f"{simulated} in simulation"
    assert network.delivery(events) >= 0.95


@pytest.mark.parametrize("system", ["epidemic", "tidings"])
def test_a_tenth_of_the_datagrams_is_lost_and_comes_back(tmp_path: Path, system: str) -> None:
    """A tree of two hops that recovered nothing would deliver about 85 of 100."""
    enough = 1.0 if system == "tidings" else 0.95
    network = asyncio.run(over_udp(tmp_path, system, events=800, at_once=4, most=CARRIED, enough=enough))
    assert network.delivery(800) >= enough


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("system", ["epidemic", "epidemic-push", "epidemic-lazy-push", "tidings"])
def test_a_hundred_thousand_events_over_lossy_udp(tmp_path: Path, system: str, figures: Figures) -> None:
    events = int(os.environ.get("TIDINGS_UDP_EVENTS", "100000"))
    judge(tmp_path, system, events=events, at_once=8, most=CARRIED, **SIZED.get(system, {}))
    figures(events=events)
