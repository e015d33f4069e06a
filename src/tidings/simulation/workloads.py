"""Workloads: who subscribes to what, who publishes what, where and when.

A workload is a list of steps in order of time, made from three independent choices: the
*content* (filters and events that are drawn), the *placement* (at which broker), and the
*arrival* (when). Steps are values; the same seed gives the same list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from tidings.errors import SettingsError
from tidings.extensions import blaming, call, offered, refused

WORKLOADS = "tidings.workloads"  # the entry-point group


class SubscribeStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", tag="subscribe"):
    at: float
    client: str
    name: str
    filter: str
    durable: bool = False


class UnsubscribeStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", tag="unsubscribe"):
    at: float
    client: str
    name: str


class PublishStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", tag="publish"):
    at: float
    client: str
    attributes: dict[str, Any]
    topic: str | None = None
    type: tuple[str, ...] = ()
    lifetime: float = 0.0
    key: str | None = None


class AdvertiseStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", tag="advertise"):
    at: float
    client: str
    name: str
    filter: str


class UnadvertiseStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", tag="unadvertise"):
    at: float
    client: str
    name: str


Step = SubscribeStep | UnsubscribeStep | PublishStep | AdvertiseStep | UnadvertiseStep


class Workload(msgspec.Struct, frozen=True):
    """The broker of each client, and the operations of the clients, in order of time."""

    clients: dict[str, str]
    steps: tuple[Step, ...]

    @property
    def over_at(self) -> float:
        return self.steps[-1].at if self.steps else 0.0


class Content(Protocol):
    """Generator of filters and events. It may also offer `address(attributes)`, the topic and type of an
    event, and `key`, the attribute that tells events apart best."""

    def filter(self, rng: Random) -> str: ...
    def event(self, rng: Random) -> dict[str, Any]: ...


def zipf_weights(count: int, exponent: float) -> list[float]:
    return [1.0 / rank**exponent for rank in range(1, count + 1)]


class StockQuotes:
    """The running example of the papers: names drawn by Zipf's law, thresholds on the change."""

    key = "StockName"

    def __init__(self, symbols: int = 50, exponent: float = 1.0) -> None:
        self.symbols = [f"S{number:03d}" for number in range(symbols)]
        self.weights = zipf_weights(symbols, exponent)

    def filter(self, rng: Random) -> str:
        symbol = rng.choices(self.symbols, self.weights)[0]
        threshold = round(rng.uniform(-4.0, 4.0), 1)
        shape = rng.random()
        if shape < 0.5:
            return f"StockName = '{symbol}' AND change {rng.choice('<>')} {threshold}"
        if shape < 0.8:
            return f"StockName LIKE '{symbol[:2]}%' AND change >= {abs(threshold)}"
        return f"StockName = '{symbol}'"

    def event(self, rng: Random) -> dict[str, Any]:
        return {
            "StockName": rng.choices(self.symbols, self.weights)[0],
            "change": round(rng.gauss(0.0, 3.0), 2),
            "price": round(rng.uniform(1.0, 500.0), 2),
        }


class Rectangles:
    """Boxes over numeric attributes in [0, 1): centres by Zipf's law, extension uniform (VIR4-10).

    `widest` is the largest side; the thesis leaves it out, and its headline depends on it (E-V9c).
    """

    def __init__(
        self, widest: float = 1.0, exponent: float = 1.0, dimensions: int = 2, ranks: int = 100
    ) -> None:
        self.widest = widest
        self.names = ["x", "y", "z", "u", "v", "w"][:dimensions]
        self.ranks = ranks
        self.weights = zipf_weights(ranks, exponent)

    def centre(self, rng: Random) -> list[float]:
        ranks = rng.choices(range(self.ranks), self.weights, k=len(self.names))
        return [(rank + rng.random()) / self.ranks for rank in ranks]

    def filter(self, rng: Random) -> str:
        return box_filter(self.names, self.centre(rng), [rng.uniform(0.0, self.widest) for _ in self.names])

    def event(self, rng: Random) -> dict[str, Any]:
        return {name: round(rng.random(), 6) for name in self.names}


