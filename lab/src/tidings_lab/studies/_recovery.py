"""One point of the study of recovery: a network that loses events, one style of recovery, and its result.

Brokers in a tree of degree at most four, each with a client that wants some patterns; a few brokers publish.
Losses begin when every subscription is known and go on until the end, so that gossip and replies are lost
too. Judged are the events of the middle of the run: the first of a source give every broker a beginning to
count from, and those published last have no later event that would reveal their loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import msgspec

from tidings.history.schema import Row
from tidings.protocol.inputs import Received
from tidings.simulation.faults import CRASH, FaultPlan, Incident, Rates
from tidings.simulation.topology import OverlayGraph, hops_from, random_tree
from tidings.simulation.world import World
from tidings_lab.recovery.epidemic.messages import PatternPull, PushWant, SourcePull

SETTLE = 6.0  # seconds in which subscriptions spread, before anything is lost
HEAD, TAIL = 0.25, 0.15  # shares of the run, at its ends, whose events are not judged
EVENTS = frozenset({"Forward"})
REQUESTS = (PushWant, PatternPull, SourcePull)
TABLES = frozenset({"Interest", "InterestSeen"})
SEVERAL = 3  # brokers that ask one for the same event within an interval: an implosion (4.2)

EventKey = tuple[str, int]  # source and number


class RecoveryCase(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a point."""

    system: str = "subscription-forwarding"
    gossip: dict[str, Any] = {}
    datagrams: bool = False  # events travel by datagram, so that neighbours send lost ones again
    brokers: int = 100
    degree: int = 4
    patterns: int = 70
    wanted: int = 2  # patterns of each subscriber
    per_event: int = 1  # patterns that an event matches
    publishers: int = 5
    events: int = 2000
    rate: float = 100.0  # events a second, all publishers together
    loss: float = 0.1
    lossy_until: float = 1.0  # share of the run in which messages are lost
    breaks: float = 0.0  # seconds between reconfigurations, each a link that is gone for a while; 0: none
    crash: bool = False  # brokers that do not publish crash and restart, one after another
    calm: float = 8.0  # seconds after the last event
    seed: int = 1

    @property
    def seconds(self) -> float:
        return self.events / self.rate


class Deliveries:
    """Publishes and notifications, by event."""

    def __init__(self) -> None:
        self.published: dict[tuple[str, str], float] = {}
        self.delivery_delays: dict[tuple[str, str], list[float]] = {}
        self.twice = 0
        self._who: set[tuple[str, str, str]] = set()

    def note(self, row: Row) -> None:
        key = (row.source or "", row.event or "")
        if row.op == "avail":  # taken in by its broker
            self.published.setdefault(key, row.time)
        elif row.op == "ntfy":
            who = (*key, f"{row.process} {row.subscription}")
            self.twice += who in self._who
            self._who.add(who)
            self.delivery_delays.setdefault(key, []).append(row.time - self.published[key])


def measured(case: dict[str, Any]) -> dict[str, float]:
    """Run one case, given as plain data."""
    return RecoveryRun(msgspec.convert(case, RecoveryCase)).result()


