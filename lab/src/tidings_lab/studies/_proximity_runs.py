"""Runs of study `proximity`: one variant on one transit-stub network, over its last quarter, with one value
per seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tidings.simulation.topology import OverlayGraph, broker_names, transit_stub
from tidings_lab.studies._claims import jackknife
from tidings_lab.studies._organisation_runs import COUNTINGS, PRINTED, parts_of
from tidings_lab.studies._organising import FastNetwork, OrganisingVariant, drawn, latencies
from tidings_lab.studies.study import StudySetting

BROKERS = 100
LONGEST = 0.2  # seconds between the two hosts that are farthest apart
CBR, SOCBR, ALPHA = "CBR", "SOCBR", "keep alpha"
BOUNDS = (0.05, 0.1, 0.15)
NEAR_50, NEAR_100, NEAR_150 = (f"pbSOCBR {bound * 1000:.0f} ms" for bound in BOUNDS)
WAYS = (CBR, NEAR_50, NEAR_100, NEAR_150, SOCBR, ALPHA)
PARTS = ("requests", "replies", "probes", "swapping", "tables")

Seconds = Callable[[str, str], float]


class NearCase(NamedTuple):
    """A variant, and how near the neighbours of the first tree are."""

    name: str
    trigger: str = PRINTED
    forwarding: str = PRINTED
    known: int = 1  # brokers that a newcomer chooses the nearest of; 1: any tree

    def plain(self) -> NearCase:
        return NearCase(CBR, known=self.known)

    def variant(self) -> OrganisingVariant:
        kind, _, bound = self.name.partition(" ")
        if self.name == CBR:
            return OrganisingVariant(name=self.name, ttl=0)
        near = float(bound.split()[0]) / 1000 if kind == "pbSOCBR" else None
        return OrganisingVariant(
            name=self.name, bound=near, keep_alpha=self.name == ALPHA, trigger=self.trigger,
            forwarding=self.forwarding,
        )  # fmt: skip


def network(seed: int) -> Seconds:
    """Seconds between any two brokers."""
    rng = Random(f"{seed}/network")
    net = transit_stub(BROKERS, rng)
    hosts = list(range(BROKERS))
    rng.shuffle(hosts)
    table = np.array([net.latencies_from(host) for host in hosts])[:, hosts]
    table *= LONGEST / table.max()
    position = {name: number for number, name in enumerate(broker_names(BROKERS))}

    def seconds(a: str, b: str) -> float:
        return float(table[position[a], position[b]])

    return seconds


def first_tree(known: int, seed: int, seconds: Seconds, fan_out: int = 10) -> OverlayGraph:
    rng = Random(f"{seed}/overlay")
    names = broker_names(BROKERS)
    degree = dict.fromkeys(names, 0)
    links = []
    for number, name in enumerate(names[1:], 1):
        free = [other for other in names[:number] if degree[other] < fan_out]
        at = min(rng.sample(free, min(known, len(free))), key=lambda other: seconds(name, other))
        links.append((at, name))
        degree[at] += 1
        degree[name] += 1
    return OverlayGraph(names, tuple(links))


def run_of(
    name: str, trigger: str, forwarding: str, known: int, subscriptions: int, seed: int
) -> dict[str, float]:
    """One run: hops, latency and messages over its last quarter."""
    seconds = network(seed)
    case = NearCase(name, trigger, forwarding, known)
    fast = FastNetwork(first_tree(known, seed, seconds), case.variant(), distance=seconds)
    window = subscriptions // 4
    hops, slow = [], []
    begun, delivered = parts_of(fast), 0
    for number, (broker, filter) in enumerate(drawn(seed, subscriptions, 1.0, fast.brokers), 1):
        fast.subscribe(broker, filter)
        if number == subscriptions - window:
            begun, delivered = parts_of(fast), fast.announced
        if number > subscriptions - window and number % 5 == 0:
            hops.append(fast.hops())
            slow.append(float(latencies(fast, seconds, events=64).mean()))
    spent = [(now - before) / window for now, before in zip(parts_of(fast), begun, strict=True)]
    found = {
        "hops": float(np.mean(hops)), "latency": float(np.mean(slow)),
        "told": (fast.announced - delivered) / window,
        **dict(zip(PARTS, spent, strict=True)),
    }  # fmt: skip
    if name == CBR:
        found["best"] = fast.best_tree_hops()
        found["best latency"] = float(latencies(fast, seconds, events=64, links=fast.best_tree()).mean())
    return found


class ProximityRuns:
    """All runs, and figures of them as one value for each seed."""

    def __init__(self, setting: StudySetting) -> None:
        self.setting = setting
        self.subscriptions = 100 if setting.quick else 200
        self.seeds = setting.seed_range(3, 20)
        self._runs: dict[NearCase, list[dict[str, float]]] = {}

    def load(self, cases: Sequence[NearCase]) -> None:
        new = [case for case in dict.fromkeys(cases) if case not in self._runs]
        found = self.setting.over_seeds(run_of, [(*case, self.subscriptions) for case in new], self.seeds)
        self._runs.update(zip(new, found, strict=True))

    def of(self, case: NearCase, key: str) -> list[float]:
        return [run[key] for run in self._runs[case]]

    def pairs(self, case: NearCase) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return list(zip(self._runs[case.plain()], self._runs[case], strict=True))

    def against_plain(self, case: NearCase, key: str) -> list[float]:
        return [run[key] / plain[key] - 1 for plain, run in self.pairs(case)]

    def price(self, case: NearCase, counting: str) -> list[float]:
        weights = COUNTINGS[counting].items()
        return [sum(weight * run[name] for name, weight in weights) for run in self._runs[case]]

    def per_operation(self, case: NearCase, ratio: float, counting: str) -> list[float]:
        return [
            (ratio * run["hops"] + run["told"] + price) / (ratio + 1)
            for run, price in zip(self._runs[case], self.price(case, counting), strict=True)
        ]

    def fewer_messages(self, case: NearCase, ratio: float, counting: str) -> list[float]:
        ours, plain = (self.per_operation(each, ratio, counting) for each in (case, case.plain()))
        return [own / other - 1 for own, other in zip(ours, plain, strict=True)]

    def break_even(self, case: NearCase, counting: str) -> list[float]:
        saved = [plain["hops"] - run["hops"] for plain, run in self.pairs(case)]
        return jackknife(self.price(case, counting), saved)

    def share_of_way(self, case: NearCase) -> list[float]:
        """How far from CBR's hops (0) to those of SOCBR under the same trigger (1), as pseudo-values."""
        whole = case._replace(name=SOCBR)
        saved = [plain["hops"] - run["hops"] for plain, run in self.pairs(case)]
        possible = [plain["hops"] - run["hops"] for plain, run in self.pairs(whole)]
        return jackknife(saved, possible)