def box_filter(names: Sequence[str], centre: Sequence[float], sides: Sequence[float]) -> str:
    parts = []
    for name, middle, side in zip(names, centre, sides, strict=True):
        low, high = max(0.0, middle - side / 2), min(1.0, middle + side / 2)
        parts.append(f"{name} BETWEEN {low:.6f} AND {high:.6f}")
    return " AND ".join(parts)


class Patterns:
    """A fixed set of patterns, each a value of one attribute; events match some of them (COS-4)."""

    def __init__(self, patterns: int = 70, per_event: int = 1) -> None:
        self.patterns = patterns
        self.per_event = per_event

    def filter(self, rng: Random) -> str:
        return f"p{rng.randrange(self.patterns)} = TRUE"

    def event(self, rng: Random) -> dict[str, Any]:
        return {f"p{number}": True for number in sorted(rng.sample(range(self.patterns), self.per_event))}


class Markets:
    """Quotes that say what they are in three ways: by topic (`market/symbol`), by type (one for each market,
    below `Quote`) and by attributes. So systems of every subscription model can serve the same subscriptions.

    `wild` is the share of filters with a whole market as topic (`market/+`).
    """

    key = "topic"

    def __init__(self, markets: int = 6, symbols: int = 8, exponent: float = 1.0, wild: float = 0.0) -> None:
        self.markets = [f"m{number}" for number in range(markets)]
        self.symbols = [f"s{number}" for number in range(symbols)]
        self.weights = zipf_weights(symbols, exponent)
        self.wild = wild

    def filter(self, rng: Random) -> str:
        market, symbol = rng.choice(self.markets), rng.choices(self.symbols, self.weights)[0]
        is_wild = rng.random() < self.wild
        topic = f"topic MATCHES '{market}/+'" if is_wild else f"topic = '{market}/{symbol}'"
        text = f"{topic} AND type IS A 'Quote.{market}'"
        if rng.random() < 0.75:
            text += f" AND change {rng.choice('<>')} {round(rng.uniform(-3.0, 3.0), 1)}"
        return text

    def event(self, rng: Random) -> dict[str, Any]:
        return {
            "market": rng.choice(self.markets),
            "symbol": rng.choices(self.symbols, self.weights)[0],
            "change": round(rng.gauss(0.0, 3.0), 2),
            "price": round(rng.uniform(1.0, 500.0), 2),
        }

    def address(self, attributes: dict[str, Any]) -> dict[str, Any]:
        market = attributes["market"]
        return {"topic": f"{market}/{attributes['symbol']}", "type": (f"Quote.{market}", "Quote")}


class Subjects(Markets):
    """The same with wildcards."""

    def __init__(self) -> None:
        super().__init__(wild=0.2)


def address_of(content: Content, attributes: dict[str, Any]) -> dict[str, Any]:
    """Topic and type of an event, where the content gives them."""
    address = getattr(content, "address", None)
    found: dict[str, Any] = {} if address is None else address(attributes)
    return found


CONTENTS: dict[str, Callable[[], Content]] = {
    "stocks": StockQuotes,
    "markets": Markets,
    "subjects": Subjects,
    "rectangles": Rectangles,
    "patterns": Patterns,
}


def content_named(name: str) -> Content:
    """The content of that name: the product's own, or one of the group `tidings.workloads`."""
    if name in CONTENTS:
        return CONTENTS[name]()
    if name in offered(WORKLOADS, CONTENTS):
        return _CheckedContent(name, call(WORKLOADS, name, gives=Content))
    known = ", ".join(sorted([*CONTENTS, *offered(WORKLOADS, CONTENTS)]))
    raise SettingsError(f"no workload is called {name!r}", hint=f"there are: {known}")