class RecoveryRun:
    def __init__(self, case: RecoveryCase) -> None:
        self.case = case
        rng = Random(f"{case.seed}/workload")
        self.overlay = random_tree(case.brokers, Random(f"{case.seed}/overlay"), case.degree)
        names = [f"p{number} = TRUE" for number in range(case.patterns)]
        self.wanted = {
            broker: set(rng.sample(range(case.patterns), min(case.wanted, case.patterns)))
            for broker in self.overlay.brokers
        }
        self.log = Deliveries()
        options: dict[str, Any] = {"gossip": case.gossip} if case.system.startswith("epidemic") else {}
        if case.datagrams:
            options["datagrams"] = True
        self.world = World(case.system, self.overlay, seed=case.seed, options=options, on_row=self.log.note)
        for broker, patterns in self.wanted.items():
            self.world.add_client(f"at-{broker}", broker)
            for pattern in sorted(patterns):
                self.world.subscribe(f"at-{broker}", f"n{pattern}", names[pattern])
        self._schedule(rng)

    def _schedule(self, rng: Random) -> None:
        case, simulation = self.case, self.world.simulation
        brokers = self.overlay.brokers
        publishers = rng.sample(brokers, min(case.publishers, len(brokers)))
        self.publishing = {f"at-{publisher}" for publisher in publishers}
        # of the events that are judged: how many subscriptions want each
        self.owed: dict[tuple[str, int], int] = {}
        self.likely = 0.0  # deliveries to expect without recovery
        self.requests: Counter[tuple[str, int]] = Counter()  # received, by broker and interval
        self.askers: dict[tuple[str, EventKey], set[str]] = {}  # of this interval, by broker and event
        self.asked_in = 0
        self.missing: dict[EventKey, set[str]] = {}  # brokers that asked for an event at any time
        self.on_the_way: Counter[EventKey] = Counter()  # the same at any broker that a request reaches
        self.together: Counter[EventKey] = Counter()  # the most at one broker that has it, in an interval
        self.events_by_tag: dict[tuple[str, int, int], EventKey] = {}  # source, pattern, counter
        numbers = dict.fromkeys(publishers, 0)
        far = {publisher: hops_from(self.overlay.neighbours(), publisher) for publisher in publishers}
        at = SETTLE
        for number in range(case.events):
            at += rng.expovariate(case.rate)
            publisher = rng.choice(publishers)
            chosen = sorted(rng.sample(range(case.patterns), case.per_event))
            numbers[publisher] += 1
            if HEAD <= number / case.events <= 1 - TAIL:
                owed = sum(len(self.wanted[broker].intersection(chosen)) for broker in brokers)
                self.owed[f"at-{publisher}", numbers[publisher]] = owed
                self.likely += sum(
                    len(self.wanted[broker].intersection(chosen)) * (1 - case.loss) ** hops
                    for broker, hops in far[publisher].items()
                )
            event = {f"p{pattern}": True for pattern in chosen}
            simulation.call_at(at, partial(self.world.publish, f"at-{publisher}", event))
        self.end = at
        rates = Rates(loss=case.loss)
        until = SETTLE + (self.end - SETTLE) * case.lossy_until if case.lossy_until < 1.0 else float("inf")
        simulation.call_at(SETTLE - 0.1, lambda: simulation.plan(FaultPlan(rates, rates_until=until)))
        self._trouble(rng)

    def _trouble(self, rng: Random) -> None:
        case, simulation = self.case, self.world.simulation
        at = SETTLE + case.breaks
        while case.breaks and at < self.end:
            a, b = rng.choice(self.overlay.links)
            simulation.call_at(at, partial(simulation.disconnect, a, b))
            simulation.call_at(at + 0.3, partial(simulation.connect, a, b))
            at += case.breaks
        quiet = [broker for broker in self.overlay.brokers if f"at-{broker}" not in self.publishing]
        at = SETTLE + 1.0
        while case.crash and at < self.end:
            crash = Incident(kind=CRASH, at=at, until=at + 0.5, nodes=(rng.choice(quiet),))
            simulation.call_at(crash.at, partial(simulation.begin, crash))
            simulation.call_at(crash.until, partial(simulation.end, crash))
            at += 2.0

    def result(self) -> dict[str, float]:
        case, world = self.case, self.world
        world.run(SETTLE - 0.2)
        world.simulation.on_handled = self._count_request
        self.caches: dict[str, Any] = {}
        for name, node in world.nodes():
            if (counters := getattr(node.slots["recovery"], "counters", None)) is not None:
                counters.mark = partial(self._noted_mark, counters.mark)
                self.caches[name] = node.slots["recovery"].cache
        before = world.simulation.sent
        world.run(self.end + case.calm)
        sent = world.simulation.sent
        sent.subtract(before)
        events = sum(sent[name] for name in EVENTS)
        gossip = sum(count for name, count in sent.items() if name not in EVENTS | TABLES)
        return {
            **self._delivery(),
            "events sent": events / case.events,
            "gossip": gossip / max(1, events),
            "gossip messages": gossip,
            "tables": sum(sent[name] for name in TABLES),
            **self._figures(),
        }

    def _delivery(self) -> dict[str, float]:
        delivered: list[float] = []
        for (source, id), delays in self.log.delivery_delays.items():
            if (source, int(id.rpartition("-")[2])) in self.owed:
                delivered += delays
        late = sorted(delivered)
        usual = len(late) // 2
        recovered = [seconds for seconds in late if seconds > 0.3]
        return {
            "delivery": len(delivered) / sum(self.owed.values()),
            "floor": self.likely / sum(self.owed.values()),
            "twice": self.log.twice,
            "latency": late[usual] if late else 0.0,
            "recovery latency": sum(recovered) / len(recovered) if recovered else 0.0,
        }

    def _count_request(self, name: str, item: Any, now: float) -> None:
        if type(item) is Received and type(item.message) in REQUESTS:
            interval = int(now / self.case.gossip.get("interval_seconds", 0.2))
            self.requests[name, interval] += 1
            if interval != self.asked_in:
                self.askers, self.asked_in = {}, interval
            asker = getattr(item.message, "initiator", item.sender)
            cache = self.caches[name]
            for event in self._asked_for(item.message):
                self.missing.setdefault(event, set()).add(asker)
                asking = self.askers.setdefault((name, event), set())
                asking.add(asker)
                self.on_the_way[event] = max(self.on_the_way[event], len(asking))
                if cache.get(event) is not None:  # it has to answer, and does not only pass the request on
                    self.together[event] = max(self.together[event], len(asking))

    def _noted_mark(self, mark: Any, patterns: Any, here: tuple[str, ...] = ()) -> Any:
        """Let a source mark an event, and note its counters."""
        made = mark(patterns, here)
        source, number, count = made[:3]
        for at in range(3, 3 + 2 * count, 2):
            self.events_by_tag[source, made[at], made[at + 1]] = (source, number)
        return made

    def _asked_for(self, message: Any) -> Iterator[EventKey]:
        """The events that a request names, whichever pattern names them."""
        if type(message) is PushWant:
            yield from ((source, id) for source, ids in message.ids.items() for id in ids)
            return
        if type(message) is PatternPull:
            tags = ((source, message.pattern, c) for source, lost in message.lost.items() for c in lost)
        else:
            tags = ((message.source, pattern, c) for pattern, lost in message.lost.items() for c in lost)
        yield from (self.events_by_tag[tag] for tag in tags if tag in self.events_by_tag)

    def _figures(self) -> dict[str, float]:
        nodes = [node for _, node in self.world.nodes()]
        figures: dict[str, float] = {}
        for node in nodes:
            for name, value in node.slots["recovery"].figures().items():
                figures[name] = figures.get(name, 0) + value
        loads = [getattr(node.slots["recovery"], "count", {}).get("gossip", 0) for node in nodes]
        mean = sum(loads) / len(loads)
        figures["highest load"] = max(loads) / mean if mean else 0.0
        rounds = [getattr(node.slots["recovery"], "count", {}).get("rounds", 0) for node in nodes]
        begun = [count for count in rounds if count]
        figures["most rounds"] = max(begun) * len(begun) / sum(begun) if begun else 0.0
        at_sources = [count for (name, _), count in self.requests.items() if f"at-{name}" in self.publishing]
        figures["requests at once"] = max(at_sources, default=0)
        figures["askers of one event"] = max(self.together.values(), default=0)
        several = [event for event, brokers in self.missing.items() if len(brokers) >= SEVERAL]
        imploded = sum(self.together[event] >= SEVERAL for event in several)
        figures["missed by several"] = len(several)
        figures["asked together"] = imploded / len(several) if several else 0.0
        passing = sum(self.on_the_way[event] >= SEVERAL for event in several)
        figures["asked on the way"] = passing / len(several) if several else 0.0
        recovered = figures.get("events recovered", 0)
        figures["copies"] = 1 + figures.get("recovered twice", 0) / recovered if recovered else 0.0
        return figures


