"""A small simulated system beside the dumbest oracle: who subscribed to what decides who hears what.

`Trial` does one thing after the other. `settle` lets everything in flight arrive, so that what the
oracle says is exact; `pause` only lets a client's own broker answer, so that changes cross in the
network. Filters and events are drawn from a coarse grid, so that they often cover or equal
one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import Edge, OverlayGraph, mesh, minimal_subtree, random_graph, random_tree
from tidings.simulation.workloads import AdvertiseStep, UnadvertiseStep
from tidings.simulation.world import World
from tidings.systems import ANY_GRAPH, MESH, NO_LINKS, find_system

SETTLE = 2.0  # seconds: far more than any path takes
PAUSE = 0.004  # a client and its broker have answered one another; the next broker has received no message

ReceivedKey = tuple[str, str, str]  # client, subscription, event


def overlay_for(system: str, rng: Random, most: int = 9) -> OverlayGraph:
    """A random overlay of a kind that the system works on."""
    graph = find_system(system).graph
    if graph == NO_LINKS:
        return random_tree(1, rng)
    if graph == ANY_GRAPH:
        return random_graph(rng.randint(3, most), rng, 3.0)
    if graph == MESH:
        return mesh(rng.randint(2, most))
    return random_tree(rng.randint(2, most), rng, fan_out=3)


def drawn_filter(rng: Random) -> str:
    parts = []
    for name in ("x", "y"):
        low, high = sorted(rng.sample(range(5), 2))
        if name == "x" or rng.random() < 0.6:
            parts.append(f"{name} BETWEEN {low / 4} AND {high / 4}")
    text = " AND ".join(parts)
    return f"{text} OR x = {rng.randrange(5) / 4}" if rng.random() < 0.15 else text


def drawn_event(rng: Random) -> dict[str, Any]:
    return {"x": rng.randrange(9) / 8, "y": rng.randrange(9) / 8}


def matches(filter: str, attributes: dict[str, Any]) -> bool:
    return accepts(parse_filter(filter), make_event(attributes, source="s", id="1"))


class Trial:
    def __init__(self, system: str, overlay: OverlayGraph, *, seed: int = 1, **options: Any) -> None:
        self.overlay = overlay
        self.world = World(
            system, overlay, seed=seed, settings=SimulationSettings(check=True), options=options
        )
        self.at: dict[str, str] = {}  # client -> broker
        self.active: dict[tuple[str, str], str] = {}  # client, name -> filter
        self.advertised: dict[tuple[str, str], str] = {}
        self.expected: Counter[ReceivedKey] = Counter()
        self.published: list[dict[str, Any]] = []
        self.world.run(0.5)

    def client(self, name: str, broker: str) -> str:
        self.at[name] = broker
        self.world.add_client(name, broker)
        self.pause()
        return name

    def settle(self) -> None:
        self.world.run(self.world.simulation.now + SETTLE)

    def pause(self) -> None:
        self.world.run(self.world.simulation.now + PAUSE)

    def subscribe(self, client: str, name: str, filter: str) -> None:
        self.world.subscribe(client, name, filter)
        self.active[(client, name)] = filter
        self.pause()

    def unsubscribe(self, client: str, name: str) -> None:
        self.world.unsubscribe(client, name)
        del self.active[(client, name)]
        self.pause()

    def advertise(self, client: str, name: str, filter: str) -> None:
        now = self.world.simulation.now
        self.world.do(AdvertiseStep(at=now, client=client, name=name, filter=filter))
        self.advertised[(client, name)] = filter
        self.pause()

    def unadvertise(self, client: str, name: str) -> None:
        self.world.do(UnadvertiseStep(at=self.world.simulation.now, client=client, name=name))
        del self.advertised[(client, name)]
        self.pause()

    def may_publish(self, client: str, attributes: dict[str, Any]) -> bool:
        return any(matches(f, attributes) for (who, _), f in self.advertised.items() if who == client)

    def publish(self, client: str, attributes: dict[str, Any]) -> None:
        """The event carries its own number, which distinguishes deliveries."""
        number = len(self.published)
        attributes = {**attributes, "number": number}
        self.published.append(attributes)
        for (who, name), filter in self.active.items():
            if matches(filter, attributes):
                self.expected[(who, name, str(number))] += 1
        self.world.publish(client, attributes)
        self.pause()

    # -- looking -----------------------------------------------------------------------------

    def received(self) -> Counter[ReceivedKey]:
        found: Counter[ReceivedKey] = Counter()
        for client, application in self.world.applications.items():
            for notification in application.received:
                number = str(notification.event.attributes["number"])
                found[(client, notification.subscription.name, number)] += 1
        return found

    def judge(self) -> None:
        """The deliveries are those of the oracle, each once."""
        received = self.received()
        missing, extra = self.expected - received, received - self.expected
        assert not missing, f"not delivered: {sorted(missing)[:5]}"
        assert not extra, f"delivered without reason, or again: {sorted(extra)[:5]}"

    def messages(self) -> Counter[str]:
        return Counter(self.world.simulation.sent)

    def takers(self, attributes: dict[str, Any]) -> set[str]:
        """The brokers with a subscription that accepts the event."""
        return {self.at[who] for (who, _), filter in self.active.items() if matches(filter, attributes)}

    def subtree(self, ends: Iterable[str]) -> set[Edge]:
        return minimal_subtree(self.overlay, ends)

    def routing_tables(self) -> dict[str, int]:
        """State that each broker still holds for others."""
        sizes = {}
        for name, node in self.world.nodes():
            routing = node.slots["routing"]
            sizes[name] = routing.table_size() if hasattr(routing, "table_size") else 0
        return sizes


def random_trial(system: str, seed: int, *, calm: bool = True, operations: int = 40, **options: Any) -> Trial:
    """Random subscribing and unsubscribing, publishing in between; `calm` settles before each publish.

    With the option `advertisements` publishers advertise and withdraw too, and publish only what
    they advertise.
    """
    rng = Random(f"{system}/{seed}")
    trial = Trial(system, overlay_for(system, rng), seed=seed, **options)
    clients = [trial.client(f"c{k}", rng.choice(trial.overlay.brokers)) for k in range(6)]
    needs_right = bool(options.get("advertisements"))
    for number in range(operations):
        _change(trial, rng, clients, number, advertising=needs_right)
        if calm or number % 8 == 7:
            trial.settle()
            _publish(trial, rng, clients, needs_right)
    trial.settle()
    return trial


def _change(trial: Trial, rng: Random, clients: list[str], number: int, *, advertising: bool) -> None:
    if advertising and rng.random() < 0.4:
        if trial.advertised and rng.random() < 0.4:
            trial.unadvertise(*rng.choice(sorted(trial.advertised)))
        else:
            trial.advertise(rng.choice(clients), f"a{number}", drawn_filter(rng))
    elif trial.active and rng.random() < 0.45:
        trial.unsubscribe(*rng.choice(sorted(trial.active)))
    else:
        trial.subscribe(rng.choice(clients), f"n{number}", drawn_filter(rng))


def _publish(trial: Trial, rng: Random, clients: list[str], needs_right: bool) -> None:
    for _ in range(3):
        client, event = rng.choice(clients), drawn_event(rng)
        if not needs_right or trial.may_publish(client, event):
            trial.publish(client, event)
    trial.settle()  # else an unsubscription could overtake what is on its way


def everybody_leaves(trial: Trial) -> None:
    for client, name in sorted(trial.active):
        trial.unsubscribe(client, name)
    for client, name in sorted(trial.advertised):
        trial.unadvertise(client, name)
    trial.settle()