class _CheckedContent:
    """The content of another package: its errors and wrong results name the package."""

    def __init__(self, name: str, content: Content) -> None:
        self._name, self._content = name, content
        if hasattr(content, "key"):
            self.key = content.key
        if hasattr(content, "address"):
            self.address = self._address

    def filter(self, rng: Random) -> str:
        found: str = self._called("filter", str, rng)
        return found

    def event(self, rng: Random) -> dict[str, Any]:
        found: dict[str, Any] = self._called("event", dict, rng)
        return found

    def _address(self, attributes: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._called("address", dict, attributes)
        return found

    def _called(self, method: str, kind: type, argument: Any) -> Any:
        with blaming(WORKLOADS, self._name):
            value = getattr(self._content, method)(argument)
        if not isinstance(value, kind):
            if inspect.iscoroutine(value):
                value.close()  # nothing awaits it
            why = f"whose method {method} gave {value!r} and has to give a {kind.__name__}"
            raise refused(WORKLOADS, self._name, why)
        return value


def steady(rng: Random, rate: float, start: float = 0.0) -> Iterator[float]:
    """Moments of a Poisson process of `rate` a second."""
    at = start
    while True:
        at += rng.expovariate(rate)
        yield at


def bursts(rng: Random, rate: float, *, size: int = 20, start: float = 0.0) -> Iterator[float]:
    """Bursts of `size` at once; `rate` a second in the mean."""
    at = start
    while True:
        at += rng.expovariate(rate / size)
        yield from (at,) * size


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a mixed workload."""

    subscriptions: int = 100  # at the start, one client each
    events: int = 1000
    rate: float = 100.0  # events a second
    churn: float = 0.0  # subscription changes per event (1/R of the thesis)
    durable: float = 0.0  # share of durable subscriptions
    lifetimes: tuple[float, ...] = (0.0,)  # drawn from, per event
    settle: float = 5.0  # seconds between the first subscriptions and the first event
    burst: int = 1  # events at once
    publishers: int = 10
    rename: bool = False  # True: a subscriber that returns takes a new name
    leave: bool = False  # True: all subscribers unsubscribe at the end


def mixed(content: Content, brokers: Sequence[str], rng: Random, plan: Plan) -> Workload:
    """Subscriptions first, then events, with subscription changes among them; placed at random."""
    clients = {f"s{number}": rng.choice(brokers) for number in range(plan.subscriptions)}
    publishers = {f"p{number}": rng.choice(brokers) for number in range(plan.publishers)}
    steps: list[Step] = [
        _subscribe(content, client, 0, rng.uniform(0.0, plan.settle * 0.2), rng, plan) for client in clients
    ]
    turns = dict.fromkeys(clients, 0)
    active = set(clients)
    names = list(clients)
    sources = list(publishers)
    moments = bursts(rng, plan.rate, size=plan.burst, start=plan.settle)
    for _, at in zip(range(plan.events), moments, strict=False):
        if names and rng.random() < plan.churn:
            steps.append(_change(content, rng.choice(names), turns, active, at, rng, plan))
        client, attributes = rng.choice(sources), content.event(rng)
        address = address_of(content, attributes)
        lifetime = rng.choice(plan.lifetimes)
        steps.append(PublishStep(at=at, client=client, attributes=attributes, lifetime=lifetime, **address))
    steps.sort(key=lambda step: step.at)
    if plan.leave:
        over = steps[-1].at + max(plan.settle, 20.0)  # what was lost has come back by then
        steps += [
            UnsubscribeStep(at=over, client=c, name=_name(turns[c], plan)) for c in names if c in active
        ]
    return Workload({**clients, **publishers}, tuple(steps))


def _subscribe(content: Content, client: str, turn: int, at: float, rng: Random, plan: Plan) -> SubscribeStep:
    durable = rng.random() < plan.durable
    name = _name(turn, plan)
    return SubscribeStep(at=at, client=client, name=name, filter=content.filter(rng), durable=durable)


def _name(turn: int, plan: Plan) -> str:
    return f"n{turn}" if plan.rename else "n"


def _change(
    content: Content, client: str, turns: dict[str, int], active: set[str], at: float, rng: Random, plan: Plan
) -> Step:
    if client in active:
        active.remove(client)
        return UnsubscribeStep(at=at, client=client, name=_name(turns[client], plan))
    turns[client] += 1
    active.add(client)
    return _subscribe(content, client, turns[client], at, rng, plan)