def matching_calls(style: str, seed: int) -> dict[str, float]:
    """Matches of an event against all patterns, for each event: at its publisher's broker, and at all others
    (COS-10)."""
    system = {"push": "epidemic-push", "publisher pull": "epidemic-publisher-pull"}[style]
    case = RecoveryCase(system=system, brokers=20, patterns=10, per_event=2, events=100, loss=0.0, seed=seed)
    run = RecoveryRun(case)
    calls: Counter[str] = Counter()
    for name, node in run.world.nodes():
        recovery = node.slots["recovery"]
        recovery.matching = partial(_counted, recovery.matching, calls, name)
    run.result()
    own = sum(count for name, count in calls.items() if f"at-{name}" in run.publishing)
    others = sum(count for name, count in calls.items() if f"at-{name}" not in run.publishing)
    return {"at the publisher": own / case.events, "elsewhere": others / case.events}


def _counted(match: Any, calls: Counter[str], name: str, event: Any) -> Any:
    calls[name] += 1
    return match(event)


def pairs_floor(overlay: OverlayGraph, loss: float) -> float:
    """Delivery without recovery, exactly (COS-12): the mean over all pairs of (1 - loss) to the power of
    the links between them."""
    chances = [(1 - loss) ** hops for hops in pair_hops(overlay)]
    return sum(chances) / len(chances)


def pair_hops(overlay: OverlayGraph) -> Iterator[int]:
    """The links between every two brokers."""
    table = overlay.neighbours()
    for broker in overlay.brokers:
        yield from (hops for other, hops in hops_from(table, broker).items() if other != broker)
