"""VIR2-3: a hierarchy of brokers loads the upper ones more (Virgillito 2003, section 2.4.1)."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tidings.protocol.inputs import Received
from tidings.simulation.topology import hierarchy
from tidings.simulation.workloads import Plan, Rectangles, mixed
from tidings.simulation.world import World


def loads(system: str, seed: int) -> Counter[str]:
    """Messages from other brokers that each broker handled."""
    overlay = hierarchy(40, 3)
    world = World(system, overlay, seed=seed, record=False)
    load: Counter[str] = Counter(dict.fromkeys(overlay.brokers, 0))
    brokers = set(overlay.brokers)

    def count(name: str, item: Any, _now: float) -> None:
        if type(item) is Received and name in brokers and item.sender in brokers:
            load[name] += 1

    world.simulation.on_handled = count
    plan = Plan(subscriptions=60, events=150, publishers=20)
    workload = mixed(Rectangles(widest=0.3), overlay.brokers, Random(seed), plan)
    world.load(workload)
    world.run(workload.over_at + 5)
    return load


def unevenness(load: Counter[str]) -> float:
    return max(load.values()) / (sum(load.values()) / len(load))


def test_vir2_3_the_hierarchical_protocol_is_less_even_than_the_acyclic_one() -> None:
    for seed in (1, 2):
        flat, steep = loads("siena", seed), loads("siena-hierarchical", seed)
        assert unevenness(steep) > unevenness(flat)
        assert steep["b0"] == max(steep.values()), "the root has the most to do"
