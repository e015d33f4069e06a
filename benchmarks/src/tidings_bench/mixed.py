"""W4: what W2 leaves out, and three adversaries.

W4 mixes, by share of the subscriptions: plain conjunctions that use nested attributes too
(25%), disjunctions (20%), negations and absence (15%), residuals with arithmetic, functions
and comparison of attributes (13%), open vocabularies (10%), a drifting attribute (5%), one
hot attribute (5%), patterns, topics and types (5%), and one subscription that everyone
shares (2%). Half of the open values that events carry were never seen before.

- W4hot: every subscription is a narrow range on one attribute.
- W4shared: nine of ten subscriptions are the same filter, which one event in a hundred meets.
- W4unseen: equalities and prefixes over strings that no one has seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tidings.model.constraint import (
    Constraint,
    Equals,
    IsA,
    Like,
    Missing,
    NotOneOf,
    Prefix,
    Range,
    TopicIs,
)
from tidings.model.expression import Arithmetic, Attribute, Call, Compare, Expression, Literal
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
from tidings_bench.workloads import EVENTS_IN_BLOCK, conjunction, joined, market_events

NESTED: tuple[Spec, ...] = (
    Words("venue.city", 400), Integers("venue.desk.level", 0, 50), Words("trader.name", 1500),
    Decimals("trader.limit", 0, 10_000, 1),
)  # fmt: skip
WIDE: tuple[Spec, ...] = (*MARKET[:12], *NESTED, *MARKET[12:])
TOPICS = Words("topic", 300)
LINEAGES = (("Trade", "Order", "Event"), ("Quote", "Order", "Event"), ("Alarm", "Event"), ("Audit", "Event"))
SHARED = conjunction([Equals("sector", "all hands"), Range("level", 10, None)])


class _ConstraintDraws:
    """One block of plain constraints, handed out one conjunction at a time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        order = drawn_attributes(rng, 2 * BLOCK, 4, zipf(len(WIDE), 0.7))
        flat = drawn_constraints(rng, WIDE, order.ravel())
        self._rows = iter([flat[at : at + 4] for at in range(0, len(flat), 4)])

    def take(self, count: int) -> list[Constraint]:
        return next(self._rows)[:count]


def _plain(draws: _ConstraintDraws, text: bool) -> Filter:
    return joined((conjunction(draws.take(int(draws.rng.integers(3, 5)))),), text=text)


def _disjunction(draws: _ConstraintDraws, text: bool) -> Filter:
    some = tuple(conjunction(draws.take(3)) for _ in range(2 if draws.rng.random() < 0.7 else 3))
    return joined(some, text=text)


def _negation(draws: _ConstraintDraws, text: bool) -> Filter:
    constraints = draws.take(3)
    spec = WIDE[int(draws.rng.integers(0, len(WIDE)))]
    taken = {c.attribute for c in constraints}
    while spec.name in taken:
        spec = WIDE[int(draws.rng.integers(0, len(WIDE)))]
    form = draws.rng.random()
    if form < 0.6:
        values = sorted(set(drawn_values(draws.rng, spec, int(draws.rng.integers(1, 4)))))
        constraints.append(NotOneOf(spec.name, tuple(values)))
    elif form < 0.9:
        constraints.append(Missing(spec.name))
    else:
        city = drawn_words(draws.rng, TOPICS, 1)[0]
        constraints = [c for c in constraints if c.attribute != "trader.name"]
        constraints.append(Like("trader.name", f"%{city[:2]}%", True))
    return joined((conjunction(constraints),), text=text)


def _gap(limit: float) -> tuple[Expression, str]:
    left = Arithmetic("-", Attribute("ask"), Attribute("bid"))
    return Compare("<", left, Literal(limit)), f"ask - bid < {limit}"


def _worth(least: float) -> tuple[Expression, str]:
    left = Arithmetic("*", Attribute("price"), Attribute("qty"))
    return Compare(">", left, Literal(least)), f"price * qty > {least}"


def _even(rest: int) -> tuple[Expression, str]:
    left = Arithmetic("%", Attribute("volume"), Literal(7))
    return Compare("=", left, Literal(rest)), f"volume % 7 = {rest}"


def _crossed() -> tuple[Expression, str]:
    return Compare("<", Attribute("bid"), Attribute("ask")), "bid < ask"


def _moved(least: float) -> tuple[Expression, str]:
    return Compare(">", Call("ABS", (Attribute("change"),)), Literal(least)), f"ABS(change) > {least}"


def _short(most: int) -> tuple[Expression, str]:
    return Compare("<=", Call("LENGTH", (Attribute("symbol"),)), Literal(most)), f"LENGTH(symbol) <= {most}"


def _residual(draws: _ConstraintDraws, text: bool) -> Filter:
    rng = draws.rng
    expression, words = (
        lambda: _gap(round(float(rng.uniform(-900, -300)), 2)),
        lambda: _worth(round(float(rng.uniform(2e6, 8e6)), 1)),
        lambda: _even(int(rng.integers(0, 7))),
        _crossed,
        lambda: _moved(round(float(rng.uniform(30, 49)), 1)),
        lambda: _short(int(rng.integers(5, 8))),
    )[int(rng.choice(6, p=(0.25, 0.25, 0.15, 0.15, 0.1, 0.1)))]()
    plain = conjunction(draws.take(3))
    made = (Conjunction(plain.constraints, (expression,)),)
    if not text:
        return Filter("", made)
    return Filter(" AND ".join([*(constraint_text(c) for c in plain.constraints), words]), made)


def open_value(rng: np.random.Generator) -> str:
    """A name out of a space too large to list."""
    return f"u-{int(rng.integers(0, 1 << 40)):010x}"


