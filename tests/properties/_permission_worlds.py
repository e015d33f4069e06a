"""Random rules, filters and events over a small world, by a seeded generator: fast enough for a million."""

from __future__ import annotations

from random import Random

from tidings.errors import FilterError
from tidings.language import parse, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.expression import Expression
from tidings.model.filter import Filter

NAMES = ("a", "b", "region", "d.e")
TEXTS = ("eu", "us", "e", "", "a%b")
TOPICS = ("quotes", "quotes/ibm", "quotes/ibm/last", "other")
PATTERNS = ("quotes/#", "quotes/+", "#", "other", "+/ibm/#")
TYPES = (("Quote", "Event"), ("Trade", "Event"), ("Event",), ())


def literal(rng: Random) -> str:
    return rng.choice(
        (str(rng.randint(-3, 3)), f"{rng.randint(-6, 6) / 2}", f"'{rng.choice(TEXTS)}'", "TRUE", "FALSE")
    )


def leaf(rng: Random) -> str:
    name = rng.choice(NAMES)
    match rng.randrange(11):
        case 0 | 1 | 2:
            return f"{name} {rng.choice(('=', '!=', '<', '<=', '>', '>='))} {literal(rng)}"
        case 3:
            return f"{name} {rng.choice(('', 'NOT '))}IN ({literal(rng)}, {literal(rng)})"
        case 4:
            return f"{name} BETWEEN {rng.randint(-3, 1)} AND {rng.randint(-1, 3)}"
        case 5:
            return f"{name} {rng.choice(('', 'NOT '))}LIKE '{rng.choice(('e%', '%s', '_u', '%'))}'"
        case 6:
            return f"{rng.choice(('', 'NOT '))}EXISTS {name}"
        case 7:
            return f"topic {rng.choice(('=', '!='))} '{rng.choice(PATTERNS)}'"
        case 8:
            return f"type IS {rng.choice(('', 'NOT '))}A '{rng.choice(('Quote', 'Event', 'Trade'))}'"
        case 9:
            return f"{name} + b {rng.choice(('<', '>'))} {rng.randint(-2, 2)}"  # a residual
        case _:
            return f"{name} = {rng.choice(NAMES)}"


def text(rng: Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.35:
        return leaf(rng)
    match rng.randrange(5):
        case 0:
            return f"NOT ({text(rng, depth - 1)})"
        case 1 | 2:
            return f"({text(rng, depth - 1)}) AND ({text(rng, depth - 1)})"
        case _:
            return f"({text(rng, depth - 1)}) OR ({text(rng, depth - 1)})"


def condition(rng: Random) -> tuple[Expression, Filter]:
    """An expression for the oracle, and the filter that the code under test gets."""
    while True:
        stated = text(rng)
        try:
            return parse(stated), parse_filter(stated)
        except FilterError:
            continue  # past a budget


def event(rng: Random, number: int) -> Event:
    stored: dict[str, object] = {}
    for name in NAMES:
        if rng.random() < 0.75:
            value = rng.choice(
                (rng.randint(-3, 3), rng.randint(-6, 6) / 2, rng.choice(TEXTS), rng.random() < 0.5)
            )
            outer, _, inner = name.partition(".")
            stored[outer] = {inner: value} if inner else value
    return make_event(
        stored,
        source="pub",
        id=str(number),
        topic=rng.choice((*TOPICS, None)),
        type=rng.choice(TYPES),
    )
