"""Runs of study `self-organisation`: one network and one variant, look by look, and figures with intervals
over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tidings.protocol.overlay import choosing
from tidings_lab.studies._claims import SeedEstimate, estimate, jackknife
from tidings_lab.studies._organising import FastNetwork, OrganisingVariant, drawn, start
from tidings_lab.studies.study import StudySetting

STEP = 10  # subscriptions between two looks
BOUND_STEP = 50  # and between two looks at the best tree, which takes longer to find; STEP divides it
SHORT_TTL = 2  # the least that can change a link: one hop reaches neighbours alone
SIDES = "sides to 1"  # of rectangles, which are not printed: what verdicts as printed are for
WINDOW = 50  # subscriptions that a figure is the mean of
CBR, SOCBR, FEWER = "CBR", "SOCBR", "by hops"
PRINTED, OVERLAP, GROWTH = choosing.TRIGGERS
TRIGGERS, FORWARDINGS = choosing.TRIGGERS, choosing.FORWARDINGS
_, _, ANY, _ = FORWARDINGS  # passed on wherever some of the zone is wanted
COLUMNS = (
    "number", "hops", "ideal", "as", "most", "best", "told", "requests", "replies", "probes", "swapping",
    "tables",
    "swaps",
)  # fmt: skip
# How messages of self-organisation are counted: the weight of each part. The thesis does not print it.
ALL, NO_TABLES, ONE_PROBE = "all messages", "without tables", "without tables, a probe is one"
ONE_WAY = "without tables, requests alone"
COUNTINGS: dict[str, dict[str, float]] = {
    ALL: {"requests": 1, "replies": 1, "probes": 1, "swapping": 1, "tables": 1},
    NO_TABLES: {"requests": 1, "replies": 1, "probes": 1, "swapping": 1},
    ONE_PROBE: {"requests": 1, "replies": 1, "probes": 0.5, "swapping": 1},
    ONE_WAY: {"requests": 1, "probes": 0.5, "swapping": 1},
}
DISCOVERY = ("requests", "replies", "probes")


class Case(NamedTuple):
    """A variant on a workload."""

    name: str
    trigger: str = PRINTED
    forwarding: str = PRINTED
    width: float = 1.0
    fan_out: int = 10

    def plain(self) -> Case:
        """Plain routing on the same workload."""
        return Case(CBR, width=self.width, fan_out=self.fan_out)

    def variant(self) -> OrganisingVariant:
        kind, _, number = self.name.partition(" ")
        knobs: dict[str, Any] = {}
        if self.name == CBR:
            knobs["ttl"] = 0
        elif self.name == FEWER:
            knobs["weigh"] = "hops"
        elif kind == "TTL":
            knobs["ttl"] = int(number)
        elif kind == "adaptive":
            knobs["events_per_change"] = float(number)
        return OrganisingVariant(
            name=self.name, fan_out=self.fan_out, trigger=self.trigger, forwarding=self.forwarding, **knobs
        )


def parts_of(network: FastNetwork) -> tuple[int, int, int, int, int]:
    """Messages so far: requests, replies, probes, of swaps, for tables."""
    sent = network.sent
    requests, replies = sent["DiscoveryRequest"], sent["DiscoveryReply"]
    probes, tables = sent["probe"], sent["tables"]
    swapping = network.organising_messages() - requests - replies - probes - tables
    return requests, replies, probes, swapping, tables


def run_of(
    name: str, trigger: str, forwarding: str, width: float, fan_out: int, subscriptions: int, seed: int
) -> dict[str, Any]:
    """One run: figures after every so many subscriptions."""
    case = Case(name, trigger, forwarding, width, fan_out)
    network = FastNetwork(start(seed, fan_out=fan_out), case.variant())
    rows: list[list[float]] = []
    for number, (broker, filter) in enumerate(drawn(seed, subscriptions, width, network.brokers), 1):
        network.subscribe(broker, filter)
        if number % STEP:
            continue
        bounds = (float("nan"), float("nan"))
        if (
            name == CBR and number % BOUND_STEP == 0
        ):  # the zones, and so the bounds, are those of every variant
            bounds = (network.most_associativity(), network.best_tree_hops())
        looks = (number, network.hops(), network.ideal(), network.associativity(), *bounds, network.announced,
                 *parts_of(network), len(network.swaps))  # fmt: skip
        rows.append([float(look) for look in looks])
    return {"rows": rows, "diameter": start(seed, fan_out=fan_out).diameter()}


class SeedRun:
    """One run as columns by name."""

    def __init__(self, found: dict[str, Any]) -> None:
        table = np.array(found["rows"], dtype=float)
        self.by = {name: table[:, position] for position, name in enumerate(COLUMNS)}
        self.diameter = float(found["diameter"])

    def at(self, end: int, column: str) -> float:
        """The mean over the window that ends there."""
        number = self.by["number"]
        return float(self.by[column][(number <= end) & (number > end - WINDOW)].mean())

    def just(self, at: int, column: str) -> float:
        return float(self.by[column][self.by["number"] == at][0])

    def rate(self, end: int, weights: Mapping[str, float]) -> float:
        """So many for each subscription of the window."""
        before = self.total(end - WINDOW, weights) if end > WINDOW else 0.0
        return (self.total(end, weights) - before) / WINDOW

    def total(self, at: int, weights: Mapping[str, float]) -> float:
        return sum(weight * self.just(at, name) for name, weight in weights.items())

    def forwarders(self, end: int) -> float:
        return self.at(end, "hops") - self.at(end, "ideal")

    def per_operation(self, end: int, ratio: float, counting: str) -> float:
        """Messages of all kinds for each publication or subscription."""
        changing = self.rate(end, {"told": 1}) + self.rate(end, COUNTINGS[counting])
        return (ratio * self.at(end, "hops") + changing) / (ratio + 1)


class OrganisationRuns:
    """All runs, and figures of them as one value for each seed."""

    def __init__(self, setting: StudySetting, seeds: range | None = None) -> None:
        self.setting = setting
        self.subscriptions = 200 if setting.quick else 400
        self.seeds = setting.seed_range(3, 20) if seeds is None else seeds
        self.middle = 100 if setting.quick else 200  # one window for the fit and for what is our own
        self.windows = (100, 200) if setting.quick else (100, 200, 400)  # the text: sliding changes nothing
        self._runs: dict[Case, list[SeedRun]] = {}

    def load(self, cases: Sequence[Case], known: OrganisationRuns | None = None) -> None:
        """Run these; `known` has the first seeds of each already."""
        new = [case for case in dict.fromkeys(cases) if case not in self._runs]
        points = [(*case, self.subscriptions) for case in new]
        seeds = self.seeds[len(known.seeds) :] if known is not None else self.seeds
        found = self.setting.over_seeds(run_of, points, seeds) if seeds else [[] for _ in new]
        for case, runs in zip(new, found, strict=True):
            before = known[case] if known is not None else []
            self._runs[case] = [*before, *(SeedRun(run) for run in runs)]

    def __getitem__(self, case: Case) -> list[SeedRun]:
        return self._runs[case]

    def in_windows(self, values: Callable[[int], list[float]]) -> dict[str, list[float]]:
        """A figure in every window, by where the window ends."""
        return {f"to {end}": values(end) for end in self.windows}

    def pairs(self, case: Case) -> list[tuple[SeedRun, SeedRun]]:
        """Plain routing and the variant, seed by seed."""
        return list(zip(self[case.plain()], self[case], strict=True))

    def fewer_forwarders(self, case: Case, end: int) -> list[float]:
        return [run.forwarders(end) / plain.forwarders(end) - 1 for plain, run in self.pairs(case)]

    def fewer_hops(self, case: Case, end: int) -> list[float]:
        return [run.at(end, "hops") / plain.at(end, "hops") - 1 for plain, run in self.pairs(case)]

    def fewer_messages(self, case: Case, end: int, ratio: float, counting: str) -> list[float]:
        return [
            run.per_operation(end, ratio, counting) / plain.per_operation(end, ratio, counting) - 1
            for plain, run in self.pairs(case)
        ]

    def break_even(self, case: Case, end: int, counting: str) -> list[float]:
        """Events for each subscription from which on it pays, as pseudo-values."""
        pairs = self.pairs(case)
        cost = [run.rate(end, COUNTINGS[counting]) for _, run in pairs]
        saved = [plain.at(end, "hops") - run.at(end, "hops") for plain, run in pairs]
        return jackknife(cost, saved)

    def discovery_share(self, case: Case, counting: str) -> list[float]:
        """Discovery in all messages of self-organisation, over the whole run."""
        end = self.subscriptions
        weights = COUNTINGS[counting]
        found = {name: weight for name, weight in weights.items() if name in DISCOVERY}
        return [run.total(end, found) / run.total(end, weights) for run in self[case]]

    def five_run_halves(self, case: Case, end: int) -> list[float]:
        """Half of the 95% interval of five runs over their mean, for each five seeds: hops."""
        hops = [run.at(end, "hops") for run in self[case]]
        fives = [estimate(hops[at : at + 5]) for at in range(0, len(hops) - 4, 5)] or [estimate(hops)]
        return [each.half / each.mean for each in fives]

    def over_ideal(self, case: Case, end: int) -> list[float]:
        """Hops over those without any pure forwarder."""
        return [run.at(end, "hops") / run.at(end, "ideal") for run in self[case]]

    def associativity_share(self, case: Case) -> list[float]:
        """Associativity after 100 subscriptions as a share of the most that any tree has."""
        return [run.just(100, "as") / plain.just(100, "most") for plain, run in self.pairs(case)]

    def short_ttl(self, case: Case, end: int, ratio: float, counting: str) -> list[float]:
        """How much dearer the short TTL is than no bound."""
        short = self[Case(f"TTL {SHORT_TTL}", case.trigger, case.forwarding)]
        return [
            a.per_operation(end, ratio, counting) / b.per_operation(end, ratio, counting) - 1
            for a, b in zip(short, self[case], strict=True)
        ]

    def way_to_plain(self, case: Case, end: int, ratio: float, counting: str) -> list[float]:
        """How far the short TTL is on the way from no bound (0) to plain routing (1), as pseudo-values."""
        short = self[Case(f"TTL {SHORT_TTL}", case.trigger, case.forwarding)]
        costs = [
            [run.per_operation(end, ratio, counting) for run in runs]
            for runs in (short, self[case], self[case.plain()])
        ]
        bounded, free, plain = costs
        return jackknife(
            [a - b for a, b in zip(bounded, free, strict=True)],
            [a - b for a, b in zip(plain, free, strict=True)],
        )

    def dearer_hops(self, case: Case, ttl: int, end: int) -> list[float]:
        """How many more hops a TTL leaves than no bound."""
        short = self[Case(f"TTL {ttl}", case.trigger, case.forwarding)]
        return [a.at(end, "hops") / b.at(end, "hops") - 1 for a, b in zip(short, self[case], strict=True)]

    def price(self, case: Case, end: int, counting: str) -> list[float]:
        return [run.rate(end, COUNTINGS[counting]) for run in self[case]]

    def along(self, case: Case, column: str) -> list[SeedEstimate]:
        """A figure look by look."""
        table = np.array([run.by[column] for run in self[case]])
        return [estimate(table[:, position].tolist()) for position in range(table.shape[1])]

    def ends(self) -> list[int]:
        return list(range(WINDOW, self.subscriptions + 1, WINDOW))
