"""Random workloads for systems of rendezvous, beside an oracle that knows only who subscribed to what, and
when.

Subscriptions come and go while events are published. An event is *due* to a subscription that accepts it,
began `MARGIN` seconds before the publish and ended no sooner than `MARGIN` after it; it is *allowed* to one
that ended no sooner than the publish and began at most `MARGIN` after it. What is heard lies between the two,
each once.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from typing import Any

import msgspec

from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, broker_names
from tidings.simulation.workloads import PublishStep, SubscribeStep, UnsubscribeStep
from tidings.simulation.world import World

WARM = 4.0  # seconds in which the overlay comes to be
MARGIN = 1.0  # far more than any way takes
SYSTEMS = ("scribe", "hermes", "hermes-path", "partitioned-elastic")

TOPICS = ("news", "news/sport", "news/sport/golf", "quotes/ibm", "quotes/hal", "weather")
TYPES = (("Event",), ("Quote", "Event"), ("Tick", "Quote", "Event"), ("Report", "Event"), ("Alarm",))


class Size(msgspec.Struct, frozen=True, kw_only=True):
    brokers: int = 12
    subscriptions: int = 30
    events: int = 60
    churn: float = 0.3  # changes of subscriptions per event
    rate: float = 30.0  # events a second


SMALL = Size()
LARGE = Size(brokers=50, subscriptions=200, events=500, churn=0.2, rate=50.0)


def drawn_filter(rng: Random) -> str:
    """By topic, by type, by content alone, or by some of them."""
    names = {name for lineage in TYPES for name in lineage}
    low = rng.randrange(8) / 8
    shapes = (
        f"topic = '{rng.choice(TOPICS)}'",
        f"topic IN ('{rng.choice(TOPICS)}', '{rng.choice(TOPICS)}') AND x > {low}",
        f"topic MATCHES '{rng.choice(('news/#', 'quotes/+', '+'))}' AND y < {low + 0.25}",
        f"type IS A '{rng.choice(sorted(names))}'",
        f"type IS A '{rng.choice(sorted(names))}' AND x BETWEEN {low} AND {low + 0.25}",
        f"type = '{rng.choice(TYPES)[0]}' AND topic = '{rng.choice(TOPICS)}'",
        f"type IS A 'Quote' AND type IS NOT A 'Tick' OR topic = '{rng.choice(TOPICS)}'",
        f"x BETWEEN {low} AND {low + 0.25} AND y >= {rng.randrange(8) / 8}",
        f"topic = '{rng.choice(TOPICS)}' AND x > {low}",
        f"topic = '{rng.choice(TOPICS)}' AND type IS A 'Event'",
    )
    return rng.choice(shapes)


def drawn_event(rng: Random) -> dict[str, Any]:
    return {
        "attributes": {"x": rng.randrange(9) / 8, "y": rng.randrange(9) / 8},
        "topic": rng.choice((*TOPICS, None)),
        "type": rng.choice((*TYPES, ())),
    }


class Spell(msgspec.Struct):
    """One stay of a subscription."""

    client: str
    name: str
    filter: str
    begin: float
    end: float = inf


class Scene:
    """A world of peers, what its clients do, and what they should have heard."""

    def __init__(
        self, system: str, seed: int, size: Size = SMALL, *, check: bool = True, **options: Any
    ) -> None:
        self.rng = Random(f"{system}/{seed}")
        self.size = size
        self.world = World(
            system,
            OverlayGraph(broker_names(size.brokers), ()),
            seed=seed,
            settings=SimulationSettings(check=check),
            options=options,
            record=False,
        )
        self.spells: list[Spell] = []
        self.published: list[tuple[float, dict[str, Any]]] = []
        self._current: dict[str, Spell] = {}
        self._clients: list[str] = []
        self.run(WARM)

    @property
    def now(self) -> float:
        return self.world.simulation.now

    def run(self, seconds: float) -> None:
        self.world.run(self.now + seconds)

    def up(self) -> list[str]:
        return [name for name in self.world.overlay.brokers if self.world.simulation.hosts[name].up]

    def node(self, name: str) -> Any:
        return self.world.simulation.hosts[name].machine

    def add_clients(self, count: int, brokers: list[str] | None = None) -> None:
        where = brokers or self.up()
        for number in range(len(self._clients), len(self._clients) + count):
            self.world.add_client(f"c{number}", self.rng.choice(where))
            self._clients.append(f"c{number}")
        self.run(0.1)

    # -- what happens --------------------------------------------------------------------------

    def subscribe(self, client: str, at: float, filter: str | None = None) -> None:
        text = filter or drawn_filter(self.rng)
        spell = Spell(client, f"n{len(self.spells)}", text, at)
        self.spells.append(spell)
        self._current[client] = spell
        step = SubscribeStep(at=at, client=client, name=spell.name, filter=text)
        self.world.simulation.call_at(at, lambda: self.world.do(step))

    def unsubscribe(self, client: str, at: float) -> None:
        spell = self._current.pop(client)
        spell.end = at
        step = UnsubscribeStep(at=at, client=client, name=spell.name)
        self.world.simulation.call_at(at, lambda: self.world.do(step))

    def publish(self, client: str, at: float, drawn: dict[str, Any] | None = None) -> None:
        """The event carries its own number, by which what was heard is told apart."""
        drawn = drawn or drawn_event(self.rng)
        drawn = {**drawn, "attributes": {**drawn["attributes"], "number": len(self.published)}}
        self.published.append((at, drawn))
        step = PublishStep(at=at, client=client, **drawn)
        self.world.simulation.call_at(at, lambda: self.world.do(step))

    def play(self) -> None:
        """Everybody subscribes; then events, and changes among them."""
        size, rng, start = self.size, self.rng, self.now
        self.add_clients(size.subscriptions)
        subscribers, publishers = self._clients[: size.subscriptions], self._clients[:10]
        for client in subscribers:
            self.subscribe(client, start + 0.2 + rng.random())
        at = start + 0.2 + 1.0 + MARGIN
        for _ in range(size.events):
            at += rng.expovariate(size.rate)
            self.publish(rng.choice(publishers), at)
            if rng.random() < size.churn:
                client = rng.choice(subscribers)
                known = self._current.get(client)
                if known is None:
                    self.subscribe(client, at)
                elif known.begin < at - 0.1:
                    self.unsubscribe(client, at)
        self.world.run(at + 2 * MARGIN)

    # -- judging -------------------------------------------------------------------------------

    def received(self) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        for client, application in self.world.applications.items():
            for notification in application.received:
                found[
                    (f"{client}/{notification.subscription.name}", notification.event.attributes["number"])
                ] += 1
        return found

    def expected(self) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        due, allowed = set(), set()
        for number, (at, drawn) in enumerate(self.published):
            event = make_event(source="-", id="-", **drawn)
            for spell in self.spells:
                if spell.begin - MARGIN < at <= spell.end + MARGIN and accepts(
                    parse_filter(spell.filter), event
                ):
                    allowed.add((f"{spell.client}/{spell.name}", number))
                    if spell.begin + MARGIN <= at <= spell.end - MARGIN:
                        due.add((f"{spell.client}/{spell.name}", number))
        return due, allowed

    def judge(self) -> int:
        """What was heard is what the oracle says; how much was due."""
        received = self.received()
        due, allowed = self.expected()
        twice = sorted(what for what, count in received.items() if count > 1)
        assert not twice, f"told again: {twice[:5]}"
        missing, extra = due - received.keys(), received.keys() - allowed
        assert not missing, f"not delivered: {len(missing)} of {len(due)}: {sorted(missing)[:5]}"
        assert not extra, f"told without reason: {sorted(extra)[:5]}"
        return len(due)
