"""Epidemic recovery under faults: nothing twice, nothing spurious, and what comes back was lost."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tidings.history.check import check
from tidings.language import accepts, parse_filter
from tidings.protocol.inputs import Received
from tidings.protocol.routing.duplicates import Forward
from tidings.simulation.experiment import Experiment, run_experiment
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import random_tree
from tidings.simulation.workloads import Plan
from tidings.simulation.world import World
from tidings.systems import system_names
from tidings.testing.seeds import EVERYTHING, NO_CRASH
from tidings_lab.recovery.epidemic.messages import Recovered

SYSTEMS = [name for name in system_names() if name.startswith("epidemic")]


def experiment(system: str, seed: int, kinds: tuple[str, ...]) -> Experiment:
    plan = Plan(subscriptions=8, events=60, rate=4.0, churn=0.15, publishers=3)
    return Experiment(
        system=system, seed=seed, brokers=8, workload="patterns" if seed % 2 else "stocks", plan=plan,
        incidents=12, kinds=kinds, check=True, bytes=True, calm=10.0,
        options={"gossip": {"evicts": ("oldest", "foreign", "any")[seed % 3], "bloom": seed % 2 == 0,
                            "heartbeat_seconds": 1.0, "at_once": seed % 3 == 0, "cache": 20}},
    )  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(3))
def test_every_fault_but_a_crash_leaves_each_event_told_at_most_once(system: str, seed: int) -> None:
    outcome = run_experiment(experiment(system, seed, NO_CRASH))
    assert outcome.delivered
    assert sum(outcome.faults.values()) >= 10
    assert outcome.report is not None
    broken = {name: v.story for name, v in outcome.report.verdicts.items() if v.holds is False}
    assert not broken


@pytest.mark.parametrize("system", SYSTEMS)
def test_crashes_too_leave_it_safe(system: str) -> None:
    outcome = run_experiment(experiment(system, 5, EVERYTHING), judge=False)
    verdicts = check(outcome.rows, t_sub=10.0, t_diff=20.0, contract="SIENA").verdicts
    assert not {name: v.story for name, v in verdicts.items() if v.holds is False}


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS)
def test_many_seeds(system: str) -> None:
    for seed in range(10, 60):
        outcome = run_experiment(experiment(system, seed, NO_CRASH))
        assert outcome.report is not None
        broken = {name: v.story for name, v in outcome.report.verdicts.items() if v.holds is False}
        assert not broken, f"seed {seed}"


class Lossy:
    """A lossy network beside an oracle: which events reached which broker over its links, and which came
    back."""

    def __init__(self, system: str, seed: int, **knobs: Any) -> None:
        rng = Random(seed)
        overlay = random_tree(12, rng, fan_out=4)
        self.world = World(system, overlay, seed=seed, options={"gossip": knobs}, record=False)
        self.wanted = {broker: f"p{rng.randrange(4)} = TRUE" for broker in overlay.brokers}
        for broker, text in self.wanted.items():
            self.world.add_client(f"at-{broker}", broker)
            self.world.subscribe(f"at-{broker}", "n", text)
        self.world.run(3.0)
        self.over_links: Counter[tuple[str, str]] = Counter()
        self.came_back: Counter[tuple[str, str]] = Counter()
        self.world.simulation.on_handled = self._note
        self.world.simulation.plan(FaultPlan(Rates(loss=0.15)))
        for number in range(240):
            publisher = rng.choice(overlay.brokers[:3])
            attributes = {f"p{pattern}": True for pattern in rng.sample(range(4), 2)}
            self.world.publish(f"at-{publisher}", {**attributes, "number": number})
            self.world.run(self.world.simulation.now + 0.03)
        self.world.run(self.world.simulation.now + 20.0)

    def _note(self, name: str, item: Any, now: float) -> None:
        if isinstance(item, Received) and isinstance(item.message, Forward | Recovered):
            table = self.over_links if isinstance(item.message, Forward) else self.came_back
            table[name, item.message.envelope.event.id] += 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_comes_back_was_lost_and_is_told_once(system: str) -> None:
    trial = Lossy(system, seed=3)
    recovered = 0
    for broker, text in trial.wanted.items():
        received = [n.event for n in trial.world.applications[f"at-{broker}"].received]
        assert len({event.id for event in received}) == len(received), "told twice"
        assert all(accepts(parse_filter(text), event) for event in received), "told without reason"
        for event in received:
            if event.source != f"at-{broker}" and not trial.over_links[broker, event.id]:
                assert trial.came_back[broker, event.id], "told, and nobody brought it"
                recovered += 1
    nodes = dict(trial.world.nodes())
    counted = sum(node.slots["recovery"].count["recovered"] for node in nodes.values())
    assert recovered > 50
    assert counted >= recovered
    copies = sum(node.slots["recovery"].count["copies"] for node in nodes.values())
    assert 1 + copies / counted <= 1.1, "duplicates per recovered event"