def _open(draws: _ConstraintDraws, text: bool) -> Filter:
    rng = draws.rng
    form = rng.random()
    if form < 0.5:
        own: Constraint = Equals("session.user", open_value(rng))
    elif form < 0.7:
        own = Equals("session.user", f"u-known{int(rng.integers(0, 100_000))}")
    else:
        own = Prefix("session.user", open_value(rng)[:6])
    return joined((conjunction([own, *draws.take(int(rng.integers(0, 2)))]),), text=text)


def _drifting(draws: _ConstraintDraws, text: bool) -> Filter:
    centre = float(draws.rng.uniform(0, 100_000))
    own = Range("load", round(centre, 1), round(centre + 400, 1))
    return joined((conjunction([own, *draws.take(1)]),), text=text)


def _narrow(rng: np.random.Generator) -> Constraint:
    low = round(float(rng.uniform(0, 1000)), 3)
    return Range("heat", low, round(low + 0.5, 3))


def _hot(draws: _ConstraintDraws, text: bool) -> Filter:
    return joined((conjunction([_narrow(draws.rng)]),), text=text)


def _pattern(draws: _ConstraintDraws, text: bool) -> Filter:
    rng = draws.rng
    word = drawn_words(rng, TOPICS, 1)[0]
    form = rng.random()
    if form < 0.4:
        own: Constraint = TopicIs("topic", f"market/{word}/#")
    elif form < 0.6:
        own = TopicIs("topic", f"market/+/{word}")
    elif form < 0.8:
        own = IsA.of(LINEAGES[int(rng.integers(0, 4))][0])
    else:
        own = Like("venue.city", f"{word[:1]}%{word[-1:]}")
    others = [c for c in draws.take(3) if c.attribute != own.attribute]
    return joined((conjunction([own, *others]),), text=text)


def _shared(_draws: _ConstraintDraws, text: bool) -> Filter:
    return joined((SHARED,), text=text)


_SHARES: tuple[tuple[float, Callable[[_ConstraintDraws, bool], Filter]], ...] = (
    (0.25, _plain), (0.20, _disjunction), (0.15, _negation), (0.13, _residual), (0.10, _open),
    (0.05, _drifting), (0.05, _hot), (0.05, _pattern), (0.02, _shared),
)  # fmt: skip


class Mixed:
    """W4."""

    name = "W4"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        block = 0
        while True:
            rng = generator("W4", block)
            draws = _ConstraintDraws(generator("W4 constraints", block))
            forms = rng.choice(len(_SHARES), BLOCK, p=[share for share, _ in _SHARES]).tolist()
            yield [_SHARES[form][1](draws, text) for form in forms]
            block += 1

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        rng = generator("W4 events", block)
        rows = market_events(rng)
        nested = [drawn_values(rng, spec, EVENTS_IN_BLOCK) for spec in NESTED]
        topics = drawn_words(rng, TOPICS, 2 * EVENTS_IN_BLOCK)
        for number, row in enumerate(rows):
            row["venue"] = {"city": nested[0][number], "desk": {"level": nested[1][number]}}
            if rng.random() < 0.5:
                row["trader"] = {"name": nested[2][number], "limit": nested[3][number]}
            if rng.random() < 0.5:
                known = rng.random() < 0.5
                user = f"u-known{int(rng.integers(0, 100_000))}" if known else open_value(rng)
                row["session"] = {"user": user}
            # the load moves by a tenth of its domain with every block
            row["load"] = round((block * 10_000 + float(rng.uniform(0, 20_000))) % 100_000, 1)
            row["heat"] = round(float(rng.uniform(0, 1000)), 3)
            if rng.random() < 0.01:
                row["sector"] = "all hands"
            row["topic"] = f"market/{topics[2 * number]}/{topics[2 * number + 1]}"
            row["type"] = LINEAGES[int(rng.integers(0, 4))]
        return rows


class Hot:
    """Adversary: every subscription is on one hot attribute."""

    name = "W4hot"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        block = 0
        while True:
            rng = generator("W4hot", block)
            yield [joined((conjunction([_narrow(rng)]),), text=text) for _ in range(BLOCK)]
            block += 1

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        rng = generator("W4hot events", block)
        return [{"heat": value} for value in np.round(rng.uniform(0, 1000, EVENTS_IN_BLOCK), 3).tolist()]


class Shared:
    """Adversary: nearly everyone has the same subscription."""

    name = "W4shared"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        block = 0
        while True:
            draws = _ConstraintDraws(generator("W4shared", block))
            yield [_plain(draws, text) if n % 10 == 0 else _shared(draws, text) for n in range(BLOCK)]
            block += 1

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        rng = generator("W4shared events", block)
        rows = market_events(rng)
        for row in rows:
            if rng.random() < 0.01:
                row["sector"], row["level"] = "all hands", 50
        return rows


class Unseen:
    """Adversary: strings never seen before, on both sides."""

    name = "W4unseen"

    def blocks(self, *, text: bool) -> Iterator[list[Filter]]:
        block = 0
        while True:
            draws = _ConstraintDraws(generator("W4unseen", block))
            yield [self._filter(draws, text) for _ in range(BLOCK)]
            block += 1

    @staticmethod
    def _filter(draws: _ConstraintDraws, text: bool) -> Filter:
        value = open_value(draws.rng)
        own: Constraint = (
            Prefix("session.user", value[:7]) if draws.rng.random() < 0.3 else Equals("session.user", value)
        )
        return joined((conjunction([own, *draws.take(1)]),), text=text)

    def event_attributes(self, block: int) -> list[dict[str, Any]]:
        rng = generator("W4unseen events", block)
        rows = market_events(rng)
        for row in rows:
            row["session"] = {"user": open_value(rng)}
        return rows


__all__ = ["Hot", "Mixed", "Shared", "Unseen"]
