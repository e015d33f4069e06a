"""The workloads of the matching engine, from a seed.

- W1  rectangles over two numbers, around hot spots, mean side 3% of the axis
- W2  conjunctions of 3-5 constraints over 20 attributes; events carry 8-12 of them
- W2s W2 without numeric ranges
- W3  two string equalities
- W4  what W2 leaves out (see `mixed.py`), and the adversaries W4hot, W4shared and W4unseen

Each gives filters (in normal form, made without parsing), their texts, events, and the
events' columns. Ten thousand subscriptions are a prefix of a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

import numpy as np

from tidings.model.constraint import Constraint, Equals, Range
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter
from tidings_bench.schema import (
    BLOCK,
    MARKET,
    Decimals,
    Integers,
    Spec,
    Words,
    drawn_attributes,
    drawn_constraints,
    drawn_values,
    drawn_words,
    generator,
    zipf,
)
from tidings_bench.wording import constraint_text

EVENTS_IN_BLOCK = 2_000


class MatchingWorkload(Protocol):
    """Description of a workload for a benchmark."""

    name: str

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        """Subscriptions without end, in blocks of `BLOCK`."""

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        """The attributes of `EVENTS_IN_BLOCK` events."""


def filters(workload: MatchingWorkload, count: int, *, text: bool = False) -> Iterator[Filter]:
    """The first `count` filters; `text=False` leaves their texts empty, which is faster."""
    return islice((f for block in workload.blocks(text=text) for f in block), count)


def texts(workload: MatchingWorkload, count: int) -> Iterator[str]:
    """The texts of the first `count` filters."""
    return (f.text for f in filters(workload, count, text=True))


def attributes(workload: MatchingWorkload, count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """The attributes of `count` events, from the `start`-th."""
    found: list[dict[str, Any]] = []
    first, skip = divmod(start, EVENTS_IN_BLOCK)
    for block in range(first, (start + count) // EVENTS_IN_BLOCK + 1):
        found.extend(workload.event_attributes(block))
    return found[skip : skip + count]


def events(workload: MatchingWorkload, count: int, *, start: int = 0) -> list[Event]:
    """`count` events, from the `start`-th; `topic` and `type` of W4 become the event's own."""
    made = []
    for number, row in enumerate(attributes(workload, count, start=start), start):
        topic, lineage = row.pop("topic", None), row.pop("type", ())
        made.append(Event(source=workload.name, id=str(number), body=row, topic=topic, type=lineage))
    return made


def columns(workload: MatchingWorkload, count: int, *, start: int = 0) -> dict[str, list[Any]]:
    """The same events as columns: dotted names to values, None where absent."""
    made: dict[str, list[Any]] = {}
    for number, event in enumerate(events(workload, count, start=start)):
        for name, value in event.view.items():
            if name in ("id", "source"):
                continue
            column = made.get(name)
            if column is None:
                column = made[name] = [None] * count
            column[number] = list(value) if isinstance(value, tuple) else value
    return made


def record_batch(workload: MatchingWorkload, count: int, *, start: int = 0) -> Any:
    """The same events as an Arrow record batch."""
    import pyarrow as pa

    return pa.RecordBatch.from_pydict(columns(workload, count, start=start))


def joined(conjunctions: tuple[Conjunction, ...], *, text: bool) -> Filter:
    """A filter of conjunctions without residuals."""
    if not text:
        return Filter("", conjunctions)
    words = [" AND ".join(constraint_text(c) for c in conj.constraints) for conj in conjunctions]
    return Filter(words[0] if len(words) == 1 else " OR ".join(f"({w})" for w in words), conjunctions)


def conjunction(constraints: list[Constraint]) -> Conjunction:
    return Conjunction(tuple(sorted(constraints, key=lambda c: c.attribute)))


