"""Tidings on random trees, with churn, all lifetimes and every fault: complete, once, in order, quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from tests.simulation._tidings import PATIENCE, Faults, digest_of, judge, play

from tidings.history.check import check
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultMix, FaultPlan, drawn
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.systems import Site, find_system
from tidings.wire.codec import Codec

# A crash with an empty disk loses what only that disk held, by contract (`kept` survives crash and power
# cut, not the loss of the disk); see test_tidings_scenes.py. A clock that jumps moves every timer of its
# broker with it; brokers whose clocks differ from the start are in test_tidings_scenes.py.
KINDS = (
    fault.LOSS,
    fault.DUPLICATION,
    fault.REORDERING,
    fault.CORRUPTION,
    fault.CRASH,
    fault.STOP,
    fault.PARTITION_HALVES,
    fault.PARTITION_RING,
    fault.PARTITION_ONE_WAY,
    fault.ISOLATE_ONE,
    fault.SLOW_LINK,
)
SECONDS = 14.0  # that things go wrong


def trouble(*kinds: str) -> Faults:
    incidents = 10 if any(kind in fault.INCIDENTS for kind in kinds) else 0
    mix = FaultMix(kinds=kinds, incidents=incidents, rate_up_to=0.25, longest=3.0)

    def draw(overlay: OverlayGraph, rng: Random) -> FaultPlan:
        plan = drawn(overlay, rng, until=SECONDS, mix=mix)
        while not plan.incidents and not plan.rates.any:
            plan = drawn(overlay, rng, until=SECONDS, mix=mix)
        return plan

    return draw


def test_tidings_without_faults_hears_everything() -> None:
    judge(play(1))


@pytest.mark.parametrize("kind", KINDS)
def test_tidings_keeps_its_promises_through_each_fault(kind: str) -> None:
    for seed in (1, 3):
        run = play(seed, faults=trouble(kind))
        assert run.world.simulation.fired[kind], f"{kind} never happened"
        judge(run)


@pytest.mark.parametrize("seed", range(100, 136))
def test_tidings_keeps_its_promises_through_mixed_faults(seed: int) -> None:
    run = play(seed, faults=trouble(*KINDS))
    judge(run)


@pytest.mark.parametrize("seed", range(200, 208))
def test_durable_subscribers_that_go_away_come_back_without_gap_or_repeat(seed: int) -> None:
    judge(play(seed, faults=trouble(*KINDS), absences=True))


@pytest.mark.parametrize("seed", range(500, 505))
def test_what_neighbours_send_again_keeps_the_promises_through_mixed_faults(seed: int) -> None:
    """Events travel by datagram, so brokers hold what they sent and answer one another themselves."""
    run = play(seed, faults=trouble(*KINDS), absences=seed % 2 == 0, datagrams=True)
    judge(run)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_what_neighbours_send_again_keeps_the_promises_for_many_seeds(first: int) -> None:
    for seed in range(first, first + 20):
        judge(play(seed, faults=trouble(*KINDS), absences=seed % 2 == 0, datagrams=True))


@pytest.mark.parametrize("seed", range(300, 304))
def test_a_network_that_comes_up_amid_faults_comes_right(seed: int) -> None:
    """From the first moment on; nobody stood before it, but what lives for ever reaches everybody."""
    judge(play(seed, faults=trouble(*KINDS), begin=0.0))


@pytest.mark.parametrize("seed", range(400, 403))
def test_lost_disks_leave_no_broker_waiting_and_tell_nothing_wrong(seed: int) -> None:
    run = play(seed, faults=trouble(*KINDS, fault.DISK_LOSS))
    report = check(run.world.rows, t_sub=PATIENCE, t_diff=PATIENCE)
    for name in ("legality", "validity", "lp1", "lp4"):
        assert report[name].holds, report[name].story
    for name, node in run.world.nodes():
        assert node.slots["recovery"].waiting() == 0, f"{name} waits for what is no more"
        assert len(node.slots["recovery"].timers) == 0, f"{name} is not quiet"


def test_every_message_passes_through_bytes() -> None:
    """With a codec between brokers, a flipped bit is found by its checksum."""
    node = find_system("tidings").build(Site(name="b0"), Random(1))
    declared = [message for strategy in node.slots.values() for message in strategy.messages]
    settings = SimulationSettings(check=True, codec=Codec(declared))
    run = play(5, faults=trouble(fault.CORRUPTION), settings=settings)
    assert run.world.simulation.fired[fault.CORRUPTION]
    judge(run)


def test_a_seed_replays_byte_for_byte() -> None:
    """In this process, and in others that hash texts differently."""
    here = digest_of(102, trouble(*KINDS))
    command = [sys.executable, "-m", "tests.simulation.test_tidings_faults"]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10, 60))
def test_soak_tidings_through_mixed_faults(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        judge(play(seed, faults=trouble(*KINDS), brokers=3 + seed % 9, absences=seed % 2 == 1))


if __name__ == "__main__":
    print(digest_of(102, trouble(*KINDS)))
