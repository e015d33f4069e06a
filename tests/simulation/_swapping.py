"""Brokers that swap links at random, as many at once as their locks allow, while events are published.

The swaps are wished for from outside (any path, any link of it), so that they meet far oftener than
those of a workload would; from then on everything goes through `Node.handle`. Judged from outside too: by
what each broker takes for its neighbours, and by what the applications were told.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

from tidings.protocol.inputs import Received
from tidings.protocol.messages import Message
from tidings.protocol.overlay.measures import SampledMeasure
from tidings.protocol.overlay.self_organising import OrganisingSettings, SelfOrganisingOverlay
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings.simulation.world import World
from tidings.systems import Site

Edge = tuple[str, str]


class Restless:
    """One world of such brokers."""

    def __init__(self, seed: int, brokers: int = 12, *, locks: bool = True, check: bool = True) -> None:
        self.rng = Random(f"restless/{seed}")
        self.locks = locks
        overlay = random_tree(brokers, self.rng, fan_out=4)
        settings = SimulationSettings(check=check, detect_seconds=0.05)
        self.world = World("socbr", overlay, seed=seed, settings=settings, record=False)
        self.simulation = self.world.simulation
        self.measure = SampledMeasure({"x": (0.0, 1.0)}, points=8)
        for name in overlay.brokers:
            host = self.simulation.hosts[name]
            host.build = partial(self._build, name, tuple(overlay.neighbours()[name]), host.build)
            host.machine = host.build()
        self.brokers = overlay.brokers
        self.published = 0
        self.most_at_once = 0
        self.lives: Counter[str] = Counter()  # swaps counted by lives that have ended
        self.disturbed: list[tuple[float, float]] = []  # when something was down
        self.at: list[float] = []  # when each event was published

    def _build(self, name: str, neighbours: tuple[str, ...], build: Any) -> Any:
        node = build()  # a broker of the system, with room for every swap
        site = Site(name=name, neighbours=neighbours)
        overlay = SelfOrganisingOverlay(
            site.neighbours, self.measure, OrganisingSettings(fan_out=99, ttl=0, locks=self.locks)
        )
        old = node.slots["overlay"]
        node.slots["overlay"] = overlay
        node._compose()
        for strategy in (overlay, node.slots["routing"]):
            strategy.bind(node._ports)
        node._owners = {m: overlay if owner is old else owner for m, owner in node._owners.items()}
        return node

    # -- running --------------------------------------------------------------------------------

    def overlay_of(self, name: str) -> SelfOrganisingOverlay:
        overlay = self.simulation.hosts[name].machine.slots["overlay"]  # type: ignore[attr-defined]
        assert isinstance(overlay, SelfOrganisingOverlay)
        return overlay

    def open(self) -> None:
        """A client at each broker: half of them want all events, the others half of the events."""
        self.simulation.run(0.5)
        for name in self.brokers:
            self.world.add_client(f"at-{name}", name)
        self.simulation.run(0.7)
        for number, name in enumerate(self.brokers):
            self.world.subscribe(f"at-{name}", "all", "x >= 0" if number % 2 else "x >= 0.5")
        self.simulation.run(1.5)

    def wish(self) -> bool:
        """Have a random broker begin a swap; False: it could not even begin."""
        up = [name for name in self.brokers if self.simulation.hosts[name].up]
        start = self.rng.choice(up)
        path = [start]
        for _ in range(self.rng.randint(2, 5)):
            onward = [n for n in self.overlay_of(path[-1]).neighbours if n not in path]
            if not onward:
                break
            path.append(self.rng.choice(onward))
        if len(path) < 3:
            return False
        cut = self.rng.randint(1, len(path) - 1)
        host = self.simulation.hosts[start]
        machine: Any = host.machine
        overlay = self.overlay_of(start)
        # As `handle` would: whatever it says is performed by the driver, and its timer is set.
        began = overlay.swaps.begin(tuple(path), cut, "", self.simulation.now)
        effects = machine._out.copy()
        machine._out.clear()
        for effect in effects:
            self.simulation._perform(host, effect)
        return began

    def publish(self) -> None:
        name = self.rng.choice([n for n in self.brokers if self.simulation.hosts[n].up])
        self.world.publish(f"at-{name}", {"x": self.rng.random(), "number": self.published})
        self.at.append(self.simulation.now)
        self.published += 1

    def run(self, wishes: int, *, every: float = 0.02, publish: bool = True) -> int:
        """So many swaps that were begun, with events among them; how many wishes it took."""
        begun = tried = 0
        while begun < wishes:
            tried += 1
            begun += self.wish()
            if publish and tried % 3 == 0:
                self.publish()
            self.simulation.run(self.simulation.now + self.rng.uniform(0.0, 2 * every))
            at_once = {swap for name in self.brokers for swap in self.overlay_of(name).swaps.swaps}
            self.most_at_once = max(self.most_at_once, len(at_once))
        return tried

    def settle(self, seconds: float = 20.0) -> None:
        self.simulation.run(self.simulation.now + seconds)

    def crash(self, name: str, seconds: float) -> None:
        if not self.simulation.hosts[name].up:
            return
        self.lives += Counter(self.overlay_of(name).swaps.counts)
        self.simulation.crash(name)
        self.simulation.notice(name)
        now = self.simulation.now
        self.disturbed.append((now, now + seconds))
        self.simulation.call_at(now + seconds, partial(self.simulation.restart, name))

    def crash_at(self, kind: type[Message], which: int, delay: float, seconds: float, peer: bool) -> None:
        """Crash whoever handles the so-many-th message of a kind, or whoever sent it."""
        seen = [0]

        def watch(name: str, item: Any, now: float) -> None:
            if type(item) is Received and type(item.message) is kind:
                seen[0] += 1
                if seen[0] == which:
                    victim = item.sender if peer else name
                    self.simulation.call_at(now + delay, partial(self.crash, victim, seconds))

        self.simulation.on_handled = watch

    # -- judging --------------------------------------------------------------------------------

    def counts(self) -> Counter[str]:
        total = Counter(self.lives)
        for name in self.brokers:
            total += self.overlay_of(name).swaps.counts
        return total

    def problems(self) -> list[str]:
        """What is wrong with the overlay, now that nothing happens any more."""
        found = []
        links: set[Edge] = set()
        for name in self.brokers:
            overlay = self.overlay_of(name)
            if overlay.swaps.swaps:
                found.append(f"{name} still holds {sorted(overlay.swaps.swaps)}")
            for peer, kept in overlay.neighbours.items():
                if name not in self.overlay_of(peer).neighbours:
                    found.append(f"{name} takes {peer} for a neighbour, and not the other way round")
                if kept.swap:
                    found.append(f"the link of {name} to {peer} is still being made")
                if peer not in overlay.links():
                    found.append(f"the link of {name} to {peer} is not up")
                links.add((min(name, peer), max(name, peer)))
        if not OverlayGraph(self.brokers, tuple(sorted(links))).is_tree:
            found.append(f"{len(links)} links of {len(self.brokers)} brokers are no tree")
        return found

    def received(self) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        for client, application in self.world.applications.items():
            for notify in application.received:
                found[(client, notify.event.attributes["number"])] += 1
        return found

    def lost_and_doubled(self, since: int = 0) -> tuple[list[Any], list[Any]]:
        received = self.received()
        doubled = [key for key, times in received.items() if times > 1]
        xs = {}
        for application in self.world.applications.values():
            for notify in application.received:
                attributes = notify.event.attributes
                xs[attributes["number"]] = attributes["x"]
        lost = []
        for number in range(since, self.published):
            for position, name in enumerate(self.brokers):
                wanted = position % 2 or xs.get(number, 1.0) >= 0.5
                if wanted and not received[(f"at-{name}", number)]:
                    lost.append((f"at-{name}", number))
        return lost, doubled