class RectangleWorkload:
    """W1."""

    name = "W1"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        spots = generator("W1 spots").uniform(100, 900, (20, 2))
        block = 0
        while True:
            rng = generator("W1", block)
            centre = spots[rng.choice(20, BLOCK, p=zipf(20, 1.0))] + rng.normal(0, 80, (BLOCK, 2))
            centre = np.abs(centre)
            centre = np.where(centre >= 1000, 1999.99 - centre, centre)
            half = rng.uniform(0, 30, (BLOCK, 2))
            low = np.clip(np.round(centre - half, 2), 0, 999.99).tolist()
            high = np.clip(np.round(centre + half, 2), 0, 999.99).tolist()
            yield [
                joined((Conjunction((self._side("x", a[0], b[0]), self._side("y", a[1], b[1]))),), text=text)
                for a, b in zip(low, high, strict=True)
            ]
            block += 1

    @staticmethod
    def _side(name: str, low: float, high: float) -> Constraint:
        return Equals(name, low) if low == high else Range(name, low, high)

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        rng = generator("W1 events", block)
        positions = np.minimum(np.round(rng.uniform(0, 1000, (EVENTS_IN_BLOCK, 2)), 2), 999.99).tolist()
        return [{"x": x, "y": y} for x, y in positions]


class Market:
    """W2, and W2s when `ranges` is False."""

    def __init__(self, name: str = "W2", *, ranges: bool = True) -> None:
        self.name = name
        self._ranges = ranges

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        weights = market_weights(ranges=self._ranges)
        block = 0
        while True:
            rng = generator(self.name, block)
            order = drawn_attributes(rng, BLOCK, 5, weights)
            counts = rng.integers(3, 6, BLOCK)
            chosen = order[np.arange(5)[None, :] < counts[:, None]]
            made = drawn_constraints(rng, MARKET, chosen, ranges=self._ranges)
            ends = np.cumsum(counts).tolist()
            yield [
                joined((conjunction(made[end - size : end]),), text=text)
                for end, size in zip(ends, counts.tolist(), strict=True)
            ]
            block += 1

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        return market_events(generator("W2 events", block))


def market_weights(*, ranges: bool) -> Any:
    weights = zipf(len(MARKET), 0.7).copy()
    if not ranges:
        for index, spec in enumerate(MARKET):
            if isinstance(spec, Decimals) or (isinstance(spec, Integers) and spec.high > 10_000):
                weights[index] = 1e-12
    return weights / weights.sum()


def market_events(rng: np.random.Generator) -> list[dict[str, Any]]:
    order = drawn_attributes(rng, EVENTS_IN_BLOCK, 12, zipf(len(MARKET), 0.7)).tolist()
    sizes = rng.integers(8, 13, EVENTS_IN_BLOCK).tolist()
    values = [drawn_values(rng, spec, EVENTS_IN_BLOCK) for spec in MARKET]
    return [
        {MARKET[a].name: values[a][row] for a in picks[:size]}
        for row, (picks, size) in enumerate(zip(order, sizes, strict=True))
    ]


class Equalities:
    """W3: the best case of engines that are automata."""

    name = "W3"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        specs: list[Words] = [spec for spec in MARKET if isinstance(spec, Words)]
        block = 0
        while True:
            rng = generator("W3", block)
            order = drawn_attributes(rng, BLOCK, 2, zipf(len(specs), 0.7)).tolist()
            values = [drawn_words(rng, spec, BLOCK) for spec in specs]
            yield [
                joined((conjunction([Equals(specs[a].name, values[a][row]) for a in picks]),), text=text)
                for row, picks in enumerate(order)
            ]
            block += 1

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        return market_events(generator("W2 events", block))


def workload(name: str) -> MatchingWorkload:
    """The workload of that name."""
    from tidings_bench.mixed import Hot, Mixed, Shared, Unseen

    known: dict[str, MatchingWorkload] = {
        w.name: w
        for w in (
            RectangleWorkload(), Market(), Market("W2s", ranges=False), Equalities(),
            Mixed(), Hot(), Shared(), Unseen(),
        )
    }  # fmt: skip
    if name not in known:
        raise KeyError(f"no workload {name!r}; there are {', '.join(known)}")
    return known[name]


__all__ = [
    "MatchingWorkload",
    "Spec",
    "attributes",
    "columns",
    "events",
    "filters",
    "record_batch",
    "texts",
    "workload",
]
